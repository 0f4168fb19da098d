"""Messages over TCP, as metrics want them: what an item takes, which copies are of use, what layers take."""

import base64
from collections import Counter
from collections.abc import Collection, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.decode.protocols.registry import PROTOCOLS
from analysis.decode.schema import layer_column
from analysis.files import Rows
from analysis.tables.values import AGAIN
from forwarder.wire.name import components, from_uri

SEGMENT = 1460
"""What an Ethernet frame of MTU 1500 holds of a TCP stream, bytes."""
HEADERS = 54
"""Ethernet, IPv4 and TCP headers of a frame, bytes."""
ITEM = ("layering", "interface", "node", "direction", "frame", "time", "feed", "seq")


def feed_references(feeds: pa.Table) -> pa.Table:
    """Return layering, reference, feed: how protocols call the feeds of analysis.run.context.FEEDS."""
    rows = []
    for row in feeds.to_pylist():
        key = components(from_uri(row["feed"]))[-1][1]
        reference = f"@{base64.b64encode(key).decode()}.ed25519"
        rows.append({"layering": row["layering"], "reference": reference, "feed": row["feed"]})
    names = ("layering", "reference", "feed")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))


def items(messages: DataFrame, protocol: str, references: DataFrame) -> DataFrame:
    """Return the messages of feeds as analysis.metrics.duplicates.copies() wants them: columns ITEM, kind
    "data", and in `frame_bytes` those of the message; the feed has the name that it has in the run.

    `messages` is the table of a protocol, `references` feed_references().
    """
    sizes = [F.col(layer_column(layer)) for layer in PROTOCOLS[protocol].layers]
    total = sum(sizes, F.col("payload_bytes"))
    named = messages.where(F.col("feed").isNotNull()).withColumnRenamed("feed", "reference")
    return named.join(F.broadcast(references), ["layering", "reference"]).select(
        *ITEM, F.lit("data").alias("kind"), total.alias("frame_bytes")
    )


def item_sizes(items: DataFrame) -> DataFrame:
    """Return what analysis.metrics.lower_bounds.item_sizes() does, of items()."""
    size = F.col("frame_bytes") + HEADERS * F.ceil(F.col("frame_bytes") / SEGMENT)
    return items.groupBy("layering", "feed", "seq").agg(F.min(size).cast("long").alias("wire_bytes"))


def sent(messages: DataFrame, protocol: str) -> DataFrame:
    """Return layering, kind, messages, and the sums of their sizes: what was sent over all links."""
    sizes = [*map(layer_column, PROTOCOLS[protocol].layers), "payload_bytes"]
    return (
        messages.where(F.col("direction") == "out")
        .groupBy("layering", "kind")
        .agg(F.count("*").alias("messages"), *(F.sum(name).alias(name) for name in sizes))
    )


def layers_of_streams(traffic: pa.Table, sums: Mapping[str, pa.Table], layerings: Collection[str]) -> Rows:
    """Return layering, layer, bytes: what the bytes in TCP of some layerings were sent for.

    `traffic` is analysis.tables.overhead.traffic, `sums` sent() of each protocol.
    """
    within: Counter[str] = Counter()
    for row in traffic.to_pylist():
        if row["kind"] == "segment" and row["layering"] in layerings:
            headers = row["eth_bytes"] + row["ip_bytes"] + row["udp_bytes"]
            within[row["layering"]] += row["frame_bytes"] - headers
    found: Counter[tuple[str, str]] = Counter()
    for protocol, table in sums.items():
        columns = {layer_column(layer): layer for layer in PROTOCOLS[protocol].layers}
        for row in table.to_pylist():
            for column, layer in (columns | {"payload_bytes": "payload"}).items():
                found[row["layering"], layer] += row[column]
                within[row["layering"]] -= row[column]
    found.update({(layering, AGAIN): rest for layering, rest in within.items()})
    return [
        {"layering": layering, "layer": layer, "bytes": size} for (layering, layer), size in found.items()
    ]


def control_messages(sums: Mapping[str, pa.Table]) -> dict[str, dict[str, int]]:
    """Return `control` by layering: the messages sent that are none of a feed."""
    totals: Counter[str] = Counter()
    for protocol, table in sums.items():
        for row in table.to_pylist():
            totals[row["layering"]] += row["messages"] * (row["kind"] in PROTOCOLS[protocol].control)
    return {layering: {"control": count} for layering, count in totals.items()}
