"""best-route: the cheapest next hop, then the next one (NFD developer guide, section 5.2.1).

Theory of operation. A new Interest goes to the cheapest next hop. A repetition goes to the cheapest that it
is not pending at; if it is pending at all of them, to the one where it was sent longest ago. Repetitions
within the suppression interval, counted from the last one sent wherever that went, are held back.

It is new again when all that it was sent to have refused it or have let it expire. Nothing is remembered
beyond the PIT entry: a next hop that no longer answers is found out anew with every Interest.
"""

from collections.abc import Mapping, Sequence

from forwarder.strategies.strategy import Node, Strategy
from forwarder.strategies.suppression import PARAMETERS, Suppression
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry


class BestRoute(Strategy):
    """The cheapest next hop; an entry's notes are its suppression interval, ns, once it has been repeated."""

    NAME = "best-route"
    VERSION = 5
    PARAMETERS = PARAMETERS

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self._suppression = Suppression(self.parameters)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        if not entry.out_records or not entry.is_pending(now):
            return (hops[0].face,) if hops else None
        interval = entry.notes or self._suppression.initial
        if now < entry.last_sent() + interval:
            return ()
        entry.notes = self._suppression.longer(interval)
        if not hops:
            return ()
        sent_at = {record.face: record.sent for record in entry.out_records if record.expiry > now}
        # min() keeps the first of equals: unused hops count as never sent to, in order of cost.
        return (min(hops, key=lambda hop: sent_at.get(hop.face, -1)).face,)
