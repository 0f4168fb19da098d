"""PIT reconstruction of captures of any size: Parquet of packets in, Parquet of entries and changes out.

Theory of operation. Nodes are independent, so each is a task if its packets are in files of their own. Spark,
if present, distributes the tasks; no row passes through its JVM. A task reads its files by time
(analysis/spark/parquet_windows.py). Memory is bounded by a few row groups and the open entries, whatever the
capture's size, and no file has to be sorted.

A node with most of the packets is several tasks, which divide its entries by their names
(analysis/pit/windows/shares.py). Each of them reads all packets, so this is done where cores would be idle.
The results of tasks are steps of nodes. A second round of tasks, one per run, sums them to the states of each
node and of all nodes together.

On several machines, input and output must be on a shared file system.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.pit.entry import COUNTED, State
from analysis.pit.windows.scan import Ended, PitScan
from analysis.pit.windows.shares import Share
from analysis.pit.windows.window import COLUMNS, by_node, compact, encoded, numbers
from analysis.spark.parallel import parallelism, run_tasks
from analysis.spark.parquet import WholeFile, partition
from analysis.spark.parquet_windows import Group, files_in, in_windows, row_groups
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from captures.formats.records import Ints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_ROWS = 1 << 20
"""Rows from which a node may be several tasks."""

INTERVALS_ARROW = pa.schema([field for field in PIT_INTERVALS.arrow if field.name != "layering"])
OCCUPANCY_ARROW = pa.schema([field for field in PIT_OCCUPANCY.arrow if field.name != "layering"])


DELTAS = tuple(f"delta_{name}" for name in COUNTED)
STEPS = pa.schema(
    [
        *((name, pa.string()) for name in ("layering", "node")),
        *((name, pa.int64()) for name in ("time", *DELTAS)),
    ]
)
"""Changes of nodes' tables, possibly several of one time: layering, node, time (ns), and the change of
entries, bytes, ranges and credit, of classic entries satisfied by received Data since the node's start, and
of those expired since then."""

STEPS_ARROW = STEPS.remove(0)

_OF_STATES = ("node", "time", *(f"delta_{name}" for name in State._fields))


def scan(
    packets: Path,
    out: Path,
    spark: "SparkSession | None" = None,
    *,
    ends: Mapping[str, int] | None = None,
    breaks: pa.Table | None = None,
    keep_steps: bool = False,
) -> None:
    """Write `out`/pit_intervals and `out`/pit_occupancy, in directories by layering, from Parquet of packets.

    `packets` was written by analysis.spark.to_parquet, in directories by layering, possibly by node and
    interface, too; of captures with fragments (frag_count > 1), by analysis.tables.reassembly in the same
    layout. Without Spark the tasks run in this process.

    `ends` (ns) is the end of each run: by default, the last packet of any of its nodes. `breaks`
    (analysis.run.context.BREAKS) are restarts and links that go down; each precedes all packets of its time.
    `keep_steps`: write STEPS to `out`/pit_steps, too.
    """
    packets, out = packets.resolve(), out.resolve()  # tasks have working directories of their own
    nodes: dict[tuple[str, str | None], list[Group]] = defaultdict(list)
    last: dict[str, int] = {}
    for texts, path in files_in(packets):
        run, node = texts.get("layering") or "", texts["node"] or "" if "node" in texts else None
        for group, until in row_groups(path, texts):
            nodes[run, node].append(group)
            last[run] = max(last.get(run, until), until)
    last |= ends or {}
    broken = _broken(breaks)
    intervals, steps = out / "pit_intervals", out / "pit_steps"
    for table in (intervals, steps):
        shutil.rmtree(table, ignore_errors=True)
    tasks = list(tasks_of(nodes, parallelism(spark)))

    def follow(number: int) -> dict[str, Any]:
        task = tasks[number]
        part = Path(partition("layering", task.run)) / f"part-{number:05}.parquet"
        with (
            WholeFile(intervals / part, INTERVALS_ARROW) as ended,
            WholeFile(steps / part, STEPS_ARROW, use_dictionary=["node"]) as changed,
        ):
            for entries, changes in _followed(task, nodes[task.run, task.node], broken, last[task.run]):
                ended.write(entries)
                changed.write(changes)
        return {}

    run_tasks(spark, follow, len(tasks))
    add_up(steps, out / "pit_occupancy", spark)
    if not keep_steps:
        shutil.rmtree(steps, ignore_errors=True)


class Task(NamedTuple):
    """A share of a node's entries, or all entries of all nodes of a run (None)."""

    run: str
    node: str | None
    share: Share


