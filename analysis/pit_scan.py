"""A node's PIT from its packets, a window at a time; see analysis/pit_model.py for the rules."""

from typing import NamedTuple

import pyarrow as pa

from analysis.pit_entry import Interval, Message, Step
from analysis.pit_model import PitModel
from analysis.stages import PIT_INTERVALS

COLUMNS = ("frame", *(name for name in Message._fields if name != "nack_reason"))
"""The columns of packets that are needed."""

INTERVALS = pa.schema([PIT_INTERVALS.arrow.field(name) for name in Interval._fields])
STEPS = pa.schema([(name, pa.int64()) for name in Step._fields])


class Ended(NamedTuple):
    """Entries that have ended, as INTERVALS, and changes of the table in order of time, as STEPS."""

    intervals: pa.Table
    steps: pa.Table


class PitScan:
    """The PIT of one node, told from windows of its packets.

    push() takes the next window, a table of COLUMNS in order of (time, frame) that begins where the one
    before has ended; finish() ends the table. Both return what has ended by then.
    """

    def __init__(self, breaks: pa.Table | None = None) -> None:
        self._model = PitModel()
        self._breaks = [] if breaks is None else breaks.sort_by("time").to_pylist()[::-1]

    def push(self, window: pa.Table) -> Ended:
        """Take the next window."""
        intervals: list[Interval] = []
        columns = [window[name].to_pylist() for name in COLUMNS[1:]]
        for message in map(Message._make, zip(*columns, [None] * len(window), strict=True)):
            while self._breaks and self._breaks[-1]["time"] <= message.time:
                row = self._breaks.pop()
                intervals += self._model.receive(
                    Message(row["time"], row["interface"], "", row["kind"], "", 0)
                )
            if message.kind in ("interest", "lli", "data", "nack"):
                intervals += self._model.receive(message)
        return self._ended(intervals)

    def finish(self, end: int | None = None) -> Ended:
        """End the table at `end` (ns), with the last packet if None."""
        return self._ended(self._model.finish(end))

    def _ended(self, intervals: list[Interval]) -> Ended:
        return Ended(_table(intervals, INTERVALS), _table(self._model.take_steps(), STEPS))


def _table(rows: list[Interval] | list[Step], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
