"""Work handed out: to Spark's tasks, to threads."""

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
from analysis.spark.engine import frame, is_sail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OfGroup = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]
"""Takes the values that a group's rows agree in, and the rows."""


_GRACE_S = 5.0
_stopping = Event()


def stop() -> None:
    """Have all that this process has begun end soon, of Spark and in threads: the process is about to end.

    Spark has ended when this returns, unless that takes it more than 5 s.
    """
    _stopping.set()
    logging.disable(logging.CRITICAL)  # py4j would tell of each connection that it has lost
    accumulators = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if accumulators is not None:  # and so would the server that tasks send their counts to
        accumulators.handle_error = lambda *_: None
    # Spark may just be starting; left alone it would miss what PySpark has removed, and never end.
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            for child in place.read_text(encoding="ascii").split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGTERM)
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        with suppress(TimeoutExpired):
            jvm.wait(_GRACE_S)


def go_on() -> None:
    """Raise an exception if the process is about to end: to be called now and then by what takes long."""
    if _stopping.is_set():
        raise InterruptedError("interrupted")


def each(spark: "SparkSession | None", task: Callable[[int], dict[str, Any]], count: int) -> Rows:
    """Do a task for each number below `count`, each a Spark task of its own if there is Spark on the JVM;
    return what they return, in that order: what JSON can say."""
    if spark is None or is_sail(spark) or not count:
        reports = []
        for number in range(count):
            go_on()
            reports.append(task(number))
        return reports

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "report": [json.dumps(task(number))]})

    rows = spark.range(0, count, 1, count).mapInArrow(work, "id long, report string").toArrow()
    return [json.loads(report) for report in rows.sort_by("id")["report"].to_pylist()]


def at_once(spark: "SparkSession | None") -> int:
    """Return how many tasks each() does at once, as far as this machine goes."""
    return 1 if spark is None or is_sail(spark) else os.cpu_count() or 1


def in_parallel(*tasks: Callable[[], Any]) -> list[Any]:
    """Return the tasks' results. Small jobs leave cores idle; another thread's job takes them."""
    with ThreadPoolExecutor() as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


def by_group(
    table: "DataFrame", keys: Sequence[str], function: OfGroup, schema: "StructType", *, here: bool
) -> "DataFrame":
    """Return what a function makes of each group of rows that agree in some columns, as applyInArrow does.

    `here`: the groups are few and small, and come to this process, which takes less time than starting
    another one for them.
    """
    if not here:
        return table.groupBy(*keys).applyInArrow(function, schema)
    rows = table.toArrow()
    numbered = rows.select(list(keys)).append_column("place", pa.array(range(len(rows)), pa.int64()))
    arrow = to_arrow_schema(schema)
    parts = [arrow.empty_table()]
    for group in numbered.group_by(list(keys)).aggregate([("place", "list")]).to_batches():
        for number, places in enumerate(group["place_list"]):
            key = tuple(group[name][number] for name in keys)
            parts.append(function(key, rows.take(places.values)).select(arrow.names).cast(arrow))
    return frame(table.sparkSession, pa.concat_tables(parts), schema)
