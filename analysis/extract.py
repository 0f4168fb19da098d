"""Captures to Parquet: every piece decoded by a task, which writes its own files.

Theory of operation. What Spark is good at here is handing out pieces to cores and machines; rows need not
pass through its JVM only to be written. So a task decodes its piece (analysis.reading), writes Parquet with
Arrow, and reports what it found. Files are named for their piece and moved into place whole: a task that
runs twice leaves what one leaves. As TCP streams cross pieces, their segments are put aside, and a second
round, one task a capture, puts the streams together.

On several machines, captures and output must be on a file system that they share.
"""

import json
import os
import shutil
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.decode import Link, decode_payload
from analysis.reading import SEGMENTS, Findings, Reading, read_packets
from analysis.schema import COLUMNS, PACKETS_ARROW
from captures.files import PIECE_FRAMES
from captures.pcapng import CaptureError
from captures.streams import Segment, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = 4096
"""Directions of connections that are followed at once; the one that was silent longest makes room."""

_ROWS = 1 << 16
_MOST_ROWS = 2 * PIECE_FRAMES
_ASIDE = "_segments"
_TEXTS = [column.name for column in COLUMNS if column.type in ("string", "binary")]
_STATISTICS = ["frame", "time", "kind", "name", "feed", "seq"]
_RST = 4

By = Mapping[str, str]
"""The columns that directories are made of: name of the directory's key, name of the column."""


class Report(NamedTuple):
    """What was found in a capture: frames and rows by kind; frames that could not be read, by reason;
    damage, as (offset, bytes, reason); gaps in TCP streams, and bytes of them that belong to no packet."""

    run: str
    path: str
    frames: int
    kinds: dict[str, int]
    problems: dict[str, int]
    damages: list[tuple[int, int, str]]
    gaps: int = 0
    skipped: int = 0


def extract(readings: Sequence[Reading], out: Path, by: By, spark: "SparkSession | None") -> list[Report]:
    """Write the packets of some readings as Parquet under `out`; return a report for each capture.

    Without Spark the work is done here. Raises OSError, and CaptureError for a file that is no capture.
    """
    out.mkdir(parents=True, exist_ok=True)
    given = readings
    if spark is not None:  # executors work in directories of their own
        out, given = out.resolve(), [_absolute(reading) for reading in readings]
    try:
        parts = _each(spark, lambda number: _write_piece(given[number], out, by, number), len(given))
        reports = _summed(readings, parts)
        aside: dict[str, list[str]] = defaultdict(list)
        for part in parts:
            if part["segments"]:
                aside[part["run"]].append(part["segments"])
        runs = list(aside)
        for run, found in zip(
            runs,
            _each(spark, lambda number: _write_streams(aside[runs[number]], out, by, number), len(runs)),
            strict=True,
        ):
            kinds = dict(Counter(reports[run].kinds) + Counter(found["kinds"]))
            problems = dict(Counter(reports[run].problems) + Counter(found["problems"]))
            reports[run] = reports[run]._replace(
                kinds=kinds, problems=problems, gaps=found["gaps"], skipped=found["skipped"]
            )
    finally:
        shutil.rmtree(out / _ASIDE, ignore_errors=True)
    return list(reports.values())


def _absolute(reading: Reading) -> Reading:
    return reading._replace(piece=reading.piece._replace(path=os.path.abspath(reading.piece.path)))


