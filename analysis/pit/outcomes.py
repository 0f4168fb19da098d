"""What PIT entries came to: how long they lived, how they ended, and what they spared."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.quantiles import in_ms, quantile_function
from analysis.columns.values import ALL, OUTCOMES

QUANTILES = {"p50": 0.5, "p95": 0.95, "max": 1.0}


def lasted() -> Column:
    """Tell of a row of PIT_INTERVALS whether it has a lifetime: whether the entry was there, and ended.

    What the cache answers at once has no entry, and of one that was open when the packets ended it is not
    known how long it lived.
    """
    return (F.col("peak_bytes") > 0) & (F.col("outcome") != "open")


def lives(pit_intervals: DataFrame, points: int = 200) -> DataFrame:
    """Return what the entries of each node, and of ALL, came to.

    A row has layering, node; entries, lasted (how many lasted()), and how many of them had each of OUTCOMES;
    aggregated_in and aggregated_out, the Interests that came in for entries that were asked for here and
    asked for further up, and those that went out for them; renewals; lifetime_p50, lifetime_p95, lifetime_max
    (ms), and lifetimes_ns, their quantile function at `points` + 1 even steps from 0 to 1.

    Lifetimes are those of entries that lasted().
    """
    lifetime = F.when(lasted(), F.col("closed") - F.col("opened"))
    passed_on = (F.col("interests_in") > 0) & (F.col("interests_out") > 0)
    everywhere = pit_intervals.withColumn("node", F.lit(ALL))
    return (
        pit_intervals.union(everywhere)
        .groupBy("layering", "node")
        .agg(
            F.count("*").alias("entries"),
            F.count(lifetime).alias("lasted"),
            *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES),
            F.sum(F.when(passed_on, F.col("interests_in"))).alias("aggregated_in"),
            F.sum(F.when(passed_on, F.col("interests_out"))).alias("aggregated_out"),
            F.sum("renewals").alias("renewals"),
            *in_ms("lifetime", lifetime, QUANTILES),
            quantile_function(lifetime, points).alias("lifetimes_ns"),
        )
    )
