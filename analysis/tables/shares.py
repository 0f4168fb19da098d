"""Shares of nodes' packets: a node with many packets is followed in several tasks.

Entries of a PIT do not depend on each other, nor do transactions: those of one name and of one feed are in
one share. Packets are shuffled once for all followers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.packet_schema import DIGEST, FORK, MESSAGES, NOTICES
from analysis.spark.engine import frame
from analysis.spark.parquet import TABLE

ROWS = 1 << 19
"""Packets of a node in one share, roughly."""

_WHOLE = 1 << 16
"""More components than a name has."""


class Follower(NamedTuple):
    """A function of a share's packets, with the columns that it needs and the schemas of the tables that it
    returns.
    """

    columns: Sequence[str]
    tables: Mapping[str, pa.Schema]
    follow: Callable[[pa.Table], Mapping[str, pa.Table]]


def followed(packets: DataFrame, *followers: Follower) -> DataFrame:
    """Return the rows of all tables that followers make of network-layer packets and notices, share by share:
    analysis.spark.parquet.of_table() selects those of one.
    """
    columns = dict.fromkeys(name for each in followers for name in each.columns)
    schema = pa.unify_schemas([table for each in followers for table in each.tables.values()])
    schema = schema.append(pa.field(TABLE, pa.string()))

    def follow(share: pa.Table) -> pa.Table:
        tables = [schema.empty_table()]
        for each in followers:
            for name, rows in each.follow(share).items():
                tables.append(rows.append_column(TABLE, pa.repeat(name, len(rows))))
        return pa.concat_tables(tables, promote_options="default")

    told = packets.where(F.col("kind").isin(*MESSAGES, *NOTICES))
    shares = divided(told).select("share", *columns).groupBy("share")
    return shares.applyInArrow(follow, from_arrow_schema(schema))


def divided(packets: DataFrame) -> DataFrame:
    """Return network-layer packets and notices with their `share`, a number that no other node has; some are
    in several. Spark sorts by numbers much faster than by names of nodes.

    An Interest and its Nack concern the entry of their name, but that of their feed if it is an item's: an
    item that answers one was not pushed. An LLI and its Nack concern their feed's. Data concern the entry of
    their name without an implicit digest, and that of their feed. Names count as far as the shortest one that
    is asked for with CanBePrefix at the node, so they meet the Data that begin with them. A FeedState
    concerns its feed; a Hello, and the proof of a fork, any.
    """
    short = F.split_part("name", F.lit(DIGEST), F.lit(1))
    slashes = F.length(short) - F.length(F.replace(short, F.lit("/"), F.lit("")))
    depth = F.when(short == "/", 0).otherwise(slashes)
    nodes = (
        packets.groupBy("layering", "node")
        .agg(F.count("*").alias("rows"), F.min(F.when(F.col("can_be_prefix"), depth)).alias("depth"))
        .toArrow()
    )
    shares = pc.add(pc.divide(nodes["rows"], ROWS), 1)
    first = pc.subtract(pc.cumulative_sum(shares), shares)
    numbered = nodes.select(["layering", "node"]).append_column("first", first)
    if (pc.max(shares).as_py() or 1) == 1:
        known = F.broadcast(frame(packets.sparkSession, numbered))
        return packets.join(known, ["layering", "node"]).withColumnRenamed("first", "share")
    depths = pc.fill_null(nodes["depth"], _WHOLE).cast(pa.int32())
    numbered = numbered.append_column("shares", shares).append_column("depth", depths)
    packets = packets.join(F.broadcast(frame(packets.sparkSession, numbered)), ["layering", "node"])
    begin = F.array_join(F.slice(F.split(short, "/"), F.lit(1), F.col("depth") + 1), "/")
    of_name, of_feed = _share(begin), _share(F.col("feed"))
    is_data = F.col("kind") == "data"
    is_proof = is_data & F.coalesce(F.col("name").contains(FORK), F.lit(False))
    some = F.when(is_data, F.array_distinct(F.array_compact(F.array(of_name, of_feed)))).otherwise(
        F.array_compact(F.array(F.coalesce(of_feed, of_name)))
    )
    every = F.sequence(F.lit(0), F.col("shares").cast("int") - 1)
    placed = F.explode(F.when(F.col("hello").isNotNull() | is_proof, every).otherwise(some))
    found = packets.withColumn("of_node", placed).withColumn("share", F.col("first") + F.col("of_node"))
    return found.drop("first", "shares", "depth", "of_node")


def _share(text: Column) -> Column:
    return F.pmod(F.crc32(text), F.col("shares")).cast("int")
