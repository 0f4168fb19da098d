"""The packets of pictures, which are blobs that messages name.

Over NDN they are those under a picture's name. Over Scuttlebutt's peer protocol they are the calls for it,
and their answers; wants name several pictures at a time, and count for all together.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.tables.protocol_messages import peers_of

_PREFIX = "/ssb/blobs/"
_PARTS = 4  # of "/ssb/blobs/<hash>", cut at its slashes

PICTURES = pa.schema(
    [
        *((name, pa.string()) for name in ("layering", "node", "interface", "picture")),
        *((name, pa.int64()) for name in ("frame_bytes", "content_bytes", "served_bytes")),
    ]
)
"""A row per picture and interface that sent packets for it: frame bytes, with those that ask for it;
content_bytes: of the picture; served_bytes: those of them that the node had itself, and did not pass on.
The picture is its name as a URI, "" for wants of any.
"""


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
