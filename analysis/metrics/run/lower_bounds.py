"""Lower bounds: minimum delivery time of an item, and minimum bytes to carry it to all receivers.

The bound of a delivery assumes no queueing: link delays from the publisher to the subscriber
(analysis.run.paths), plus the transmission time of the item's frames at each hop, as every node receives a
whole packet before forwarding it: over NDN all frames of the item, over IP each frame alone. The bound on
bytes is one copy of each item per link of the tree that joins its publisher with the subscribers reached.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.decode.protocols.multicast import SEGMENTS

UDP_PAYLOAD = 1472
"""UDP payload of an Ethernet frame of MTU 1500, bytes."""
HEADERS = 42
"""Ethernet, IPv4 and UDP headers of a frame, bytes."""

_ITEM = ("layering", "feed", "seq")


def item_sizes(messages: DataFrame) -> DataFrame:
    """Return layering, feed, seq, wire_bytes: minimum bytes of an item over one link; alone_bytes: the same
    if the item shares no frame; hop_bytes: bytes a node must receive before forwarding the last of them.

    `messages` is analysis.tables.reassembly. An item costs its bare Data packet in one frame if it fits, else
    the cheapest fragments seen; a node needs all of it. For multicast see segmented_sizes, for protocols over
    TCP analysis.tables.protocol_messages.item_sizes.
    """
    bare = F.min("ndn_bytes")
    return (
        messages.where((F.col("kind") == "data") & F.col("feed").isNotNull())
        .groupBy(*_ITEM)
        .agg(F.when(bare <= UDP_PAYLOAD, bare + HEADERS).otherwise(F.min("frame_bytes")).alias("wire_bytes"))
        .withColumns({"alone_bytes": F.col("wire_bytes"), "hop_bytes": F.col("wire_bytes")})
    )


def segmented_sizes(packets: DataFrame) -> DataFrame:
    """Return item_sizes() of items in numbered segments (analysis.decode.protocols.multicast), from packets.

    An item has the segments from the one that names it to the one before the next item's. Each has a frame,
    which a node forwards alone.
    """
    segments = (
        packets.where(F.col("kind").isin(*SEGMENTS) & (F.col("protocol") == "multicast"))
        .groupBy("layering", "name")
        .agg(F.min("frame_bytes").alias("size"), F.max("feed").alias("feed"), F.max("seq").alias("seq"))
        .withColumn("channel", F.substring_index("name", "/", 3))
        .withColumn("number", F.substring_index("name", "/", -1).cast("long"))
    )
    so_far = Window.partitionBy("layering", "channel").orderBy("number")
    begin = F.max(F.when(F.col("feed").isNotNull(), F.col("number"))).over(so_far)
    return (
        segments.withColumn("begin", begin)
        .groupBy("layering", "channel", "begin")
        .agg(
            F.max("feed").alias("feed"),
            F.max("seq").alias("seq"),
            F.sum("size").alias("wire_bytes"),
            F.sum("size").alias("alone_bytes"),
            F.max_by("size", "number").alias("hop_bytes"),
        )
        .where(F.col("feed").isNotNull())
        .select(*_ITEM, "wire_bytes", "alone_bytes", "hop_bytes")
    )


def least_sizes(sizes: DataFrame) -> DataFrame:
    """Return one row per item carried by several protocols, as on both sides of a gateway."""
    columns = ("wire_bytes", "alone_bytes", "hop_bytes")
    return sizes.groupBy(*_ITEM).agg(*(F.min(column).alias(column) for column in columns))


def with_bound(latencies: DataFrame, sizes: DataFrame, hops: DataFrame) -> DataFrame:
    """Return `latencies` (analysis.tables.latency) with bound_ns, null where unknown.

    `sizes` is item_sizes; `hops` has layering and the fields of analysis.run.paths.Hop.
    """
    paths = hops.groupBy("layering", "feed", F.col("subscriber").alias("node")).agg(
        F.sum("delay_ns").alias("path_ns"),
        F.sum("ns_per_byte").alias("path_ns_per_byte"),
        F.max("ns_per_byte").alias("slowest_ns_per_byte"),
    )
    # Earlier frames are pipelined, except on the slowest link.
    ahead = (F.col("alone_bytes") - F.col("hop_bytes")) * F.col("slowest_ns_per_byte")
    sending = F.round(F.col("hop_bytes") * F.col("path_ns_per_byte") + ahead).cast("long")
    return (
        latencies.join(F.broadcast(paths), ["layering", "feed", "node"], "left")
        .join(sizes, list(_ITEM), "left")
        .select(*latencies.columns, (F.col("path_ns") + sending).alias("bound_ns"))
    )


def feeds_at(latencies: DataFrame, hops: DataFrame) -> DataFrame:
    """Return layering, node, feeds: the number of feeds with a node on the path to a receiver."""
    pairs = latencies.select("layering", "feed", F.col("node").alias("subscriber")).distinct()
    used = hops.join(pairs, ["layering", "feed", "subscriber"])
    ends = [used.select("layering", "feed", F.col(end).alias("node")) for end in ("sender", "receiver")]
    return ends[0].union(ends[1]).groupBy("layering", "node").agg(F.count_distinct("feed").alias("feeds"))


def wire_bound(latencies: DataFrame, sizes: DataFrame, hops: DataFrame) -> DataFrame:
    """Return for each layering: crossings, the link transits required by the delivered items; bound_bytes,
    null if an item's size is unknown because it had no packet of its own.

    Undelivered items require nothing.
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
