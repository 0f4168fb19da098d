"""multicast: every next hop (NFD developer guide, section 5.2.2).

Theory of operation. An Interest goes to every next hop at once, and the first answer is the answer.
Repetitions are held back for each next hop by itself: until its suppression interval has passed since the
Interest was sent there. Another consumer's Interest so reaches the face where the first one came from, and no
other a second time.
"""

from collections.abc import Mapping, Sequence

from forwarder.strategies.strategy import Node, Strategy
from forwarder.strategies.suppression import PARAMETERS, Suppression
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry


class Multicast(Strategy):
    """Every next hop; an entry's notes are suppression intervals, ns, by face, once it has been repeated."""

    NAME = "multicast"
    VERSION = 5
    PARAMETERS = PARAMETERS

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self._suppression = Suppression(self.parameters)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        if not entry.out_records:
            return [hop.face for hop in hops] or None
        if entry.notes is None:
            entry.notes = {}
        may = self._suppression.allows
        return [hop.face for hop in hops if may(entry, hop.face, entry.notes, now)]
