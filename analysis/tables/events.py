"""All events in one table: of applications, of the scenario, and derived from packets: Interests
retransmitted, refused or unanswered, and items duplicated, early or late.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField

from analysis.tables.schema import EVENTS
from analysis.tables.transactions import wire_size

_WHERE = ("layering", "node")


def packet_events(
    moments: DataFrame, items: DataFrame, progress: DataFrame, messages: DataFrame
) -> DataFrame:
    """Return schema.EVENTS derived from packets: analysis.tables.transactions.moments(),
    sightings and feed progress of analysis.tables.feed_progress, and the packets behind these.

    An Interest counts as expired only up to the run's last packet.
    """
    of_interest = (*_WHERE, "interface", "name", "feed", "seq")
    ends = messages.groupBy("layering").agg(F.max("time").alias("end"))
    asked = moments.join(F.broadcast(ends), "layering").where(
        (F.col("event") != "expired") | (F.col("time") <= F.col("end"))
    )
    refused = messages.where(F.col("kind") == "nack").select(
        *of_interest, "time", wire_size().alias("bytes"), F.lit("nack").alias("event")
    )
    twice = (
        items.where(F.size("again") > 0)
        .select(*_WHERE, "feed", "seq", F.explode("again").alias("arrival"))
        .select(
            *(*_WHERE, "feed", "seq", "arrival.time", "arrival.interface", "arrival.name", "arrival.bytes"),
            F.lit("duplicate").alias("event"),
        )
    )
    tables = (asked, refused, twice, _gaps(progress))
    return _joined([table.withColumn("source", F.lit("packets")) for table in tables])


def _gaps(progress: DataFrame) -> DataFrame:
    """Return items ahead of a missing predecessor, and the late arrivals of missing items."""
    in_order = Window.partitionBy("layering", "node", "feed").orderBy("time", "seq")
    before = F.coalesce(F.lag("missing").over(in_order), F.lit(0))
    event = F.when(F.col("missing") > F.col("before"), "gap").when(
        F.col("missing") < F.col("before"), "repair"
    )
    return (
        progress.withColumn("before", before)
        .withColumn("event", event)
        .where(F.col("event").isNotNull() & F.coalesce(F.col("how") != "sent", F.lit(True)))
        .select(*_WHERE, "feed", "seq", "time", "event")
    )


def run_events(applications: DataFrame, timeline: DataFrame) -> DataFrame:
    """Return schema.EVENTS from other sources than packets: a run's events and analysis.run.context.TIMELINE.

    A node's timeline event is an event of that node. A run's events repeat the timeline's; these are omitted.
    """
    node = F.when(~F.col("place").contains("--"), F.col("place"))
    done = timeline.select("layering", "time", "event", F.col("place").alias("name"), node.alias("node"))
    repeated = timeline.select("layering", "time", "event", F.col("place").alias("node"))
    is_item = F.col("seq") > 0
    said = applications.join(F.broadcast(repeated), [*_WHERE, "time", "event"], "left_anti").select(
        *(*_WHERE, "time", "event"),
        F.when(F.col("feed") != "", F.col("feed")).alias("feed"),
        *(F.when(is_item, F.col(name)).alias(name) for name in ("seq", "bytes")),
    )
    return _joined(
        [
            said.withColumn("source", F.lit("application")),
            done.withColumn("source", F.lit("scenario")),
        ]
    )


def _joined(tables: list[DataFrame]) -> DataFrame:
    """Concatenate tables; missing columns are null."""
    aligned = [table.select(*(_or_null(table, column) for column in EVENTS.spark)) for table in tables]
    every = aligned[0]
    for table in aligned[1:]:
        every = every.union(table)
    return every


def _or_null(table: DataFrame, field: StructField) -> Column:
    value = F.col(field.name) if field.name in table.columns else F.lit(None)
    return value.cast(field.dataType).alias(field.name)
