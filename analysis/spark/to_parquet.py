"""Captures to Parquet: every piece decoded by a task, which writes its own files.

Theory of operation. Spark distributes pieces to cores and machines; rows need not pass through its JVM. A
task decodes pieces (analysis.decode.reader), writes Parquet with Arrow, and reports its findings. Files are
named after their task and moved into place when complete: a repeated task has the effect of one. As TCP
streams cross pieces, segments are stored separately, and a second round, one task per run, reassembles the
streams: NDN's packets join the others; messages of other protocols, connections, and TCP bytes by layer get
tables of their own.

On several machines, captures and output must be on a shared file system.
"""

import heapq
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

from analysis.decode import messages
from analysis.decode.connections import CONNECTIONS, Row
from analysis.decode.protocols.protocol import NDN
from analysis.decode.protocols.registry import PROTOCOLS, framed
from analysis.decode.reader import SEGMENTS, Reading, ReadStatistics, read_packets
from analysis.decode.reference import Link, decode_payload
from analysis.files import Rows
from analysis.packet_schema import ARROW_TYPES, COLUMNS, PACKETS
from analysis.spark.parallel import raise_if_stopping, run_tasks
from analysis.spark.parquet import BY, By, WholeFile, at_least_empty, partition
from base.key_log import Secrets, from_lines
from captures.formats.files import PIECE_FRAMES
from captures.layers import websocket
from captures.layers.packet_stream import PacketStream
from captures.layers.streams import RST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = 4096
"""Stream directions followed at once; the longest silent one is evicted."""

_ROWS = 1 << 16
_MOST_ROWS = 4 * PIECE_FRAMES
_TASKS_A_CORE = 2
_MOST_PIECES = 8
_ASIDE = "_segments"
_SEGMENTS_AT_ONCE = 1024
_TEXTS = [column.name for column in COLUMNS if column.type in ("string", "binary")]
_COUNTING = ["frame", "time", "seq"]
"""Ascending columns are delta-encoded; their statistics describe a row group."""


class Report(NamedTuple):
    """Results of reading a capture: frames and rows by kind; unreadable frames by reason; damage, as (offset,
    bytes, reason); gaps in TCP streams, and stream bytes outside packets; frames with NDN by direction (`in`,
    `out`, `unknown`); frames by protocol; messages by protocol and kind, and TCP connections, of all captures
    of the run, at its first.
    """

    run: str
    path: str
    frames: int
    kinds: dict[str, int]
    problems: dict[str, int]
    damages: list[tuple[int, int, str]]
    gaps: int = 0
    skipped: int = 0
    directions: Mapping[str, int] = MappingProxyType({})
    protocols: Mapping[str, int] = MappingProxyType({})
    messages: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    connections: int = 0


CONNECTIONS_TABLE = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in CONNECTIONS])


STREAM_LAYERS_TABLE = "stream_layers"
"""The directory of analysis.decode.messages.STREAM_LAYERS."""


def side_tables() -> dict[str, pa.Schema]:
    """Return the schemas of the tables that extract() writes besides packets, by name."""
    of_protocols = {protocol.name: messages.schema(protocol) for protocol in framed()}
    return {"connections": CONNECTIONS_TABLE, STREAM_LAYERS_TABLE: messages.STREAM_LAYERS, **of_protocols}


def side_path(out: Path, name: str) -> Path:
    """Return the directory of such a table; `out` is that of packets."""
    return out.with_name(name + out.suffix)


