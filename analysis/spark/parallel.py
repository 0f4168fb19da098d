"""Parallel work: Spark tasks, and threads."""

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.pandas.types import to_arrow_schema

from analysis.files import Rows
from analysis.spark.engine import disconnect, frame, is_sail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OfGroup = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]
"""Takes the values common to a group's rows, and the rows."""


_GRACE_S = 5.0
_stopping = Event()


def stop() -> None:
    """End all work of this process soon, in Spark and in threads, because the process is about to end.

    Spark has ended when this returns, unless that takes more than 5 s. What waits for Sail waits no longer.
    """
    _stopping.set()
    disconnect()
    logging.disable(logging.CRITICAL)  # py4j would log each lost connection
    accumulators = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if accumulators is not None:  # as would the accumulator server
        accumulators.handle_error = lambda *_: None
    # Spark may be starting; without PySpark's connection file it would never end.
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            for child in place.read_text(encoding="ascii").split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGTERM)
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        with suppress(TimeoutExpired):
            jvm.wait(_GRACE_S)


def raise_if_stopping() -> None:
    """Raise an exception if the process is about to end; long computations call it periodically."""
    if _stopping.is_set():
        raise InterruptedError("interrupted")


def run_tasks(spark: "SparkSession | None", task: Callable[[int], dict[str, Any]], count: int) -> Rows:
    """Run a task for each number below `count`, as Spark tasks if there is Spark on the JVM; return their
    JSON-serialisable results in order.
    """
    if spark is None or is_sail(spark) or not count:
        reports = []
        for number in range(count):
            raise_if_stopping()
            reports.append(task(number))
        return reports

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "report": [json.dumps(task(number))]})

    rows = spark.range(0, count, 1, count).mapInArrow(work, "id long, report string").toArrow()
    return [json.loads(report) for report in rows.sort_by("id")["report"].to_pylist()]


def parallelism(spark: "SparkSession | None") -> int:
    """Return the number of tasks that run in parallel on this machine."""
    return 1 if spark is None or is_sail(spark) else os.cpu_count() or 1


def in_parallel(*tasks: Callable[[], Any]) -> list[Any]:
    """Return the results of tasks, run in threads: small Spark jobs leave cores idle for other jobs."""
    raise_if_stopping()
    with ThreadPoolExecutor() as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


def by_group(
    table: "DataFrame", keys: Sequence[str], function: OfGroup, schema: "StructType", *, here: bool
) -> "DataFrame":
    """Apply a function to each group of rows with equal keys, like applyInArrow.

    `here`: groups are few and small, and processed in this process, which is faster than starting another.
    """
    if not here:
        return table.groupBy(*keys).applyInArrow(function, schema)
    rows = table.toArrow()
    numbered = rows.select(list(keys)).append_column("place", pa.array(range(len(rows)), pa.int64()))
    arrow = to_arrow_schema(schema)
    parts = [arrow.empty_table()]
    for group in numbered.group_by(list(keys)).aggregate([("place", "list")]).to_batches():
        for number, places in enumerate(group["place_list"]):
            raise_if_stopping()
            key = tuple(group[name][number] for name in keys)
            parts.append(function(key, rows.take(places.values)).select(arrow.names).cast(arrow))
    return frame(table.sparkSession, pa.concat_tables(parts), schema)
