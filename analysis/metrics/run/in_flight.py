"""PIT entries against items in flight: whether state grows with traffic, or only with feeds."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.slices import with_span
from analysis.tables.latency import SUBSCRIBED

STEPS = 40
"""Maximum number of distinct counts of items in flight, besides 0."""


def in_flight(latencies: DataFrame, pit_steps: DataFrame, runs: DataFrame) -> DataFrame:
    """Return layering, items, lasted_ns, entries, bytes: the total time with `items` in flight, and the mean
    PIT state of all nodes over that time.

    `pit_steps` is analysis.pit.windows.tables.STEPS; `runs` has layering, start_ns, end_ns. An item is in
    flight from its publication to its last delivery (analysis.tables.latency). Numbers of items are rounded
    down to STEPS even steps, if there are more.
    """
    each = (
        latencies.where(F.col("purpose") == SUBSCRIBED)
        .groupBy("layering", "feed", "seq")
        .agg(F.min("published").alias("begun"), F.max("delivered").alias("ended"))
    )
    none, one = (F.lit(number).cast("long") for number in (0, 1))
    rows = (
        each.select("layering", F.col("begun").alias("time"), one.alias("items"), none, none)
        .union(each.select("layering", "ended", -one, none, none))
        .union(pit_steps.select("layering", "time", none, "delta_entries", "delta_bytes"))
        .union(runs.select("layering", "start_ns", none, none, none))
        .union(runs.select("layering", "end_ns", none, none, none))
        .toDF("layering", "time", "items", "entries", "bytes")
    )
    what = ("items", "entries", "bytes")
    at_once = rows.groupBy("layering", "time").agg(*(F.sum(name).alias(name) for name in what))
    so_far = Window.partitionBy("layering").orderBy("time")
    held = (
        with_span(
            at_once.select(
                "layering",
                "time",
                *(F.sum(name).over(so_far).alias(name) for name in what),
                F.lead("time").over(so_far).alias("until"),
            ),
            runs,
        )
        .where((F.col("time") >= F.col("start_ns")) & (F.col("time") < F.col("end_ns")))
        .withColumn("lasted", F.col("until") - F.col("time"))
    )
    # One width for all layerings, as they are compared.
    most = F.max("items").over(Window.partitionBy(F.lit(0)))
    width = F.greatest(F.lit(1), F.ceil(most / STEPS))
    # Integer sums are equal in whatever order Spark adds.
    lasted = F.col("lasted").cast("decimal(20, 0)")
    means = (
        (F.sum(F.col(name).cast("decimal(18, 0)") * lasted).cast("double") / F.sum("lasted")).alias(name)
        for name in ("entries", "bytes")
    )
    return (
        held.withColumn("items", (F.col("items") - F.col("items") % width).cast("long"))
        .groupBy("layering", "items")
        .agg(F.sum("lasted").alias("lasted_ns"), *means)
    )
