"""Analyse a run: every table, then the report.

Tables are settled as Parquet and read back, so each is computed once and stays for pandas, DuckDB or polars.
Large ones are written by Spark, a directory for each layering; small ones are collected and written as
one file each.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from analysis import pit
from analysis.compare import compare, measure
from analysis.decode import decode
from analysis.errors import AnalysisError
from analysis.latency import latency, quantiles
from analysis.manifest import Run
from analysis.overhead import overhead, traffic
from analysis.reassemble import reassemble
from analysis.report import Tables, write_report
from analysis.session import spark_session
from analysis.source import read_capture
from captures.pcapng import CaptureError, scan

IN_FLIGHT_NS = 1_000_000
"""Where clocks are real: how long a packet may be under way between the wire and the table it changes."""

SMALL_BYTES = 256 << 20
"""Captures up to this size in all are small: Spark's start weighs more than the work."""

_EVENTS = pa.schema(
    [
        ("time", pa.int64()),
        ("node", pa.string()),
        ("event", pa.string()),
        ("seq", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_COUNTERS = pa.schema(
    [("time", pa.int64()), ("node", pa.string()), ("pit_entries", pa.int64()), ("pit_bytes", pa.int64())]
)


def analyze(
    run_dir: Path | str, master: str | None = None, progress: Callable[[str], None] = lambda _: None
) -> Path:
    """Analyse a run directory: write its tables and its report; return the report's path.

    `master` is Spark's, all cores of this machine if None; `progress` is told what is done next. Raises
    AnalysisError, with one line.
    """
    run = Run(Path(run_dir))
    with _one_line_errors():
        _check_captures(run)
        events = _read_lines(run, _EVENTS, run.events)
        counters = _read_lines(run, _COUNTERS, run.counters)
        progress("starting Spark")
        spark = spark_session(master, small=_capture_bytes(run) < SMALL_BYTES)
        progress("decoding packets")
        parts = _in_parallel(partial(_read_layering, run, spark, x, events) for x in run.manifest.layerings)
        progress("following every PIT")
        with _cached(pit.reconstruct(_union(part.messages for part in parts))) as histories:
            _settle_histories(run, histories)
            progress("measuring")
            packets = _union(part.packets for part in parts)
            latencies = _union(part.latencies for part in parts)
            tables = _measure(run, packets, histories, latencies, events, counters)
        progress("writing the report")
        write_report(run, tables)
    return run.report


def _capture_bytes(run: Run) -> int:
    return sum(run.capture(layering).stat().st_size for layering in run.manifest.layerings)


def _check_captures(run: Run) -> None:
    """Find damage before Spark is started for nothing."""
    for layering in run.manifest.layerings:
        for _ in scan(run.capture(layering)):
            pass


class _Layering(NamedTuple):
    """One layering's own tables, settled."""

    packets: DataFrame
    messages: DataFrame
    latencies: DataFrame


def _read_layering(run: Run, spark: SparkSession, layering: str, events: pa.Table) -> _Layering:
    frames = read_capture(spark, run.capture(layering))
    packets = _settle(decode(frames).withColumn("layering", F.lit(layering)), run.table("packets", layering))
    messages = _settle(reassemble(packets), run.table("messages", layering))
    of_layering = spark.createDataFrame(events.filter(pc.field("layering") == layering))
    return _Layering(packets, messages, _settle(latency(of_layering), run.table("latency", layering)))


def _settle_histories(run: Run, histories: DataFrame) -> None:
    for layering in run.manifest.layerings:
        of_layering = histories.where(F.col("layering") == layering)
        _settle(pit.intervals(of_layering), run.table("pit_intervals", layering))
        _settle(pit.steps(of_layering), run.table("pit_steps", layering))


def _measure(
    run: Run,
    packets: DataFrame,
    histories: DataFrame,
    latencies: DataFrame,
    events: pa.Table,
    counters: pa.Table,
) -> Tables:
    manifest = run.manifest
    nodes = [node.name for node in manifest.topology.nodes]
    spark = packets.sparkSession
    runs = spark.createDataFrame(_runs(run))
    pit_steps = pit.steps(histories)
    by_time = ("layering", "node", "time")

    def keep(name: str, table: DataFrame, *order: str) -> pa.Table:
        rows = table.toArrow().sort_by([(column, "ascending") for column in order])
        path = run.table(name)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        return rows

    def check() -> pa.Table:
        counted = spark.createDataFrame(counters)
        slack = 0 if manifest.net == "emulated" else IN_FLIGHT_NS
        occupancy = keep("pit_occupancy", pit.occupancy(pit_steps, counted, slack), *by_time)
        truth = keep("pit_truth", pit.truth(spark.createDataFrame(occupancy), counted), *by_time)
        return keep("pit_truth_summary", pit.truth_summary(spark.createDataFrame(truth)), "layering")

    def size() -> tuple[pa.Table, pa.Table]:
        with _cached(pit.changes(pit.with_network(pit_steps))) as changes:
            summary = pit.summary(changes, runs, [*nodes, pit.NETWORK])
            return (
                keep("pit_summary", summary, "layering", "node"),
                keep("pit_curves", pit.curves(changes, runs), *by_time),
            )

    def cost() -> tuple[pa.Table, pa.Table]:
        sent = keep("traffic", traffic(packets), "layering", "interface", "kind")
        return sent, keep("overhead", overhead(spark.createDataFrame(sent)), "layering", "layer")

    def delay() -> pa.Table:
        return keep("latency_quantiles", quantiles(latencies), "layering", "node")

    truth, (summary, curves), (sent, layers), delays = _in_parallel([check, size, cost, delay])
    measures = measure(
        runs,
        spark.createDataFrame(events),
        spark.createDataFrame(delays),
        spark.createDataFrame(summary),
        spark.createDataFrame(sent),
        manifest.nodes("subscriber"),
    )
    return Tables(
        comparison=keep("comparison", compare(measures), "row", "position").to_pylist(),
        overhead=layers.to_pylist(),
        latency=delays.to_pylist(),
        traffic=sent.to_pylist(),
        pit_summary=summary.to_pylist(),
        pit_curves=curves.to_pylist(),
        pit_truth=truth.to_pylist(),
    )


def _runs(run: Run) -> pa.Table:
    manifest = run.manifest
    return pa.Table.from_pylist(
        [
            {
                "layering": layering,
                "position": position,
                "start_ns": manifest.runs[layering].start_ns,
                "end_ns": manifest.runs[layering].end_ns,
                "dropped": manifest.runs[layering].capture.dropped,
                "items": manifest.workload.items,
                "links": len(manifest.topology.links),
            }
            for position, layering in enumerate(manifest.layerings)
        ]
    )


def _read_lines(run: Run, schema: pa.Schema, path_of: Callable[[str], Path]) -> pa.Table:
    """Read a file of JSON lines of every layering; members that are not in the schema are left out."""
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    tables = []
    for layering in run.manifest.layerings:
        path = path_of(layering)
        table = schema.empty_table()
        if path.stat().st_size:
            try:
                table = pyarrow.json.read_json(path, parse_options=options)
            except pa.ArrowInvalid as error:
                raise AnalysisError(f"{path}: {error}") from None
        tables.append(table.append_column("layering", pa.repeat(layering, len(table))))
    return pa.concat_tables(tables)


def _settle(table: DataFrame, path: Path) -> DataFrame:
    """Write a table as Parquet; return it as it is read from there."""
    table.write.mode("overwrite").parquet(str(path))
    return table.sparkSession.read.schema(table.schema).parquet(str(path))


@contextmanager
def _cached(table: DataFrame) -> Iterator[DataFrame]:
    """Keep a table at hand. Left behind, it would answer for the same run analysed again later."""
    table.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield table
    finally:
        table.unpersist()


def _union(tables: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, tables)


def _in_parallel(tasks: Iterable[Callable[[], Any]]) -> list[Any]:
    """Return the tasks' results. Small jobs leave cores idle; another thread's job takes them."""
    with ThreadPoolExecutor() as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a capture or Spark complains of into an AnalysisError."""
    try:
        yield
    except CaptureError as error:
        raise AnalysisError(str(error)) from error
    except PySparkException as error:
        # A task's exception arrives as its text.
        damage = re.search(r"^.*\bCaptureError: (.*)$", str(error), re.MULTILINE)
        if damage is None:
            raise
        raise AnalysisError(damage[1]) from error
