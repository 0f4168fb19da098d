"""Feeds by hop: who brought a node its items, what it asked for, and what came again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def feed_hops(transits: DataFrame) -> DataFrame:
    """Return layering, upstream, node, items, again, lost, llis, credit, interests, topics, nacks; a row for
    each direction of a link in which items or requests for them crossed.

    `transits` has analysis.tables.link_transits.TRANSITS. items: Data sent with an item of a feed; again: of
    these, items that had been sent there before; lost: of these, not received. llis: LLIs that grant credit,
    and persistent Interests, sent by the node; credit: mean credit, null without any. interests: classic ones
    for items; topics: those that ask for news of a feed rather than an item (metadata, notify, sync). nacks:
    to all of them.
    """
    kind, topic = F.col("kind"), F.col("topic")
    is_request = kind.isin("interest", "lli")
    names_item = F.col("seq").isNotNull() & topic.isNull()
    is_item = (kind == "data") & names_item
    stays = is_request & ((F.col("send_credit") > 0) | F.col("is_persistent"))
    upstream, node = (
        F.when(is_request, F.col(asked)).otherwise(F.col(sent))
        for asked, sent in (("receiver", "sender"), ("sender", "receiver"))
    )
    return (
        transits.where(F.col("feed").isNotNull() & (is_item | is_request | (kind == "nack")))
        .groupBy("layering", upstream.alias("upstream"), node.alias("node"))
        .agg(
            F.count_if(is_item).alias("items"),
            (F.count_if(is_item) - F.count_distinct(F.when(is_item, F.struct("feed", "seq")))).alias("again"),
            F.count_if(is_item & F.col("received").isNull()).alias("lost"),
            F.count_if(stays).alias("llis"),
            F.avg(F.when(stays, F.col("send_credit"))).alias("credit"),
            F.count_if((kind == "interest") & names_item).alias("interests"),
            F.count_if(is_request & topic.isNotNull()).alias("topics"),
            F.count_if(kind == "nack").alias("nacks"),
        )
    )
