"""PIT state from packets: which entries a node held, when, and what they stood for.

Each node's packets go through analysis.pit.scan.PitScan, one node a task: in a DataFrame by reconstruct(), as
Parquet of any size by scan(). The result is a history of entries and of changes; the other tables here are
made from it. The forwarders' own counters check it: analysis.pit.validation.

Occupancy at time t is the state after everything that happened at times <= t.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from analysis.pit.entry import COUNTED, State
from analysis.pit.files import scan
from analysis.pit.scan import PitScan
from analysis.pit.window import COLUMNS
from analysis.spark.engine import frame
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.values import ALL

__all__ = [
    "HISTORY",
    "changes",
    "intervals",
    "occupancy",
    "reconstruct",
    "samples",
    "scan",
    "steps",
    "summary",
    "with_network",
]

_DELTAS = ("time", *(f"delta_{name}" for name in COUNTED))

HISTORY = StructType([*PIT_INTERVALS.spark.fields, *(StructField(name, LongType()) for name in _DELTAS)])
"""A row an entry (analysis.tables.schema.PIT_INTERVALS; the rest null), and a row for each moment in which a
node's table changed: layering, node, time (ns), and the change of each of entries, bytes, ranges and credit,
of classic entries satisfied by Data that came in since the node's start, and expired since then."""

_HISTORY_ARROW = pa.schema([*PIT_INTERVALS.arrow, *((name, pa.int64()) for name in _DELTAS)])
_NODE = ("layering", "node")


def reconstruct(
    messages: DataFrame, breaks: DataFrame, runs: DataFrame | None = None, *, here: bool = False
) -> DataFrame:
    """Return the HISTORY of every node from its network-layer packets (analysis.tables.reassembly).

    Its restarts and signalled link events (analysis.run.context.BREAKS) are shown to the model as messages of
    kind "restart", "link-down" and "link-up" at each interface concerned, before all packets of that time.
    `runs` (layering, end_ns) says until when there may have been packets; if it is None, packets end with the
    node's last one. `here`: few packets are followed in this process, which takes less time than starting
    another one for them.
    """
    needed = messages.select(*_NODE, *COLUMNS)
    own = breaks.where(F.col("event") != "peer-restart").select(
        *_NODE, F.lit(0).cast("long").alias("frame"), "time", "interface", F.col("event").alias("kind")
    )
    needed = needed.unionByName(own, allowMissingColumns=True)
    if runs is None:
        needed = needed.withColumn("end_ns", F.lit(None).cast("long"))
    else:
        needed = needed.join(F.broadcast(runs.select("layering", "end_ns")), "layering")
    if not here:
        return needed.groupBy(*_NODE).applyInArrow(_reconstruct_node, HISTORY)
    table = needed.toArrow()
    nodes = table.group_by(_NODE).aggregate([]).to_pylist()
    parts = [
        _reconstruct_node(
            tuple(pa.scalar(node[name]) for name in _NODE),
            table.filter(pc.and_(*(pc.equal(table[name], node[name]) for name in _NODE))),
        )
        for node in nodes
    ]
    found = pa.concat_tables([_HISTORY_ARROW.empty_table(), *parts])
    return frame(messages.sparkSession, found, HISTORY)


