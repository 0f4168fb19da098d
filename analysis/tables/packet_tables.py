"""Tables derived from packets alone, for feednet's runs and for other captures."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame

from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import of_table
from analysis.tables import feed_progress, transactions
from analysis.tables.schema import EVENTS, FEED_PROGRESS, TRANSACTIONS, Table

FOLLOWERS = feed_progress.FOLLOWER, transactions.FOLLOWER
"""What tells the tables of packets."""

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table under a name, and returns it as read back."""


def write_packet_tables(told: DataFrame, keep: Keep, reported: DataFrame | None = None) -> None:
    """Write schema.TRANSACTIONS, FEED_PROGRESS and EVENTS of packets.

    `told` has what FOLLOWERS tell of them (analysis.tables.shares.followed); `reported` are EVENTS from
    elsewhere.
    """

    def write(table: Table) -> None:
        rows = of_table(told, table.name, table.arrow)
        if table is EVENTS and reported is not None:
            rows = reported.unionByName(rows)
        keep(table.name, rows)

    in_parallel(*(partial(write, table) for table in (TRANSACTIONS, FEED_PROGRESS, EVENTS)))
