"""PIT reconstruction of captures of any size: Parquet of packets in, Parquet of entries and of changes out.

Theory of operation. Nodes are independent, so each is a task; Spark hands tasks out, if there is Spark, and
no row passes through its JVM. A task reads its node's files by time (analysis/spark/parquet_windows.py). So
memory is bounded by a few row groups and by the entries that are open, whatever the capture's size, and no
file has to be sorted.

A node with most of the packets is several tasks, which share out its entries by their names
(analysis/pit/shares.py). Each of them has to read all packets, so it is done where cores would be idle. The
changes of all nodes of a run, and of all shares of a node, are then added up by a second round of tasks, one
a run, in the same way.

On several machines, input and output must be on a file system that they share.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.pit.entry import State
from analysis.pit.scan import PitScan
from analysis.pit.shares import Share
from analysis.pit.window import COLUMNS
from analysis.spark.parallel import at_once, each
from analysis.spark.parquet import WholeFile, directories, partition
from analysis.spark.parquet_windows import Group, in_windows, row_groups
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.values import ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_ROWS = 1 << 20
"""Rows from which on a node may be several tasks."""

INTERVALS_ARROW = pa.schema([field for field in PIT_INTERVALS.arrow if field.name != "layering"])
OCCUPANCY_ARROW = pa.schema([field for field in PIT_OCCUPANCY.arrow if field.name != "layering"])

_STATE = State._fields


def scan(packets: Path, out: Path, spark: "SparkSession | None" = None) -> None:
    """Write `out`/pit_intervals and `out`/pit_occupancy, partitioned by run, from Parquet of packets.

    `packets` is what analysis.spark.to_parquet has written, in directories by run, node and, if any,
    interface; of captures with fragments (frag_count > 1), what analysis.tables.reassembly has made of them,
    written in the same way. Without Spark the work is done here. A run's packets end with the last one of any
    of its nodes.
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
    for table in ("pit_intervals", "pit_occupancy"):
        shutil.rmtree(out / table, ignore_errors=True)
    tasks = list(tasks_of(nodes, at_once(spark)))
    runs = sorted(ends)

    def follow(number: int) -> dict[str, Any]:
        task = tasks[number]
        paths = (_part(out, table, task.run, number) for table in ("pit_intervals", "pit_occupancy"))
        _follow(task, nodes[task.run, task.node], ends[task.run], *paths)
        return {}

    def add_up(number: int) -> dict[str, Any]:
        run = runs[number]
        parts = {_part(out, "pit_occupancy", run, n): task for n, task in enumerate(tasks) if task.run == run}
        split = sorted({task.node for task in parts.values() if task.share.of > 1})
        targets = {node: _part(out, "pit_occupancy", run, len(tasks) + n) for n, node in enumerate(split)}
        _add_up(parts, targets | {ALL: _part(out, "pit_occupancy", run, len(tasks) + len(split))})
        return {}

    each(spark, follow, len(tasks))
    each(spark, add_up, len(runs))
    for number, task in enumerate(tasks):
        if task.share.of > 1:
            _part(out, "pit_occupancy", task.run, number).unlink()


class Task(NamedTuple):
    """A share of a node's entries to be followed."""

    run: str
    node: str
    share: Share


def tasks_of(nodes: Mapping[tuple[str, str], Sequence[Group]], cores: int) -> Iterator[Task]:
    """Yield what is done at once. More shares of a node than there are cores for it would only read more."""
    rows = {key: sum(group.rows for group in groups) for key, groups in nodes.items()}
    for (run, node), count in sorted(rows.items()):
        fair = round(cores * count / sum(rows.values()))
        shares = fair if count >= SPLIT_ROWS and fair > 1 else 1
        has_prefixes = any(group.has_prefixes for group in nodes[run, node])
        yield from (Task(run, node, Share(number, shares, has_prefixes)) for number in range(shares))


def _part(out: Path, table: str, run: str, number: int) -> Path:
    return out / table / partition("run", run) / f"part-{number:05}.parquet"


def _follow(task: Task, groups: Sequence[Group], end: int, intervals: Path, occupancy: Path) -> None:
    model = PitScan()
    with WholeFile(intervals, INTERVALS_ARROW) as ended, WholeFile(occupancy, OCCUPANCY_ARROW) as changed:
        states = _States(changed, task.node)
        for window in in_windows(groups, COLUMNS, task.share.kept):
            entries, steps = model.push(window)
            ended.write(_at(task.node, entries))
            states.write(steps)
        entries, steps = model.finish(end)
        ended.write(_at(task.node, entries))
        states.write(steps)


def _add_up(parts: Mapping[Path, Task], targets: Mapping[str, Path]) -> None:
    """Write the states of nodes that were followed in shares, and of all nodes together."""
    groups = [group for path in parts for group, _ in row_groups(path, {"part": str(path)})]
    of_node = {
        node: pa.array([str(path) for path, task in parts.items() if node in (task.node, ALL)])
        for node in targets
    }
    before: dict[str, tuple[int, ...]] = {}
    with ExitStack() as files:
        states = {
            node: _States(files.enter_context(WholeFile(path, OCCUPANCY_ARROW)), node)
            for node, path in targets.items()
        }
        for window in in_windows(groups, ["time", "part", *_STATE]):
            deltas = _deltas(window, before)
            for node, of_it in of_node.items():
                states[node].write(deltas.filter(pc.is_in(deltas["part"], of_it)))


def _deltas(window: pa.Table, before: dict[str, tuple[int, ...]]) -> pa.Table:
    """Return what each row's state adds to its part's row before; `before` is kept from window to window."""
    parts = window["part"].unify_dictionaries().combine_chunks()
    codes = parts.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    last = np.append(first[1:], len(ordered)) - 1
    names = [parts.dictionary[int(ordered[place])].as_py() for place in first]
    columns = [window["time"].combine_chunks(), parts]
    ends = []
    for place, name in enumerate(_STATE):
        values = window[name].to_numpy()[order]
        changes = np.diff(values, prepend=0)
        changes[first] = values[first] - [before.get(part, (0,) * len(_STATE))[place] for part in names]
        ends.append(values[last])
        back = np.empty_like(changes)
        back[order] = changes
        columns.append(pa.array(back))
    for part, *state in zip(names, *(values.tolist() for values in ends), strict=True):
        before[part] = tuple(state)
    return pa.Table.from_arrays(columns, names=["time", "part", *_STATE])


class _States:
    """The states of a node as they are written: each comes of the one before by steps."""

    def __init__(self, target: WholeFile, node: str) -> None:
        self._target = target
        self._node = node
        self._last = np.zeros(len(_STATE), np.int64)

    def write(self, steps: pa.Table) -> None:
        """Write the states after the next steps, of which several may be of one time."""
        times = steps["time"].to_numpy()
        if not len(times):
            return
        first = np.flatnonzero(np.diff(times, prepend=times[0] - 1))
        deltas = np.stack([np.add.reduceat(steps[name].to_numpy(), first) for name in _STATE], axis=1)
        states = np.cumsum(deltas, axis=0) + self._last
        self._last = states[-1]
        changed = deltas.any(axis=1)
        count = int(changed.sum())
        self._target.write(
            pa.Table.from_arrays(
                [
                    pa.array([self._node] * count, pa.string()),
                    pa.array(times[first][changed]),
                    *(pa.array(np.ascontiguousarray(column)) for column in states[changed].T),
                ],
                schema=OCCUPANCY_ARROW,
            )
        )


def _at(node: str, intervals: pa.Table) -> pa.Table:
    return intervals.add_column(0, "node", pa.array([node] * len(intervals), pa.string()))
