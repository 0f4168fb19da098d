"""Captures that feednet did not make: every table of analysis.stages, computed from the packets alone.

Packets are in directories by run, node and interface, as analysis.extract has written them; the other tables
are written beside them, by run. Each is computed once, by Spark, and never held in one place.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from analysis import pit
from analysis.overhead import overhead, seen_once, summed
from analysis.progress import captured_latency
from analysis.reassemble import KINDS, reassemble
from analysis.schema import PARTITIONS
from analysis.setting import BREAKS
from analysis.stages import LATENCY, OVERHEAD, PIT_OCCUPANCY, TABLES, TRANSACTIONS, Table
from analysis.tasks import in_parallel
from analysis.told import tell

BY = dict(zip(PARTITIONS, ("layering", "node", "interface"), strict=True))
"""The directories of packets, and the column of each."""

FEW_BYTES = 4 << 20
"""Parquet of packets, of which this process follows the PITs itself."""

_MESSAGES = ".messages"


class Found(NamedTuple):
    """What there is to say of a run in a few numbers: the most PIT entries of all nodes together; Interests
    and LLIs, at every interface that saw them, and how many of these were answered by Data; and the median
    time from an Interest to its Data, in ns."""

    run: str
    pit_peak: int = 0
    transactions: int = 0
    answered: int = 0
    median_rtt_ns: int | None = None


def write_tables(out: Path, runs: Iterable[str], spark: SparkSession, *, fragments: bool) -> list[Found]:
    """Write every table but packets, which are in `out`/packets already, as `out`/NAME/run=RUN/*.parquet.

    `fragments`: whether there are any of NDNLPv2, which have to be put together.
    """
    packets = _read(spark, out / "packets", TABLES[0], *PARTITIONS)
    size = sum(path.stat().st_size for path in (out / "packets").rglob("*.parquet"))
    messages = packets.where(F.col("kind").isin(*KINDS))
    whole = out / "packets"
    if fragments:
        whole = out / _MESSAGES
        breaks = spark.createDataFrame(BREAKS.empty_table())
        reassembled = reassemble(packets, breaks)
        _write(reassembled, whole, *PARTITIONS)
        messages = _renamed(spark.read.schema(_hive(reassembled.schema)).parquet(str(whole)))

    def keep(name: str, table: DataFrame) -> DataFrame:
        _write(table, out / name, "run")
        return _read(spark, out / name, next(each for each in TABLES if each.name == name), "run")

    in_parallel(
        # Spark's Python processes take longer to start than to follow so few.
        lambda: pit.scan(whole, out, spark if size > FEW_BYTES else None),
        lambda: tell(messages, keep),
        lambda: keep(LATENCY.name, captured_latency(messages)),
        lambda: keep(OVERHEAD.name, overhead(summed(seen_once(packets)))),
    )
    shutil.rmtree(out / _MESSAGES, ignore_errors=True)
    for path in out.rglob(".*.crc"):  # Hadoop's sums, at which polars takes offence
        path.unlink()
    for run in runs:
        for table in TABLES[1:]:
            _at_least_empty(out / table.name, table, run)
    return _findings(out, runs, spark)


def _findings(out: Path, runs: Iterable[str], spark: SparkSession) -> list[Found]:
    asked = _read(spark, out / TRANSACTIONS.name, TRANSACTIONS, "run")
    # An LLI without credit cancels one.
    waited = asked.where(F.coalesce("send_credit", F.lit(1)) > 0)
    is_answered = F.col("outcome") == "data"
    occupancy = _read(spark, out / PIT_OCCUPANCY.name, PIT_OCCUPANCY, "run")
    answers, peaks = in_parallel(
        lambda: (
            waited.groupBy("layering")
            .agg(
                F.count("*").alias("transactions"),
                F.count_if(is_answered).alias("answered"),
                F.percentile_approx(
                    F.when(is_answered & (F.col("kind") == "interest"), F.col("rtt_ns")), 0.5
                ).alias("median_rtt_ns"),
            )
            .collect()
        ),
        lambda: (
            occupancy.where(F.col("node") == pit.NETWORK)
            .groupBy("layering")
            .agg(F.max("entries").alias("pit_peak"))
            .collect()
        ),
    )
    told: dict[str, dict[str, Any]] = {run: {} for run in runs}
    for row in (*answers, *peaks):
        values = row.asDict()
        told[values.pop("layering")] |= values
    return [Found(run, **values) for run, values in told.items()]


def _hive(schema: StructType) -> StructType:
    """Return a table's schema as directories by run have it."""
    return StructType(
        [StructField("run" if field.name == "layering" else field.name, field.dataType) for field in schema]
    )


def _renamed(table: DataFrame) -> DataFrame:
    # A directory for nothing reads as null.
    known = table.withColumnRenamed("run", "layering")
    return known.withColumns(
        {name: F.coalesce(name, F.lit("")) for name in BY.values() if name != "layering"}
    )


def _read(spark: SparkSession, path: Path, table: Table, *by: str) -> DataFrame:
    """Read a table; node and interface are null nowhere if it is by them."""
    read = spark.read.schema(_hive(table.spark)).parquet(str(path))
    read = _renamed(read) if len(by) > 1 else read.withColumnRenamed("run", "layering")
    return read.select(*table.names)


def _write(table: DataFrame, path: Path, *by: str) -> None:
    table.withColumnRenamed("layering", "run").write.partitionBy(*by).parquet(str(path))


def _at_least_empty(path: Path, table: Table, run: str) -> None:
    """Write a file without rows if a run has none, so that whoever reads the table finds its columns."""
    directory = path / f"run={quote(run, safe=' ')}"
    if not any(path.glob("*/*.parquet")):
        directory.mkdir(parents=True, exist_ok=True)
        schema = table.arrow.remove(table.arrow.get_field_index("layering"))
        pq.write_table(schema.empty_table(), directory / "part-empty.parquet")
