"""PIT state from packets: which entries a node held, when, and how many bytes they stood for.

Each node's packets go through analysis.pit_model.PitModel, one node a task. The result is a history, one
row an entry; the other tables here are made from it. The forwarders' own counters check it: `truth`.

Occupancy at time t is the state after everything that happened at times <= t.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from analysis.pit_model import Message, follow

_STEP = StructType(
    [
        StructField("time", LongType()),
        StructField("delta_entries", LongType()),
        StructField("delta_bytes", LongType()),
    ]
)
HISTORY = StructType(
    [
        StructField("layering", StringType()),
        StructField("node", StringType()),
        StructField("kind", StringType()),
        StructField("name", StringType()),
        StructField("opened", LongType()),
        StructField("closed", LongType()),
        StructField("steps", ArrayType(_STEP)),
    ]
)
"""One row a PIT entry: kind "classic" or "feed", name (URI), opened and closed (ns), and its steps: time
(ns), change of entries, change of bytes."""

_ARROW = pa.schema(
    [
        ("layering", pa.string()),
        ("node", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("opened", pa.int64()),
        ("closed", pa.int64()),
        (
            "steps",
            pa.list_(
                pa.struct([("time", pa.int64()), ("delta_entries", pa.int64()), ("delta_bytes", pa.int64())])
            ),
        ),
    ]
)
_NODE = ("layering", "node")
NETWORK = "*"
"""The node that stands for all nodes together."""


def reconstruct(messages: DataFrame, breaks: DataFrame) -> DataFrame:
    """Return the HISTORY of every node from its network-layer packets (analysis.reassemble).

    Its restarts and signalled link events (analysis.setting.BREAKS) are shown to the model as messages of
    kind "restart", "link-down" and "link-up" at each interface concerned, before all packets of that time.
    """
    needed = messages.select(*_NODE, "frame", *Message._fields)
    own = breaks.where(F.col("event") != "peer-restart").select(
        *_NODE, F.lit(0).cast("long").alias("frame"), "time", "interface", F.col("event").alias("kind")
    )
    needed = needed.unionByName(own, allowMissingColumns=True)
    return needed.groupBy(*_NODE).applyInArrow(_reconstruct_node, HISTORY)


def _reconstruct_node(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
    layering, node = (scalar.as_py() for scalar in key)
    table = table.sort_by([("time", "ascending"), ("frame", "ascending")])
    columns = [table[name].to_pylist() for name in Message._fields]
    rows = [
        (layering, node, *interval) for interval in follow(map(Message._make, zip(*columns, strict=True)))
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_ARROW)
    # Arrow takes a struct from a dict or a pair of lists, not from a tuple.
    columns[-1] = [[step._asdict() for step in steps] for steps in columns[-1]]
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, _ARROW, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_ARROW)


def intervals(history: DataFrame) -> DataFrame:
    """Return layering, node, kind, name, opened, closed (ns): one row an entry.

    An entry that was open when the capture ended is closed where its lifetime would have ended.
    """
    return history.drop("steps")


def steps(history: DataFrame) -> DataFrame:
    """Return layering, node, time (ns), delta_entries, delta_bytes: one row a change."""
    return history.select(*_NODE, F.explode("steps").alias("step")).select(*_NODE, "step.*")


def changes(pit_steps: DataFrame) -> DataFrame:
    """Return pit_steps with one row for each node and time, and the state after it: entries, bytes.

    Changes that leave a node's table as it was (an Interest answered from the cache at once) drop out.
    """
    at_once = (
        pit_steps.groupBy(*_NODE, "time")
        .agg(F.sum("delta_entries").alias("delta_entries"), F.sum("delta_bytes").alias("delta_bytes"))
        .where((F.col("delta_entries") != 0) | (F.col("delta_bytes") != 0))
    )
    return at_once.select("*", *_state(Window.partitionBy(*_NODE).orderBy("time")))


def occupancy(pit_steps: DataFrame, samples: DataFrame, slack_ns: int = 0) -> DataFrame:
    """Return the state of each node at given times.

    `samples` has layering, node, time (ns). To these columns are added entries and bytes, and with them
    entries_low, entries_high, bytes_low, bytes_high: the least and the most within `slack_ns` of the time,
    for clocks and packets in flight.
    """
    asked = samples.select(*_NODE, "time").distinct()
    # A second mark, `slack_ns` earlier, holds the state with which the time around a sample begins.
    earlier = asked.withColumn("time", F.col("time") - slack_ns)
    nothing = F.lit(0).cast("long")
    columns = (*_NODE, "time", "delta_entries", "delta_bytes", "asked")
    rows = (
        pit_steps.select(*_NODE, "time", "delta_entries", "delta_bytes", F.lit(False))
        .union(asked.select("*", nothing, nothing, F.lit(True)))
        .union(earlier.select("*", nothing, nothing, F.lit(False)))
        .toDF(*columns)
    )
    by_time = Window.partitionBy(*_NODE).orderBy("time")
    around = by_time.rangeBetween(-slack_ns, slack_ns)
    extremes = [
        extreme(what).over(around).alias(f"{what}_{which}")
        for what in ("entries", "bytes")
        for which, extreme in (("low", F.min), ("high", F.max))
    ]
    return (
        rows.select("*", *_state(by_time))
        .select(*_NODE, "time", "asked", "entries", "bytes", *extremes)
        .where("asked")
        .drop("asked")
    )


def truth(pit_occupancy: DataFrame, counters: DataFrame) -> DataFrame:
    """Set the derived state beside the forwarders' own counters, sample by sample.

    `counters` has layering, node, time (ns), pit_entries, pit_bytes. Returns layering, node, time,
    derived_entries, counted_entries, derived_bytes, counted_bytes, and `agrees`: whether both counts lie
    between the least and the most that occupancy() allows.
    """
    counted = counters.select(
        *_NODE,
        "time",
        F.col("pit_entries").alias("counted_entries"),
        F.col("pit_bytes").alias("counted_bytes"),
    )
    return pit_occupancy.join(counted, [*_NODE, "time"]).select(
        *_NODE,
        "time",
        F.col("entries").alias("derived_entries"),
        "counted_entries",
        F.col("bytes").alias("derived_bytes"),
        "counted_bytes",
        (
            F.col("counted_entries").between(F.col("entries_low"), F.col("entries_high"))
            & F.col("counted_bytes").between(F.col("bytes_low"), F.col("bytes_high"))
        ).alias("agrees"),
    )


def truth_summary(pit_truth: DataFrame) -> DataFrame:
    """Return for each layering: samples, exact (equal in both), agreeing, and the largest differences."""
    entries = F.abs(F.col("derived_entries") - F.col("counted_entries"))
    size = F.abs(F.col("derived_bytes") - F.col("counted_bytes"))
    return pit_truth.groupBy("layering").agg(
        F.count("*").alias("samples"),
        F.count_if((entries == 0) & (size == 0)).alias("exact"),
        F.count_if("agrees").alias("agreeing"),
        F.max(entries).alias("max_entries_difference"),
        F.max(size).alias("max_bytes_difference"),
    )


def with_network(pit_steps: DataFrame) -> DataFrame:
    """Add every step once more under the node NETWORK, which stands for all nodes together."""
    return pit_steps.union(pit_steps.withColumn("node", F.lit(NETWORK)))


def summary(pit_changes: DataFrame, runs: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return layering, node, mean_entries, peak_entries, mean_bytes, peak_bytes of each node and of NETWORK.

    `runs` has layering, start_ns, end_ns, `nodes` layering and node. Means are over the time of the run; a
    node without entries counts as 0.
    """
    times = runs.select("layering", "start_ns", "end_ns")
    network = times.withColumn("node", F.lit(NETWORK))
    every = times.join(nodes.select("layering", "node"), "layering").unionByName(network)
    end = F.col("end_ns")
    # A change lasts from its time to the end of the run, so the mean is a sum over changes. The sum is one
    # of whole numbers, which comes out the same in whatever order Spark adds.
    lasts = (end - F.greatest("time", "start_ns")).cast("decimal(20, 0)")
    duration = F.first(end - F.col("start_ns"))
    in_run = every.join(pit_changes, [*_NODE], "left").where(F.col("time").isNull() | (F.col("time") <= end))
    measures = []
    for what in ("entries", "bytes"):
        mean = F.sum(F.col(f"delta_{what}").cast("decimal(18, 0)") * lasts).cast("double") / duration
        measures += [
            F.coalesce(mean, F.lit(0.0)).alias(f"mean_{what}"),
            F.coalesce(F.max(what), F.lit(0)).alias(f"peak_{what}"),
        ]
    seen = in_run.groupBy(*_NODE).agg(*measures)
    return every.select(*_NODE).join(seen, [*_NODE], "left").na.fill(0)


