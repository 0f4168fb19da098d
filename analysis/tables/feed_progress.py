"""Feed progress at nodes, derived from packets: first sightings of items, and gaps; and the delay of Data
between nodes of a capture.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import FOREVER
from analysis.tables.schema import FEED_PROGRESS, LATENCY
from analysis.tables.transactions import wire_size

CAPTURED = "captured"
"""The purpose of Data without a known subscriber."""

_NODE_FEED = ("layering", "node", "feed")
_ITEM = (*_NODE_FEED, "seq")


def sightings(messages: DataFrame) -> DataFrame:
    """Return every item at every node (analysis.tables.reassembly's incoming packets): layering, node, feed,
    seq, time (ns, the first), direction (then), and `again`: time, interface, name and bytes of each later
    arrival.
    """
    moment = F.struct("time", "frame", "interface", "direction", "name", wire_size().alias("bytes"))
    arrival = F.when(F.col("direction") == "in", moment)
    return (
        messages.where((F.col("kind") == "data") & F.col("feed").isNotNull())
        .groupBy(*_ITEM)
        .agg(F.min(moment).alias("first"), F.collect_list(arrival).alias("arrivals"))
        .select(
            *_ITEM,
            "first.time",
            "first.direction",
            F.filter("arrivals", lambda each: ~each.eqNullSafe(F.col("first"))).alias("again"),
        )
    )


def feed_progress(items: DataFrame, messages: DataFrame) -> DataFrame:
    """Return schema.FEED_PROGRESS from `sightings` and their packets.

    LLIs count as requests where they go out; with unknown directions, at every sighting. Simultaneous rows
    are ordered: LLIs, then items by number.
    """
    nothing = F.lit(None).cast("long")
    # A sum of item and credit might overflow.
    last = F.coalesce(F.try_add(F.col("seq") - 1, F.col("send_credit")), F.lit(FOREVER))
    asked = messages.where(
        (F.col("kind") == "lli")
        & (F.col("send_credit") > 0)
        & F.coalesce(F.col("direction") == "out", F.lit(True))
    ).select(*_NODE_FEED, nothing.alias("seq"), "time", "direction", last.alias("asked"))
    every = items.select(*_ITEM, "time", "direction", nothing.alias("asked")).unionByName(asked)
    # Nulls are first: an LLI precedes simultaneous items.
    in_order = Window.partitionBy(*_NODE_FEED).orderBy("time", "seq")
    first = F.first("seq", ignorenulls=True).over(in_order)
    beyond = F.count_if(F.col("seq") >= F.col("first")).over(in_order)
    newest = F.max("seq").over(in_order)
    how = F.when(F.col("direction") == "out", "sent").when(F.col("direction") == "in", "arrived")
    return (
        every.withColumn("first", first)
        .withColumns({"beyond": beyond, "newest": newest, "asked": F.max("asked").over(in_order)})
        .where(F.col("seq").isNotNull())
        .withColumns({"how": how, "missing": F.col("newest") - F.col("first") + 1 - F.col("beyond")})
        .select(*FEED_PROGRESS.names)
    )


def captured_latency(messages: DataFrame) -> DataFrame:
    """Return schema.LATENCY of CAPTURED Data: from their first departure at any node to their first arrival
    at each other node.

    Unknown directions yield no rows. Disagreeing clocks are not corrected: latencies may be negative.
    """
    by_name = Window.partitionBy("layering", "name")
    at_node = (
        messages.where((F.col("kind") == "data") & F.col("direction").isNotNull())
        # A name tells feed and seq. Aggregates of texts would sort all rows; those of numbers hash them.
        .groupBy("layering", "name", "feed", "seq", "node")
        .agg(
            F.min(_if("out", "time")).alias("left"),
            F.min(_if("in", "time")).alias("delivered"),
            F.max("payload_bytes").alias("payload_bytes"),
        )
    )
    return (
        at_node.withColumn("first", F.min(_struct_or_null("left", "node")).over(by_name))
        .where(F.col("delivered").isNotNull() & (F.col("node") != F.col("first.node")))
        .withColumns(
            {
                "purpose": F.lit(CAPTURED),
                "published": F.col("first.left"),
                "latency_ns": F.col("delivered") - F.col("first.left"),
                "bound_ns": F.lit(None).cast("long"),
            }
        )
        .select(*LATENCY.names)
    )


def _if(direction: str, name: str) -> Column:
    return F.when(F.col("direction") == direction, F.col(name))


def _struct_or_null(*names: str) -> Column:
    """Return a structure of columns; null if its first column is."""
    return F.when(F.col(names[0]).isNotNull(), F.struct(*names))
