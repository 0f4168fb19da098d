"""Overhead: wire traffic by layer and by kind of packet.

Each frame counts once, where it was sent or, in captures without its sender, where it was seen. Bytes are
those of the Ethernet frame as captured, without preamble, frame check sequence and inter-frame gap.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import layer_name, layers
from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ENCRYPTED, PAYLOAD, UNREAD
from analysis.decode.protocols.registry import in_datagrams

_BY = ("layering", "node", "interface", "protocol", "transport", "kind")
_SUMS = (
    "frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "carried_bytes", "lp_bytes", "ndn_bytes",
    "payload_bytes",
)  # fmt: skip


def traffic(packets: DataFrame) -> DataFrame:
    """Return the frames sent: layering, node, interface, protocol, transport, kind, frames, and sums of
    sizes, bytes.
    """
    sent = packets.where(F.col("direction") == "out")
    return sent.groupBy(*_BY).agg(*_sizes())


def seen_once(packets: DataFrame, streams: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return traffic() of captures, each frame once: outgoing frames, and others whose sender never appears
    as sending in the run; all frames without a sender's address. And the rows of
    analysis.decode.messages.STREAM_LAYERS for the same interfaces.
    """
    is_out = F.col("direction").eqNullSafe("out").alias("is_out")
    parts = packets.groupBy(*_BY, "src", is_out).agg(*_sizes())
    sends = F.max("is_out").over(Window.partitionBy("layering", "src"))
    once = parts.withColumn("sends", sends).where("is_out or not sends or src is null")
    senders = parts.where("is_out and src is not null").select("layering", "src").distinct()
    read = streams.where(is_out).unionByName(
        streams.where(~is_out).join(senders, ["layering", "src"], "left_anti")
    )
    return once.groupBy(*_BY).agg(*(F.sum(name).alias(name) for name in ("frames", *_SUMS))), read


def _sizes() -> list[Column]:
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS)
    return [F.count("*").alias("frames"), *sums]


def overhead(sent: DataFrame, streams: DataFrame) -> DataFrame:
    """Return layering, layer (one of values.layers()), bytes. The sum is all bytes sent.

    `sent` is traffic(), `streams` has the rows of analysis.decode.messages.STREAM_LAYERS for the same frames.
    """
    kind, over_tcp = F.col("kind"), F.coalesce(F.col("transport").isin("tcp", "websocket"), F.lit(False))
    is_known = ~kind.isin("other", "malformed")
    is_data = kind.isin("data", "fragment")
    parts = {
        "ethernet": F.when(is_known, F.col("eth_bytes")),
        "ip": F.when(is_known, F.col("ip_bytes")),
        "udp": F.when(is_known & ~over_tcp, F.col("udp_bytes")),
        "tcp": F.when(is_known & over_tcp, F.col("udp_bytes")),
        "ndnlp": F.when(is_known, F.col("lp_bytes")),
        "interest": F.when(is_known & ~is_data, F.col("ndn_bytes")),
        "data header": F.when(is_data, F.col("ndn_bytes") - F.col("payload_bytes")),
        PAYLOAD: F.col("payload_bytes"),
        # TCP segment payloads less the bytes assigned to layers.
        "other": F.when(~is_known, F.col("frame_bytes"))
        .when(kind == "segment", F.col("carried_bytes"))
        .when(over_tcp, -F.col("lp_bytes") - F.col("ndn_bytes")),
    }
    for protocol in in_datagrams():
        for layer in protocol.layers:
            is_layer = (F.col("protocol") == protocol.name) & (kind == layer.key)
            size = F.col("carried_bytes") - F.col("payload_bytes")
            parts[layer_name(protocol.name, layer.key)] = F.when(is_layer, size)
    names = layers()
    totals = sent.groupBy("layering").agg(
        *(F.coalesce(F.sum(parts.get(layer, F.lit(0))), F.lit(0)).alias(layer) for layer in names)
    )
    # Same names as values.layer_name().
    common = F.col("layer").isin(RETRANSMITTED, ENCRYPTED, UNREAD, PAYLOAD)
    name = F.when(common, F.col("layer")).otherwise(F.concat_ws(" ", "protocol", "layer"))
    read = streams.where(F.col("protocol") != "tcp")
    found = read.select("layering", name.alias("layer"), "bytes")
    rest = read.select("layering", F.lit("other").alias("layer"), (-F.col("bytes")).alias("bytes"))
    every = totals.unpivot("layering", list(names), "layer", "bytes").unionByName(found).unionByName(rest)
    return every.groupBy("layering", "layer").agg(F.sum("bytes").alias("bytes"))