def tasks_of(nodes: Mapping[tuple[str, str | None], Sequence[Group]], cores: int) -> Iterator[Task]:
    """Yield the parallel tasks. More shares of a node than cores for it would only read more."""
    rows = {key: sum(group.rows for group in groups) for key, groups in nodes.items()}
    for (run, node), count in sorted(rows.items(), key=str):
        fair = round(cores * count / sum(rows.values()))
        shares = fair if count >= SPLIT_ROWS and fair > 1 else 1
        has_prefixes = any(group.has_prefixes for group in nodes[run, node])
        yield from (Task(run, node, Share(number, shares, has_prefixes)) for number in range(shares))


def _broken(breaks: pa.Table | None) -> dict[tuple[str, str], pa.Table]:
    """Return the breaks of each run's nodes, as PitScan takes them."""
    found: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in [] if breaks is None else breaks.to_pylist():
        if row["event"] != "peer-restart":
            row_of_break = {"time": row["time"], "interface": row["interface"], "kind": row["event"]}
            found[row["layering"], row["node"]].append(row_of_break)
    return {place: pa.Table.from_pylist(rows) for place, rows in found.items()}


def _followed(
    task: Task, groups: Sequence[Group], broken: Mapping[tuple[str, str], pa.Table], end: int
) -> Iterator[list[pa.Table]]:
    """Yield ended entries, and steps."""
    models: dict[str, PitScan] = {}
    for window in in_windows(groups, (*COLUMNS, "node"), task.share.kept):
        found = []
        for node, rows in by_node(window):
            if node not in models:
                models[node] = PitScan(broken.get((task.run, node)))
            own = rows if len(rows) == len(window) else compact(rows)
            found.append((node, models[node].push(own)))
        yield _together(found)
    yield _together((node, model.finish(end)) for node, model in models.items())


def _together(found: Iterable[tuple[str, Ended]]) -> list[pa.Table]:
    """Return the entries and the steps of several nodes."""
    tables: list[list[pa.Table]] = [[INTERVALS_ARROW.empty_table()], [STEPS_ARROW.empty_table()]]
    for node, ended in found:
        for parts, rows in zip(tables, ended, strict=True):
            named = rows.add_column(0, "node", pa.repeat(node, len(rows)))
            parts.append(named.rename_columns(parts[0].column_names))
    return [pa.concat_tables(parts) for parts in tables]


def add_up(steps: Path, out: Path, spark: "SparkSession | None" = None) -> None:
    """Write analysis.tables.schema.PIT_OCCUPANCY of the steps found by scan(), one task per run."""
    steps, out = steps.resolve(), out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    files: dict[str, list[Group]] = defaultdict(list)
    for texts, path in files_in(steps):
        files[texts.get("layering") or ""] += [group for group, _ in row_groups(path, {})]
    runs = sorted(files)

    def write(number: int) -> dict[str, Any]:
        before: dict[str, Ints] = {}
        place = out / partition("layering", runs[number]) / "part-0.parquet"
        with WholeFile(place, OCCUPANCY_ARROW) as states:
            for window in in_windows(files[runs[number]], _OF_STATES):
                states.write(_states(window, before))
        return {}

    run_tasks(spark, write, len(runs))


def _states(steps: pa.Table, before: dict[str, Ints]) -> pa.Table:
    """Return the states after some steps, which are all steps of their times. `before` are the states of
    nodes; it is kept from window to window."""
    nodes = encoded(steps["node"])
    codes, times = numbers(nodes), steps["time"].to_numpy()
    deltas = np.stack([steps[name].to_numpy() for name in _OF_STATES[2:]])
    order = np.argsort(codes.astype(np.int32), kind="stable")
    own = _cumulated(nodes.dictionary, codes[order], times[order], deltas[:, order], before)
    network = _cumulated(pa.array([ALL]), np.zeros(len(times), np.int64), times, deltas, before)
    return pa.concat_tables([own, network])


def _cumulated(names: pa.Array, codes: Ints, times: Ints, deltas: Ints, before: dict[str, Ints]) -> pa.Table:
    """Return the states of nodes after deltas in the order of node and time."""
    first = np.flatnonzero((np.diff(codes, prepend=-1) != 0) | (np.diff(times, prepend=0) != 0))
    codes, times, deltas = codes[first], times[first], np.add.reduceat(deltas, first, axis=1)
    states = np.cumsum(deltas, axis=1)
    begins = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    for low, high in zip(begins, [*begins[1:], len(codes)], strict=True):
        name = names[int(codes[low])].as_py()
        states[:, low:high] += (before.get(name, 0) - (states[:, low] - deltas[:, low]))[:, None]
        before[name] = states[:, high - 1].copy()
    changed = deltas.any(axis=0)
    columns = [names.take(pa.array(codes[changed])), times[changed], *states[:, changed]]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=OCCUPANCY_ARROW)
