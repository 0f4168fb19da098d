"""Delivery to applications, from their events: wait for the first item, gaps after failures, and faults
(duplicates, reordering).
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.tables.latency import CROSS, SUBSCRIBED

BREAKS = ("link-down", "restart", "stop")
"""Timeline events after which delivery has to recover."""

INCIDENTS = ("error", "forked")
"""Events of applications that something went wrong: an error, the proof of a fork."""

_PAIR = ("layering", "node", "feed")


def first_items(events: DataFrame, latencies: DataFrame) -> DataFrame:
    """Return layering, node, feed, joined (ns), wait_ns; a row for each joining of a feed.

    The wait ends with the first item delivered from then on. It begins with joining or with that item's
    publication, if later. It is null if no item arrived.
    """
    nothing = F.lit(None).cast("long")
    joined = events.where(F.col("event") == "joined").select(
        *_PAIR, F.col("time").alias("joined"), nothing.alias("item"), F.col("time").alias("at")
    )
    items = latencies.where(F.col("purpose") == SUBSCRIBED).select(
        *_PAIR, nothing.alias("joined"), F.col("published").alias("item"), F.col("delivered").alias("at")
    )
    ahead = Window.partitionBy(*_PAIR).orderBy("at").rangeBetween(0, Window.unboundedFollowing)
    first = F.min(F.when(F.col("item").isNotNull(), F.struct("at", "item"))).over(ahead)
    cross = latencies.where(F.col("purpose") == CROSS).select("layering", "feed").distinct()
    return (
        joined.join(F.broadcast(cross), ["layering", "feed"], "left_anti")
        .unionByName(items)
        .withColumn("first", first)
        .where(F.col("joined").isNotNull())
        .select(
            *_PAIR, "joined", (F.col("first.at") - F.greatest("joined", F.col("first.item"))).alias("wait_ns")
        )
    )


def recovery(
    events: DataFrame, latencies: DataFrame, feeds: DataFrame, timeline: DataFrame, runs: DataFrame
) -> DataFrame:
    """Return layering, time, event, place, node, gap_ns; a row for each break and subscriber.

    `timeline` has layering, time (ns), event, place; only BREAKS count, and simultaneous ones as one. The gap
    is the longest time without delivery of available items of a feed that begins between this break and the
    next: from the break, the previous delivery or the publication of the item that ends it, whichever is
    last. Without further items it lasts to the end of the run. `feeds` and `runs` are those of
    analysis.run.context.
    """
    wanted = latencies.where(F.col("purpose") == SUBSCRIBED)
    delivered = wanted.select(*_PAIR, "seq", "published", "delivered")
    last = delivered.groupBy(*_PAIR).agg(F.max("seq").alias("last"))
    is_due = F.col("last").isNull() | (F.col("seq") <= F.col("last"))  # before a fork, if there is one
    published = (
        events.where(F.col("event") == "published")
        .join(F.broadcast(feeds), ["layering", "feed"])
        .where(is_due)
        .select("layering", "feed", "seq", F.col("time").alias("published"))
    )
    missing = (
        published.join(last, ["layering", "feed"])
        .where(F.col("seq") > F.col("last"))
        .groupBy(*_PAIR)
        .agg(F.min("seq").alias("seq"), F.min("published").alias("published"))
        .join(runs.select("layering", F.col("end_ns").alias("delivered")), "layering")
    )
    in_order = Window.partitionBy(*_PAIR).orderBy("delivered", "seq")
    arrivals = delivered.unionByName(missing).withColumn("before", F.lag("delivered").over(in_order))
    at_once = (
        timeline.where(F.col("event").isin(*BREAKS))
        .groupBy("layering", "time")
        .agg(
            F.array_join(F.array_sort(F.collect_set("event")), ", ").alias("event"),
            F.array_join(F.array_sort(F.collect_set("place")), ", ").alias("place"),
        )
    )
    breaks = at_once.withColumn("next", F.lead("time").over(Window.partitionBy("layering").orderBy("time")))
    begins = F.greatest("time", "before", "published")
    return (
        arrivals.join(F.broadcast(breaks), "layering")
        .where((F.col("delivered") > F.col("time")) & (F.col("next").isNull() | (begins < F.col("next"))))
        .groupBy("layering", "time", "event", "place", "node")
        .agg(F.max(F.col("delivered") - begins).alias("gap_ns"))
    )


def faults(events: DataFrame) -> DataFrame:
    """Return layering, node, twice, out_of_order, forked, errors; a row for each subscriber.

    `events` has `line`, its position in the node's log. twice: repeated deliveries; out_of_order: first
    deliveries after a later item's; forked: feeds ended by a fork's proof; errors: reported to the
    application.
    """
    reported = events.where(F.col("event").isin("delivered", "joined", "forked", "error"))
    is_item = F.col("event") == "delivered"
    feed = Window.partitionBy(*_PAIR, is_item).orderBy("line")
    earlier = F.max("seq").over(feed.rowsBetween(Window.unboundedPreceding, -1))
    times = F.row_number().over(Window.partitionBy(*_PAIR, "seq", is_item).orderBy("line"))
    return (
        reported.select("*", earlier.alias("highest"), times.alias("times"))
        .groupBy("layering", "node")
        .agg(
            F.count_if(is_item & (F.col("times") > 1)).alias("twice"),
            F.count_if(is_item & (F.col("times") == 1) & (F.col("seq") < F.col("highest"))).alias(
                "out_of_order"
            ),
            F.count_distinct(F.when(F.col("event") == "forked", F.col("feed"))).alias("forked"),
            F.count_if(F.col("event") == "error").alias("errors"),
        )
    )


def insertions(latencies: DataFrame) -> DataFrame:
    """Return layering, late_share (%), late_by_max (ms): deliveries of SUBSCRIBED items to readers who had
    a newer one, of any feed, and by how much the newest was newer.

    A view that sorts items by their time inserts these into what it has shown (Tarr et al., "Secure
    Scuttlebutt", ACM ICN 2019, section 3.3). Items that come at one instant are shown together.
    """
    before = Window.partitionBy("layering", "node").orderBy("delivered")
    newest = F.max("published").over(before.rangeBetween(Window.unboundedPreceding, -1))
    by = (newest - F.col("published")).alias("by")
    known = latencies.where(F.col("purpose") == SUBSCRIBED).select("layering", by)
    is_late = F.col("by") > 0
    return known.groupBy("layering").agg(
        (F.count_if(is_late) * 100.0 / F.count("*")).alias("late_share"),
        (F.max(F.when(is_late, F.col("by"))) / 1e6).alias("late_by_max"),
    )


def copies(messages: DataFrame, streamed: DataFrame) -> DataFrame:
    """Count a layering's item packets, from analysis.tables.reassembly and
    analysis.tables.protocol_messages.unwrapped_items.

    Returns layering, sent; repeated: sent again over the same interface; arrived; duplicates: arrived where
    the item was present; useful_bytes: frame bytes of first arrivals.
    """
    is_out = F.col("direction") == "out"
    # At its sender a copy belongs to the link, at its receiver to the node.
    place = F.when(is_out, F.col("interface")).otherwise(F.col("node"))
    columns = ("layering", "node", "interface", "direction", "frame", "time", "feed", "seq", "frame_bytes")
    over_ndn = messages.where((F.col("kind") == "data") & F.col("feed").isNotNull()).select(*columns)
    each = (
        over_ndn.unionByName(streamed.select(*columns))
        .groupBy("layering", "direction", place.alias("place"), "feed", "seq")
        .agg(
            F.count("*").alias("copies"),
            F.min_by("frame_bytes", F.struct("time", "frame")).alias("first_bytes"),
        )
    )
    again = F.col("copies") - 1
    return each.groupBy("layering").agg(
        F.sum(F.when(is_out, F.col("copies"))).alias("sent"),
        F.sum(F.when(is_out, again)).alias("repeated"),
        F.sum(F.when(~is_out, F.col("copies"))).alias("arrived"),
        F.sum(F.when(~is_out, again)).alias("duplicates"),
        F.sum(F.when(~is_out, F.col("first_bytes"))).alias("useful_bytes"),
    )
