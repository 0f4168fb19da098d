"""What PITs held over time: each state for as long as it lasted, and means of that.

A mean over samples would be another figure, and one over all nodes could not be had: nodes are sampled at
different moments. Sums are of whole numbers: the same tables give the same rows, in whatever order Spark
adds.

`spans` has layering, start_ns, end_ns: when each run began and ended.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.slices import with_span

_NODE = ("layering", "node")


def held(occupancy: DataFrame, spans: DataFrame) -> DataFrame:
    """Return layering, node, time, until, entries, bytes, start_ns, end_ns: PIT_OCCUPANCY, and to when each
    state held.

    Only what lies in the run: of a state that outlives it or began before it, the part that does not.
    """
    then = F.lead("time").over(Window.partitionBy(*_NODE).orderBy("time"))
    return (
        with_span(occupancy, spans)
        .withColumn("until", F.least(F.coalesce(then, F.col("end_ns")), F.col("end_ns")))
        .withColumn("time", F.greatest("time", "start_ns"))
        .where((F.col("time") <= F.col("end_ns")) & (F.col("until") >= F.col("start_ns")))
        .select(*_NODE, "time", "until", "entries", "bytes", "start_ns", "end_ns")
    )


def heat(levels: DataFrame, slices: int = 100) -> DataFrame:
    """Return layering, node, slice, entries, bytes: means over time of held() in equal parts of the run.

    There is no row for what is before a node's first entry.
    """
    ran = (F.col("end_ns") - F.col("start_ns")).cast("double")
    low, high = (
        F.least(F.lit(slices - 1), F.floor((F.col(end) - F.col("start_ns")).cast("double") * slices / ran))
        for end in ("time", "until")
    )
    # Rounded to whole ns, the parts of a run are alike within 1 ns; of the shortest runs some are empty.
    begins, ends = (
        F.col("start_ns") + F.floor((F.col("slice") + more) * ran / slices).cast("long") for more in (0, 1)
    )
    share = F.least("until", ends) - F.greatest("time", begins)
    parts = (
        levels.where(F.col("until") > F.col("time"))
        .withColumn("slice", F.explode(F.sequence(low.cast("long"), high.cast("long"))))
        .withColumn("share", F.greatest(F.lit(0), share).cast("decimal(20, 0)"))
        .withColumn("width", ends - begins)
        .where(F.col("width") > 0)
    )
    means = (
        (F.sum(F.col(what).cast("decimal(18, 0)") * F.col("share")).cast("double") / F.first("width")).alias(
            what
        )
        for what in ("entries", "bytes")
    )
    return parts.groupBy(*_NODE, "slice").agg(*means)
