"""One table that sets the layerings side by side: each metric, its unit, and its ratio to the first's."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.latency import ALL
from analysis.pit import NETWORK


class Metric(NamedTuple):
    """A row of the comparison.

    `better` is "lower", "higher" or "" where neither is; `axis` names it in a few words if it is one that
    layerings are ranked on.
    """

    group: str
    key: str
    title: str
    unit: str
    better: str
    axis: str = ""


_DELIVERY, _LATENCY, _STATE, _UPSTREAM, _WIRE, _SHARING = (
    "Delivery",
    "Latency",
    "State",
    "Upstream packets",
    "On the wire",
    "Sharing a link",
)

METRICS = (
    Metric(_DELIVERY, "published", "Items published", "items", ""),
    Metric(_DELIVERY, "delivered", "Items delivered, to all subscribers", "items", "higher"),
    Metric(_DELIVERY, "delivered_share", "Share delivered of what was expected", "%", "higher", "delivered"),
    Metric(_DELIVERY, "twice", "Items delivered twice", "items", "lower"),
    Metric(_DELIVERY, "out_of_order", "Items delivered out of order", "items", "lower"),
    Metric(_DELIVERY, "beyond_fork", "Items delivered after a feed’s fork", "items", "lower"),
    Metric(_DELIVERY, "forked", "Subscriptions ended by the proof of a fork", "subscriptions", ""),
    Metric(_DELIVERY, "errors", "Errors told to applications", "errors", "lower"),
    Metric(_LATENCY, "latency_p50", "Latency, publish to delivery, median", "ms", "lower", "median latency"),
    Metric(_LATENCY, "latency_p95", "Latency, 95th percentile", "ms", "lower"),
    Metric(_LATENCY, "latency_p99", "Latency, 99th percentile", "ms", "lower", "99th percentile"),
    Metric(_LATENCY, "latency_max", "Latency, maximum", "ms", "lower"),
    Metric(_LATENCY, "bound_p50", "Path delay with nothing in the way, median", "ms", ""),
    Metric(_LATENCY, "latency_ratio_p50", "Latency, per path delay, median", "ms/ms", "lower"),
    Metric(_LATENCY, "latency_ratio_p95", "Latency, per path delay, 95th percentile", "ms/ms", "lower"),
    Metric(_LATENCY, "first_item_p50", "First item after joining, median", "ms", "lower", "first item"),
    Metric(_LATENCY, "first_item_max", "First item after joining, maximum", "ms", "lower"),
    Metric(_LATENCY, "recovery_p50", "Longest gap after a failure, median of subscribers", "ms", "lower"),
    Metric(_LATENCY, "recovery_max", "Longest gap after a failure", "ms", "lower", "recovery"),
    Metric(_STATE, "pit_entries_mean", "PIT entries, mean of a node", "entries", "lower", "PIT entries"),
    Metric(_STATE, "pit_entries_peak", "PIT entries, peak of a node", "entries", "lower"),
    Metric(_STATE, "pit_entries_per_feed", "PIT entries, peak of a node, per feed there", "entries", "lower"),
    Metric(_STATE, "pit_entries_network", "PIT entries, mean of the whole network", "entries", "lower"),
    Metric(_STATE, "pit_entries_network_peak", "PIT entries, peak of the whole network", "entries", "lower"),
    Metric(_STATE, "pit_bytes_mean", "PIT bytes, mean of a node", "bytes", "lower", "PIT bytes"),
    Metric(_STATE, "pit_bytes_peak", "PIT bytes, peak of a node", "bytes", "lower"),
    Metric(_STATE, "pit_bytes_network", "PIT bytes, mean of the whole network", "bytes", "lower"),
    Metric(_STATE, "pit_bytes_network_peak", "PIT bytes, peak of the whole network", "bytes", "lower"),
    Metric(_STATE, "pit_lifetime_p50", "Lifetime of a PIT entry, median", "ms", ""),
    Metric(_STATE, "pit_lifetime_p95", "Lifetime of a PIT entry, 95th percentile", "ms", ""),
    Metric(_STATE, "pit_satisfied_share", "PIT entries that Data ended", "%", "higher"),
    Metric(_STATE, "pit_expired_share", "PIT entries that expired", "%", "lower"),
    Metric(_STATE, "pit_nacked_share", "PIT entries that Nacks ended", "%", "lower"),
    Metric(_STATE, "pit_aggregation", "Interests that came in, per Interest passed on", "Interests", ""),
    Metric(_STATE, "pit_credit_mean", "Items that a node may still send down, mean", "items", ""),
    Metric(_STATE, "pit_renewals_per_item", "LLIs that renewed credit, per delivered item", "LLIs", ""),
    Metric(
        _UPSTREAM,
        "interests_per_item",
        "Interests sent by subscribers’ nodes, per delivered item",
        "Interests",
        "lower",
        "Interests",
    ),
    Metric(_UPSTREAM, "interests_per_link", "Interests over a link, per item over it", "Interests", "lower"),
    Metric(
        _UPSTREAM, "interests_per_window", "Interests over a link, per credit window", "Interests", "lower"
    ),
    Metric(_WIRE, "frames_per_item", "Frames on the wire, per delivered item", "frames", "lower", "frames"),
    Metric(_WIRE, "bytes_per_item", "Bytes on the wire, per delivered item", "bytes", "lower", "bytes"),
    Metric(_WIRE, "bound_bytes_per_item", "Bytes that each item once per link takes", "bytes", ""),
    Metric(_WIRE, "wire_ratio", "Bytes on the wire, per byte that it takes", "bytes", "lower"),
    Metric(_WIRE, "useful_share", "Bytes that brought a node an item it lacked", "%", "higher"),
    Metric(_WIRE, "repeated_share", "Item packets sent over a link again", "%", "lower", "repetition"),
    Metric(_WIRE, "duplicate_share", "Item packets that arrived where the item was", "%", "lower"),
    Metric(_WIRE, "overhead_ratio", "Bytes on the wire, per byte of message delivered", "bytes", "lower"),
    Metric(_SHARING, "link_use", "Busiest link, share of its rate", "%", ""),
    Metric(_SHARING, "throughput", "Throughput of a flow, mean", "kbit/s", "higher"),
    Metric(_SHARING, "fairness", "Fairness between flows, Jain’s index", "of 1", "higher", "fairness"),
    Metric(_SHARING, "queue_p50", "Queue at the busiest link, median", "bytes", "lower"),
    Metric(_SHARING, "queue_p99", "Queue at the busiest link, 99th percentile", "bytes", "lower", "queue"),
    Metric(_SHARING, "queue_max", "Queue at the busiest link, maximum", "bytes", "lower"),
    Metric("Measurement", "capture_drops", "Frames that the capture dropped", "frames", "lower"),
)
"""Every metric of the comparison, in its order. An Interest is a classic one or an LLI; "PIT entries" are
classic entries and feeds; "a node" is the mean, or the highest, of all nodes of the topology. Lifetimes are
those of entries that have lasted and ended, shares those of entries that have ended, at all nodes; an LLI
that renews is counted at both ends of its link. What has no meaning in a run (recovery, where nothing failed)
is null for all of its layerings."""


_TEXTS = ("group", "title", "unit", "better", "axis")


def events_totals(events: DataFrame, feeds: DataFrame, faults: DataFrame) -> DataFrame:
    """Return layering, published, twice, out_of_order, forked, errors.

    `feeds` is analysis.setting.FEEDS, of which cross traffic does not count; `faults` is
    analysis.service.faults.
    """
    item = F.struct("feed", "seq")
    own = feeds.where(~F.col("cross")).select("layering", "feed")
    published = (
        events.join(F.broadcast(own), ["layering", "feed"])
        .groupBy("layering")
        .agg(F.count_distinct(F.when(F.col("event") == "published", item)).alias("published"))
    )
    noted = faults.groupBy("layering").agg(
        *(F.sum(name).alias(name) for name in ("twice", "out_of_order", "forked", "errors"))
    )
    return _merge([published, noted])


def latency_totals(quantiles: DataFrame, first_items: DataFrame, recovery: DataFrame) -> DataFrame:
    """Return layering, deliveries and the metrics of latency, from analysis.latency and .service."""
    everyone = quantiles.where(F.col("node") == ALL).drop("node", "payload_bytes", "quantiles_ns")
    waits = [
        table.groupBy("layering").agg(
            (F.percentile(value, 0.5) / 1e6).alias(f"{name}_p50"),
            (F.max(value) / 1e6).alias(f"{name}_max"),
        )
        for table, value, name in (
            (first_items, "wait_ns", "first_item"),
            (recovery, "gap_ns", "recovery"),
        )
    ]
    return _merge([everyone, *waits])


def pit_totals(pit_summary: DataFrame, feeds_there: DataFrame) -> DataFrame:
    """Return layering and the metrics of state, from analysis.pit.summary and analysis.bound.feeds_at."""
    is_network = F.col("node") == NETWORK
    sizes = [
        aggregate(F.when(where, F.col(f"{which}_{what}"))).alias(f"pit_{what}_{key}")
        for what in ("entries", "bytes")
        for key, which, where, aggregate in (
            ("mean", "mean", ~is_network, F.avg),
            ("peak", "peak", ~is_network, F.max),
            ("network", "mean", is_network, F.max),
            ("network_peak", "peak", is_network, F.max),
        )
    ]
    return (
        pit_summary.join(F.broadcast(feeds_there), ["layering", "node"], "left")
        .groupBy("layering")
        .agg(
            *sizes,
            F.avg(F.when(~is_network, F.col("mean_credit"))).alias("pit_credit_mean"),
            F.max(F.col("peak_entries") / F.col("feeds")).alias("pit_entries_per_feed"),
        )
    )


def wire_totals(sent: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return layering, wire_frames, wire_bytes, interests, asked (those of subscribers' nodes).

    `sent` is analysis.overhead.traffic, `nodes` analysis.setting.NODES.
    """
    is_interest = F.col("kind").isin("interest", "lli")
    asks = is_interest & (F.col("role") == "subscriber")
    return (
        sent.join(F.broadcast(nodes), ["layering", "node"], "left")
        .groupBy("layering")
        .agg(
            F.sum("frames").alias("wire_frames"),
            F.sum("frame_bytes").alias("wire_bytes"),
            F.sum(F.when(is_interest, F.col("frames"))).alias("interests"),
            F.sum(F.when(asks, F.col("frames"))).alias("asked"),
        )
    )


