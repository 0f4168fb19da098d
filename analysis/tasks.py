"""Work handed out: to Spark's tasks, to threads."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from analysis.engine import frame, is_sail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OfGroup = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]
"""Takes the values that a group's rows agree in, and the rows."""


def each(
    spark: "SparkSession | None", task: Callable[[int], dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    """Do a task for each number below `count`, each a Spark task of its own if there is Spark on the JVM;
    return what they return, in that order: what JSON can say."""
    if spark is None or is_sail(spark) or not count:
        return [task(number) for number in range(count)]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "report": [json.dumps(task(number))]})

    rows = spark.range(0, count, 1, count).mapInArrow(work, "id long, report string").toArrow()
    return [json.loads(report) for report in rows.sort_by("id")["report"].to_pylist()]


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
