"""PIT reconstruction of captures of any size: Parquet of packets in, Parquet of entries and of changes out.

Theory of operation. Nodes are independent, so each is a task; Spark hands tasks out, if there is Spark, and
no row passes through its JVM. A task sweeps over its node's files by time: row groups are read in the order
of their least times, and whatever lies before the least time of those not read yet is complete, wherever it
stands. So memory is bounded by a few row groups and by the entries that are open, whatever the capture's
size, and no file has to be sorted. The changes of all nodes of a run are then added up by a second round of
tasks, one a run, in the same way.

On several machines, input and output must be on a file system that they share.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.partitions import WholeFile, directories, partition
from analysis.pit.entry import State
from analysis.pit.scan import PitScan
from analysis.pit.window import COLUMNS
from analysis.stages import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tasks import each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = 1 << 19
"""Rows that are looked at together, if so many are complete."""

NETWORK = "*"
"""The node that stands for all nodes together."""

INTERVALS_ARROW = pa.schema([field for field in PIT_INTERVALS.arrow if field.name != "layering"])
OCCUPANCY_ARROW = pa.schema([field for field in PIT_OCCUPANCY.arrow if field.name != "layering"])

_STATE = State._fields
_TEXTS = [name for name in COLUMNS if name in ("interface", "direction", "kind", "name", "feed")]


class Group(NamedTuple):
    """A row group of a file, with the least time in it; `texts` are the values of its directories."""

    least: int
    path: str
    number: int
    rows: int
    texts: Mapping[str, str | None]


def scan(packets: Path, out: Path, spark: "SparkSession | None" = None) -> None:
    """Write `out`/pit_intervals and `out`/pit_occupancy, partitioned by run, from Parquet of packets.

    `packets` is what analysis.extract has written, in directories by run, node and, if any, interface; of
    captures with fragments (frag_count > 1), what analysis.reassemble has made of them, written in the same
    way. Without Spark the work is done here. A run's packets end with the last one of any of its nodes.
    """
    packets, out = packets.resolve(), out.resolve()  # tasks work in directories of their own
    nodes: dict[tuple[str, str], list[Group]] = defaultdict(list)
    ends: dict[str, int] = {}
    for path in sorted(packets.rglob("*.parquet")):
        if any(part.startswith(("_", ".")) for part in path.relative_to(packets).parts):
            continue
        texts = directories(path.relative_to(packets))
        key = texts.get("run") or "", texts.get("node") or ""
        for group, last in row_groups(path, texts):
            nodes[key].append(group)
            ends[key[0]] = max(ends.get(key[0], last), last)
    keys = sorted(nodes)
    places: dict[str, list[int]] = defaultdict(list)
    for number, (run, _) in enumerate(keys):
        places[run].append(number)
    for table in ("pit_intervals", "pit_occupancy"):
        shutil.rmtree(out / table, ignore_errors=True)

    def follow(number: int) -> dict[str, Any]:
        run, node = keys[number]
        _follow(
            node,
            nodes[keys[number]],
            ends[run],
            _part(out, "pit_intervals", run, number),
            _part(out, "pit_occupancy", run, number),
        )
        return {}

    def add_up(number: int) -> dict[str, Any]:
        run = sorted(places)[number]
        parts = [_part(out, "pit_occupancy", run, each) for each in places[run]]
        _add_up(parts, _part(out, "pit_occupancy", run, len(keys)))
        return {}

    each(spark, follow, len(keys))
    each(spark, add_up, len(places))


def sweep(groups: Sequence[Group], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of some row groups in windows of ascending times, the last of which is complete."""
    waiting: list[pa.Table] = []
    held = 0
    ordered = sorted(groups, key=lambda group: group.least)
    files: dict[str, pq.ParquetFile] = {}
    left = {path: sum(group.path == path for group in ordered) for path in {g.path for g in ordered}}
    for place, group in enumerate(ordered):
        if group.path not in files:
            coded = [name for name in _TEXTS if name in columns and name not in group.texts]
            files[group.path] = pq.ParquetFile(group.path, read_dictionary=coded)
        waiting.append(_read(files[group.path], group, columns))
        held += group.rows
        left[group.path] -= 1
        if not left[group.path]:
            files.pop(group.path).close()
        if held < WINDOW and place + 1 < len(ordered):
            continue
        whole = pa.concat_tables(waiting)
        if place + 1 < len(ordered):
            is_complete = pc.less(whole["time"], ordered[place + 1].least)
            ready, whole = whole.filter(is_complete), whole.filter(pc.invert(is_complete))
            waiting, held = [whole], len(whole)
        else:
            ready = whole
        if len(ready):
            order = [("time", "ascending")] + [("frame", "ascending")] * ("frame" in columns)
            yield ready.take(pc.sort_indices(ready, order))
    for file in files.values():
        file.close()