def _each(
    spark: "SparkSession | None", task: Callable[[int], dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    """Do a task for each number below `count`, each a Spark task of its own if there is Spark."""
    if spark is None or not count:
        return [task(number) for number in range(count)]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pydict({"report": [json.dumps(task(number))]})

    rows = spark.range(0, count, 1, count).mapInArrow(work, "report string").toArrow()
    return [json.loads(row) for row in rows["report"].to_pylist()]


def _summed(readings: Sequence[Reading], parts: list[dict[str, Any]]) -> dict[str, Report]:
    reports: dict[str, Report] = {}
    for reading, part in zip(readings, sorted(parts, key=lambda part: part["number"]), strict=True):
        before = reports.get(reading.run, Report(reading.run, reading.piece.path, 0, {}, {}, []))
        reports[reading.run] = before._replace(
            frames=before.frames + part["frames"],
            kinds=dict(Counter(before.kinds) + Counter(part["kinds"])),
            problems=dict(Counter(before.problems) + Counter(part["problems"])),
            damages=before.damages + [tuple(damage) for damage in part["damages"]],
        )
    return reports


def strictly(reports: Sequence[Report]) -> None:
    """Raise CaptureError if a capture is damaged."""
    for report in reports:
        for offset, _, reason in report.damages:
            raise CaptureError(report.path, offset, reason)


def _write_piece(reading: Reading, out: Path, by: By, number: int) -> dict[str, Any]:
    findings = Findings()
    grouped = "interface" in by.values()
    parts: dict[tuple[str, ...], list[pa.RecordBatch]] = defaultdict(list)
    frames = held = written = 0
    for batch in read_packets(reading, findings, grouped):
        frames, held = frames + batch.num_rows, held + batch.num_rows
        for key, part in _split(batch, list(by.values())):
            parts[key].append(part)
        if held >= _MOST_ROWS:  # the piece of a compressed capture is all of it
            _write_parts(parts, out, by, f"{number:05}-{written:05}")
            parts.clear()
            held, written = 0, written + 1
    _write_parts(parts, out, by, f"{number:05}-{written:05}")
    aside = ""
    if findings.segments:
        aside = str(out / _ASIDE / f"{number:05}.parquet")
        _write(pa.Table.from_batches(findings.segments, SEGMENTS), Path(aside))
    return {
        "run": reading.run,
        "number": number,
        "frames": frames,
        "kinds": findings.kinds,
        "problems": findings.problems,
        "damages": findings.damages,
        "segments": aside,
    }


def _split(batch: pa.RecordBatch, columns: list[str]) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """Yield the rows of a batch that agree in some columns, and what they have there."""
    codes = np.zeros(batch.num_rows, np.int64)
    for name in columns:
        codes = codes * (len(batch[name].dictionary) + 1) + batch[name].indices.to_numpy()
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        batch, codes = batch.take(pa.array(order)), codes[order]
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    for low, high in pairwise(cuts):
        if high > low:
            yield tuple(batch[name][low].as_py() for name in columns), batch.slice(low, high - low)


def _write_parts(parts: Mapping[tuple[str, ...], list[pa.RecordBatch]], out: Path, by: By, name: str) -> None:
    for key, batches in parts.items():
        directory = out
        for column, value in zip(by, key, strict=True):
            directory = directory / f"{column}={quote(value, safe=' ') or '__HIVE_DEFAULT_PARTITION__'}"
        table = pa.Table.from_batches(batches).drop_columns(list(by.values()))
        _write(table.unify_dictionaries(), directory / f"part-{name}.parquet")


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    texts = [name for name in _TEXTS if name in table.column_names]
    statistics = [name for name in _STATISTICS if name in table.column_names]
    pq.write_table(
        table,
        new,
        compression="snappy",
        use_dictionary=texts,
        write_statistics=statistics,
        store_schema=False,
    )
    new.replace(path)


class _Flow:
    """One direction of a connection at one interface, and the columns that its packets share."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.stream = Stream()
        self.row = row


def _write_streams(paths: list[str], out: Path, by: By, number: int) -> dict[str, Any]:
    """Put the streams of one capture together from its segments, in the order of the capture."""
    flows: OrderedDict[tuple[Any, ...], _Flow] = OrderedDict()
    rows: list[dict[str, Any]] = []
    found: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    written = 0

    def take(flow: _Flow, packets: Iterator[bytes]) -> None:
        for packet in packets:
            row = _stream_row(flow.row, packet)
            kinds[row["kind"]] += 1
            if row["problem"]:
                problems[row["problem"]] += 1
            rows.append(row)

    def end(flow: _Flow) -> None:
        take(flow, flow.stream.finish())
        found["gaps"] += flow.stream.gaps
        found["skipped"] += flow.stream.skipped

    def flush() -> None:
        nonlocal written
        if rows:
            table = pa.Table.from_pylist(rows, PACKETS_ARROW)
            arrays = [
                column.combine_chunks().dictionary_encode() if name in _TEXTS else column.combine_chunks()
                for name, column in zip(table.column_names, table.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, table.column_names)
            parts: dict[tuple[str, ...], list[pa.RecordBatch]] = defaultdict(list)
            for key, part in _split(batch, list(by.values())):
                parts[key].append(part)
            _write_parts(parts, out, by, f"tcp-{number:05}-{written:05}")
            written += 1
            rows.clear()

    for path in sorted(paths):
        for batch in pq.ParquetFile(path).iter_batches(1024):
            for row in batch.to_pylist():
                key = tuple(
                    row[name] for name in ("interface", "direction", "src", "src_port", "dst", "dst_port")
                )
                flow = flows.get(key)
                if flow is None:
                    if len(flows) >= STREAMS:
                        end(flows.popitem(last=False)[1])
                    flow = flows[key] = _Flow(row)
                flows.move_to_end(key)
                flow.row = row
                segment = Segment(row["sequence"], row["flags"], row["payload"], row["length"])
                take(flow, flow.stream.receive(segment))
                if row["flags"] & _RST:
                    end(flows.pop(key))
            if len(rows) >= _ROWS:
                flush()
    for flow in flows.values():
        end(flow)
    flush()
    return {"kinds": kinds, "problems": problems, "gaps": found["gaps"], "skipped": found["skipped"]}


_OF_PACKET = tuple(column.name for column in COLUMNS)[
    [column.name for column in COLUMNS].index(Link._fields[0]) :
]


def _stream_row(row: dict[str, Any], packet: bytes) -> dict[str, Any]:
    """Return the row of a packet that the segment of `row` completed."""
    nothing = dict.fromkeys(("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes"), 0)
    return row | nothing | {"transport": "tcp"} | dict(zip(_OF_PACKET, decode_payload(packet), strict=True))
