"""Frames to network-layer packets: the fragments of NDNLPv2 put together again.

One row a packet for each interface and direction, as the node's forwarder saw it: a fragmented packet has
arrived (or left) when its last fragment has, and one of which a fragment is missing has not. A fragment
that the link has doubled counts once. Every sender counts its fragments by itself.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own documentation gives it)

from analysis.decode.schema import MESSAGES

_WHERE = ("layering", "interface", "node", "direction", "src", "dst", "src_port", "dst_port")
_NETWORK = (
    "nack_reason",
    "kind",
    "name",
    "name_length",
    "can_be_prefix",
    "must_be_fresh",
    "nonce",
    "lifetime_ns",
    "hop_limit",
    "send_credit",
    "is_persistent",
    "feed",
    "seq",
    "content_bytes",
    "payload_bytes",
)
_SIZES = ("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "lp_bytes", "ndn_bytes")


def reassemble(packets: DataFrame, breaks: DataFrame) -> DataFrame:
    """Return one row a network-layer packet from the rows of analysis.decode.schema.PACKETS.

    `breaks` is analysis.run.context.BREAKS: fragments from before and after one of their interface's do not
    join, and Sequence may begin again.

    The columns are those of a packet without NDNLPv2's, and `frames`, the number of frames it took; sizes
    are sums. `time` and `frame` are those of the frame that completed it.
    """
    columns = (*_WHERE, "frame", "time", *_SIZES, "frames", *_NETWORK)
    whole = packets.where((F.col("frag_count") == 1) & F.col("kind").isin(*MESSAGES))
    parts = packets.where((F.col("frag_count") > 1) & F.col("kind").isin("fragment", *MESSAGES))
    # A signed Sequence jumps half way round. A packet just there is given up; null is the overflow.
    first = F.try_subtract("lp_sequence", "frag_index")
    times = breaks.groupBy("layering", "interface").agg(F.collect_list("time").alias("breaks"))
    past = F.size(F.filter("breaks", lambda time: time <= F.col("time")))
    arrivals = F.array_sort(F.collect_list(F.struct("frag_index", "time", "frame", *_SIZES)))
    joined = (
        parts.withColumn("first", first)
        .where(F.col("first").isNotNull())
        .join(F.broadcast(times), ["layering", "interface"], "left")
        .groupBy(*_WHERE, "first", "frag_count", past.alias("era"))
        .agg(arrivals.alias("arrivals"), F.min_by(F.struct(*_NETWORK), "frag_index").alias("network"))
        .withColumn("arrivals", F.filter("arrivals", _is_first))
        .withColumn("frames", F.size("arrivals").cast("long"))
        .where(F.col("frames") == F.col("frag_count"))
        .withColumn(
            "last", F.array_max(F.transform("arrivals", lambda part: F.struct(part.time, part.frame)))
        )
        .select("*", F.col("last.time").alias("time"), F.col("last.frame").alias("frame"), "network.*")
        .withColumns({size: _sum(size) for size in _SIZES})
        .where(F.col("kind").isin(*MESSAGES))
    )
    return whole.withColumn("frames", F.lit(1).cast("long")).select(*columns).union(joined.select(*columns))


def _is_first(part: Column, place: Column) -> Column:
    """Tell whether a fragment is the first of its index, where they are sorted."""
    before = F.get("arrivals", place - 1)
    return (place == 0) | (before.frag_index != part.frag_index)


def _sum(size: str) -> Column:
    return F.aggregate(F.col(f"arrivals.{size}"), F.lit(0).cast("long"), lambda total, part: total + part)
