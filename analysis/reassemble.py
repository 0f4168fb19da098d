"""Frames to network-layer packets: the fragments of NDNLPv2 put together again.

One row a packet for each interface and direction, as the node's forwarder saw it: a fragmented packet has
arrived (or left) when its last fragment has, and one of which a fragment is missing has not.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own documentation gives it)

_WHERE = ("layering", "interface", "node", "direction")
_NETWORK = (
    "src",
    "dst",
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
    "feed",
    "seq",
    "content_bytes",
    "payload_bytes",
)
_SIZES = ("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "lp_bytes", "ndn_bytes")
_KINDS = ("interest", "lli", "data", "nack")


def reassemble(packets: DataFrame, breaks: DataFrame) -> DataFrame:
    """Return one row a network-layer packet from the rows of analysis.decode.PACKETS.

    `breaks` is analysis.setting.BREAKS: fragments from before and after one of their interface's do not
    join, and Sequence may begin again.

    The columns are those of a packet without NDNLPv2's, and `frames`, the number of frames it took; sizes
    are sums. `time` and `frame` are those of the frame that completed it.
    """
    columns = (*_WHERE, "frame", "time", *_SIZES, "frames", *_NETWORK)
    whole = packets.where((F.col("frag_count") == 1) & F.col("kind").isin(*_KINDS))
    parts = packets.where((F.col("frag_count") > 1) & F.col("kind").isin("fragment", *_KINDS))
    # A signed Sequence jumps half way round. A packet just there is given up; null is the overflow.
    first = F.try_subtract("lp_sequence", "frag_index")
    times = breaks.groupBy("layering", "interface").agg(F.collect_list("time").alias("breaks"))
    past = F.size(F.filter("breaks", lambda time: time <= F.col("time")))
    joined = (
        parts.withColumn("first", first)
        .where(F.col("first").isNotNull())
        .join(F.broadcast(times), ["layering", "interface"], "left")
        .groupBy(*_WHERE, "first", "frag_count", past.alias("era"))
        .agg(
            F.size(F.collect_set("frag_index")).alias("there"),
            F.count("*").alias("frames"),
            F.max(F.struct("time", "frame")).alias("last"),
            F.min_by(F.struct(*_NETWORK), "frag_index").alias("network"),
            *(F.sum(size).alias(size) for size in _SIZES),
        )
        .where(F.col("there") == F.col("frag_count"))
        .select("*", "last.*", "network.*")
        .where(F.col("kind").isin(*_KINDS))
    )
    return whole.withColumn("frames", F.lit(1).cast("long")).select(*columns).union(joined.select(*columns))
