"""Captures to Parquet: every piece decoded by a task, which writes its own files.

Theory of operation. What Spark is good at here is handing out pieces to cores and machines; rows need not
pass through its JVM only to be written. So a task decodes some pieces (analysis.decode.reader), writes
Parquet with Arrow, and reports what it found. Files are named for their task and moved into place whole: a
task that runs twice leaves what one leaves. As TCP streams cross pieces, their segments are put aside, and a
second round, one task a capture, puts the streams together.

On several machines, captures and output must be on a file system that they share.
"""

import os
import shutil
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.decode.reader import SEGMENTS, Findings, Reading, read_packets
from analysis.decode.reference import Link, decode_payload
from analysis.decode.schema import COLUMNS, PACKETS
from analysis.files import Rows
from analysis.spark.parallel import each, go_on
from analysis.spark.parquet import By, WholeFile, partition
from captures import websocket
from captures.files import PIECE_FRAMES
from captures.streams import Segment, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = 4096
"""Directions of connections that are followed at once; the one that was silent longest makes room."""

_ROWS = 1 << 16
_MOST_ROWS = 4 * PIECE_FRAMES
_TASKS_A_CORE = 2
_MOST_PIECES = 8
_ASIDE = "_segments"
_TEXTS = [column.name for column in COLUMNS if column.type in ("string", "binary")]
_COUNTING = ["frame", "time", "seq"]
"""What grows from row to row is written as differences; its least and greatest say what a row group holds."""
_RST = 4


class Report(NamedTuple):
    """What was found in a capture: frames and rows by kind; frames that could not be read, by reason;
    damage, as (offset, bytes, reason); gaps in TCP streams, and bytes of them that belong to no packet;
    frames with NDN by direction (`in`, `out`, `unknown`)."""

    run: str
    path: str
    frames: int
    kinds: dict[str, int]
    problems: dict[str, int]
    damages: list[tuple[int, int, str]]
    gaps: int = 0
    skipped: int = 0
    directions: Mapping[str, int] = MappingProxyType({})


def extract(readings: Sequence[Reading], out: Path, by: By, spark: "SparkSession | None") -> list[Report]:
    """Write the packets of some readings as Parquet under `out`; return a report for each capture.

    Without Spark the work is done here. Raises OSError, and CaptureError for a file that is no capture.
    """
    out.mkdir(parents=True, exist_ok=True)
    given = readings
    if spark is not None:  # executors work in directories of their own
        out, given = out.resolve(), [_absolute(reading) for reading in readings]
    try:
        groups = _groups(len(readings), spark)
        written = each(
            spark, lambda number: _write_pieces(given, groups[number], out, by, number), len(groups)
        )
        parts = [part for group in written for part in group["pieces"]]
        reports = _summed(readings, parts)
        aside: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for reading, part in zip(readings, parts, strict=True):
            if part["segments"]:
                aside[reading.run].append((part["segments"], reading.piece.path))
        runs = list(aside)
        for run, found in zip(
            runs,
            each(spark, lambda number: _write_streams(aside[runs[number]], out, by, number), len(runs)),
            strict=True,
        ):
            for path, counts in found.items():
                before = reports[run, path]
                reports[run, path] = before._replace(
                    kinds=dict(Counter(before.kinds) + Counter(counts["kinds"])),
                    problems=dict(Counter(before.problems) + Counter(counts["problems"])),
                    gaps=counts["gaps"],
                    skipped=counts["skipped"],
                )
    finally:
        shutil.rmtree(out / _ASIDE, ignore_errors=True)
    return list(reports.values())


def _absolute(reading: Reading) -> Reading:
    return reading._replace(piece=reading.piece._replace(path=os.path.abspath(reading.piece.path)))


