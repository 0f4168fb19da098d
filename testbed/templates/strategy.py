"""mine: split load among the cheapest next hops."""

from collections.abc import Sequence
from typing import ClassVar
from zlib import crc32

from forwarder.strategies.strategy import Strategy
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.name import prefix_ends


class Mine(Strategy):
    """Names that agree but for their last components take the same way: they are a flow."""

    NAME = "mine"
    PARAMETERS: ClassVar = {"last": 1}

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """Choose the face of the flow."""
        if not hops:
            return () if entry.is_pending(now) else None
        cheapest = [hop.face for hop in hops if hop.cost == hops[0].cost]
        ends = [0, *prefix_ends(entry.name)]
        flow = entry.name[: ends[max(len(ends) - 1 - int(self.parameters["last"]), 0)]]
        return [cheapest[crc32(flow) % len(cheapest)]]

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        """Try another face, once."""
        untried = [hop.face for hop in hops if entry.out_record(hop.face) is None]
        return untried[:1]
