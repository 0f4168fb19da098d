"""Routing Information Base: routes as they were registered, and the FIB's next hops that follow from them.

A route is (prefix, face, origin) with a cost, flags and perhaps an end. How next hops follow is NFD's RIB
management (NFD developer guide, section 7): a prefix that has routes sends to their faces, each at its lowest
cost; and to faces of routes above it that have CHILD_INHERIT, the nearest one counting, as far up as there is
no CAPTURE. At equal cost the nearest comes first. Sans-IO: time is an argument, `wake()` ends routes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Protocol

from sortedcontainers import SortedDict

from base.timers import Timers
from forwarder.wire.name import prefix_ends


class Origin(IntEnum):
    """Origin of a route (NFD RibMgmt)."""

    APP = 0
    AUTOREG = 64
    CLIENT = 65
    AUTOCONF = 66
    NLSR = 128
    PREFIX_ANNOUNCEMENT = 129
    STATIC = 255


class RouteFlag(IntFlag):
    """Flags of a route for the prefixes below it (NFD RibMgmt).

    CHILD_INHERIT: they have it too. CAPTURE: they, and its own prefix, have none from above.
    """

    CHILD_INHERIT = 1
    CAPTURE = 2


class NextHops(Protocol):
    """The part of a FIB that a Rib uses."""

    def add(self, prefix: bytes, face: int, cost: int, above: int) -> None:
        """Add a next hop, or change it; `above` as in forwarder.tables.fib.NextHop."""
        ...

    def remove(self, prefix: bytes, face: int) -> None:
        """Remove a next hop; no effect if there is none."""
        ...


@dataclass(slots=True, eq=False)
class Route:
    """One route of a prefix.

    Attributes:
        prefix, face, origin: its key.
        cost: lower is better.
        flags: RouteFlag bits, and others as requested.
        deadline: of its expiry, ns; -1 if it does not expire.
        announcement: its prefix announcement, a Data packet; None without.
    """

    prefix: bytes
    face: int
    origin: int
    cost: int = 0
    flags: int = RouteFlag.CHILD_INHERIT
    deadline: int = -1
    announcement: bytes | None = None


class Rib:
    """The table.

    Args:
        fib: receives the next hops. Next hops of other origin stay, unless prefix and face are equal.
    """

    def __init__(self, fib: NextHops) -> None:
        self._fib = fib
        self._routes: SortedDict[bytes, dict[tuple[int, int], Route]] = SortedDict()
        self._prefixes_of: dict[int, dict[bytes, int]] = {}  # face -> prefix -> routes
        self._installed: dict[bytes, dict[int, tuple[int, int]]] = {}  # prefix -> face -> cost, above
        self._timers: Timers[Route] = Timers()

    def register(self, route: Route) -> None:
        """Add a route, or put it in the place of the one with its prefix, face and origin."""
        at_prefix: dict[tuple[int, int], Route] = self._routes.setdefault(route.prefix, {})
        key = (route.face, route.origin)
        old = at_prefix.get(key)
        if old is None:
            prefixes = self._prefixes_of.setdefault(route.face, {})
            prefixes[route.prefix] = prefixes.get(route.prefix, 0) + 1
        else:
            self._timers.set(old, None)
        at_prefix[key] = route
        if route.deadline >= 0:
            self._timers.set(route, route.deadline)
        self._settle(route.prefix)

    def unregister(self, prefix: bytes, face: int, origin: int) -> None:
        """Remove a route; no effect if there is none."""
        route = self._routes.get(prefix, {}).get((face, origin))
        if route is not None:
            self._timers.set(route, None)
            self._forget(route)
            self._settle(prefix)

    def remove_face(self, face: int) -> None:
        """Remove all routes through a face."""
        for prefix in list(self._prefixes_of.get(face, ())):
            for route in list(self._routes[prefix].values()):
                if route.face == face:
                    self.unregister(prefix, face, route.origin)

    def next_deadline(self) -> int | None:
        """Return when the next route ends, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Remove expired routes."""
        for route in self._timers.expire(now):
            self._forget(route)
            self._settle(route.prefix)

    def find(self, prefix: bytes, face: int, origin: int) -> Route | None:
        """Return a route."""
        at_prefix: dict[tuple[int, int], Route] = self._routes.get(prefix, {})
        return at_prefix.get((face, origin))

    def routes_of(self, prefix: bytes) -> Iterable[Route]:
        """Return the routes of exactly that prefix."""
        return list(self._routes.get(prefix, {}).values())

    def items(self) -> Iterator[tuple[bytes, list[Route]]]:
        """Iterate over the prefixes, in canonical order, and their routes, the oldest first."""
        for prefix, routes in self._routes.items():
            yield prefix, list(routes.values())

    def __len__(self) -> int:
        return sum(len(routes) for routes in self._routes.values())

    def _forget(self, route: Route) -> None:
        at_prefix = self._routes[route.prefix]
        del at_prefix[route.face, route.origin]
        if not at_prefix:
            del self._routes[route.prefix]
        prefixes = self._prefixes_of[route.face]
        prefixes[route.prefix] -= 1
        if not prefixes[route.prefix]:
            del prefixes[route.prefix]
            if not prefixes:
                del self._prefixes_of[route.face]

    def _settle(self, changed: bytes) -> None:
        """Bring the FIB up to date for a prefix that has changed and for those below it."""
        if changed not in self._routes:
            self._install(changed, {})
        # Names sort so that those under a prefix stand together, right after it.
        for prefix in self._routes.irange(minimum=changed):
            if not prefix.startswith(changed):
                break
            self._install(prefix, self._next_hops(prefix))

    def _next_hops(self, prefix: bytes) -> dict[int, tuple[int, int]]:
        """Return the next hops of a prefix: face -> (cost, inherited from above)."""
        hops: dict[int, tuple[int, int]] = {}
        for above, end in enumerate(reversed([0, *prefix_ends(prefix)])):
            routes = self._routes.get(prefix[:end], {}).values()
            nearest: dict[int, tuple[int, int]] = {}
            for route in routes:
                if not above or route.flags & RouteFlag.CHILD_INHERIT:
                    hop = (route.cost, above)
                    nearest[route.face] = min(hop, nearest.get(route.face, hop))
            hops = nearest | hops
            if any(route.flags & RouteFlag.CAPTURE for route in routes):
                break
        return hops

    def _install(self, prefix: bytes, hops: dict[int, tuple[int, int]]) -> None:
        installed = self._installed.get(prefix, {})
        for face in installed.keys() - hops.keys():
            self._fib.remove(prefix, face)
        for face, hop in hops.items():
            if installed.get(face) != hop:
                self._fib.add(prefix, face, *hop)
        if hops:
            self._installed[prefix] = hops
        else:
            self._installed.pop(prefix, None)
