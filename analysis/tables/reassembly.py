"""Frames to network-layer packets: reassembly of NDNLPv2 fragments.

One row per packet, interface and direction, as the node's forwarder saw it: a fragmented packet arrives (or
leaves) with its last fragment, and not at all if one is missing. A fragment duplicated by the link counts
once. Every sender counts its fragments independently.
"""

from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own documentation gives it)

from analysis.packet_schema import MESSAGES, NOTICES
from captures.layers.reassembly import Reassembler

_WHERE = ("layering", "interface", "node", "direction", "src", "dst", "src_port", "dst_port")
_NETWORK = (
    "nack_reason", "kind", "name", "name_length", "can_be_prefix", "must_be_fresh", "nonce", "lifetime_ns",
    "hop_limit", "send_credit", "is_persistent", "evidence", "feed_first", "hello", "feed", "seq",
    "content_bytes", "payload_bytes",
)  # fmt: skip
_SIZES = ("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "lp_bytes", "ndn_bytes")


_PART = ("lp_sequence", "frag_index", "frag_count")
_COLUMNS = (*_WHERE, "frame", "time", *_SIZES, "frames", *_NETWORK)
_PACKETS_OF_A_TASK = 1 << 16


def reassemble(packets: DataFrame, breaks: DataFrame) -> DataFrame:
    """Return one row per network-layer packet, FeedState or Hello from rows of
    analysis.packet_schema.PACKETS: those of unfragmented() and joined().

    The columns are those of a packet without NDNLPv2's, and `frames`, its number of frames; sizes are sums.
    `time` and `frame` are those of the completing frame.
    """
    return unfragmented(packets).union(joined(packets, breaks))


def unfragmented(packets: DataFrame) -> DataFrame:
    """Return the packets that came whole."""
    is_notice = F.col("kind").isin(*NOTICES) & (F.col("feed").isNotNull() | F.col("hello").isNotNull())
    whole = packets.where((F.col("frag_count") == 1) & (F.col("kind").isin(*MESSAGES) | is_notice))
    return whole.withColumn("frames", F.lit(1).cast("long")).select(*_COLUMNS)


def joined(packets: DataFrame, breaks: DataFrame) -> DataFrame:
    """Return the packets that came in fragments.

    `breaks` is analysis.run.context.BREAKS: fragments before and after a break of their interface do not
    join, and Sequence may restart.
    """
    parts = packets.where((F.col("frag_count") > 1) & F.col("kind").isin("fragment", *MESSAGES))
    # A signed Sequence jumps half way round. Such a packet is given up; null is the overflow.
    first = F.try_subtract("lp_sequence", "frag_index")
    times = breaks.groupBy("layering", "interface").agg(F.collect_list("time").alias("breaks"))
    past = F.coalesce(F.size(F.filter("breaks", lambda time: time <= F.col("time"))), F.lit(0))
    parts = (
        parts.join(F.broadcast(times), ["layering", "interface"], "left")
        .select(*_WHERE, "frame", "time", *_SIZES, *_NETWORK, *_PART, past.alias("past"))
        .withColumn("some", F.floor(first / _PACKETS_OF_A_TASK))
        .where(F.col("some").isNotNull())
    )
    schema = unfragmented(packets).schema
    return parts.groupBy("layering", "interface", "some").applyInArrow(_joined, schema)


def _joined(parts: pa.Table) -> pa.Table:
    """Return the packets reassembled from fragments."""
    parts = parts.sort_by([("time", "ascending"), ("frame", "ascending")])
    reassembler: Reassembler[int] = Reassembler(len(parts), once=True)
    links = zip(*(parts[name].to_pylist() for name in (*_WHERE, "past")), strict=True)
    numbers = zip(*(parts[name].to_pylist() for name in _PART), strict=True)
    packets = []
    for place, (link, (sequence, index, count)) in enumerate(zip(links, numbers, strict=True)):
        whole = reassembler.add(link, sequence, index, count, place)
        if whole is not None and parts["kind"][whole[0]].as_py() in MESSAGES:
            packets.append(whole)
    first, last = (parts.take(pa.array(map(of, packets), pa.int64())) for of in (itemgetter(0), max))
    frames = np.array([*map(len, packets)], np.int64)
    columns = {name: first[name] for name in (*_WHERE, *_NETWORK)}
    columns |= {"frame": last["frame"], "time": last["time"], "frames": frames}
    if packets:
        starts, rows = np.cumsum(frames) - frames, np.concatenate(packets)
        columns |= {name: np.add.reduceat(parts[name].to_numpy()[rows], starts) for name in _SIZES}
    else:
        columns |= {name: first[name] for name in _SIZES}
    return pa.table({name: columns[name] for name in _COLUMNS})
