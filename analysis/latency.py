"""Latency: from the publication of an item to its delivery to a subscriber's application.

From the events that the applications noted, on the run's one clock; not from packets, which do not show
when an application had what it waited for.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

ALL = "*"
"""The node that stands for all subscribers together."""

QUANTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "max_ns": 1.0}


def latency(events: DataFrame) -> DataFrame:
    """Return layering, node, seq, payload_bytes, published, delivered, latency_ns: one row a delivered item.

    `events` has layering, time (ns), node, event ("published", "delivered" or other), seq, bytes. The first
    delivery of an item to a node counts.
    """
    published = (
        events.where(F.col("event") == "published")
        .groupBy("layering", "seq")
        .agg(F.min("time").alias("published"))
    )
    delivered = (
        events.where(F.col("event") == "delivered")
        .groupBy("layering", "node", "seq")
        .agg(F.min_by("bytes", "time").alias("payload_bytes"), F.min("time").alias("delivered"))
    )
    return delivered.join(published, ["layering", "seq"]).select(
        "layering",
        "node",
        "seq",
        "payload_bytes",
        "published",
        "delivered",
        (F.col("delivered") - F.col("published")).alias("latency_ns"),
    )


def quantiles(latencies: DataFrame, points: int = 200) -> DataFrame:
    """Summarise the latencies of each subscriber, and of ALL together.

    Returns layering, node, deliveries, payload_bytes, p50_ns, p95_ns, p99_ns, max_ns, and quantiles_ns, the
    quantile function at `points` + 1 even steps from 0 to 1. Quantiles are exact, interpolated between the
    two nearest ranks.
    """
    shares = F.array(*(F.lit(k / points) for k in range(points + 1)))
    named = [F.percentile("latency_ns", share).alias(name) for name, share in QUANTILES.items()]
    everyone = latencies.withColumn("node", F.lit(ALL))
    return (
        latencies.union(everyone)
        .groupBy("layering", "node")
        .agg(
            F.count("*").alias("deliveries"),
            F.sum("payload_bytes").alias("payload_bytes"),
            *named,
            F.percentile("latency_ns", shares).alias("quantiles_ns"),
        )
    )