def measure(runs: DataFrame, totals: Sequence[DataFrame]) -> DataFrame:
    """Return one row a layering with a column for each key of METRICS (double, null if undefined).

    `runs` is analysis.setting.RUNS; `totals` have one row a layering each: those of this module,
    analysis.pit_lives.lives_totals, analysis.latency.carried, analysis.bound.wire_bound,
    analysis.copies.copies, analysis.sharing.fairness and .queue_summary, and link_use. A metric or count that
    none of them has is null.
    """
    merged = _merge([runs, *totals])
    counts = [
        "published",
        "deliveries",
        "carried",
        "interests",
        "asked",
        "wire_frames",
        "wire_bytes",
        "renewals",
    ]
    inner = (*counts, "carried_bytes", "crossings", "bound_bytes", "useful_bytes", "sent", "repeated")
    for name in {*inner, "arrived", "duplicates", *(metric.key for metric in METRICS)} - set(merged.columns):
        merged = merged.withColumn(name, F.lit(None).cast("double"))
    known = merged.na.fill(0, counts)

    def per(what: str, of: str, scale: int = 1) -> Column:
        return F.try_divide(F.col(what) * scale, F.col(of))

    derived = {
        "delivered": F.col("deliveries"),
        "delivered_share": per("deliveries", "expected", 100),
        "interests_per_item": per("asked", "carried"),
        "interests_per_link": per("interests", "crossings"),
        "interests_per_window": per("interests", "crossings") * F.col("credit"),
        "pit_renewals_per_item": per("renewals", "carried"),
        "frames_per_item": per("wire_frames", "carried"),
        "bytes_per_item": per("wire_bytes", "carried"),
        "bound_bytes_per_item": per("bound_bytes", "carried"),
        "wire_ratio": per("wire_bytes", "bound_bytes"),
        "useful_share": per("useful_bytes", "wire_bytes", 100),
        "repeated_share": per("repeated", "sent", 100),
        "duplicate_share": per("duplicates", "arrived", 100),
        "overhead_ratio": per("wire_bytes", "carried_bytes"),
        "capture_drops": F.col("dropped"),
    }
    columns = [
        derived.get(metric.key, F.col(metric.key)).cast("double").alias(metric.key) for metric in METRICS
    ]
    return known.where(F.col("position").isNotNull()).select("layering", "position", *columns)


def compare(measures: DataFrame) -> DataFrame:
    """Return a row a metric and layering: row, metric, group, title, unit, better, axis, layering, position,
    value, ratio.

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


def _merge(totals: Sequence[DataFrame]) -> DataFrame:
    """Put tables of one row a layering side by side. A union costs Spark less than as many joins."""
    stacked = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), totals)
    columns = [name for name in stacked.columns if name != "layering"]
    return stacked.groupBy("layering").agg(*(F.max(name).alias(name) for name in columns))
