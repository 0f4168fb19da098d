"""Forwarding Information Base: name prefixes to next hops, looked up by longest prefix match."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forwarder.wire.name import prefix_ends


class NextHop(NamedTuple):
    """A face towards the producer; the lowest cost is tried first.

    Attributes:
        face, cost: see above.
        above: by how many components the prefix of the route is shorter, if it was inherited: of next hops
            of one cost those of the nearest prefix are tried first, its own before all others.
    """

    face: int
    cost: int
    above: int = 0


class Fib:
    """Routes by prefix; `name_bytes` is the size of all prefixes.

    A look-up tries only the prefix lengths that some route has, longest first: the number of hash probes
    is that of distinct lengths, not of components or routes. Routes are indexed by face, too, for removal
    with it.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.name_bytes = 0
        self._routes: dict[bytes, tuple[NextHop, ...]] = {}
        self._of_face: dict[int, dict[bytes, None]] = {}  # face -> prefixes of the routes through it
        self._by_length: dict[int, int] = {}
        self._lengths: list[int] = []
        self._suspended: dict[int, dict[bytes, NextHop]] = {}

    def add(self, prefix: bytes, face: int, cost: int = 0, above: int = 0) -> None:
        """Add a route or change its cost and `above` (see NextHop); it rests if its face does."""
        self._add((prefix,), NextHop(face, cost, above))

    def add_many(self, prefixes: Iterable[bytes], face: int, cost: int = 0) -> None:
        """Add a route for each of some prefixes, as add() does: a million take about a second.

        Raises MalformedPacket at the first that is not well formed; those before it are added.
        """
        self._add(prefixes, NextHop(face, cost))

    def _add(self, prefixes: Iterable[bytes], added: NextHop) -> None:
        self.changes += 1
        face = added.face
        resting = self._suspended.get(face)
        if resting is not None:
            for prefix in prefixes:
                resting[prefix] = added
            return
        alone = (added,)  # one object for all prefixes that have no other next hop
        routes = self._routes
        of_face = self._of_face.get(face, {})
        try:
            for prefix in prefixes:
                before = routes.get(prefix)
                if before is None:
                    self._count(prefix, 1)
                    routes[prefix] = alone
                else:
                    hops = [hop for hop in before if hop.face != face]
                    hops.append(added)
                    hops.sort(key=lambda hop: (hop.cost, hop.above, hop.face))
                    routes[prefix] = tuple(hops)
                of_face[prefix] = None
        finally:
            if of_face:
                self._of_face[face] = of_face
            self._sort_lengths()

    def remove(self, prefix: bytes, face: int) -> None:
        """Remove a route, also one that rests; no effect if there is none."""
        self.remove_many((prefix,), face)

    def remove_many(self, prefixes: Iterable[bytes], face: int) -> None:
        """Remove the routes of some prefixes to a face, as remove() does."""
        self.changes += 1
        resting = self._suspended.get(face)
        routes = self._routes
        of_face = self._of_face.get(face, {})
        for prefix in prefixes:
            if resting is not None:
                resting.pop(prefix, None)
            if prefix not in of_face:
                continue
            del of_face[prefix]
            hops = [hop for hop in routes[prefix] if hop.face != face]
            if hops:
                routes[prefix] = tuple(hops)
            else:
                del routes[prefix]
                self._count(prefix, -1)
        if not of_face:
            self._of_face.pop(face, None)
        self._sort_lengths()

    def remove_face(self, face: int) -> None:
        """Remove all routes through a face, also those that rest."""
        self._suspended.pop(face, None)
        self.remove_many([*self._of_face.get(face, ())], face)

    def suspend(self, face: int) -> None:
        """Take all routes through a face out of use until resume()."""
        routes = self._suspended.get(face, {})
        for prefix in self._of_face.get(face, ()):
            routes[prefix] = next(hop for hop in self._routes[prefix] if hop.face == face)
        self.remove_face(face)
        self._suspended[face] = routes

    def resume(self, face: int) -> None:
        """Take suspended routes into use again."""
        by_hop: dict[NextHop, list[bytes]] = {}
        for prefix, hop in self._suspended.pop(face, {}).items():
            by_hop.setdefault(hop, []).append(prefix)
        for hop, prefixes in by_hop.items():
            self._add(prefixes, hop)

    def _count(self, prefix: bytes, change: int) -> None:
        """Note that a prefix gets its first route (1), or loses its last one (-1)."""
        length = len(prefix_ends(prefix))
        self._by_length[length] = self._by_length.get(length, 0) + change
        self.name_bytes += change * len(prefix)

    def _sort_lengths(self) -> None:
        self._lengths = sorted((n for n, count in self._by_length.items() if count), reverse=True)

    def lookup(self, name: bytes, ends: list[int] | None = None) -> tuple[NextHop, ...]:
        """Return the next hops of the longest prefix of `name` that has a route, cheapest first.

        `ends` are the name's prefix_ends(), if they are known. Raises MalformedPacket if the name is not
        well formed, route or not.
        """
        if ends is None:
            ends = prefix_ends(name)
        routes = self._routes
        for length in self._lengths:
            if length <= len(ends):
                hops = routes.get(name[: ends[length - 1]] if length else b"")
                if hops is not None:
                    return hops
        return ()

    def items(self) -> Iterator[tuple[bytes, tuple[NextHop, ...]]]:
        """Iterate over the prefixes and their next hops, cheapest first; what rests is left out."""
        yield from self._routes.items()

    def longest_prefix(self, name: bytes) -> bytes:
        """Return the longest prefix of a well-formed name that has a route, the empty one if none has."""
        ends = prefix_ends(name)
        for length in self._lengths:
            if 0 < length <= len(ends) and name[: ends[length - 1]] in self._routes:
                return name[: ends[length - 1]]
        return b""

    @property
    def next_hops(self) -> int:
        """The number of next hops of all prefixes; what rests is left out."""
        return sum(map(len, self._of_face.values()))

    def __len__(self) -> int:
        return len(self._routes)
