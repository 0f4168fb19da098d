"""Tables derived from packets alone, for feednet's runs and for other captures."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import of_table, set_aside
from analysis.tables.events import packet_events
from analysis.tables.feed_progress import feed_progress, sightings
from analysis.tables.schema import EVENTS, FEED_PROGRESS, TRANSACTIONS
from analysis.tables.transactions import FOLLOWED, moments

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table under a name, and returns it as read back."""


def write_packet_tables(
    messages: DataFrame, told: DataFrame, keep: Keep, place: Path, reported: DataFrame | None = None
) -> None:
    """Write schema.TRANSACTIONS, FEED_PROGRESS and EVENTS of packets (analysis.tables.reassembly).

    `told` has what analysis.tables.transactions.FOLLOWER tells of them. `place` is a directory for what is
    used several times; `reported` are EVENTS from elsewhere.
    """
    transactions = of_table(told, TRANSACTIONS.name, FOLLOWED)
    with set_aside(sightings(messages), place / ".items") as items:
        progress, _ = in_parallel(
            lambda: keep(FEED_PROGRESS.name, feed_progress(items, messages)),
            lambda: keep(TRANSACTIONS.name, transactions.select(*TRANSACTIONS.arrow.names)),
        )
        by_packets = packet_events(moments(transactions), items, progress, messages)
        keep(EVENTS.name, reported.unionByName(by_packets) if reported is not None else by_packets)
