"""Exact quantiles of times, interpolated between the two nearest ranks."""

from collections.abc import Iterator, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def in_ms(prefix: str, nanoseconds: Column, shares: Mapping[str, float]) -> Iterator[Column]:
    """Yield each quantile in ms as `<prefix>_<name>`; `shares` maps names to 0..1."""
    for name, share in shares.items():
        yield (F.percentile(nanoseconds, share) / 1e6).alias(f"{prefix}_{name}")


def quantile_function(values: Column, points: int) -> Column:
    """Return the quantiles at `points` + 1 even steps from 0 to 1, as an array."""
    return F.percentile(values, F.array(*(F.lit(step / points) for step in range(points + 1))))
