"""A subscription as a provider keeps it (`ssb.tiny.isp.provider`), as a record of the store."""

from dataclasses import dataclass

from ssb.tiny.bipf import Value


@dataclass
class Side:
    """One side of a route.

    Attributes:
        contract: its contract's id; None if that is over.
        feed: what it writes; None until it has accepted.
        is_paused: whether it was told to pause.
        has_ended: whether its last entry has come.
        is_told: whether the other side was told of the end, or there is nobody to tell.
    """

    contract: bytes | None
    feed: bytes | None = None
    is_paused: bool = False
    has_ended: bool = False
    is_told: bool = False


@dataclass
class Route:
    """A subscription; `a` has asked for it, and `b` has agreed if it is open."""

    ref: bytes
    a: Side
    b: Side
    is_open: bool = False

    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Return each side with the other one."""
        return (self.a, self.b), (self.b, self.a)


def load_route(value: Value) -> Route:
    """Return a route from its record."""
    assert isinstance(value, dict)
    sides = {name: Side(**value[name]) for name in ("a", "b")}
    return Route(**value | sides)