def _read(file: pq.ParquetFile, group: Group, columns: Sequence[str]) -> pa.Table:
    there = [name for name in columns if name not in group.texts]
    table = file.read_row_group(group.number, columns=there)
    arrays = []
    for name in columns:
        if name in group.texts:
            indices = pa.array(np.zeros(len(table), np.int32))
            value = group.texts[name]
            if value is None:
                indices = pa.nulls(len(table), pa.int32())
            arrays.append(
                pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array([value or ""]))])
            )
        else:
            arrays.append(table[name])
    return pa.Table.from_arrays(arrays, names=list(columns))


def row_groups(path: Path, texts: Mapping[str, str | None]) -> Iterator[tuple[Group, int]]:
    """Yield the row groups of a file, each with its greatest time."""
    with pq.ParquetFile(path) as file:
        meta = file.metadata
        place = file.schema_arrow.get_field_index("time")
        for number in range(meta.num_row_groups):
            found = meta.row_group(number)
            if not found.num_rows:
                continue
            statistics = found.column(place).statistics
            if statistics is None or not statistics.has_min_max:
                times = file.read_row_group(number, columns=["time"])["time"]
                span = pc.min_max(times).as_py()
                low, high = span["min"], span["max"]
            else:
                low, high = statistics.min, statistics.max
            yield Group(low, str(path), number, found.num_rows, texts), high


def _part(out: Path, table: str, run: str, number: int) -> Path:
    return out / table / partition("run", run) / f"part-{number:05}.parquet"


def _follow(node: str, groups: Sequence[Group], end: int, intervals: Path, occupancy: Path) -> None:
    model = PitScan()
    kept = np.zeros(len(_STATE), np.int64)
    with WholeFile(intervals, INTERVALS_ARROW) as ended, WholeFile(occupancy, OCCUPANCY_ARROW) as changed:
        for window in sweep(groups, COLUMNS):
            entries, steps = model.push(window)
            ended.write(_at(node, entries))
            kept = _write_states(changed, node, steps, kept)
        entries, steps = model.finish(end)
        ended.write(_at(node, entries))
        _write_states(changed, node, steps, kept)


def _add_up(parts: Sequence[Path], target: Path) -> None:
    """Write the state of all nodes together from those of each."""
    groups = [group for path in parts for group, _ in row_groups(path, {})]
    before: dict[str, tuple[int, ...]] = {}
    kept = np.zeros(len(_STATE), np.int64)
    with WholeFile(target, OCCUPANCY_ARROW) as changed:
        for window in sweep(groups, ["time", "node", *_STATE]):
            deltas = _deltas(window, before)
            kept = _write_states(changed, NETWORK, deltas, kept)


def _deltas(window: pa.Table, before: dict[str, tuple[int, ...]]) -> pa.Table:
    """Return what each row's state adds to its node's row before; `before` is kept from window to window."""
    nodes = pc.dictionary_encode(window["node"]).combine_chunks()
    codes = nodes.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    last = np.append(first[1:], len(ordered)) - 1
    names = [nodes.dictionary[int(ordered[place])].as_py() for place in first]
    columns = [window["time"].combine_chunks()]
    ends = []
    for place, name in enumerate(_STATE):
        values = window[name].to_numpy()[order]
        changes = np.diff(values, prepend=0)
        changes[first] = values[first] - [before.get(node, (0,) * len(_STATE))[place] for node in names]
        ends.append(values[last])
        back = np.empty_like(changes)
        back[order] = changes
        columns.append(pa.array(back))
    for node, *state in zip(names, *(values.tolist() for values in ends), strict=True):
        before[node] = tuple(state)
    return pa.Table.from_arrays(columns, names=["time", *_STATE])


def _write_states(target: WholeFile, node: str, steps: pa.Table, kept: Any) -> Any:
    """Write the states after some steps, of which several may be of one time; return the last one.

    `kept` is the state before.
    """
    times = steps["time"].to_numpy()
    if not len(times):
        return kept
    first = np.flatnonzero(np.diff(times, prepend=times[0] - 1))
    deltas = np.stack([np.add.reduceat(steps[name].to_numpy(), first) for name in _STATE], axis=1)
    states = np.cumsum(deltas, axis=0) + kept
    changed = deltas.any(axis=1)
    count = int(changed.sum())
    target.write(
        pa.Table.from_arrays(
            [
                pa.array([node] * count, pa.string()),
                pa.array(times[first][changed]),
                *(pa.array(np.ascontiguousarray(column)) for column in states[changed].T),
            ],
            schema=OCCUPANCY_ARROW,
        )
    )
    return states[-1]


def _at(node: str, intervals: pa.Table) -> pa.Table:
    return intervals.add_column(0, "node", pa.array([node] * len(intervals), pa.string()))
