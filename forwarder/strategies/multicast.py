"""multicast: every next hop (NFD developer guide, section 5.2.2)."""

from collections.abc import Sequence

from forwarder.fib import NextHop
from forwarder.pit import PitEntry
from forwarder.strategy import INITIAL_SUPPRESSION_NS, MAXIMUM_SUPPRESSION_NS, Strategy


class Multicast(Strategy):
    """Send to every next hop; a repetition to each that it has not just been sent to.

    Just means within the suppression interval, which grows as best-route's does.
    """

    NAME = "multicast"
    VERSION = 5

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy."""
        sent_at = {record.face: record.sent for record in entry.out_records}
        if not sent_at:
            entry.suppress_ns = INITIAL_SUPPRESSION_NS
            return [hop.face for hop in hops] or None
        free = [
            hop.face
            for hop in hops
            if hop.face not in sent_at or now >= sent_at[hop.face] + entry.suppress_ns
        ]
        if any(out in sent_at for out in free):
            entry.suppress_ns = min(entry.suppress_ns * 2, MAXIMUM_SUPPRESSION_NS)
        return free
