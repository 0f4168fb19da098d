"""Forwarding strategies: where an Interest goes (NFD developer guide, section 5).

A strategy decides and keeps no state of its own: what it needs to remember stands in the PIT entry.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from forwarder.fib import NextHop
from forwarder.pit import PitEntry

INITIAL_SUPPRESSION_NS: Final = 10_000_000
MAXIMUM_SUPPRESSION_NS: Final = 250_000_000


class Strategy(Protocol):
    """What the forwarding core asks of a strategy."""

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """Choose the faces to send an Interest to that came from `face` at `now` (ns).

        Empty: it waits, another one is on its way. None: there is no way to go (Nack NoRoute).
        """
        ...


class BestRoute:
    """Send to the cheapest next hop; a repeated Interest tries the next one.

    Repetitions (also other consumers' Interests for the same name) within the suppression interval are
    held back. The interval doubles with each that is let through: 10 ms up to 250 ms, as in NFD.
    """

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy."""
        if not entry.out_records:
            entry.suppress_ns = INITIAL_SUPPRESSION_NS
            for hop in hops:
                if hop.face != face:
                    return (hop.face,)
            return None
        sent_at = {record.face: record.sent for record in entry.out_records}
        if now < max(sent_at.values()) + entry.suppress_ns:
            return ()
        entry.suppress_ns = min(entry.suppress_ns * 2, MAXIMUM_SUPPRESSION_NS)
        eligible = [hop.face for hop in hops if hop.face != face]
        if not eligible:
            return ()
        # min() keeps the first of equals: unused hops count as never sent to, in order of cost.
        return (min(eligible, key=lambda hop: sent_at.get(hop, -1)),)


class Multicast:
    """Send to every next hop; a repetition to each that it has not just been sent to.

    Just means within the suppression interval, which grows as best-route's does.
    """

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy."""
        sent_at = {record.face: record.sent for record in entry.out_records}
        eligible = [hop.face for hop in hops if hop.face != face]
        if not eligible and not sent_at:
            return None
        if not sent_at:
            entry.suppress_ns = INITIAL_SUPPRESSION_NS
            return eligible
        free = [out for out in eligible if out not in sent_at or now >= sent_at[out] + entry.suppress_ns]
        if any(out in sent_at for out in free):
            entry.suppress_ns = min(entry.suppress_ns * 2, MAXIMUM_SUPPRESSION_NS)
        return free


class StrategyChoice:
    """Which strategy for which names: that of the longest prefix that has one.

    Args:
        default: the strategy of all other names.
    """

    __slots__ = ("_by_prefix", "_default")

    def __init__(self, default: Strategy) -> None:
        self._default = default
        self._by_prefix: dict[bytes, Strategy] = {}

    def set(self, prefix: bytes, strategy: Strategy) -> None:
        """Choose a strategy for all names under a prefix."""
        self._by_prefix[prefix] = strategy

    def find(self, name: bytes, ends: Sequence[int]) -> Strategy:
        """Return the strategy for a name, whose prefix_ends() are `ends`."""
        if self._by_prefix:
            for end in reversed(ends):
                strategy = self._by_prefix.get(name[:end])
                if strategy is not None:
                    return strategy
        return self._default
