"""The tables that packets alone tell, made and kept together, for feednet's runs and for other captures."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from analysis.events import told_by_packets
from analysis.progress import feed_progress, sightings
from analysis.stages import EVENTS, FEED_PROGRESS, TRANSACTIONS
from analysis.tasks import cached, in_parallel
from analysis.transactions import for_other_names, transactions

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table under a name, and returns it as it is read from there."""


def tell(messages: DataFrame, keep: Keep, noted: DataFrame | None = None) -> None:
    """Keep stages.TRANSACTIONS, FEED_PROGRESS and EVENTS of some packets (analysis.reassemble).

    `noted` are EVENTS from elsewhere.
    """
    other_names = not for_other_names(messages).isEmpty()
    # Each is used twice, and costs more than the disk it may take.
    with (
        cached(transactions(messages, other_names=other_names)) as asked,
        cached(sightings(messages)) as items,
    ):
        _, progress = in_parallel(
            lambda: keep(TRANSACTIONS.name, asked.select(*TRANSACTIONS.names)),
            lambda: keep(FEED_PROGRESS.name, feed_progress(items, messages)),
        )
        told = told_by_packets(asked, items, progress, messages)
        keep(EVENTS.name, noted.unionByName(told) if noted is not None else told)