def extract(
    readings: Sequence[Reading],
    out: Path,
    by: By,
    spark: "SparkSession | None",
    secrets: Secrets = frozenset(),
) -> list[Report]:
    """Write the packets of readings as Parquet under `out`, and side_tables(); return a report for each
    capture.

    `secrets` decrypt streams, as do those in the captures of a run. Without Spark the work is done in this
    process. Raises OSError, and CaptureError for a file that is no capture.
    """
    out.mkdir(parents=True, exist_ok=True)
    given = readings
    if spark is not None:  # executors have working directories of their own
        out, given = out.resolve(), [_absolute(reading) for reading in readings]
    try:
        groups = _groups(len(readings), spark)
        written = run_tasks(
            spark, lambda number: _write_pieces(given, groups[number], out, by, number), len(groups)
        )
        parts = [part for group in written for part in group["pieces"]]
        reports = _summed(readings, parts)
        aside: dict[str, list[tuple[str, str]]] = defaultdict(list)
        key_logs: dict[str, set[str]] = defaultdict(set)
        for reading, part in zip(readings, parts, strict=True):
            if part["segments"]:
                aside[reading.run].append((part["segments"], reading.piece.path))
            key_logs[reading.run].update(part["key_logs"])
        runs = list(aside)

        def join(number: int) -> dict[str, Any]:
            known = secrets | from_lines("".join(key_logs[runs[number]]).encode())
            return _write_streams(runs[number], aside[runs[number]], known, out, by, number)

        for run, found in zip(runs, run_tasks(spark, join, len(runs)), strict=True):
            for path, counts in found["captures"].items():
                before = reports[run, path]
                reports[run, path] = before._replace(
                    kinds=dict(Counter(before.kinds) + Counter(counts["kinds"])),
                    problems=dict(Counter(before.problems) + Counter(counts["problems"])),
                    gaps=counts["gaps"],
                    skipped=counts["skipped"],
                )
            first = reports[run, aside[run][0][1]]
            reports[run, first.path] = first._replace(
                messages=found["messages"], connections=found["connections"]
            )
        names = list(dict.fromkeys(reading.run for reading in readings))
        for name, schema in side_tables().items():
            if name not in PROTOCOLS or side_path(out, name).exists():
                at_least_empty(side_path(out, name), schema, names, BY[:1])
    finally:
        shutil.rmtree(out / _ASIDE, ignore_errors=True)
    return list(reports.values())


def _absolute(reading: Reading) -> Reading:
    return reading._replace(piece=reading.piece._replace(path=os.path.abspath(reading.piece.path)))


def _groups(count: int, spark: "SparkSession | None") -> list[range]:
    """Return the piece numbers of each task: contiguous ranges, as each task has overhead."""
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
            protocols=dict(Counter(before.protocols) + Counter(part["protocols"])),
        )
    return reports


def _write_pieces(
    readings: Sequence[Reading], numbers: range, out: Path, by: By, task: int
) -> dict[str, Any]:
    """Write the packets of pieces; return the statistics of each."""
    grouped = "interface" in by
    parts: dict[tuple[str, ...], list[pa.RecordBatch]] = defaultdict(list)
    held = written = 0
    pieces = []
    for number in numbers:
        findings = ReadStatistics()
        frames = 0
        for batch in read_packets(readings[number], findings, grouped):
            raise_if_stopping()
            frames, held = frames + batch.num_rows, held + batch.num_rows
            for key, part in _split(batch, by):
                parts[key].append(part)
            if held >= _MOST_ROWS:  # a compressed capture is a single piece
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
                "protocols": findings.protocols,
                "key_logs": [lines.decode("ascii", "replace") for lines in findings.key_logs],
                "damages": findings.damages,
                "segments": aside,
            }
        )
    _write_parts(parts, out, by, f"{task:05}-{written:05}")
    return {"pieces": pieces}


def _split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """Yield the rows of a batch grouped by columns, with the groups' values."""
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
    """One direction of a connection at one interface, and the common columns of its packets."""

    def __init__(self, row: Row) -> None:
        self.stream = PacketStream(websocket.PORT in (row.src_port, row.dst_port))
        self.row = row
        self.capture = ""


