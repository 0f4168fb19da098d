"""Captures to Parquet: packets, and the tables of TCP.

Theory of operation. Pieces of captures are read by a Spark data source (analysis.spark.capture_source) and
written by Spark's own writer, with its commits: a repeated task has the effect of one. As TCP streams cross
pieces and captures, segments are then read once more, if there are any, and grouped by the ends of their
connections; each group is reassembled by itself (analysis.decode.streams). NDN's packets join the others;
messages of other protocols, connections, and TCP bytes by layer get tables of their own.

On several machines, captures and output must be on a shared file system.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.decode.protocols.registry import PROTOCOLS
from analysis.decode.reading import SEGMENTS, Reading
from analysis.decode.streams import (
    COUNTS,
    COUNTS_TABLE,
    PACKETS_TABLE,
    STREAM_LAYERS_TABLE,
    read_streams,
    side_tables,
    stream_rows,
)
from analysis.files import Rows
from analysis.packet_schema import PACKETS
from analysis.spark.batch_reader import FINDINGS
from analysis.spark.capture_source import read_captures
from analysis.spark.engine import parallelism
from analysis.spark.parquet import (
    BY,
    NO_VALUE,
    By,
    at_least_empty,
    of_table,
    read_parquet,
    set_aside,
    write,
)
from base.key_log import Secrets, from_lines

_TASKS_A_CORE = 2
_PIECES_A_TASK = 8
_SEGMENTS_A_GROUP = 1 << 17
"""TCP frames of a task, roughly. A connection is not divided: its task holds all of it in memory."""


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


def side_path(out: Path, name: str) -> Path:
    """Return the directory of a table beside packets; `out` is that of packets."""
    return out.with_name(name + out.suffix)


def extract(
    pieces: Sequence[Reading], out: Path, by: By, spark: SparkSession, secrets: Secrets = frozenset()
) -> list[Report]:
    """Write the packets of pieces as Parquet under `out`, and analysis.decode.streams.side_tables(); return a
    report for each capture.

    `secrets` decrypt streams, as do those in the captures of a run. Raises OSError, and CaptureError for a
    file that is no capture.
    """
    out = out.resolve()
    # Each task writes a file for each directory, which costs more than their rows.
    cores = parallelism(spark)
    tasks = max(_TASKS_A_CORE * (cores or 1), len(pieces) // _PIECES_A_TASK)
    write(read_captures(spark, pieces, mode="findings", partitions=tasks), out, by)
    found = _findings(spark, out, pieces)
    reports = _summed(pieces, found)
    with_streams = [piece for piece, said in zip(pieces, found, strict=True) if said["segments"]]
    if with_streams:
        known = {piece.run: secrets for piece in pieces}
        for piece, said in zip(pieces, found, strict=True):
            known[piece.run] |= from_lines("".join(said["key_logs"]).encode())
        groups = sum(said["segments"] for said in found) // _SEGMENTS_A_GROUP + 1
        segments = read_captures(spark, with_streams, SEGMENTS, "permissive", tasks)
        with set_aside(_streams(segments, known, groups), side_path(out, ".streams")) as rows:
            counts = of_table(rows, COUNTS_TABLE, COUNTS).groupBy(*COUNTS.names[:-1])
            summed = counts.agg(F.sum("number").alias("number")).toArrow().to_pylist()
            _add_counts(reports, summed)
            _write_streams(rows, out, by, {row["what"] for row in summed if not row["capture"]})
    names = list(dict.fromkeys(piece.run for piece in pieces))
    for name, schema in side_tables().items():
        if name not in PROTOCOLS or any(side_path(out, name).rglob("*.parquet")):
            at_least_empty(side_path(out, name), schema, names, BY[:1])
        else:
            shutil.rmtree(side_path(out, name), ignore_errors=True)
    return list(reports.values())


def _findings(spark: SparkSession, out: Path, pieces: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return what was found in each piece, and remove it from the table of packets."""
    packets = read_parquet(spark, out, from_arrow_schema(PACKETS))
    told = packets.where((F.coalesce("layering", F.lit("")) == "") & (F.col("kind") == FINDINGS))
    said = map(json.loads, told.select("problem").toArrow()["problem"].to_pylist())
    found = {(each["run"], each["path"], each["start"]): each for each in said}
    for name in _WITHOUT_RUN:
        shutil.rmtree(out / name, ignore_errors=True)
    return [found[each.run, os.path.abspath(each.piece.path), each.piece.start] for each in pieces]


_WITHOUT_RUN = ("layering=", f"layering={NO_VALUE}")
"""What engines call the directory of rows without a run."""


def _summed(pieces: Sequence[Reading], found: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Report]:
    reports: dict[tuple[str, str], Report] = {}
    for piece, said in zip(pieces, found, strict=True):
        key = piece.run, piece.piece.path
        before = reports.get(key, Report(*key, 0, {}, {}, []))
        counted: dict[str, Any] = {
            name: dict(Counter(getattr(before, name)) + Counter(said[name]))
            for name in ("kinds", "problems", "directions", "protocols")
        }
        reports[key] = before._replace(
            frames=before.frames + sum(said["kinds"].values()),
            damages=before.damages + [tuple(damage) for damage in said["damages"]],
            **counted,
        )
    return reports


def _streams(segments: DataFrame, secrets: Mapping[str, Secrets], groups: int) -> DataFrame:
    """Return analysis.decode.streams.stream_rows() of SEGMENTS, in groups of connections."""
    ends = [F.concat_ws(" ", address, port) for address, port in (("src", "src_port"), ("dst", "dst_port"))]
    of_ends = F.crc32(F.concat_ws(" ", F.least(*ends), F.greatest(*ends)))
    divided = segments.where(F.col("tcp_seq").isNotNull()).withColumn("part", F.pmod(of_ends, F.lit(groups)))

    def read(rows: pa.Table) -> pa.Table:
        return read_streams(rows, secrets)

    return divided.groupBy("layering", "part").applyInArrow(read, from_arrow_schema(stream_rows()))


def _write_streams(rows: DataFrame, out: Path, by: By, protocols: set[str]) -> None:
    """Write the tables of streams; `protocols` have messages."""
    write(of_table(rows, PACKETS_TABLE, PACKETS), out, by, "append")
    for name, schema in side_tables().items():
        own = of_table(rows, name, schema)
        if name == STREAM_LAYERS_TABLE:
            own = own.groupBy(*schema.names[:-1]).agg(F.sum("bytes").alias("bytes"))
        if name not in PROTOCOLS or name in protocols:
            write(own, side_path(out, name), BY[:1])


def _add_counts(reports: dict[tuple[str, str], Report], counts: Rows) -> None:
    """Add the COUNTS of streams to the reports of their captures; those of no capture to the run's first."""
    paths = {(run, os.path.abspath(path)): path for run, path in reports}
    firsts = {key[0]: key for key in reversed(reports)}
    for row in counts:
        run, capture, what, label, number = (row[name] for name in COUNTS.names)
        key = (run, paths[run, capture]) if capture else firsts[run]
        before = reports[key]
        if capture and what in ("kinds", "problems"):
            counted = Counter(getattr(before, what)) + Counter({label: number})
            changed: dict[str, Any] = {what: dict(counted)}
        elif not label:
            changed = {what: getattr(before, what) + number}
        else:
            of_protocol = {**before.messages.get(what, {}), label: number}
            changed = {"messages": {**before.messages, what: of_protocol}}
        reports[key] = before._replace(**changed)
