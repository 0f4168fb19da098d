"""Functions of groups of rows, without the engines' sort."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from analysis.columns.arrays import groups_of
from analysis.spark.engine import is_sail, parallelism

_TASKS_A_CORE = 4


def in_groups(
    table: DataFrame,
    keys: Sequence[str],
    function: Callable[[pa.Table], Iterable[pa.Table]],
    schema: StructType,
    tasks: int | None = None,
) -> DataFrame:
    """Return the tables that a function makes of the rows of each group of equal `keys`.

    The engines' applyInArrow() sorts whole rows by their keys, which takes longer than the functions. Here a
    task divides its own rows, and holds them all in memory. The first key numbers `tasks` from 0, so that
    their sizes are the caller's choice; without it, keys are distributed by their hashes.
    """

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        whole = list(batches)
        for group in groups_of(pa.Table.from_batches(whole), keys) if whole else ():
            for made in function(group):
                # An empty batch would end the JVM's table.
                yield from (batch for batch in made.select(schema.names).to_batches() if len(batch))

    if tasks is None:
        placed = table.repartition(*keys)
    elif is_sail(table.sparkSession):
        # By hash: with more tasks, fewer groups share one.
        cores = parallelism(table.sparkSession) or 1
        placed = table.repartition(max(tasks, _TASKS_A_CORE * cores), keys[0])
    else:
        placed = table.repartitionById(tasks, F.col(keys[0]).cast("int"))
    return placed.mapInArrow(apply, schema)
