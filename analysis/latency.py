"""Latency: from the publication of an item to its delivery to a subscriber's application.

From the events that the applications noted, on the run's one clock; not from packets, which do not show
when an application had what it waited for.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

QUANTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99}


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


def quantiles(latencies: DataFrame, *by: str) -> DataFrame:
    """Return the columns `by`, deliveries, payload_bytes, p50_ns, p95_ns, p99_ns, max_ns.

    Quantiles are exact, interpolated between the two nearest ranks.
    """
    return latencies.groupBy(*by).agg(
        F.count("*").alias("deliveries"),
        F.sum("payload_bytes").alias("payload_bytes"),
        *(_percentile(share).alias(name) for name, share in QUANTILES.items()),
        F.max("latency_ns").alias("max_ns"),
    )


def distribution(latencies: DataFrame, points: int = 200) -> DataFrame:
    """Return layering, share, latency_ns: the quantile function at `points` + 1 even steps from 0 to 1."""
    shares = [k / points for k in range(points + 1)]
    return (
        latencies.groupBy("layering")
        .agg(F.percentile("latency_ns", F.array(*map(F.lit, shares))).alias("values"))
        .select("layering", F.posexplode("values").alias("k", "latency_ns"))
        .select("layering", (F.col("k") / points).alias("share"), "latency_ns")
    )


def histogram(latencies: DataFrame, per_decade: int = 10) -> DataFrame:
    """Return layering, from_ns, to_ns, deliveries: counts in bins that are even on a logarithmic scale."""
    at_least_1 = F.greatest("latency_ns", F.lit(1))
    step = F.floor(F.log10(at_least_1) * per_decade)
    edge = F.pow(F.lit(10.0), F.col("bin") / per_decade)
    next_edge = F.pow(F.lit(10.0), (F.col("bin") + 1) / per_decade)
    return (
        latencies.groupBy("layering", step.alias("bin"))
        .agg(F.count("*").alias("deliveries"))
        .select("layering", edge.alias("from_ns"), next_edge.alias("to_ns"), "deliveries")
    )


def _percentile(share: float) -> Column:
    return F.percentile("latency_ns", share)
