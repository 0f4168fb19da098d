"""The tables that packets alone tell, made and kept together, for feednet's runs and for other captures."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from analysis.noted import told_by_packets
from analysis.progress import feed_progress, sightings
from analysis.stages import EVENTS, FEED_PROGRESS, TRANSACTIONS
from analysis.transactions import for_other_names, transactions

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table under a name, and returns it as it is read from there."""


def tell(messages: DataFrame, keep: Keep, noted: DataFrame | None = None) -> None:
    """Keep stages.TRANSACTIONS, FEED_PROGRESS and EVENTS of some packets (analysis.reassemble).

    `noted` are EVENTS from elsewhere.
    """
    # Each is used twice, and costs more than the disk it may take.
    other_names = not for_other_names(messages).isEmpty()
    asked = transactions(messages, other_names=other_names).persist(StorageLevel.MEMORY_AND_DISK)
    items = sightings(messages).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with ThreadPoolExecutor(1) as aside:
            first = aside.submit(keep, TRANSACTIONS.name, asked.select(*TRANSACTIONS.names))
            progress = keep(FEED_PROGRESS.name, feed_progress(items, messages))
            first.result()
        told = told_by_packets(asked, items, progress, messages)
        keep(EVENTS.name, noted.unionByName(told) if noted is not None else told)
    finally:
        asked.unpersist()
        items.unpersist()
