"""Outcomes of PIT entries: lifetimes, ends, and aggregated Interests."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.quantiles import evenly, in_ms, summarised
from analysis.columns.values import ALL, OUTCOMES

QUANTILES = {"p50": 0.5, "p95": 0.95, "max": 1.0}


def lasted() -> Column:
    """Return whether a row of PIT_INTERVALS has a lifetime: the entry existed and ended.

    Data from the cache make no entry; the lifetime of an entry open at the end of the packets is unknown.
    """
    return (F.col("peak_bytes") > 0) & (F.col("outcome") != "open")


def lives(pit_intervals: DataFrame, points: int = 200) -> DataFrame:
    """Return statistics of the entries of each node, and of ALL.

    A row has layering, node; entries, lasted (those with lasted()), and their counts by OUTCOMES;
    aggregated_in and aggregated_out: Interests received for entries that were requested downstream and
    upstream, and those sent for them; renewals; lifetime_p50, lifetime_p95, lifetime_max (ms), and
    lifetimes_ns, their quantile function at `points` + 1 even steps from 0 to 1.

    Lifetimes are those of entries with lasted().
    """
    lifetime = F.when(lasted(), F.col("closed") - F.col("opened"))
    passed_on = (F.col("interests_in") > 0) & (F.col("interests_out") > 0)
    everywhere = pit_intervals.withColumn("node", F.lit(ALL))
    sums = (
        F.count("*").alias("entries"),
        F.count(lifetime).alias("lasted"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES),
        F.sum(F.when(passed_on, F.col("interests_in"))).alias("aggregated_in"),
        F.sum(F.when(passed_on, F.col("interests_out"))).alias("aggregated_out"),
        F.sum("renewals").alias("renewals"),
    )
    values = {"lifetimes": (lifetime, [*QUANTILES.values(), *evenly(points)])}
    found = summarised(pit_intervals.union(everywhere), ("layering", "node"), sums, values)
    return found.select(
        *found.columns[:-1],
        *in_ms("lifetime", F.col("lifetimes"), [*QUANTILES]),
        F.slice("lifetimes", len(QUANTILES) + 1, points + 1).alias("lifetimes_ns"),
    )
