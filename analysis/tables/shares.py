"""Shares of nodes' packets: what follows the state of nodes is several tasks a node if some node has many.

Entries of a PIT do not depend on each other, nor do transactions: those of one name and of one feed are in
one share.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.packet_schema import DIGEST, FORK
from analysis.spark.engine import frame

ROWS = 1 << 19
"""Packets of the busiest node in one share, roughly."""


def divided(packets: DataFrame) -> DataFrame:
    """Return network-layer packets and notices with their `share`, a number that no other node has; some are
    in several. Spark sorts by numbers much faster than by names of nodes.

    An Interest and its Nack concern the entry of their name, but that of their feed if it is an item's: an
    item that answers one was not pushed. An LLI and its Nack concern their feed's. Data concern the entry of
    their name without an implicit digest, and that of their feed; where there is CanBePrefix, any. So do
    proofs of forks. A FeedState concerns its feed, a Hello any.
    """
    nodes = packets.groupBy("layering", "node").count().toArrow()
    count = (pc.max(nodes["count"]).as_py() or 0) // ROWS + 1
    first = pa.array(range(0, len(nodes) * count, count), pa.int64())
    numbered = frame(packets.sparkSession, nodes.drop_columns("count").append_column("first", first))
    packets = packets.join(F.broadcast(numbered), ["layering", "node"])
    if count == 1:
        return packets.withColumnRenamed("first", "share")
    has_prefixes = not packets.where(F.col("can_be_prefix")).isEmpty()
    is_data = F.col("kind") == "data"
    of_name = _share(F.split_part("name", F.lit(DIGEST), F.lit(1)), count)
    of_feed = _share(F.col("feed"), count)
    concerns_all = F.col("hello").isNotNull() | (
        is_data & (F.lit(has_prefixes) | F.coalesce(F.col("name").contains(FORK), F.lit(False)))
    )
    some = F.when(is_data, F.array_distinct(F.array_compact(F.array(of_name, of_feed)))).otherwise(
        F.array_compact(F.array(F.coalesce(of_feed, of_name)))
    )
    every = F.array(*map(F.lit, range(count)))
    shares = packets.withColumn("of_node", F.explode(F.when(concerns_all, every).otherwise(some)))
    return shares.withColumn("share", F.col("first") + F.col("of_node")).drop("first", "of_node")


def _share(text: Column, count: int) -> Column:
    return F.pmod(F.crc32(text), F.lit(count)).cast("int")
