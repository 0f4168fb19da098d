"""Replication between peers over streams: traffic per peer and cause, peers per message, and the cost of
popularity for an author.

From stream messages at the ends of their connections; forwarding nodes are no peers.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.grouped import in_groups
from analysis.columns.rows import summed
from analysis.columns.values import MESSAGES, REPEATED, REST
from analysis.decode.protocols.protocol import ITEM
from analysis.decode.protocols.registry import framed
from analysis.files import Rows
from analysis.packet_schema import schema_of
from analysis.tables.protocol_messages import peers_of

_COPY = ("layering", "sender", "receiver", "feed", "seq")

CAUSES = schema_of(
    "layering string, node string, cause string, sent int64, sent_bytes int64, received int64,"
    " received_bytes int64"
)
"""A row per peer and cause: messages, and bytes with their share of frame headers."""

REACH = schema_of("layering string, hops int64, copies int64")
"""First copies of items by the number of peers on the path: 1 if sent by the author."""

AUTHORS = schema_of("layering string, node string, followers int64, published int64, sent_bytes int64")
"""An author: nodes that received an item of it, items published, and all frame bytes sent as a peer,
including relayed items of other authors.
"""

TABLES = {"causes": CAUSES, "reach": REACH, "authors": AUTHORS}
"""The tables by name."""


class Replication(NamedTuple):
    """The tables of replication.

    Attributes:
        causes: CAUSES.
        firsts: the first copy of each item at each peer: layering, time, sender, receiver, feed, seq.
        brought: messages by connection: layering, node, peer, messages, again; the peer sent them to the
            node, which had `again` of them.
        ends: messages at the ends of their connections, with is_out, sender and receiver.
    """

    causes: DataFrame
    firsts: DataFrame
    brought: DataFrame
    ends: DataFrame


def replication(
    seen: DataFrame, packets: DataFrame, connections: DataFrame, published: DataFrame
) -> Replication:
    """Return the tables of replication.

    `seen` is analysis.tables.protocol_messages.SEEN, `connections` analysis.decode.connections.CONNECTIONS,
    `published` has layering, node, feed and seq of each publication.
    """
    peers = peers_of(connections)
    ends = _at_ends(seen, peers)
    marked = _with_repeats(ends, published)
    of_messages = marked.groupBy("layering", "node", "cause").agg(*_sums())
    over_streams = F.col("protocol").isin(*(protocol.name for protocol in framed()))
    whole = _at_ends(packets.where(over_streams), peers).groupBy("layering", "node").agg(*_sums())
    totals = of_messages.groupBy("layering", "node").agg(
        F.sum("sent_bytes").alias("sent_told"), F.sum("received_bytes").alias("received_told")
    )
    rest = whole.join(totals, ["layering", "node"], "left").select(
        "layering",
        "node",
        F.lit(REST).alias("cause"),
        F.lit(0).cast("long").alias("sent"),
        (F.col("sent_bytes") - F.coalesce("sent_told", F.lit(0))).alias("sent_bytes"),
        F.lit(0).cast("long").alias("received"),
        (F.col("received_bytes") - F.coalesce("received_told", F.lit(0))).alias("received_bytes"),
    )
    came = marked.where(~F.col("is_out") & F.col("cause").isin(MESSAGES, REPEATED))
    firsts = came.where(F.col("cause") == MESSAGES)
    brought = came.groupBy("layering", F.col("receiver").alias("node"), F.col("sender").alias("peer")).agg(
        F.count("*").alias("messages"), F.count_if(F.col("cause") == REPEATED).alias("again")
    )
    return Replication(
        of_messages.unionByName(rest).select(*CAUSES.names),
        firsts.select("layering", "time", "sender", "receiver", "feed", "seq"),
        brought,
        ends,
    )


def reach(firsts: DataFrame) -> DataFrame:
    """Return REACH; `firsts` are those of Replication."""
    counted = in_groups(firsts, ("layering", "feed"), _hops, from_arrow_schema(REACH))
    return counted.groupBy("layering", "hops").agg(F.sum("copies").alias("copies"))


def _hops(firsts: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of REACH of one feed."""
    depth: dict[tuple[str, int], int] = {}
    counts: Counter[int] = Counter()
    names = ("sender", "receiver", "seq")
    # Simultaneous rows have an order of their own, independent of the engine.
    ordered = firsts.sort_by([(name, "ascending") for name in ("time", *names)])
    for sender, receiver, seq in zip(*(ordered[name].to_pylist() for name in names), strict=True):
        hops = depth[receiver, seq] = depth.get((sender, seq), 0) + 1
        counts[hops] += 1
    columns = (pa.repeat(firsts["layering"][0], len(counts)), [*counts], [*counts.values()])
    yield pa.table([*columns], REACH)


