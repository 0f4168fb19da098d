"""Spark's reduction of a streamed batch of packets for LiveCapture."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.live.capture import MESSAGE_FIELDS, SLICE_NS
from analysis.packet_schema import MESSAGES, NOTICES


def counts(packets: DataFrame) -> DataFrame:
    """Return layering, interface, direction, kind, slice (time in SLICE_NS), frames, bytes, first and last
    (ns); a row for each group with frames.
    """
    where = ("layering", "interface", "direction", "kind")
    return packets.groupBy(*where, F.floor(F.col("time") / SLICE_NS).alias("slice")).agg(
        F.count("*").alias("frames"),
        F.sum("frame_bytes").alias("bytes"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
    )


def messages(packets: DataFrame) -> DataFrame:
    """Return the columns of whole messages and fragments that LiveCapture.follow() needs, in order."""
    is_notice = F.col("kind").isin(*NOTICES) & (F.col("feed").isNotNull() | F.col("hello").isNotNull())
    is_told = (F.col("kind").isin("fragment", *MESSAGES) | is_notice) & F.col("frag_count").isNotNull()
    return packets.where(is_told).select(*MESSAGE_FIELDS)
