"""Forwarding strategies: where an Interest goes (NFD developer guide, section 5).

A strategy decides and keeps no state of its own: what it needs to remember stands in the PIT entry.
"""

from collections.abc import Sequence
from typing import Protocol

from forwarder.fib import NextHop
from forwarder.pit import PitEntry


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

    initial_ns = 10_000_000
    maximum_ns = 250_000_000

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy."""
        if not entry.out_records:
            entry.suppress_ns = self.initial_ns
            for hop in hops:
                if hop.face != face:
                    return (hop.face,)
            return None
        sent_at = {record.face: record.sent for record in entry.out_records}
        if now < max(sent_at.values()) + entry.suppress_ns:
            return ()
        entry.suppress_ns = min(entry.suppress_ns * 2, self.maximum_ns)
        eligible = [hop.face for hop in hops if hop.face != face]
        if not eligible:
            return ()
        # min() keeps the first of equals: unused hops count as never sent to, in order of cost.
        return (min(eligible, key=lambda hop: sent_at.get(hop, -1)),)
