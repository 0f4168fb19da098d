"""A provider's state of subscriptions (`ssb.tiny.isp.provider.provider`), and their records in the store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ssb.bipf import Value


@dataclass
class Side:
    """One side of a route.

    Attributes:
        contract: its contract's id; None after its end.
        feed: its own feed; None until it has accepted.
        is_paused: whether it was requested to pause.
        has_ended: whether its last entry was received.
        is_told: whether the other side was notified of the end, or there is nobody to notify.
        is_gone: whether it takes nothing more, as the client behind another provider is gone.
        is_held: whether the provider behind the other side has paused this side's feed.
        held_at: when it did, ns.
        mark: number of the last entry of its feed in the line to the other side.
        last: number of its last entry, once received.
        receipt: number of the last entry of the other's feed in its receipts.
    """

    contract: bytes | None
    feed: bytes | None = None
    is_paused: bool = False
    has_ended: bool = False
    is_told: bool = False
    is_gone: bool = False
    is_held: bool = False
    held_at: int = 0
    mark: int = 0
    last: int | None = None
    receipt: int = 0


@dataclass
class Route:
    """A subscription; `a` has requested it, and `b` has accepted if it is open.

    Attributes:
        ref: the id of the request, the same at all providers on the way.
        source, target: the root feeds of the requesting and of the requested client.
        group: the group that it belongs to, if any (`ssb.tiny.isp.subscription`).
    """

    ref: bytes
    a: Side
    b: Side
    source: bytes
    target: bytes
    group: list[bytes] | None = None
    is_open: bool = False

    def record(self) -> Value:
        """Return a record of the store."""
        return {**vars(self), "a": vars(self.a), "b": vars(self.b)}

    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Return each side with the other one."""
        return (self.a, self.b), (self.b, self.a)


def load_route(value: Value) -> Route:
    """Return a route from its record."""
    assert isinstance(value, dict)
    sides = {name: Side(**value[name]) for name in ("a", "b")}
    return Route(**value | sides)


class Routes(Mapping[bytes, Route]):
    """The routes of a provider by reference, in their order; also found by contract and by feed."""

    def __init__(self) -> None:
        self._routes: dict[bytes, Route] = {}
        self._found: dict[bytes, dict[bytes, Route]] = {}  # contract or feed -> routes
        self._keys: dict[bytes, set[bytes]] = {}  # reference -> its contracts and feeds

    def __getitem__(self, ref: bytes) -> Route:
        return self._routes[ref]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)

    def put(self, route: Route) -> None:
        """Add a route, or update the index for its sides' contracts and feeds."""
        self._routes[route.ref] = route
        keys = self._keys.setdefault(route.ref, set())
        for key in (route.a.contract, route.a.feed, route.b.contract, route.b.feed):
            if key is not None and key not in keys:
                keys.add(key)
                self._found.setdefault(key, {})[route.ref] = route

    def remove(self, ref: bytes) -> None:
        """Remove a route, if it is there."""
        self._routes.pop(ref, None)
        for key in self._keys.pop(ref, ()):
            del self._found[key][ref]
            if not self._found[key]:
                del self._found[key]

    def of_contract(self, contract: bytes) -> list[tuple[Route, Side, Side]]:
        """Return a contract's routes, its side of each, and the other one."""
        return self._sides(contract, lambda side: side.contract == contract)

    def of_feed(self, feed: bytes) -> list[tuple[Route, Side, Side]]:
        """Return the routes of a feed, each with the side that writes it, and the other one."""
        return self._sides(feed, lambda side: side.feed == feed)

    def _sides(self, key: bytes, is_asked: Callable[[Side], bool]) -> list[tuple[Route, Side, Side]]:
        return [
            (route, side, other)
            for route in self._found.get(key, {}).values()
            for side, other in route.sides()
            if is_asked(side)
        ]
