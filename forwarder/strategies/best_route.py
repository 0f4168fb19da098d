"""best-route: the cheapest next hop, then the next one (NFD developer guide, section 5.2.1)."""

from collections.abc import Sequence

from forwarder.fib import NextHop
from forwarder.pit import PitEntry
from forwarder.strategy import INITIAL_SUPPRESSION_NS, MAXIMUM_SUPPRESSION_NS, Strategy


class BestRoute(Strategy):
    """Send to the cheapest next hop; a repeated Interest tries the next one.

    Repetitions (also other consumers' Interests for the same name) within the suppression interval are
    held back. The interval doubles with each that is let through: 10 ms up to 250 ms, as in NFD.
    """

    NAME = "best-route"
    VERSION = 5

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy."""
        if not entry.out_records:
            entry.suppress_ns = INITIAL_SUPPRESSION_NS
            return (hops[0].face,) if hops else None
        sent_at = {record.face: record.sent for record in entry.out_records}
        if now < max(sent_at.values()) + entry.suppress_ns:
            return ()
        entry.suppress_ns = min(entry.suppress_ns * 2, MAXIMUM_SUPPRESSION_NS)
        if not hops:
            return ()
        # min() keeps the first of equals: unused hops count as never sent to, in order of cost.
        return (min(hops, key=lambda hop: sent_at.get(hop.face, -1)).face,)
