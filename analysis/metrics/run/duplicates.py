"""Duplicates: useful, repeated and redundant item packets."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def copies(messages: DataFrame, streamed: DataFrame) -> DataFrame:
    """Count a layering's item packets, from analysis.tables.reassembly and
    analysis.tables.protocol_messages.unwrapped_items.

    Returns layering, sent; repeated: sent again over the same interface; arrived; duplicates: arrived where
    the item was present; useful_bytes: frame bytes of first arrivals.
    """
    is_out = F.col("direction") == "out"
    # At its sender a copy belongs to the link, at its receiver to the node.
    place = F.when(is_out, F.col("interface")).otherwise(F.col("node"))
    columns = ("layering", "node", "interface", "direction", "frame", "time", "feed", "seq", "frame_bytes")
    over_ndn = messages.where((F.col("kind") == "data") & F.col("feed").isNotNull()).select(*columns)
    each = (
        over_ndn.unionByName(streamed.select(*columns))
        .groupBy("layering", "direction", place.alias("place"), "feed", "seq")
        .agg(
            F.count("*").alias("copies"),
            F.min_by("frame_bytes", F.struct("time", "frame")).alias("first_bytes"),
        )
    )
    again = F.col("copies") - 1
    return each.groupBy("layering").agg(
        F.sum(F.when(is_out, F.col("copies"))).alias("sent"),
        F.sum(F.when(is_out, again)).alias("repeated"),
        F.sum(F.when(~is_out, F.col("copies"))).alias("arrived"),
        F.sum(F.when(~is_out, again)).alias("duplicates"),
        F.sum(F.when(~is_out, F.col("first_bytes"))).alias("useful_bytes"),
    )
