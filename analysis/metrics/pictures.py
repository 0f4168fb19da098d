"""Pictures that messages name, and their readers fetch: how many arrive, how soon, from whom, at which cost.

Applications report a picture as "shared" with its message, and as "shown" when a reader has both. Over NDN a
picture's packets are those under its name. Over Scuttlebutt's peer protocol they are the calls for it, and
their answers; wants name several pictures at a time, and count for all together.
"""

from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.rows import grouped
from analysis.columns.samples import are_enough
from analysis.files import Rows
from analysis.metrics.aggregates import Totals, ratio
from analysis.packet_schema import schema_of
from analysis.tables.protocol_messages import peers_of

SHARED, SHOWN = "shared", "shown"

_PREFIX = "/ssb/blobs/"
_PARTS = 4  # of "/ssb/blobs/<hash>", cut at its slashes

PICTURES = schema_of(
    "layering string, node string, interface string, picture string, frame_bytes int64, content_bytes"
    " int64, served_bytes int64"
)
"""A row per picture and interface that sent packets for it: frame bytes, with those that ask for it;
content_bytes: of the picture; served_bytes: those of them that the node had itself, and did not pass on.
The picture is its name as a URI, "" for wants of any.
"""

EVENTS = ("layering", "time", "node", "event", "feed", "seq", "bytes", "detail")
"""The columns of application events that totals() takes."""


def pictures(messages: DataFrame, seen: DataFrame, connections: DataFrame) -> DataFrame:
    """Return PICTURES.

    `messages` is analysis.tables.reassembly, `seen` analysis.tables.protocol_messages.SEEN, and
    `connections` analysis.decode.connections.CONNECTIONS.
    """
    named = messages.where(F.col("name").startswith(_PREFIX))
    # A node that sends Data after Data of that name came in passes it on; after an Interest, it answers.
    before = Window.partitionBy("layering", "node", "name").orderBy("time", "frame")
    came = F.when(F.col("direction") == "in", F.col("kind"))
    last = F.last(came, ignorenulls=True).over(before.rowsBetween(Window.unboundedPreceding, -1))
    is_data = F.col("kind") == "data"
    over_ndn = (
        named.withColumn("last", last)
        .where(F.col("direction") == "out")
        .withColumn("picture", F.substring_index("name", "/", _PARTS))
        .withColumn("content", F.when(is_data, F.col("payload_bytes")))
        .withColumn("served", F.when(F.coalesce("last", F.lit("")) != "data", F.col("content")))
    )
    own = peers_of(connections).select(
        "layering", "node", F.col("address").alias("src"), F.lit(True).alias("own")
    )
    over_streams = (
        seen.where((F.col("direction") == "out") & (F.col("blob").isNotNull() | (F.col("kind") == "wants")))
        .join(F.broadcast(own), ["layering", "node", "src"], "left")
        .withColumn("picture", F.coalesce("blob", F.lit("")))
        .withColumn("content", F.col("blob_bytes"))
        .withColumn("served", F.when(F.col("own"), F.col("blob_bytes")))
    )
    return _added(over_ndn).unionByName(_added(over_streams))


def _added(rows: DataFrame) -> DataFrame:
    return rows.groupBy("layering", "node", "interface", "picture").agg(
        _sum("frame_bytes").alias("frame_bytes"),
        _sum("content").alias("content_bytes"),
        _sum("served").alias("served_bytes"),
    )


def _sum(name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0)).cast("long")


def totals(events: pa.Table, traffic: pa.Table, nodes: pa.Table) -> Totals:
    """Return the metrics of pictures of each layering that has any.

    `events` has EVENTS, `traffic` PICTURES, `nodes` analysis.run.context.NODES.
    """
    found: dict[str, dict[str, Any]] = {}
    concerns = pc.is_in(events["event"], pa.array([SHARED, SHOWN, "joined"]))
    by_case = grouped(events.filter(concerns).select(EVENTS).to_pylist(), "layering")
    for layering, rows in by_case.items():
        shared = _firsts(row for row in rows if row["event"] == SHARED)
        if not shared:
            continue
        of_case = pc.equal(traffic["layering"], layering)
        roles = nodes.filter(pc.equal(nodes["layering"], layering))
        forwarders = {row["node"] for row in roles.to_pylist() if row["role"] == "forwarder"}
        authors = {row["detail"]: row["node"] for row in shared.values()}
        sizes = {row["detail"]: row["bytes"] for row in shared.values()}
        waits = _waits(rows, shared)
        found[layering] = {
            "pictures_share": ratio(len(waits), _expected(rows, shared), 100),
            "picture_p50": median(waits) if waits else None,
            "picture_p95": float(np.quantile(waits, 0.95)) if are_enough(len(waits), 0.95) else None,
            **_costs(traffic.filter(of_case).to_pylist(), authors, sizes, forwarders, len(waits)),
        }
    return found


def _firsts(rows: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the first of the rows of each picture, message and node: a node that restarts repeats them."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        found.setdefault((row["node"], row["feed"], row["seq"], row["detail"]), row)
    return found


def _joins(rows: Rows) -> dict[tuple[str, str], int]:
    """Return when each node joined a feed, by node and feed."""
    joins: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["event"] == "joined":
            key = row["node"], row["feed"]
            joins[key] = min(joins.get(key, row["time"]), row["time"])
    return joins


def _expected(rows: Rows, shared: dict[tuple[Any, ...], dict[str, Any]]) -> int:
    """Return how many pictures readers expect: each of a feed for each node that joined it."""
    readers = Counter(feed for _, feed in _joins(rows))
    return sum(readers[row["feed"]] for row in shared.values())


def _waits(rows: Rows, shared: dict[tuple[Any, ...], dict[str, Any]]) -> list[float]:
    """Return the time from publication, or joining, to each picture shown, ms."""
    made = {key[1:]: row["time"] for key, row in shared.items()}
    joins = _joins(rows)
    return [
        (row["time"] - max(made[key[1:]], joins.get((row["node"], row["feed"]), 0))) / 1e6
        for key, row in _firsts(row for row in rows if row["event"] == SHOWN).items()
        if key[1:] in made
    ]


def _costs(
    traffic: Rows, authors: dict[str, str], sizes: dict[str, int], forwarders: set[str], shown: int
) -> dict[str, float | None]:
    """Return the metrics of packets: `authors` and `sizes` are by picture."""
    content = sum(row["content_bytes"] for row in traffic)
    again = sum(max(0, row["content_bytes"] - sizes.get(row["picture"], 0)) for row in traffic)
    served: Counter[str] = Counter()
    for row in traffic:
        who = "relays" if row["node"] in forwarders else "others"
        served["authors" if row["node"] == authors.get(row["picture"]) else who] += row["served_bytes"]
    every = served.total()
    return {
        "picture_bytes": ratio(sum(row["frame_bytes"] for row in traffic), shown),
        "picture_again": ratio(again, content, 100),
        "picture_author_bytes": ratio(served["authors"], sum(sizes.values())),
        **{f"picture_from_{who}": ratio(served[who], every, 100) for who in ("authors", "others", "relays")},
    }
