"""What physics asks for: how soon an item can arrive, and how few bytes can carry it to all who got it.

The bound of a delivery is that of a packet that nothing holds up: the delays of the links from the publisher
to the subscriber (analysis.run.paths), and at each hop the time that the item's frames take at the link's
rate, as every node takes in a packet whole before it passes it on: over NDN all of the item's frames, over IP
each frame alone. The bound on bytes is each item once over
each link of the tree that joins its publisher with the subscribers that it reached.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

UDP_PAYLOAD = 1472
"""What an Ethernet frame of MTU 1500 holds of a UDP datagram, bytes."""
HEADERS = 42
"""Ethernet, IPv4 and UDP headers of a frame, bytes."""

_ITEM = ("layering", "feed", "seq")


def item_sizes(messages: DataFrame) -> DataFrame:
    """Return layering, feed, seq, wire_bytes: the fewest bytes that carry an item over one link; alone_bytes:
    the fewest if nothing else is sent with it; hop_bytes: what of these a node must have before it can pass
    the last of them on.

    `messages` is analysis.tables.reassembly. That is the bare Data packet in one frame if it fits, else the
    least that was spent on it in fragments; a node has to have all of it. For protocols over TCP it is
    analysis.tables.protocol_messages.item_sizes.
    """
    bare = F.min("ndn_bytes")
    return (
        messages.where((F.col("kind") == "data") & F.col("feed").isNotNull())
        .groupBy(*_ITEM)
        .agg(F.when(bare <= UDP_PAYLOAD, bare + HEADERS).otherwise(F.min("frame_bytes")).alias("wire_bytes"))
        .withColumns({"alone_bytes": F.col("wire_bytes"), "hop_bytes": F.col("wire_bytes")})
    )


def least_sizes(sizes: DataFrame) -> DataFrame:
    """Return one row for each item that links carry by several protocols, as on both sides of a gateway."""
    columns = ("wire_bytes", "alone_bytes", "hop_bytes")
    return sizes.groupBy(*_ITEM).agg(*(F.min(column).alias(column) for column in columns))


def with_bound(latencies: DataFrame, sizes: DataFrame, hops: DataFrame) -> DataFrame:
    """Return `latencies` (analysis.tables.latency) with bound_ns, null where it is unknown.

    `sizes` is item_sizes; `hops` has layering and the fields of analysis.run.paths.Hop.
    """
    paths = hops.groupBy("layering", "feed", F.col("subscriber").alias("node")).agg(
        F.sum("delay_ns").alias("path_ns"),
        F.sum("ns_per_byte").alias("path_ns_per_byte"),
        F.max("ns_per_byte").alias("slowest_ns_per_byte"),
    )
    # What goes ahead of the last frame is on its way meanwhile, but for the slowest link.
    ahead = (F.col("alone_bytes") - F.col("hop_bytes")) * F.col("slowest_ns_per_byte")
    sending = F.round(F.col("hop_bytes") * F.col("path_ns_per_byte") + ahead).cast("long")
    return (
        latencies.join(F.broadcast(paths), ["layering", "feed", "node"], "left")
        .join(sizes, list(_ITEM), "left")
        .select(*latencies.columns, (F.col("path_ns") + sending).alias("bound_ns"))
    )


def feeds_at(latencies: DataFrame, hops: DataFrame) -> DataFrame:
    """Return layering, node, feeds: how many feeds a node has on the path to somebody who got of it."""
    pairs = latencies.select("layering", "feed", F.col("node").alias("subscriber")).distinct()
    used = hops.join(pairs, ["layering", "feed", "subscriber"])
    ends = [used.select("layering", "feed", F.col(end).alias("node")) for end in ("sender", "receiver")]
    return ends[0].union(ends[1]).groupBy("layering", "node").agg(F.count_distinct("feed").alias("feeds"))


def wire_bound(latencies: DataFrame, sizes: DataFrame, hops: DataFrame) -> DataFrame:
    """Return for each layering: crossings, of a link by an item that the delivered items need; bound_bytes,
    null if the size of one of them is not known, as none came in a packet of its own.

    Of the delivered items, that is: an item that reached nobody needed nothing.
    """
    reached = latencies.select(*_ITEM, F.col("node").alias("subscriber"))
    crossed = (
        reached.join(F.broadcast(hops), ["layering", "feed", "subscriber"])
        .select(*_ITEM, "sender", "receiver")
        .distinct()
        .join(sizes, list(_ITEM), "left")
    )
    every = F.count("*") == F.count("wire_bytes")
    return crossed.groupBy("layering").agg(
        F.count("*").alias("crossings"), F.when(every, F.sum("wire_bytes")).alias("bound_bytes")
    )
