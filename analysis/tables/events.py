"""All events in one table: of applications, of the scenario, and derived from packets: Interests
retransmitted, refused or unanswered, and items duplicated, early or late.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.tables.schema import EVENTS

_WHERE = ("layering", "node")


def packet_events(rows: pa.Table) -> pa.Table:
    """Return schema.EVENTS that packets tell; missing columns are null."""
    rows = rows.append_column("source", pa.repeat("packets", len(rows)))
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in EVENTS.arrow
    ]
    return pa.Table.from_arrays(columns, schema=EVENTS.arrow)


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
    text, number = (F.lit(None).cast(kind) for kind in ("string", "long"))
    said = said.withColumns({"source": F.lit("application"), "interface": text, "name": text})
    nothing = {"interface": text, "feed": text, "seq": number, "bytes": number}
    done = done.withColumns({"source": F.lit("scenario")} | nothing)
    return said.select(*EVENTS.names).union(done.select(*EVENTS.names))
