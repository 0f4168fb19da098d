"""A subscription as a provider keeps it (`ssb.tiny.isp.provider`), as a record of the store."""

from dataclasses import dataclass

from ssb.bipf import Value


@dataclass
class Side:
    """One side of a route.

    Attributes:
        contract: its contract's id; None if that is over.
        feed: what it writes; None until it has accepted.
        is_paused: whether it was told to pause.
        has_ended: whether its last entry has come.
        is_told: whether the other side was told of the end, or there is nobody to tell.
        is_gone: whether it takes nothing more, as the client behind another provider is gone.
        is_held: whether the provider that the other side leads to has told to pause this side's feed.
        mark: how many entries of its feed are in the line to the other side.
        last: the number of its last entry, once that has come.
        receipt: of how many entries of the other's feed it has said that it has read them.
    """

    contract: bytes | None
    feed: bytes | None = None
    is_paused: bool = False
    has_ended: bool = False
    is_told: bool = False
    is_gone: bool = False
    is_held: bool = False
    mark: int = 0
    last: int | None = None
    receipt: int = 0


@dataclass
class Route:
    """A subscription; `a` has asked for it, and `b` has agreed if it is open.

    Attributes:
        ref: the id of the request, the same at all providers on the way.
        source, target: the root feeds of the client who asks, and of the one who is asked.
        group: the group that it belongs to, if any (`ssb.tiny.isp.groups`).
    """

    ref: bytes
    a: Side
    b: Side
    source: bytes
    target: bytes
    group: list[bytes] | None = None
    is_open: bool = False

    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Return each side with the other one."""
        return (self.a, self.b), (self.b, self.a)


def load_route(value: Value) -> Route:
    """Return a route from its record."""
    assert isinstance(value, dict)
    sides = {name: Side(**value[name]) for name in ("a", "b")}
    return Route(**value | sides)
