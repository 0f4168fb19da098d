"""Overhead: what crossed the wire, by layer and by kind of packet.

Each frame is counted once, where it was sent or, in captures that do not show that, where it was seen.
Bytes are those of the Ethernet frame as a capture shows it, without preamble, frame check sequence and
inter-frame gap.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.tables.values import LAYERS

_SUMS = (
    "frame_bytes",
    "eth_bytes",
    "ip_bytes",
    "udp_bytes",
    "lp_bytes",
    "ndn_bytes",
    "payload_bytes",
)


def traffic(packets: DataFrame) -> DataFrame:
    """Return the frames sent: layering, node, interface, kind, frames, and the sums of their sizes, bytes."""
    sent = packets.where(F.col("direction") == "out")
    return sent.groupBy("layering", "node", "interface", "kind").agg(*_sizes())


def seen_once(packets: DataFrame) -> DataFrame:
    """Return the same of captures, each frame once: those that went out, and of the others those whose sender
    is not seen sending any in that run. Of frames without a sender's address, all."""
    is_out = F.col("direction").eqNullSafe("out").alias("is_out")
    parts = packets.groupBy("layering", "node", "interface", "kind", "src", is_out).agg(*_sizes())
    sends = F.max("is_out").over(Window.partitionBy("layering", "src"))
    once = parts.withColumn("sends", sends).where("is_out or not sends or src is null")
    return once.groupBy("layering", "node", "interface", "kind").agg(
        *(F.sum(name).alias(name) for name in ("frames", *_SUMS))
    )


def _sizes() -> list[Column]:
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS)
    return [F.count("*").alias("frames"), *sums]


def overhead(sent: DataFrame) -> DataFrame:
    """Return layering, layer (one of LAYERS), bytes: what traffic() adds up to. The sum is all bytes sent."""
    kind = F.col("kind")
    is_ndn = ~kind.isin("other", "malformed")
    is_data = kind.isin("data", "fragment")
    parts = {
        "ethernet": F.when(is_ndn, F.col("eth_bytes")),
        "ip": F.when(is_ndn, F.col("ip_bytes")),
        "udp": F.when(is_ndn, F.col("udp_bytes")),
        "ndnlp": F.when(is_ndn, F.col("lp_bytes")),
        "interest": F.when(is_ndn & ~is_data, F.col("ndn_bytes")),
        "data header": F.when(is_data, F.col("ndn_bytes") - F.col("payload_bytes")),
        "payload": F.when(is_data, F.col("payload_bytes")),
        "other": F.when(~is_ndn, F.col("frame_bytes")),
    }
    totals = sent.groupBy("layering").agg(
        *(F.coalesce(F.sum(part), F.lit(0)).alias(layer) for layer, part in parts.items())
    )
    return totals.unpivot("layering", list(LAYERS), "layer", "bytes")
