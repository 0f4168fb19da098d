"""Analyse a run: every table, then the report.

Tables are settled as Parquet and read back, so each is computed once and stays for pandas, DuckDB or polars.
Large ones are written by Spark, a directory for each layering; small ones are collected and written as
one file each.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import pyarrow as pa
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
        progress("starting Spark")
        spark = spark_session(master, small=_capture_bytes(run) < SMALL_BYTES)
        packets = []
        for layering in run.manifest.layerings:
            progress(f"decoding packets: {layering}")
            frames = read_capture(spark, run.capture(layering))
            rows = decode(frames).withColumn("layering", F.lit(layering))
            packets.append(_settle(rows, run.table("packets", layering)))
        progress("following every PIT")
        histories = _pit_histories(run, packets)
        progress("measuring latency and overhead")
        tables = _measure(run, spark, _union(packets), histories)
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


def _pit_histories(run: Run, packets: list[DataFrame]) -> DataFrame:
    messages = [
        _settle(reassemble(rows), run.table("messages", layering))
        for layering, rows in zip(run.manifest.layerings, packets, strict=True)
    ]
    histories = pit.reconstruct(_union(messages)).persist(StorageLevel.MEMORY_AND_DISK)
    for layering in run.manifest.layerings:
        of_layering = histories.where(F.col("layering") == layering)
        _settle(pit.intervals(of_layering), run.table("pit_intervals", layering))
        _settle(pit.steps(of_layering), run.table("pit_steps", layering))
    return histories


def _measure(run: Run, spark: SparkSession, packets: DataFrame, histories: DataFrame) -> Tables:
    manifest = run.manifest
    nodes = [node.name for node in manifest.topology.nodes]
    runs = _runs(run, spark)
    events = _read_lines(run, spark, _EVENTS, run.events)
    counters = _read_lines(run, spark, _COUNTERS, run.counters)
    latencies = _union(
        [
            _settle(latency(events.where(F.col("layering") == layering)), run.table("latency", layering))
            for layering in manifest.layerings
        ]
    )
    pit_steps = pit.steps(histories)
    pit_changes = pit.changes(pit.with_network(pit_steps)).persist(StorageLevel.MEMORY_AND_DISK)
    slack = 0 if manifest.net == "emulated" else IN_FLIGHT_NS

    def keep(name: str, table: DataFrame, *order: str) -> pa.Table:
        rows = table.toArrow().sort_by([(column, "ascending") for column in order])
        path = run.table(name)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        return rows

    def again(rows: pa.Table) -> DataFrame:
        return spark.createDataFrame(rows)

    by_node = ("layering", "node", "time")
    occupancy = keep("pit_occupancy", pit.occupancy(pit_steps, counters, slack), *by_node)
    truth = keep("pit_truth", pit.truth(again(occupancy), counters), *by_node)
    summary = keep("pit_summary", pit.summary(pit_changes, runs, [*nodes, pit.NETWORK]), "layering", "node")
    sent = keep("traffic", traffic(packets), "layering", "interface", "kind")
    by_subscriber = keep("latency_quantiles", quantiles(latencies), "layering", "node")
    measures = measure(
        runs, events, again(by_subscriber), again(summary), again(sent), manifest.nodes("subscriber")
    )
    return Tables(
        comparison=keep("comparison", compare(measures), "row", "position").to_pylist(),
        overhead=keep("overhead", overhead(again(sent)), "layering", "layer").to_pylist(),
        latency=by_subscriber.to_pylist(),
        traffic=sent.to_pylist(),
        pit_summary=summary.to_pylist(),
        pit_curves=keep("pit_curves", pit.curves(pit_changes, runs), *by_node).to_pylist(),
        pit_truth=keep("pit_truth_summary", pit.truth_summary(again(truth)), "layering").to_pylist(),
    )


def _runs(run: Run, spark: SparkSession) -> DataFrame:
    manifest = run.manifest
    rows = [
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
    return spark.createDataFrame(pa.Table.from_pylist(rows))


def _read_lines(
    run: Run, spark: SparkSession, schema: pa.Schema, path_of: Callable[[str], Path]
) -> DataFrame:
    """Read a file of JSON lines of every layering; members that are not in the schema are left out."""
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    tables = []
    for layering in run.manifest.layerings:
        path = path_of(layering)
        try:
            table = (
                pyarrow.json.read_json(path, parse_options=options)
                if path.stat().st_size
                else schema.empty_table()
            )
        except pa.ArrowInvalid as error:
            raise AnalysisError(f"{path}: {error}") from None
        tables.append(table.append_column("layering", pa.repeat(layering, len(table))))
    return spark.createDataFrame(pa.concat_tables(tables))


def _settle(table: DataFrame, path: Path) -> DataFrame:
    """Write a table as Parquet; return it as it is read from there."""
    table.write.mode("overwrite").parquet(str(path))
    return table.sparkSession.read.schema(table.schema).parquet(str(path))


def _union(tables: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, tables)


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
