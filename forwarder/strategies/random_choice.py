"""random: any next hop (NFD's strategy of that name).

Theory of operation. Every Interest, a repetition or not, goes to a next hop that is drawn with equal chances,
whatever its cost. Loops end by the nonces of their Interests, and with them the harm of a bad draw: the
consumer's repetition draws again.
"""

from collections.abc import Sequence

from forwarder.strategies.strategy import Strategy
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry


class RandomChoice(Strategy):
    """Any next hop."""

    NAME = "random"
    VERSION = 1

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        return (self.node.rng.choice(hops).face,) if hops else None
