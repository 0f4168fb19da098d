"""One table that sets the layerings side by side: each metric, its unit, and its ratio to the first's."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.latency import ALL
from analysis.pit import NETWORK


class Metric(NamedTuple):
    """A row of the comparison. `better` is "lower", "higher" or "" where neither is."""

    key: str
    title: str
    unit: str
    better: str


METRICS = (
    Metric("published", "Items published", "items", ""),
    Metric("delivered", "Items delivered, to all subscribers", "items", "higher"),
    Metric("delivered_share", "Share delivered of what was expected", "%", "higher"),
    Metric("latency_p50", "Latency, publish to delivery, median", "ms", "lower"),
    Metric("latency_p95", "Latency, 95th percentile", "ms", "lower"),
    Metric("latency_p99", "Latency, 99th percentile", "ms", "lower"),
    Metric("latency_max", "Latency, maximum", "ms", "lower"),
    Metric("pit_entries_mean", "PIT entries, mean of a node", "entries", "lower"),
    Metric("pit_entries_peak", "PIT entries, peak of a node", "entries", "lower"),
    Metric("pit_entries_network", "PIT entries, mean of the whole network", "entries", "lower"),
    Metric("pit_entries_network_peak", "PIT entries, peak of the whole network", "entries", "lower"),
    Metric("pit_bytes_mean", "PIT bytes, mean of a node", "bytes", "lower"),
    Metric("pit_bytes_peak", "PIT bytes, peak of a node", "bytes", "lower"),
    Metric("pit_bytes_network", "PIT bytes, mean of the whole network", "bytes", "lower"),
    Metric("pit_bytes_network_peak", "PIT bytes, peak of the whole network", "bytes", "lower"),
    Metric(
        "interests_per_item", "Interests sent by subscribers’ nodes, per delivered item", "Interests", "lower"
    ),
    Metric("interests_per_link", "Interests sent over a link, per published item", "Interests", "lower"),
    Metric("frames_per_item", "Frames on the wire, per delivered item", "frames", "lower"),
    Metric("bytes_per_item", "Bytes on the wire, per delivered item", "bytes", "lower"),
    Metric("overhead_ratio", "Bytes on the wire, per byte of message delivered", "bytes", "lower"),
    Metric("capture_drops", "Frames that the capture dropped", "frames", "lower"),
)
"""Every metric of the comparison, in its order. An Interest is a classic one or an LLI; "PIT entries" are
classic entries and feeds; "a node" is the mean, or the highest, of all nodes of the topology."""


_TEXTS = ("title", "unit", "better")


def measure(
    runs: DataFrame,
    events: DataFrame,
    latency_quantiles: DataFrame,
    pit_summary: DataFrame,
    sent: DataFrame,
    subscribers: Sequence[str],
) -> DataFrame:
    """Return one row a layering with a column for each key of METRICS (double, null if undefined).

    `runs` has layering, position, items (to be published), links, dropped (frames); `latency_quantiles` is
    analysis.latency.quantiles, `pit_summary` analysis.pit.summary with the node NETWORK, `sent`
    analysis.overhead.traffic.
    """
    published = events.where(F.col("event") == "published").groupBy("layering")
    is_network = F.col("node") == NETWORK
    is_interest = F.col("kind").isin("interest", "lli")
    pit = pit_summary.groupBy("layering").agg(
        *(
            aggregate(F.when(where, F.col(f"{which}_{what}"))).alias(f"pit_{what}_{key}")
            for what in ("entries", "bytes")
            for key, which, where, aggregate in (
                ("mean", "mean", ~is_network, F.avg),
                ("peak", "peak", ~is_network, F.max),
                ("network", "mean", is_network, F.max),
                ("network_peak", "peak", is_network, F.max),
            )
        )
    )
    wire = sent.groupBy("layering").agg(
        F.sum("frames").alias("wire_frames"),
        F.sum("frame_bytes").alias("wire_bytes"),
        F.sum(F.when(is_interest, F.col("frames"))).alias("interests"),
        F.sum(F.when(is_interest & F.col("node").isin(*subscribers), F.col("frames"))).alias("asked"),
    )
    joined = runs
    for table in (
        published.agg(F.count_distinct("seq").alias("published")),
        latency_quantiles.where(F.col("node") == ALL).drop("node"),
        pit,
        wire,
    ):
        joined = joined.join(table, "layering", "left")
    known = joined.na.fill(0, ["published", "deliveries", "interests", "asked", "wire_frames", "wire_bytes"])

    def per(what: str, of: str) -> Column:
        return F.try_divide(F.col(what), F.col(of))

    values = {
        "published": F.col("published"),
        "delivered": F.col("deliveries"),
        "delivered_share": F.try_divide(F.col("deliveries") * 100, F.col("items") * F.lit(len(subscribers))),
        **{f"latency_{q}": F.col(f"{q}_ns") / 1e6 for q in ("p50", "p95", "p99", "max")},
        **{column: F.col(column) for column in pit.columns if column != "layering"},
        "interests_per_item": per("asked", "deliveries"),
        "interests_per_link": F.try_divide(F.col("interests"), F.col("links") * F.col("published")),
        "frames_per_item": per("wire_frames", "deliveries"),
        "bytes_per_item": per("wire_bytes", "deliveries"),
        "overhead_ratio": per("wire_bytes", "payload_bytes"),
        "capture_drops": F.col("dropped"),
    }
    columns = [values[metric.key].cast("double").alias(metric.key) for metric in METRICS]
    return known.select("layering", "position", *columns)


def compare(measures: DataFrame) -> DataFrame:
    """Return row, metric, title, unit, better, layering, position, value, ratio: a row a metric and layering.

    `row` is the place in METRICS, `position` that of the layering; `ratio` is value / the first layering's
    value, null for the first layering and where that value is 0 or unknown.
    """
    long = measures.unpivot(["layering", "position"], [metric.key for metric in METRICS], "metric", "value")
    first = F.first("value").over(Window.partitionBy("metric").orderBy("position"))
    described = F.create_map(
        *(
            F.lit(metric.key) if is_key else F.struct(F.lit(row).alias("row"), *_literals(metric))
            for row, metric in enumerate(METRICS)
            for is_key in (True, False)
        )
    )
    return (
        long.withColumn("about", described[F.col("metric")])
        .withColumn("ratio", F.when(F.col("position") > 0, F.try_divide("value", first)))
        .select(
            "about.row", "metric", *map("about.{}".format, _TEXTS), "layering", "position", "value", "ratio"
        )
    )


def _literals(metric: Metric) -> list[Column]:
    return [F.lit(getattr(metric, name)).alias(name) for name in _TEXTS]
