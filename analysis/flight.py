"""Items in flight against PIT entries: does state grow with what is under way, or only with feeds?"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.latency import SUBSCRIBED

STEPS = 40
"""How many different numbers of items in flight are kept apart, besides none."""


def in_flight(latencies: DataFrame, pit_samples: DataFrame) -> DataFrame:
    """Return layering, items, samples, entries, bytes: the network's mean PIT while `items` are in flight.

    `pit_samples` is analysis.pit.tables.samples. An item is in flight from its publication to its last
    delivery (analysis.latency); what was published at the time of a sample counts, what had arrived by then
    does not. Numbers of items are rounded down to STEPS even steps, if there are more.
    """
    each = (
        latencies.where(F.col("purpose") == SUBSCRIBED)
        .groupBy("layering", "feed", "seq")
        .agg(F.min("published").alias("begun"), F.max("delivered").alias("ended"))
    )
    held = pit_samples.groupBy("layering", "time").agg(
        F.sum("entries").alias("entries"), F.sum("bytes").alias("bytes")
    )
    nothing = F.lit(None).cast("long")
    rows = (
        each.select("layering", F.col("begun").alias("time"), F.lit(1).alias("step"), nothing, nothing)
        .union(each.select("layering", "ended", F.lit(-1), nothing, nothing))
        .union(held.select("layering", "time", F.lit(0), "entries", "bytes"))
        .toDF("layering", "time", "step", "entries", "bytes")
    )
    so_far = F.sum("step").over(Window.partitionBy("layering").orderBy("time"))
    sampled = rows.select("*", so_far.alias("at_once")).where(F.col("entries").isNotNull())
    # One width for all layerings, as they stand beside each other.
    most = F.max("at_once").over(Window.partitionBy(F.lit(0)))
    width = F.greatest(F.lit(1), F.ceil(most / STEPS))
    return (
        sampled.withColumn("items", (F.col("at_once") - F.col("at_once") % width).cast("long"))
        .groupBy("layering", "items")
        .agg(F.count("*").alias("samples"), F.avg("entries").alias("entries"), F.avg("bytes").alias("bytes"))
    )
