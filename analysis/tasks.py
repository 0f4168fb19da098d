"""Work handed out: to Spark's tasks, to threads; and tables kept at hand while several need them."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def each(
    spark: "SparkSession | None", task: Callable[[int], dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    """Do a task for each number below `count`, each a Spark task of its own if there is Spark; return what
    they return, in that order: what JSON can say."""
    if spark is None or not count:
        return [task(number) for number in range(count)]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "report": [json.dumps(task(number))]})

    rows = spark.range(0, count, 1, count).mapInArrow(work, "id long, report string").toArrow()
    return [json.loads(report) for report in rows.sort_by("id")["report"].to_pylist()]


def at_once(spark: "SparkSession | None") -> int:
    """Return how many tasks each() does at once, as far as this machine goes."""
    return 1 if spark is None else os.cpu_count() or 1


def in_parallel(*tasks: Callable[[], Any]) -> list[Any]:
    """Return the tasks' results. Small jobs leave cores idle; another thread's job takes them."""
    with ThreadPoolExecutor() as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


@contextmanager
def cached(table: "DataFrame") -> "Iterator[DataFrame]":
    """Keep a table at hand. Left behind, it would answer for the same run analysed again later."""
    table.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield table
    finally:
        table.unpersist()