def authors(causes: Rows, published: Rows, deliveries: Rows) -> pa.Table:
    """Return AUTHORS.

    `published` has layering, node, feed and the number of items, `deliveries` layering, node and feed.
    """
    sent = summed(causes, "sent_bytes", "layering", "node")
    items: Counter[tuple[str, str]] = Counter()
    author: dict[tuple[str, str], str] = {}
    for row in published:
        items[row["layering"], row["node"]] += row["items"]
        author[row["layering"], row["feed"]] = row["node"]
    followers: dict[tuple[str, str], set[str]] = {}
    for row in deliveries:
        if (node := author.get((row["layering"], row["feed"]))) is not None:
            followers.setdefault((row["layering"], node), set()).add(row["node"])
    return pa.Table.from_pylist(
        [
            {
                "layering": layering,
                "node": node,
                "followers": len(followers.get((layering, node), ())),
                "published": count,
                "sent_bytes": sent[layering, node],
            }
            for (layering, node), count in sorted(items.items())
            if (layering, node) in sent
        ],
        AUTHORS,
    )


def _sums() -> Iterator[Column]:
    """Yield the sums of CAUSES over rows of _at_ends()."""
    for name, which in (("sent", F.col("is_out")), ("received", ~F.col("is_out"))):
        yield F.count_if(which).alias(name)
        yield F.coalesce(F.sum(F.when(which, F.col("frame_bytes"))), F.lit(0)).alias(f"{name}_bytes")


def _at_ends(rows: DataFrame, peers: DataFrame) -> DataFrame:
    """Return the rows at their senders and receivers, with is_out, sender and receiver."""
    is_out = F.col("direction") == "out"
    here = F.when(is_out, F.col("src")).otherwise(F.col("dst"))
    there = F.when(is_out, F.col("dst")).otherwise(F.col("src"))
    others = peers.select("layering", F.col("node").alias("other"), F.col("address").alias("there"))
    return (
        rows.withColumn("address", here)
        .withColumn("there", there)
        .join(F.broadcast(peers), ["layering", "node", "address"])
        .join(F.broadcast(others), ["layering", "there"])
        .withColumn("is_out", is_out)
        .withColumn("sender", F.when(is_out, F.col("node")).otherwise(F.col("other")))
        .withColumn("receiver", F.when(is_out, F.col("other")).otherwise(F.col("node")))
        .drop("address", "there", "other")
    )


def _with_repeats(ends: DataFrame, published: DataFrame) -> DataFrame:
    """Return all rows with their cause, pairing the nth copy sent between two peers with the nth received."""
    is_item = F.col("kind") == ITEM
    copies = ends.where(is_item).withColumn(
        "copy", F.row_number().over(Window.partitionBy(*_COPY, "is_out").orderBy("time", "frame"))
    )
    came = copies.where(~F.col("is_out"))
    own = published.select(
        "layering", F.col("node").alias("receiver"), "feed", "seq", F.lit(True).alias("own")
    )
    arrival = Window.partitionBy("layering", "receiver", "feed", "seq").orderBy("time", "frame")
    judged = (
        came.withColumn("place", F.row_number().over(arrival))
        .join(own, ["layering", "receiver", "feed", "seq"], "left")
        .withColumn("again", F.coalesce("own", F.lit(False)) | (F.col("place") > 1))
        .select(*_COPY, "copy", "again")
    )
    items = copies.join(judged, [*_COPY, "copy"], "left").withColumn(
        "cause", F.when(F.coalesce("again", F.lit(False)), REPEATED).otherwise(MESSAGES)
    )
    others = ends.where(~is_item).withColumn("cause", F.col("kind"))
    names = [*ends.columns, "cause"]
    return items.select(*names).unionByName(others.select(*names))