def _segments(paths: Sequence[tuple[str, str]]) -> Iterator[tuple[Row, str]]:
    """Yield the segments in files of one run with their captures, in order of time: a capture may continue in
    the next, or be of another node.
    """
    captures: dict[str, list[str]] = defaultdict(list)
    for path, capture in sorted(paths):
        captures[capture].append(path)

    def of(capture: str) -> Iterator[tuple[Row, str]]:
        for path in captures[capture]:
            for batch in pq.ParquetFile(path).iter_batches(_SEGMENTS_AT_ONCE):
                raise_if_stopping()
                columns = [column.to_pylist() for column in batch.columns]
                yield from ((Row(*values), capture) for values in zip(*columns, strict=True))

    return heapq.merge(*map(of, captures), key=lambda each: each[0].time)


def _write_streams(
    run: str, paths: Sequence[tuple[str, str]], secrets: Secrets, out: Path, by: By, number: int
) -> dict[str, Any]:
    """Reassemble the streams of one run from its segments, each in a file with its capture; return counts by
    capture, and messages by protocol and kind.
    """
    counts = _write_packets(paths, out, by, number)
    kept: dict[str, list[dict[str, Any]]] = defaultdict(list)
    written: Counter[str] = Counter()

    def flush(name: str, schema: pa.Schema) -> None:
        rows = kept.pop(name, [])
        if rows:
            table = pa.Table.from_pylist(rows, schema).drop_columns(list(BY[:1]))
            place = side_path(out, name) / partition(BY[0], run) / f"part-{written[name]:05}.parquet"
            with WholeFile(place, table.schema) as file:
                file.write(table)
            written[name] += 1

    schemas = side_tables()

    def keep(protocol: str, row: dict[str, Any]) -> None:
        kept[protocol].append(row)
        if len(kept[protocol]) >= _ROWS:
            flush(protocol, schemas[protocol])

    found = messages.read(run, lambda: (row for row, _ in _segments(paths)), secrets, keep)
    kept["connections"] = found.connections
    kept[STREAM_LAYERS_TABLE] = found.layers
    for name, schema in schemas.items():
        flush(name, schema)
    times_of: dict[str, dict[str, int]] = defaultdict(dict)
    for (protocol, kind), times in found.kinds.items():
        times_of[protocol][kind] = times
    return {"captures": counts, "messages": times_of, "connections": found.count}


def _write_packets(
    paths: Sequence[tuple[str, str]], out: Path, by: By, number: int
) -> dict[str, dict[str, Any]]:
    """Write the NDN packets in the streams of one run; return counts by capture."""
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

    for row, capture in _segments(paths):
        if row.protocol != NDN:
            continue
        key = (row.node, row.interface, row.direction, row.src, row.src_port, row.dst, row.dst_port)
        flow = flows.get(key)
        if flow is None:
            if len(flows) >= STREAMS:
                end(flows.popitem(last=False)[1])
            flow = flows[key] = _Flow(row)
        flows.move_to_end(key)
        flow.row, flow.capture = row, capture
        take(flow, flow.stream.receive(row.segment(row.payload)))
        if row.tcp_flags & RST:
            end(flows.pop(key))
        if len(rows) >= _ROWS:
            flush()
    for flow in flows.values():
        end(flow)
    flush()
    return found


_OF_SEGMENT = frozenset(SEGMENTS.names) & frozenset(PACKETS.names) - {"tcp_seq", "tcp_ack", "tcp_flags"}
_OF_PACKET = tuple(column.name for column in COLUMNS)[
    [column.name for column in COLUMNS].index(Link._fields[0]) :
]


def _stream_row(flow: _Flow, packet: bytes) -> dict[str, Any]:
    """Return the row of a packet completed by a flow's last segment."""
    nothing = dict.fromkeys(("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "carried_bytes"), 0)
    transport = {"transport": "websocket" if flow.stream.is_websocket else "tcp"}
    of_frame = {name: value for name, value in flow.row._asdict().items() if name in _OF_SEGMENT}
    return of_frame | nothing | transport | dict(zip(_OF_PACKET, decode_payload(packet), strict=True))
