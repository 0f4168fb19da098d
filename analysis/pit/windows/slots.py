"""Time slots of runs: states of a run with any number of packets are followed in several tasks."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import schema_of

PACKETS = 1 << 22
"""Packets of a run in one slot, roughly, if they come evenly."""

SLOT = "slot"


SIZES = schema_of("layering string, rows int64, begin int64, end int64")
"""Packets of a node or an interface, and the times (ns) of the first and the last one."""


class Slots(NamedTuple):
    """The slots of a run: `number` of equal `length` (ns) from `begin` on. The first and the last one have
    all earlier and later times, too.
    """

    begin: int
    length: int
    number: int


def slots_of(nodes: pa.Table) -> dict[str, Slots]:
    """Return the slots of each run that needs several, by layering. `nodes` is SIZES."""
    runs = nodes.group_by("layering").aggregate([("rows", "sum"), ("begin", "min"), ("end", "max")])
    return {
        run["layering"]: Slots(run["begin_min"], (run["end_max"] - run["begin_min"]) // count + 1, count)
        for run in runs.to_pylist()
        if (count := run["rows_sum"] // PACKETS + 1) > 1
    }


def with_slot(table: DataFrame, slots: Mapping[str, Slots]) -> DataFrame:
    """Return a table that has layering and time with SLOT, the number of the time's slot."""
    number = F.lit(0)
    for run, (begin, length, last) in slots.items():
        place = F.floor((F.col("time") - begin) / length).cast("int")
        within = F.greatest(F.lit(0), F.least(place, F.lit(last - 1)))
        number = F.when(F.col("layering") == run, within).otherwise(number)
    return table.withColumn(SLOT, number)