def _groups(count: int, spark: "SparkSession | None") -> list[range]:
    """Return the numbers of the pieces that are one task's: neighbours, as handing a task out costs, too."""
    if spark is None:
        return [range(count)]
    tasks = min(count, max(_TASKS_A_CORE * spark.sparkContext.defaultParallelism, count // _MOST_PIECES))
    return [range(count * task // tasks, count * (task + 1) // tasks) for task in range(tasks)]


def _summed(readings: Sequence[Reading], parts: Rows) -> dict[tuple[str, str], Report]:
    reports: dict[tuple[str, str], Report] = {}
    for reading, part in zip(readings, parts, strict=True):
        key = reading.run, reading.piece.path
        before = reports.get(key, Report(*key, 0, {}, {}, []))
        reports[key] = before._replace(
            frames=before.frames + part["frames"],
            kinds=dict(Counter(before.kinds) + Counter(part["kinds"])),
            problems=dict(Counter(before.problems) + Counter(part["problems"])),
            damages=before.damages + [tuple(damage) for damage in part["damages"]],
            directions=dict(Counter(before.directions) + Counter(part["directions"])),
        )
    return reports


def _write_pieces(
    readings: Sequence[Reading], numbers: range, out: Path, by: By, task: int
) -> dict[str, Any]:
    """Write what some pieces hold; return for each what was found in it."""
    grouped = "interface" in by
    parts: dict[tuple[str, ...], list[pa.RecordBatch]] = defaultdict(list)
    held = written = 0
    pieces = []
    for number in numbers:
        findings = Findings()
        frames = 0
        for batch in read_packets(readings[number], findings, grouped):
            go_on()
            frames, held = frames + batch.num_rows, held + batch.num_rows
            for key, part in _split(batch, by):
                parts[key].append(part)
            if held >= _MOST_ROWS:  # the piece of a compressed capture is all of it
                _write_parts(parts, out, by, f"{task:05}-{written:05}")
                parts.clear()
                held, written = 0, written + 1
        aside = ""
        if findings.segments:
            aside = str(out / _ASIDE / f"{number:05}.parquet")
            _write(pa.Table.from_batches(findings.segments, SEGMENTS), Path(aside))
        pieces.append(
            {
                "frames": frames,
                "kinds": findings.kinds,
                "problems": findings.problems,
                "directions": findings.directions,
                "damages": findings.damages,
                "segments": aside,
            }
        )
    _write_parts(parts, out, by, f"{task:05}-{written:05}")
    return {"pieces": pieces}


def _split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
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
            directory = directory / partition(column, value)
        table = pa.Table.from_batches(batches).drop_columns(list(by))
        _write(table.unify_dictionaries(), directory / f"part-{name}.parquet")


def _write(table: pa.Table, path: Path) -> None:
    texts = [name for name in _TEXTS if name in table.column_names]
    counting = [name for name in _COUNTING if name in table.column_names]
    options = {
        "use_dictionary": texts,
        "write_statistics": counting,
        "column_encoding": dict.fromkeys(counting, "DELTA_BINARY_PACKED"),
    }
    with WholeFile(path, table.schema, **options) as file:
        file.write(table)


class _Flow:
    """One direction of a connection at one interface, and the columns that its packets share."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.stream = Stream(websocket.PORT in (row["src_port"], row["dst_port"]))
        self.row = row
        self.capture = ""


def _write_streams(
    paths: Sequence[tuple[str, str]], out: Path, by: By, number: int
) -> dict[str, dict[str, Any]]:
    """Put the streams of one run together from its segments, each in a file with the capture that it is of;
    return counts by capture. A capture may go on in the next, at the same interface of the same node."""
    flows: OrderedDict[tuple[Any, ...], _Flow] = OrderedDict()
    rows: Rows = []
    found: dict[str, dict[str, Any]] = {
        capture: {"kinds": Counter(), "problems": Counter(), "gaps": 0, "skipped": 0} for _, capture in paths
    }
    written = 0

    def take(flow: _Flow, packets: Iterator[bytes]) -> None:
        for packet in packets:
            row = _stream_row(flow, packet)
            found[flow.capture]["kinds"][row["kind"]] += 1
            if row["problem"]:
                found[flow.capture]["problems"][row["problem"]] += 1
            rows.append(row)

    def end(flow: _Flow) -> None:
        take(flow, flow.stream.finish())
        found[flow.capture]["gaps"] += flow.stream.gaps
        found[flow.capture]["skipped"] += flow.stream.skipped

    def flush() -> None:
        nonlocal written
        if rows:
            table = pa.Table.from_pylist(rows, PACKETS)
            arrays = [
                column.combine_chunks().dictionary_encode() if name in _TEXTS else column.combine_chunks()
                for name, column in zip(table.column_names, table.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, table.column_names)
            parts: dict[tuple[str, ...], list[pa.RecordBatch]] = defaultdict(list)
            for key, part in _split(batch, by):
                parts[key].append(part)
            _write_parts(parts, out, by, f"tcp-{number:05}-{written:05}")
            written += 1
            rows.clear()

    for path, capture in sorted(paths):
        for batch in pq.ParquetFile(path).iter_batches(1024):
            for row in batch.to_pylist():
                key = tuple(
                    row[name]
                    for name in ("node", "interface", "direction", "src", "src_port", "dst", "dst_port")
                )
                flow = flows.get(key)
                if flow is None:
                    if len(flows) >= STREAMS:
                        end(flows.popitem(last=False)[1])
                    flow = flows[key] = _Flow(row)
                flows.move_to_end(key)
                flow.row, flow.capture = row, capture
                segment = Segment(row["sequence"], row["flags"], row["payload"], row["length"])
                take(flow, flow.stream.receive(segment))
                if row["flags"] & _RST:
                    end(flows.pop(key))
            if len(rows) >= _ROWS:
                flush()
    for flow in flows.values():
        end(flow)
    flush()
    return found


_OF_PACKET = tuple(column.name for column in COLUMNS)[
    [column.name for column in COLUMNS].index(Link._fields[0]) :
]


def _stream_row(flow: _Flow, packet: bytes) -> dict[str, Any]:
    """Return the row of a packet that the last segment of a flow completed."""
    nothing = dict.fromkeys(("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes"), 0)
    transport = {"transport": "websocket" if flow.stream.is_websocket else "tcp"}
    return flow.row | nothing | transport | dict(zip(_OF_PACKET, decode_payload(packet), strict=True))
