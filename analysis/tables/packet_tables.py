"""Tables derived from packets alone, for feednet's runs and for other captures."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.spark.engine import cached
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import read_parquet
from analysis.tables.events import packet_events
from analysis.tables.feed_progress import feed_progress, sightings
from analysis.tables.schema import EVENTS, FEED_PROGRESS, TRANSACTIONS
from analysis.tables.transactions import MOMENTS, scan

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table under a name, and returns it as read back."""


def write_packet_tables(
    messages: DataFrame,
    whole: Path,
    place: Callable[[str], Path],
    keep: Keep,
    reported: DataFrame | None = None,
    *,
    here: bool,
) -> None:
    """Write schema.TRANSACTIONS, FEED_PROGRESS and EVENTS of packets (analysis.tables.reassembly).

    `whole` has the packets as Parquet in directories by layering; `place` returns the path of a table not
    made by DataFrames. `reported` are EVENTS from elsewhere. `here`: packets are few enough for this process.
    """
    spark = messages.sparkSession
    moments = place(".moments")
    with cached(sightings(messages)) as items:
        progress, _ = in_parallel(
            lambda: keep(FEED_PROGRESS.name, feed_progress(items, messages)),
            lambda: scan(whole, place(TRANSACTIONS.name), moments, None if here else spark),
        )
        schema = from_arrow_schema(MOMENTS.insert(0, pa.field("layering", pa.string())))
        moment_rows = read_parquet(spark, moments, schema)
        by_packets = packet_events(moment_rows, items, progress, messages)
        keep(EVENTS.name, reported.unionByName(by_packets) if reported is not None else by_packets)
    shutil.rmtree(moments, ignore_errors=True)  # missing without NDN
