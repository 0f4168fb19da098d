"""Feeds by hop: who brought a node its items, what it asked for, and what came again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_HOP = ("layering", "upstream", "node")


def feed_hops(transits: DataFrame) -> DataFrame:
    """Return layering, upstream, node, items, again, lost, llis, credit, interests, topics, nacks; a row for
    each direction of a link in which items or requests for them crossed.

    `transits` has analysis.tables.link_transits.TRANSITS. items: Data sent with an item of a feed; again: of
    these, items that had been sent there before; lost: of these, not received. llis: LLIs that grant credit,
    and persistent Interests, sent by the node; credit: mean credit, null without any. interests: classic ones
    for items; topics: those that ask for news of a feed rather than an item (metadata, notify, sync). nacks:
    to all of them.
    """
    is_item = F.col("feed").isNotNull() & F.col("seq").isNotNull() & F.col("topic").isNull()
    down = transits.where((F.col("kind") == "data") & is_item)
    stays = (F.col("send_credit") > 0) | F.col("is_persistent")
    up = transits.where(F.col("kind").isin("interest", "lli") & F.col("feed").isNotNull())
    asked = up.groupBy("layering", F.col("receiver").alias("upstream"), F.col("sender").alias("node")).agg(
        F.count_if(stays).alias("llis"),
        F.avg(F.when(stays, F.col("send_credit"))).alias("credit"),
        F.count_if(is_item & (F.col("kind") == "interest")).alias("interests"),
        F.count_if(F.col("topic").isNotNull()).alias("topics"),
    )
    refused = transits.where((F.col("kind") == "nack") & F.col("feed").isNotNull())
    nacks = refused.groupBy("layering", F.col("sender").alias("upstream"), F.col("receiver").alias("node"))
    sent = down.groupBy("layering", F.col("sender").alias("upstream"), F.col("receiver").alias("node")).agg(
        F.count("*").alias("items"),
        (F.count("*") - F.count_distinct("feed", "seq")).alias("again"),
        F.count_if(F.col("received").isNull()).alias("lost"),
    )
    whole = (
        sent.join(asked, [*_HOP], "full")
        .join(nacks.agg(F.count("*").alias("nacks")), [*_HOP], "left")
        .fillna(0, ["items", "again", "lost", "llis", "interests", "topics", "nacks"])
    )
    return whole.select(*_HOP, "items", "again", "lost", "llis", "credit", "interests", "topics", "nacks")
