"""Equal parts of a run, from 0: what is drawn over time is counted in them.

`spans` has layering, start_ns, end_ns: when each run began and ended.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812


def slice_of(time: str, slices: int) -> Column:
    """Return which of so many parts of its run a time is in, of rows that have start_ns and end_ns.

    What is before the run counts to the first part, what is after it to the last.
    """
    # As a number that cannot overflow: a frame without a time makes a run of decades.
    since = (F.col(time) - F.col("start_ns")).cast("double")
    place = F.floor(since * slices / (F.col("end_ns") - F.col("start_ns")))
    return F.greatest(F.lit(0), F.least(F.lit(slices - 1), place)).cast("long")


def with_span(table: DataFrame, spans: DataFrame) -> DataFrame:
    """Add to each row start_ns and end_ns of its run."""
    return table.join(F.broadcast(spans.select("layering", "start_ns", "end_ns")), "layering")


def sliced(table: DataFrame, spans: DataFrame, slices: int) -> DataFrame:
    """Add `slice` to the rows with a `time` that is not after the end of the run; leave out others."""
    return (
        with_span(table, spans)
        .where(F.col("time") <= F.col("end_ns"))
        .withColumn("slice", slice_of("time", slices))
        .drop("start_ns", "end_ns")
    )
