"""Time slots of runs: the states of a run with any number of packets are followed in several tasks.

Slots of all runs are numbered from 0, and each number is a task. Runs with few packets share one.
"""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import schema_of
from analysis.spark.engine import frame
from analysis.tables.shares import numbered

PACKETS = 1 << 20
"""Packets of a run in one slot, roughly, if they come evenly."""

SLOT = "slot"

SIZES = schema_of("layering string, rows int64, begin int64, end int64")
"""Packets of a node or an interface, and the times (ns) of the first and the last one."""

_SLOTS = schema_of("layering string, first int64, begin int64, length int64, last int64")


class Slots(NamedTuple):
    """The slots of runs.

    Attributes:
        runs: layering; first and last, the numbers of its slots; all are of equal length (ns) from begin on,
            but the first and the last one have all earlier and later times, too.
        number: of all slots.
    """

    runs: pa.Table
    number: int

    @property
    def are_several(self) -> bool:
        """Whether a run has several slots."""
        return not self.runs["first"].equals(self.runs["last"])


def slots_of(nodes: pa.Table) -> Slots:
    """Return the slots of runs; `nodes` is SIZES."""
    runs = nodes.group_by("layering").aggregate([("rows", "sum"), ("begin", "min"), ("end", "max")])
    sizes = pa.table({"layering": runs["layering"], "rows": runs["rows_sum"]})
    places, number = numbered(sizes, PACKETS)
    rows = [
        {
            "layering": run["layering"],
            "first": place["first"],
            "begin": run["begin_min"],
            "length": (run["end_max"] - run["begin_min"]) // place["shares"] + 1,
            "last": place["first"] + place["shares"] - 1,
        }
        for run, place in zip(runs.to_pylist(), places.to_pylist(), strict=True)
    ]
    return Slots(pa.Table.from_pylist(rows, _SLOTS), number)


def with_slot(table: DataFrame, slots: Slots) -> DataFrame:
    """Return the rows of runs that have slots, with SLOT, the number of the time's slot."""
    known = frame(table.sparkSession, slots.runs)
    place = F.col("first") + F.floor((F.col("time") - F.col("begin")) / F.col("length")).cast("long")
    within = F.greatest(F.col("first"), F.least(place, F.col("last"))).cast("int")
    found = table.join(F.broadcast(known), "layering").withColumn(SLOT, within)
    return found.drop("first", "begin", "length", "last")