def curves(pit_changes: DataFrame, runs: DataFrame, bins: int = 300) -> DataFrame:
    """Thin pit_changes for drawing: layering, node, time, entries, bytes.

    Of each of `bins` slices of a run the first, last, least and most of both are kept, so a line drawn
    through them looks the same.
    """
    point = F.struct("time", "entries", "bytes")
    width = F.col("end_ns") - F.col("start_ns")
    binned = (
        pit_changes.join(F.broadcast(runs.select("layering", "start_ns", "end_ns")), "layering")
        .where(F.col("time") <= F.col("end_ns"))
        .withColumn("bin", F.floor((F.col("time") - F.col("start_ns")) * bins / width))
    )
    kept = binned.groupBy(*_NODE, "bin").agg(
        F.array(
            F.min_by(point, "time"),
            F.max_by(point, "time"),
            # The time decides between equals, so that the same run is drawn the same.
            *(
                extreme(point, F.struct(what, "time"))
                for what in ("entries", "bytes")
                for extreme in (F.min_by, F.max_by)
            ),
        ).alias("points")
    )
    points = kept.select(*_NODE, F.explode(F.array_distinct("points")).alias("point"))
    return points.select(*_NODE, "point.*")


def _state(by_time: WindowSpec) -> list[Column]:
    """Return the state after all changes up to and including a row's time, as entries and bytes."""
    # The default frame of an ordered window is by range: rows of the same time count, too.
    return [F.sum(f"delta_{what}").over(by_time).alias(what) for what in ("entries", "bytes")]