def _reconstruct_node(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
    layering, node = (scalar.as_py() for scalar in key)
    table = table.sort_by([("time", "ascending"), ("frame", "ascending")])
    is_break = pc.is_in(table["kind"], pa.array(["restart", "link-down", "link-up"]))
    model = PitScan(table.filter(is_break))
    end = table["end_ns"][0].as_py()
    ended = model.push(table.filter(pc.invert(is_break))), model.finish(end)
    parts = []
    for intervals, steps in ended:
        for rows in (intervals, steps.rename_columns(_DELTAS)):
            named = dict(zip(rows.column_names, rows.columns, strict=True))
            named |= {"layering": pa.repeat(layering, len(rows)), "node": pa.repeat(node, len(rows))}
            columns = [named.get(field.name, pa.nulls(len(rows), field.type)) for field in _HISTORY_ARROW]
            parts.append(pa.Table.from_arrays(columns, schema=_HISTORY_ARROW))
    return pa.concat_tables(parts)


def intervals(history: DataFrame) -> DataFrame:
    """Return analysis.tables.schema.PIT_INTERVALS: a row an entry."""
    return history.where(F.col("kind").isNotNull()).select(*PIT_INTERVALS.names)


def steps(history: DataFrame) -> DataFrame:
    """Return layering, node, time (ns), delta_entries, delta_bytes, delta_ranges, delta_credit,
    delta_satisfied, delta_expired: a row for each moment in which a node's table changed."""
    return history.where(F.col("time").isNotNull()).select(*_NODE, *_DELTAS)


def changes(pit_steps: DataFrame) -> DataFrame:
    """Return pit_steps with one row for each node and time, and the state after it: entries, bytes, ranges,
    credit.

    Changes that leave a node's table as it was (an Interest answered from the cache at once) drop out.
    """
    at_once = (
        pit_steps.groupBy(*_NODE, "time")
        .agg(*(F.sum(f"delta_{name}").alias(f"delta_{name}") for name in State._fields))
        .where(" or ".join(f"delta_{name} != 0" for name in State._fields))
    )
    return at_once.select("*", *_state(State._fields, Window.partitionBy(*_NODE).orderBy("time")))


def occupancy(pit_changes: DataFrame) -> DataFrame:
    """Return analysis.tables.schema.PIT_OCCUPANCY from changes()."""
    return pit_changes.select(*PIT_OCCUPANCY.names)


def samples(pit_steps: DataFrame, times: DataFrame, slack_ns: int = 0) -> DataFrame:
    """Return the state of each node at given times.

    `times` has layering, node, time (ns). To these columns are added entries, bytes, ranges, credit,
    satisfied and expired, and for each with _low and _high: the least and the most within `slack_ns` of the
    time, for clocks and packets in flight.
    """
    asked = times.select(*_NODE, "time").distinct()
    nothing = [F.lit(0).cast("long").alias(name) for name in _DELTAS[1:]]
    rows = pit_steps.select(*_NODE, *_DELTAS, F.lit(False).alias("asked")).union(
        asked.select("*", *nothing, F.lit(True))
    )
    if slack_ns:
        # A second mark, `slack_ns` earlier, holds the state with which the time around a sample begins.
        earlier = asked.withColumn("time", F.col("time") - slack_ns)
        rows = rows.union(earlier.select("*", *nothing, F.lit(False)))
    by_time = Window.partitionBy(*_NODE).orderBy("time")
    around = by_time.rangeBetween(-slack_ns, slack_ns)
    extremes = [
        (extreme(what).over(around) if slack_ns else F.col(what)).alias(f"{what}_{which}")
        for what in COUNTED
        for which, extreme in (("low", F.min), ("high", F.max))
    ]
    return (
        rows.select("*", *_state(COUNTED, by_time))
        .select(*_NODE, "time", "asked", *COUNTED, *extremes)
        .where("asked")
        .drop("asked")
    )


def with_network(pit_steps: DataFrame) -> DataFrame:
    """Add every step once more under the node ALL, which stands for all nodes together."""
    return pit_steps.union(pit_steps.withColumn("node", F.lit(ALL)))


def summary(pit_changes: DataFrame, runs: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return layering, node, mean_entries, peak_entries and likewise of bytes and credit, of each node and of
    ALL.

    `runs` has layering, from_ns, until_ns, end_ns, `nodes` layering and node. Means are over the time from
    from_ns to until_ns, peaks until end_ns; a node without entries counts as 0.
    """
    times = runs.select("layering", "from_ns", "until_ns", "end_ns")
    network = times.withColumn("node", F.lit(ALL))
    every = times.join(nodes.select("layering", "node"), "layering").unionByName(network)
    until = F.col("until_ns")
    # A change lasts from its time to the end, so the mean is a sum over changes. The sum is one of whole
    # numbers, which comes out the same in whatever order Spark adds.
    lasts = (until - F.least(F.greatest("time", "from_ns"), until)).cast("decimal(20, 0)")
    duration = F.first(until - F.col("from_ns"))
    is_in_run = F.col("time").isNull() | (F.col("time") <= F.col("end_ns"))
    in_run = every.join(pit_changes, [*_NODE], "left").where(is_in_run)
    measures = []
    for what in ("entries", "bytes", "credit"):
        mean = F.sum(F.col(f"delta_{what}").cast("decimal(18, 0)") * lasts).cast("double") / duration
        measures += [
            F.coalesce(mean, F.lit(0.0)).alias(f"mean_{what}"),
            F.coalesce(F.max(what), F.lit(0)).alias(f"peak_{what}"),
        ]
    seen = in_run.groupBy(*_NODE).agg(*measures)
    return every.select(*_NODE).join(seen, [*_NODE], "left").na.fill(0)


def _state(names: tuple[str, ...], by_time: WindowSpec) -> list[Column]:
    """Return the state after all changes up to and including a row's time."""
    # The default frame of an ordered window is by range: rows of the same time count, too.
    return [F.sum(f"delta_{what}").over(by_time).alias(what) for what in names]
