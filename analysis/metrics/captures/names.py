"""Names on the page of captures: the most informative prefixes, and the packets of a name.

DataFrame in, DataFrame out, as in analysis.metrics.captures.aggregates.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import MOST_FRAMES
from analysis.metrics.captures.aggregates import first
from analysis.packet_schema import FOREVER

_NUMBERS = r"^(.*?)/(?:v|t|seg|off|seq|params-sha256|sha256digest)=.*$"
"""Splits a name before its first numbering component (NDN Technical Report 22)."""


def prefixed(requests: DataFrame) -> DataFrame:
    """Return transactions with `prefix`: the name up to its first number, such as a version or segment.

    A name without numbers loses its last component, if it has several.
    """
    named = F.regexp_extract("name", _NUMBERS, 1)
    shorter = F.regexp_extract("name", r"^(/.+)/[^/]*$", 1)
    prefix = F.when(named != "", named).when(shorter != "", shorter).otherwise(F.col("name"))
    return requests.withColumn("prefix", prefix)


def cut(prefix: str, depth: int | Column) -> Column:
    """Return the first components of a prefix, a column."""
    parts = F.split(prefix, "/")
    return F.array_join(F.slice(parts, 1, depth + 1), "/")


def depths(counted: DataFrame, deepest: int) -> DataFrame:
    """Return depth, prefixes: the number of distinct prefixes of `counted` cut to each depth."""
    every = F.explode(F.sequence(F.lit(1), F.lit(deepest)))
    return (
        counted.select("prefix", every.alias("depth"))
        .groupBy("depth")
        .agg(F.count_distinct(cut("prefix", F.col("depth"))).alias("prefixes"))
    )


def subjects(transactions: DataFrame, feed_progress: DataFrame, most: int) -> DataFrame:
    """Return layering, name, first (ns), trouble, alias, feed, seq: names for sequence charts.

    Of each run, the first `most` requested names, and as many troubled ones: retransmitted, nacked or
    unanswered. alias: the Data's name, if different. Pushed items of feeds are included, though nobody
    requests them one by one.
    """
    trouble = F.col("interests") - 1 + F.when(F.col("outcome") == "data", 0).otherwise(1)
    pulled = transactions.where(F.col("kind") == "interest").select(
        "layering", "name", "time", trouble.alias("trouble"), "data_name", "feed", "seq"
    )
    pushed = feed_progress.select(
        "layering",
        F.concat("feed", F.lit("/seq="), F.col("seq").cast("string")).alias("name"),
        "time",
        F.lit(0).cast("long").alias("trouble"),
        F.lit(None).cast("string").alias("data_name"),
        "feed",
        "seq",
    )
    about = pulled.unionByName(pushed)
    # Numbers alone, as engines sort rows by name to take the least of texts.
    sums = (F.min("time").alias("first"), F.sum("trouble").alias("trouble"))
    by_name = about.groupBy("layering", "name").agg(*sums)
    soonest = first(by_name, most, ("layering",), "first", "name")
    bad = by_name.where(F.col("trouble") > 0)
    worst = first(bad, most, ("layering",), F.desc("trouble"), "first", "name")
    chosen = soonest.unionByName(worst).dropDuplicates(["layering", "name"])
    alias = F.when(F.col("data_name") != F.col("name"), F.col("data_name"))
    return (
        about.drop("time", "trouble")
        .join(F.broadcast(chosen), ["layering", "name"])
        .groupBy(*chosen.columns)
        .agg(F.min(alias).alias("alias"), F.min("feed").alias("feed"), F.min("seq").alias("seq"))
    )


def sequences(packets: DataFrame, chosen: DataFrame) -> DataFrame:
    """Return the frames of each of subjects(): layering, subject, and their fields.

    These are frames with the name or the alias, and LLIs whose range includes it; the first MOST_FRAMES of
    each.
    """
    said = packets.select(
        "layering", "node", "direction", "frame", "time", "src", "dst", "src_port", "dst_port", "kind",
        "name", "feed", "seq", "nonce", "send_credit", "nack_reason", "frame_bytes",
    )  # fmt: skip
    about = chosen.select(
        "layering", F.col("name").alias("subject"), "alias", F.col("feed").alias("of"), "seq"
    )
    names = about.select(
        "layering", "subject", F.explode(F.array_compact(F.array("subject", "alias"))).alias("name")
    )
    plain = said.where(F.col("kind").isin("interest", "data", "nack"))
    direct = plain.join(F.broadcast(names), ["layering", "name"])
    ranges = about.where(F.col("of").isNotNull()).select(
        "layering", "subject", F.col("of").alias("feed"), F.col("seq").alias("item")
    )
    # A sum of item and credit might overflow.
    last = F.coalesce(F.try_add(F.col("seq") - 1, F.col("send_credit")), F.lit(FOREVER))
    granted = (
        said.where(F.col("kind") == "lli")
        .join(F.broadcast(ranges), ["layering", "feed"])
        .where(F.col("item").between(F.col("seq"), last))
        .drop("item")
    )
    return first(direct.unionByName(granted), MOST_FRAMES, ("layering", "subject"), "time", "node", "frame")
