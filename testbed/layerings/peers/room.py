"""SSB through a room: no peer can call another, as behind NAT; all call a room, and meet over tunnels."""

from typing import Any, Final, Literal

from base.timers import earliest
from ssb.peer.access import OpenAccess
from ssb.peer.options import PORT
from ssb.rooms.room import Room, RoomOptions
from ssb.rooms.visits import DENIED, Visits
from ssb.transport.address import PeerAddress
from testbed.layerings.nodes.node import Context, SimpleLayering, StateSize, middle_of
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ssb import SsbNode, SsbParameters

TUNNEL_BYTES = 16
"""State of a room for a tunnel: connection and call of both ends."""


class RoomParameters(SsbParameters):
    """Parameters of `room`; `connect` has no effect."""

    at: str | None = None
    """The node where the room is, which neither publishes nor follows. Default: the first with most
    links.
    """
    meets: Literal["friends", "all"] = "friends"
    """Between whom a tunnel is opened. `friends`: one of the two follows the other. `all`: any two."""


class RoomNode(SsbNode):
    """A node whose peer is the room, or visits it.

    Other nodes that neither publish nor follow have no peer.

    Args:
        context: see Context.
    """

    def __init__(self, context: Context) -> None:
        self._room: Room | None = None
        self._visits: Visits | None = None
        ends = context.workload.publishers | context.workload.follows.keys()
        self._at = middle_of("room", context.network, ends, context.parameters["at"])
        self._witness = Witness(context)
        super().__init__(context, None if context.name == self._at else self._at)
        if context.name == self._at:
            self._role.calls_at = None
        elif context.name not in ends:
            self.programs = []

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        news = 0 if self._visits is not None and self._visits.has_news else None
        return earliest(news, super().next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        if self._visits is None:
            return
        for event in self._visits.take_events():
            self.on_stream(event, now)
        for kind, peer, room in self._visits.take_news():
            if kind != DENIED:
                self._peer.heed(peer, now, room)

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: see SsbNode; a room's tunnels count as connections."""
        held = super().held()
        if self._room is not None:
            count, size = held["connections"]
            tunnels = self._room.tunnels
            held["connections"] = StateSize(count + tunnels, size + TUNNEL_BYTES * tunnels)
        return held

    def _observe(self, witness: Witness) -> None:
        """See SsbNode; a room sees who has a tunnel to whom."""
        super()._observe(witness)
        for one, other in self._room.meetings if self._room is not None else ():
            witness.meets(one, other)

    def _meetings(self, context: Context) -> dict[str, Any]:
        reference = peer_identity(context.seed, context.name).ref
        if context.name == self._at:
            address = PeerAddress(context.network.address(self._at), PORT, reference)
            options = RoomOptions(self._at, is_open=True, address=address)
            self._room = Room(options, _all, _none, {}, lambda _: None, lambda: 0)
            return {"room": self._room}
        workload = context.workload
        follows = {feed.publisher for feed in workload.follows.get(context.name, ())}
        followers = {
            name
            for name, feeds in workload.follows.items()
            if any(feed.publisher == context.name for feed in feeds)
        }
        friends = {peer_identity(context.seed, name).ref for name in follows | followers}
        meets = _all if context.parameters["meets"] == "all" else friends.__contains__
        self._visits = Visits(reference, meets, _none)
        return {"visits": self._visits, "access": OpenAccess(meets)}


def _all(peer: str) -> bool:
    return True


def _none(feed: str) -> bool:
    return False


ROOM: Final = SimpleLayering(
    title("room"),
    RoomParameters,
    RoomNode,
    "ssb",
    frozenset({Feature.MEDIUM, Feature.FOLLOWING}),
)
"""Layering `room`."""
