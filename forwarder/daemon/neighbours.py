"""The faces and routes that the configuration names, from one configuration to the next.

Invariants, whatever has been applied before and in between:

1. Once apply() has settled, the static routes that this object has made are those of the configuration, over
   the faces that stand. It leaves alone routes that others have registered.
2. A face or a route that both configurations name is never closed, removed or made anew: nothing that is on
   its way over it is lost.
3. New routes come before old ones go. A prefix that has a route under both configurations always has one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from forwarder.daemon.config import FaceSection
from forwarder.faces.system import Faces
from forwarder.tables.face import Face, Persistency
from forwarder.tables.face_system import RELIABILITY, FaceEvent, FaceParameters, Outcome
from forwarder.tables.rib import Origin, Rib, Route, RouteFlag
from forwarder.wire.name import from_uri

log = logging.getLogger("feednet")

RETRY_S = 5.0
"""After this a neighbour that did not answer is tried again."""
LINGER_S = 10.0
"""Time for which a connection outlives its entry in the configuration, for Data of pending Interests."""

Costs = Mapping[tuple[bytes, int], int]
"""Routes: cost by prefix and face."""


class Ends(NamedTuple):
    """Both ends of a face: its canonical FaceUri, and the interface where one is needed."""

    uri: str
    interface: str | None


@dataclass(eq=False, slots=True)
class _Neighbour:
    section: FaceSection
    face: int | None = None
    is_opening: bool = False
    retry: asyncio.TimerHandle | None = None


class Neighbours:
    """Keeps faces and routes as configurations name them.

    Args:
        faces: where faces are made.
        rib: where routes are registered, as static ones.
        loop: the event loop.
        udp_mtu: bytes, of UDP faces whose section has no `mtu`.
    """

    def __init__(self, faces: Faces, rib: Rib, loop: asyncio.AbstractEventLoop, udp_mtu: int) -> None:
        self._faces = faces
        self._rib = rib
        self._loop = loop
        self._udp_mtu = udp_mtu
        self._neighbours: dict[Ends, _Neighbour] = {}
        self._by_face: dict[int, _Neighbour] = {}
        self._groups: Costs = {}
        self._registered: dict[int, set[bytes]] = {}
        faces.listen(self._on_face)

    def apply(self, wanted: Mapping[Ends, FaceSection], groups: Costs) -> asyncio.Future[None]:
        """Make faces and routes as a configuration names them, and withdraw those of the one before.

        Returns a future that is done when each new face stands or has failed for the first time, and old
        routes have gone. Call it again only then.

        Args:
            wanted: neighbours by both ends.
            groups: routes over faces of multicast groups.
        """
        self._groups = groups
        settled = self._loop.create_future()
        gone = [(ends, self._neighbours.pop(ends)) for ends in self._neighbours.keys() - wanted.keys()]
        opening: set[Ends] = set()
        for ends, section in wanted.items():
            neighbour = self._neighbours.setdefault(ends, _Neighbour(section))
            before, neighbour.section = neighbour.section, section
            if neighbour.face is not None:
                if self._parameters(ends, before) != self._parameters(ends, section):
                    self._change(ends, neighbour)
            elif neighbour.retry is None and not neighbour.is_opening:  # else it is tried again anyway
                opening.add(ends)
        self._register(self._routes())

        def opened(ends: Ends) -> None:
            opening.discard(ends)
            settle()

        def settle() -> None:
            if not opening and not settled.done():
                self._withdraw(gone)
                settled.set_result(None)

        for ends in list(opening):
            self._open(ends, self._neighbours[ends], opened)
        settle()
        return settled

    # --- faces ---

    def _parameters(self, ends: Ends, section: FaceSection) -> FaceParameters:
        return FaceParameters(
            persistency=Persistency[section.persistency.upper()],
            mtu=self._udp_mtu if section.mtu is None and ends.uri.startswith("udp") else section.mtu,
            flags=RELIABILITY if section.reliable else 0,
            mask=RELIABILITY,
        )

    def _open(self, ends: Ends, neighbour: _Neighbour, opened: Callable[[Ends], None]) -> None:
        """Ask for a face; call `opened` when it stands or has failed, now or later."""
        neighbour.retry, neighbour.is_opening = None, True

        def reply(outcome: Outcome) -> None:
            neighbour.is_opening = False
            uri = neighbour.section.uri
            if self._neighbours.get(ends) is not neighbour:  # no longer named
                if outcome.face is not None and outcome.code == 200:
                    self._release(ends, outcome.face.number)
            elif outcome.face is not None:
                neighbour.face = outcome.face.number
                self._by_face[neighbour.face] = neighbour
                if outcome.code == 409:  # made on demand, and not permanent so far
                    self._change(ends, neighbour)
                self._register(self._routes_of(neighbour))
            elif outcome.code == 504:
                log.warning("%s: %s; trying again", uri, outcome.text)
                neighbour.retry = self._loop.call_later(RETRY_S, self._open, ends, neighbour, opened)
            else:
                log.error("%s: %s", uri, outcome.text)
            opened(ends)

        parameters = replace(
            self._parameters(ends, neighbour.section),
            uri=ends.uri,
            local_uri=None if ends.interface is None else f"dev://{ends.interface}",
        )
        self._faces.create(parameters, self._faces.driver.clock(), reply)

    def _change(self, ends: Ends, neighbour: _Neighbour) -> None:
        assert neighbour.face is not None
        wanted = self._parameters(ends, neighbour.section)
        outcome = self._faces.update(neighbour.face, wanted, self._faces.driver.clock())
        if outcome.code != 200:
            log.error("%s: %s", neighbour.section.uri, outcome.text)

    def _release(self, ends: Ends, face: int) -> None:
        """Release a face: it closes when idle, as if the neighbour had made it."""
        wanted = FaceParameters(persistency=Persistency.ON_DEMAND)
        self._faces.update(face, wanted, self._faces.driver.clock())
        if ends.uri.startswith("tcp"):  # it knows no idle time
            self._loop.call_later(LINGER_S, self._close, face)

    def _close(self, face: int) -> None:
        if face not in self._by_face:  # else the configuration names it again
            self._faces.destroy(face, self._faces.driver.clock())

    def _on_face(self, event: FaceEvent, face: Face, now: int) -> None:
        if event is not FaceEvent.DESTROYED:
            return
        neighbour = self._by_face.pop(face.number, None)
        if neighbour is not None:
            neighbour.face = None
        self._registered.pop(face.number, None)

    # --- routes ---

    def _routes_of(self, neighbour: _Neighbour) -> dict[tuple[bytes, int], int]:
        face, section = neighbour.face, neighbour.section
        return {} if face is None else {(from_uri(each), face): section.cost for each in section.routes}

    def _routes(self) -> dict[tuple[bytes, int], int]:
        """Return the routes that the configuration names, over the faces that stand."""
        routes = dict(self._groups)
        for neighbour in self._neighbours.values():
            routes |= self._routes_of(neighbour)
        return routes

    def _register(self, routes: Costs) -> None:
        for (prefix, face), cost in routes.items():
            known = self._rib.find(prefix, face, Origin.STATIC)
            if known is None or (known.cost, known.flags, known.deadline) != (
                cost,
                RouteFlag.CHILD_INHERIT,
                -1,
            ):
                self._rib.register(Route(prefix, face, Origin.STATIC, cost))
            self._registered.setdefault(face, set()).add(prefix)

    def _withdraw(self, gone: Iterable[tuple[Ends, _Neighbour]]) -> None:
        """Remove the routes that are no longer named, and give up neighbours."""
        wanted = self._routes()
        for face, prefixes in list(self._registered.items()):
            for prefix in [each for each in prefixes if (each, face) not in wanted]:
                self._rib.unregister(prefix, face, Origin.STATIC)
                prefixes.discard(prefix)
            if not prefixes:
                del self._registered[face]
        for ends, neighbour in gone:
            if neighbour.retry is not None:
                neighbour.retry.cancel()
            if neighbour.face is not None:
                del self._by_face[neighbour.face]
                self._release(ends, neighbour.face)
