"""Shares of nodes' packets: a node with many packets is followed in several tasks.

Entries of a PIT do not depend on each other, nor do transactions, nor the progress of feeds: those of one
name and of one feed are in one share. Packets are shuffled, sorted and encoded once for all followers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.arrays import with_codes
from analysis.columns.grouped import in_groups
from analysis.packet_schema import DIGEST, FORK, MESSAGES, NOTICES
from analysis.spark.engine import frame
from analysis.spark.parquet import TABLE

ROWS = 1 << 19
"""Packets of a node in one share, roughly."""

_TOGETHER = 8
"""Parts with so few rows that this many have as many as a share are in one share together."""

OF_FEED = "of_feed"
"""The column that tells whether a share is that of the packet's feed, which is one share alone."""

_WHOLE = 1 << 16
"""More components than a name has."""


class Ends(NamedTuple):
    """Times (ns) of a run's last packet of any kind, and of its last network-layer packet."""

    packets: int
    messages: int


class Follower(NamedTuple):
    """A function of a share's packets and of the run's end, with the columns that it needs and the schemas of
    the tables that it returns.

    A share's packets are in order of (time, frame); texts are dictionaries.
    """

    columns: Sequence[str]
    tables: Mapping[str, pa.Schema]
    follow: Callable[[pa.Table, Ends], Mapping[str, pa.Table]]


def followed(packets: DataFrame, nodes: pa.Table, *followers: Follower) -> DataFrame:
    """Return the rows of all tables that followers make of network-layer packets and notices, share by share:
    analysis.spark.parquet.of_table() selects those of one. `nodes` is nodes_of().
    """
    columns = dict.fromkeys(name for each in followers for name in each.columns)
    schema = pa.unify_schemas([table for each in followers for table in each.tables.values()])
    schema = schema.append(pa.field(TABLE, pa.string()))
    runs = nodes.group_by("layering").aggregate([("end", "max"), ("last", "max")]).to_pylist()
    ends = {run["layering"]: Ends(run["end_max"], run["last_max"]) for run in runs}

    def follow(share: pa.Table) -> Iterator[pa.Table]:
        of_run = ends[share["layering"][0].as_py()]
        share = _in_order(with_codes(share))
        for each in followers:
            for name, rows in each.follow(share, of_run).items():
                named = rows.append_column(TABLE, pa.repeat(name, len(rows)))
                yield pa.concat_tables([schema.empty_table(), named], promote_options="default")

    shares, number = divided(packets, nodes)
    keys = ("share", "layering", "node")
    return in_groups(shares.select("share", *columns), keys, follow, from_arrow_schema(schema), number)


def _in_order(share: pa.Table) -> pa.Table:
    """Return packets in the order in which they passed the node, whatever order tasks have left them in.

    A node may have several files, whose frames are numbered each for itself. The packets of one frame come
    from one task, in their order, which sorting keeps.
    """
    keys = share.select(["time", "frame"])
    if "interface" in share.column_names:
        keys = keys.append_column("interface", share["interface"].cast(pa.string()))
    return share.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def nodes_of(packets: DataFrame) -> pa.Table:
    """Return layering, node, rows (those that are followed), begin, the time of the first packet, end and
    last: the times of Ends.
    """
    is_message = F.col("kind").isin(*MESSAGES)
    return (
        packets.groupBy("layering", "node")
        .agg(
            F.count_if(F.col("kind").isin(*MESSAGES, *NOTICES)).alias("rows"),
            F.min("time").alias("begin"),
            F.max("time").alias("end"),
            F.max(F.when(is_message, F.col("time"))).alias("last"),
        )
        .toArrow()
    )


def numbered(parts: pa.Table, most: int) -> tuple[pa.Table, int]:
    """Return the columns of `parts` but rows, with shares, the number of the part's shares, and first, the
    number of its first one; and the number of all shares.

    A part with `most` rows or more has shares of its own. Others are put together, as a share is a task.
    There is at least one share.
    """
    rows = parts["rows"].to_numpy()
    shares = rows // most + 1
    is_small, is_large = shares == 1, shares > 1
    filled = np.cumsum(rows[is_small]) * _TOGETHER // most
    first = np.zeros_like(shares)
    first[is_small] = np.cumsum(np.diff(filled, prepend=filled[:1]) > 0)
    of_small = int(first[is_small].max(initial=-1)) + 1
    first[is_large] = of_small + np.cumsum(shares[is_large]) - shares[is_large]
    found = parts.drop_columns("rows")
    found = found.append_column("first", pa.array(first)).append_column("shares", pa.array(shares))
    return found, max(1, of_small + int(shares[is_large].sum()))


def divided(packets: DataFrame, nodes: pa.Table) -> tuple[DataFrame, int]:
    """Return network-layer packets and notices with OF_FEED and the number of their `share`, and how many
    shares there are; some packets are in several. `nodes` is nodes_of().

    An Interest and its Nack concern the entry of their name, but that of their feed if it is an item's: an
    item that answers one was not pushed. An LLI and its Nack concern their feed's. Data concern the entry of
    their name without an implicit digest, and that of their feed. Names count as far as the shortest one that
    is asked for with CanBePrefix at the node, so they meet the Data that begin with them. A FeedState
    concerns its feed; a Hello, and the proof of a fork, any.
    """
    packets = packets.where(F.col("kind").isin(*MESSAGES, *NOTICES))
    placed, number = numbered(nodes.select(["layering", "node", "rows"]), ROWS)
    known = frame(packets.sparkSession, placed)
    if (pc.max(placed["shares"]).as_py() or 1) == 1:
        packets = packets.join(F.broadcast(known), ["layering", "node"]).withColumn(OF_FEED, F.lit(True))
        return packets.withColumnRenamed("first", "share").drop("shares"), number
    short = F.split_part("name", F.lit(DIGEST), F.lit(1))
    slashes = F.length(short) - F.length(F.replace(short, F.lit("/"), F.lit("")))
    depth = F.min(F.when(F.col("can_be_prefix"), F.when(short == "/", 0).otherwise(slashes)))
    depths = packets.groupBy("layering", "node").agg(depth.alias("depth"))
    known = known.join(depths, ["layering", "node"])
    packets = packets.join(F.broadcast(known), ["layering", "node"])
    upto = F.coalesce(F.col("depth"), F.lit(_WHOLE)) + 1
    begin = F.array_join(F.slice(F.split(short, "/"), F.lit(1), upto), "/")
    packets = packets.withColumns({"by_name": _share(begin), "by_feed": _share(F.col("feed"))})
    is_data = F.col("kind") == "data"
    is_proof = is_data & F.coalesce(F.col("name").contains(FORK), F.lit(False))
    of_data = F.array_distinct(F.array_compact(F.array("by_name", "by_feed")))
    some = F.when(is_data, of_data).otherwise(F.array(F.coalesce("by_feed", "by_name", F.lit(0))))
    every = F.sequence(F.lit(0), F.col("shares").cast("int") - 1)
    placed = F.explode(F.when((F.col("kind") == "hello") | is_proof, every).otherwise(some))
    found = packets.withColumn("of_node", placed).withColumn("share", F.col("first") + F.col("of_node"))
    found = found.withColumn(OF_FEED, F.col("of_node").eqNullSafe(F.col("by_feed")))
    return found.drop("first", "shares", "depth", "of_node", "by_name", "by_feed"), number


def _share(text: Column) -> Column:
    return F.pmod(F.crc32(text), F.col("shares")).cast("int")
