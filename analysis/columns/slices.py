"""Time slices: equal parts of a run, numbered from 0.

`spans` has layering, start_ns and end_ns of each run.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812


def slice_of(time: str, slices: int) -> Column:
    """Return the slice of each time, for rows with start_ns and end_ns.

    Times before the run count to the first slice, times after it to the last.
    """
    # Float division cannot overflow: a frame without a time makes a run of decades.
    since = (F.col(time) - F.col("start_ns")).cast("double")
    place = F.floor(since * slices / (F.col("end_ns") - F.col("start_ns")))
    return F.greatest(F.lit(0), F.least(F.lit(slices - 1), place)).cast("long")


def with_span(table: DataFrame, spans: DataFrame) -> DataFrame:
    """Add start_ns and end_ns of the run to each row."""
    return table.join(F.broadcast(spans.select("layering", "start_ns", "end_ns")), "layering")


def sliced(table: DataFrame, spans: DataFrame, slices: int) -> DataFrame:
    """Add `slice` to rows with a `time` up to the end of the run; drop later rows."""
    return (
        with_span(table, spans)
        .where(F.col("time") <= F.col("end_ns"))
        .withColumn("slice", slice_of("time", slices))
        .drop("start_ns", "end_ns")
    )
