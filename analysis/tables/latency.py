"""Latency: from an item's publication to its delivery to a subscriber's application.

From the events of the applications on the run's one clock; packets do not show when an application received
an item. A late joiner's latency counts from its joining. Archived items, cross traffic, and items after a
fork are deliveries, too, but do not count for a layering's rank.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.quantiles import evenly, in_ms, summarised
from analysis.columns.values import ALL

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}

_FEED = ("layering", "feed")

SUBSCRIBED, ARCHIVED, CROSS, BEYOND = "subscribed", "archived", "cross", "beyond a fork"
"""Purposes of deliveries."""


def latency(events: DataFrame, feeds: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return a row for each item delivered to a node: schema.LATENCY without bound_ns
    (analysis.metrics.run.lower_bounds).

    `events` has layering, time (ns), node, event ("published", "joined", "delivered" or other), feed, seq,
    bytes; `feeds` and `nodes` are those of analysis.run.context. The first delivery of an item to a node
    counts, and the first joining of a feed by a node.
    """
    published = (
        events.where(F.col("event") == "published")
        .groupBy(*_FEED, "seq")
        .agg(F.min("time").alias("published"))
    )
    joined = (
        events.where(F.col("event") == "joined").groupBy(*_FEED, "node").agg(F.min("time").alias("joined"))
    )
    delivered = (
        events.where(F.col("event") == "delivered")
        .groupBy(*_FEED, "node", "seq")
        .agg(
            F.min_by("bytes", F.struct("time", "bytes")).alias("payload_bytes"),
            F.min("time").alias("delivered"),
        )
    )
    purpose = (
        F.when(F.col("cross"), CROSS)
        .when(F.col("seq") > F.col("last"), BEYOND)
        .when(F.col("role") == "archive", ARCHIVED)
        .otherwise(SUBSCRIBED)
    )
    known = (
        delivered.join(published, [*_FEED, "seq"])
        .join(joined, [*_FEED, "node"], "left")
        .join(F.broadcast(feeds), [*_FEED], "left")
        .join(F.broadcast(nodes), ["layering", "node"], "left")
    )
    return known.select(
        "layering",
        "node",
        F.lit(None).cast("string").alias("name"),
        "feed",
        "seq",
        purpose.alias("purpose"),
        "payload_bytes",
        "published",
        "delivered",
        (F.col("delivered") - F.greatest("published", "joined")).alias("latency_ns"),
    )


def carried(latencies: DataFrame) -> DataFrame:
    """Return layering, carried, carried_bytes, beyond_fork: the deliveries that divide the wire's costs (all
    but those to archives), their message bytes, and deliveries after a fork.
    """
    counts = F.col("purpose") != ARCHIVED
    return latencies.groupBy("layering").agg(
        F.count_if(counts).alias("carried"),
        F.sum(F.when(counts, F.col("payload_bytes"))).alias("carried_bytes"),
        F.count_if(F.col("purpose") == BEYOND).alias("beyond_fork"),
    )


def quantiles(latencies: DataFrame, points: int = 200) -> DataFrame:
    """Summarise the latencies of SUBSCRIBED items, of each subscriber and of ALL together.

    `latencies` has bound_ns, too (analysis.metrics.run.lower_bounds.with_bound). Returns layering, node,
    deliveries, payload_bytes, latency_p50, latency_p95, latency_p99, latency_max (ms), bound_p50 (ms),
    latency_ratio_p50 and latency_ratio_p95 (of latency to bound), and quantiles_ns, the quantile function at
    `points` + 1 even steps from 0 to 1. Quantiles are exact, interpolated between the two nearest ranks.
    """
    ratio = F.try_divide("latency_ns", "bound_ns")
    own = latencies.where(F.col("purpose") == SUBSCRIBED)
    everyone = own.withColumn("node", F.lit(ALL))
    keys = ("layering", "node")
    sums = (F.count("*").alias("deliveries"), F.sum("payload_bytes").alias("payload_bytes"))
    values = {
        "latency": (F.col("latency_ns"), [*QUANTILES.values(), *evenly(points)]),
        "bound": (F.col("bound_ns"), [0.5]),
        "ratio": (ratio, [0.5, 0.95]),
    }
    return summarised(own.union(everyone), keys, sums, values).select(
        *keys,
        "deliveries",
        "payload_bytes",
        *in_ms("latency", F.col("latency"), [*QUANTILES]),
        *in_ms("bound", F.col("bound"), ["p50"]),
        F.col("ratio")[0].alias("latency_ratio_p50"),
        F.col("ratio")[1].alias("latency_ratio_p95"),
        F.slice("latency", len(QUANTILES) + 1, points + 1).alias("quantiles_ns"),
    )
