"""Exact quantiles of groups, interpolated between the two nearest ranks.

The engines' percentile() counts each distinct value of a group in a hash map, some hundred bytes each, and
Spark's ends a JVM of 1 GB at some millions. Here a task sorts the values of a group, 8 bytes each.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

from analysis.columns.grouped import in_groups


def evenly(points: int) -> list[float]:
    """Return the shares of a quantile function: `points` + 1 even steps from 0 to 1."""
    return [step / points for step in range(points + 1)]


def in_ms(prefix: str, quantiles: Column, names: Sequence[str]) -> Iterator[Column]:
    """Yield the first of an array of quantiles, ns, in ms as `<prefix>_<name>`."""
    for place, name in enumerate(names):
        yield (quantiles[place] / 1e6).alias(f"{prefix}_{name}")


def summarised(
    table: DataFrame,
    keys: Sequence[str],
    sums: Sequence[Column],
    values: Mapping[str, tuple[Column, Sequence[float]]],
) -> DataFrame:
    """Return a row for each group of equal `keys`, with `sums`, aggregates of its rows, and quantiles.

    `values` has by the name of a column the values and the shares (0..1); the column is an array, null
    without values.
    """
    names = [*values]
    of_keys = [table.schema[key] for key in keys]
    schema = StructType([*of_keys, *(StructField(name, ArrayType(DoubleType())) for name in names)])
    shares = {name: at for name, (_, at) in values.items()}

    def of_group(rows: pa.Table) -> Iterator[pa.Table]:
        found = [
            pa.array([_quantiles(rows[name], at)], pa.list_(pa.float64())) for name, at in shares.items()
        ]
        yield pa.table([*(rows[key].slice(0, 1) for key in keys), *found], [*keys, *names])

    needed = table.select(*keys, *(column.alias(name) for name, (column, _) in values.items()))
    return table.groupBy(*keys).agg(*sums).join(in_groups(needed, keys, of_group, schema), [*keys])


def _quantiles(values: pa.ChunkedArray, shares: Sequence[float]) -> list[float] | None:
    known = np.sort(values.drop_null().to_numpy())
    if not len(known):
        return None
    place = (len(known) - 1) * np.array(shares)
    low, high = np.floor(place), np.ceil(place)
    least, most = (known[each.astype(int)].astype(float) for each in (low, high))
    between = (high - place) * least + (place - low) * most
    found: list[float] = np.where(least == most, least, between).tolist()
    return found
