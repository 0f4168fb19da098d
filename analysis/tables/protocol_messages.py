"""Messages over TCP, of all protocols together: the items they carry, and their numbers."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from analysis.decode.protocols.protocol import ITEM
from analysis.decode.protocols.registry import framed
from analysis.packet_schema import schema_of
from analysis.spark.engine import frame
from analysis.spark.parquet import read_parquet
from analysis.tables.schema import of_protocol

SEEN = schema_of(
    "layering string, node string, interface string, direction string, protocol string, kind string, src"
    " string, dst string, frame int64, time int64, feed string, seq int64, stream_bytes int64, frame_bytes"
    " int64, payload_bytes int64, note int64, eager int64, lazy int64, switched int64, blob string,"
    " blob_bytes int64"
)
"""The columns common to all protocols' tables, the protocol, and those of EBT's notes and of blobs, null
elsewhere.
"""

TCP_PAYLOAD = 1460
"""TCP payload of an Ethernet frame of MTU 1500, without options, bytes."""
HEADERS = 54
"""Ethernet, IPv4 and TCP headers of such a frame, bytes."""


def seen(spark: SparkSession, place: Callable[[str], Path]) -> DataFrame:
    """Return SEEN of every protocol present; `place` returns the path of a protocol's table."""
    every = frame(spark, SEEN.empty_table())
    for protocol in framed():
        path = place(protocol.name)
        if path.exists():
            table = read_parquet(spark, path, of_protocol(protocol).spark)
            named = table.withColumn("protocol", F.lit(protocol.name))
            every = every.unionByName(named.select(*(_or_null(named, field) for field in SEEN)))
    return every


def _or_null(table: DataFrame, field: pa.Field) -> Column:
    """Return a column of a table, null if it has none of that name."""
    if field.name in table.columns:
        return F.col(field.name)
    return F.lit(None).cast("long" if field.type == pa.int64() else "string").alias(field.name)


def peers_of(connections: DataFrame) -> DataFrame:
    """Return layering, node, address of the ends of analysis.decode.connections.CONNECTIONS."""
    opened = F.col("direction") == "out"
    return connections.select(
        "layering", "node", F.when(opened, F.col("src")).otherwise(F.col("dst")).alias("address")
    ).distinct()


def items(messages: DataFrame) -> DataFrame:
    """Return the rows of SEEN that carry an item."""
    return messages.where((F.col("kind") == ITEM) & F.col("feed").isNotNull() & F.col("seq").isNotNull())


def unwrapped_items(messages: DataFrame) -> DataFrame:
    """Return items() of the layerings without messages that wrap packets, and perhaps items, of another
    protocol.
    """
    holds = F.lit(False)
    for protocol in framed():
        holds |= (F.col("protocol") == protocol.name) & F.col("kind").isin(*protocol.wrapping)
    wrapping = messages.where(holds).select("layering").distinct()
    return items(messages).join(F.broadcast(wrapping), "layering", "left_anti")


def sent(messages: DataFrame) -> DataFrame:
    """Return layering, node, interface, protocol, kind, messages, payload_bytes sent on each link."""
    out = messages.where(F.col("direction") == "out")
    return out.groupBy("layering", "node", "interface", "protocol", "kind").agg(
        F.count("*").alias("messages"), F.sum("payload_bytes").alias("payload_bytes")
    )


def arrivals(brought: DataFrame, ends: DataFrame) -> DataFrame:
    """Return incoming items() in the columns of analysis.tables.link_transits.TRANSITS, as far as known:
    layering, sender, receiver, received, kind, feed, seq. `ends` is analysis.tables.link_transits.ENDS.
    """
    came = brought.where(F.col("direction") == "in").select(
        "layering", "interface", F.col("time").alias("received"), "kind", "feed", "seq"
    )
    peers = ends.where(~F.col("is_out")).select("layering", "interface", "sender", "receiver")
    return came.join(F.broadcast(peers), ["layering", "interface"]).select(
        "layering", "sender", "receiver", "received", "kind", "feed", "seq"
    )


def item_sizes(brought: DataFrame) -> DataFrame:
    """Return analysis.metrics.run.lower_bounds.item_sizes of items().

    wire_bytes are the item's stream bytes and their share of the headers of full frames, as other messages
    may share its frames. Alone it takes frames of its own, which IP forwards one by one: so a node needs only
    the last one before the item leaves it.
    """
    size = F.min("stream_bytes")
    full = F.floor((size - 1) / TCP_PAYLOAD)
    alone = size + (full + 1) * HEADERS
    shared: Column = size + F.floor(size * HEADERS / TCP_PAYLOAD)
    return brought.groupBy("layering", "feed", "seq").agg(
        shared.cast("long").alias("wire_bytes"),
        alone.cast("long").alias("alone_bytes"),
        (size - full * TCP_PAYLOAD + HEADERS).cast("long").alias("hop_bytes"),
    )
