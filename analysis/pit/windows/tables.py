"""PIT reconstruction of captures: packets in, entries and states out.

Theory of operation. Entries do not depend on each other. So packets are divided by node and, if there are
many, by names and feeds (analysis.tables.shares); each part is followed by itself, in windows (PitScan). Its
changes are steps, which tasks add up to the states of each node and of all nodes together: a task has a slot
of the run's time (analysis.pit.windows.slots), and begins with the sums of the slots before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.arrays import coded, compact, groups_of, starts, values
from analysis.columns.grouped import in_groups
from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.pit.entry import COUNTED, State
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.slots import SLOT, Slots, slots_of, with_slot
from analysis.pit.windows.window import COLUMNS, WINDOW
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, of_table, set_aside, write
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.shares import Ends, Follower, followed, nodes_of
from captures.formats.records import Ints

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

_BY_NODE = ("layering", "node")
_STEPS = "pit_steps"


def write_pits(
    packets: DataFrame,
    out: Path,
    *,
    ends: Mapping[str, int] | None = None,
    breaks: pa.Table | None = None,
    keep_steps: bool = False,
) -> Slots:
    """Write the tables of write_told(), of packets; arguments as of pits(). Return the slots of runs."""
    nodes = nodes_of(packets)
    slots = slots_of(nodes)
    with set_aside(followed(packets, nodes, pits(ends, breaks)), out / ".followed") as rows:
        write_told(rows, out, slots, keep_steps=keep_steps)
    return slots


def write_told(rows: DataFrame, out: Path, slots: Slots, *, keep_steps: bool = False) -> None:
    """Write `out`/pit_intervals and `out`/pit_occupancy, in directories by layering, of the rows
    that pits() makes (analysis.tables.shares.followed). `slots` are those of runs; `keep_steps`: write STEPS
    to `out`/pit_steps, too.
    """
    entries = of_table(rows, PIT_INTERVALS.name, PIT_INTERVALS.arrow)
    steps = of_table(rows, _STEPS, STEPS)
    in_parallel(
        lambda: write(entries, out / PIT_INTERVALS.name, BY[:1]),
        lambda: write(occupancy(steps, slots), out / PIT_OCCUPANCY.name, BY[:1]),
        *([lambda: write(steps, out / _STEPS, BY[:1])] if keep_steps else []),
    )


def pits(ends: Mapping[str, int] | None = None, breaks: pa.Table | None = None) -> Follower:
    """Return the follower that makes entries and steps of packets: those of captures without fragments
    (frag_count > 1), or of analysis.tables.reassembly.

    `ends` (ns) is the end of each run: by default, the last packet of any of its nodes. `breaks`
    (analysis.run.context.BREAKS) are restarts and links that go down; each precedes all packets of its time.
    """
    known, broken = dict(ends or {}), _broken(breaks)

    def follow(share: pa.Table, of_run: Ends) -> dict[str, pa.Table]:
        run, node = (share[name][0].as_py() for name in _BY_NODE)
        model = PitScan(broken.get((run, node)))
        end = known.get(run, of_run.packets)
        told = zip(*map(model.push, _windows(share)), model.finish(end), strict=True)
        entries, steps = map(pa.concat_tables, told)
        named = {
            PIT_INTERVALS.name: entries,
            _STEPS: steps.rename_columns([STEPS.names[2], *DELTAS]),
        }
        return {
            name: rows.append_column("layering", pa.repeat(run, len(rows))).append_column(
                "node", pa.repeat(node, len(rows))
            )
            for name, rows in named.items()
        }

    tables = {PIT_INTERVALS.name: PIT_INTERVALS.arrow, _STEPS: STEPS}
    return Follower((*_BY_NODE, *COLUMNS), tables, follow)


def _windows(share: pa.Table) -> Iterator[pa.Table]:
    """Yield the windows of a share: if they are several, each with names of its own, as a window's work is
    over all of its names.
    """
    if len(share) <= WINDOW:
        yield share
    else:
        yield from (compact(share.slice(begin, WINDOW)) for begin in range(0, len(share), WINDOW))


def _broken(breaks: pa.Table | None) -> dict[tuple[str, str], pa.Table]:
    """Return the breaks of each run's nodes, as PitScan takes them."""
    found: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in [] if breaks is None else breaks.to_pylist():
        if row["event"] != "peer-restart":
            row_of_break = {"time": row["time"], "interface": row["interface"], "kind": row["event"]}
            found[row["layering"], row["node"]].append(row_of_break)
    return {place: pa.Table.from_pylist(rows) for place, rows in found.items()}


def occupancy(steps: DataFrame, slots: Slots) -> DataFrame:
    """Return analysis.tables.schema.PIT_OCCUPANCY of STEPS: of each slot of a run in one task."""
    needed = with_slot(steps.select(*_BY_NODE, "time", *_OF_STATE), slots)
    before = _before(needed) if slots.are_several else {}

    def occupied(rows: pa.Table) -> Iterator[pa.Table]:
        return _occupied(rows, before.get((rows["layering"][0].as_py(), rows[SLOT][0].as_py()), {}))

    return in_groups(needed, (SLOT, "layering"), occupied, PIT_OCCUPANCY.spark, slots.number)


def _before(steps: DataFrame) -> dict[tuple[str, int], dict[str, Ints]]:
    """Return by layering and slot the states, as State, that nodes and ALL have at the slot's begin."""
    sums = steps.groupBy(*_BY_NODE, SLOT).agg(*(F.sum(name).alias(name) for name in _OF_STATE)).toArrow()
    so_far: dict[str, defaultdict[str, Ints]] = defaultdict(lambda: defaultdict(lambda: _NOTHING))
    found = {}
    for slot in groups_of(sums.sort_by([("layering", "ascending"), (SLOT, "ascending")]), ("layering", SLOT)):
        run, number = slot["layering"][0].as_py(), slot[SLOT][0].as_py()
        found[run, number] = dict(so_far[run])
        deltas = np.stack([slot[name].to_numpy() for name in _OF_STATE], axis=1)
        for node, delta in zip([*slot["node"].to_pylist(), ALL], [*deltas, deltas.sum(axis=0)], strict=True):
            so_far[run][node] = so_far[run][node] + delta
    return found


_OF_STATE = tuple(f"delta_{name}" for name in State._fields)
_NOTHING: Ints = np.zeros(len(_OF_STATE), np.int64)


def _occupied(steps: pa.Table, before: Mapping[str, Ints]) -> Iterator[pa.Table]:
    """Yield the states of a run's nodes, and of all together, from those `before` and their changes."""
    node, names = coded(steps["node"])
    time = values(steps["time"], 0)
    by_time = np.argsort(time, kind="stable")
    by_node = by_time[np.argsort(node[by_time], kind="stable")]
    borders = np.searchsorted(node[by_node], np.arange(len(names) + 1)).tolist()
    places = [by_node[begin:end] for begin, end in pairwise(borders)]
    deltas = [values(steps[name], 0) for name in _OF_STATE]
    for name, rows in zip([*names.to_pylist(), ALL], [*places, by_time], strict=True):
        begins = np.flatnonzero(starts(time[rows]))
        sums = [np.add.reduceat(delta[rows], begins) for delta in deltas]
        changed = np.logical_or.reduce([each != 0 for each in sums])
        held = before.get(name, _NOTHING)
        states = (first + np.cumsum(each[changed]) for first, each in zip(held, sums, strict=True))
        columns = [time[rows][begins][changed], *states]
        where = [pa.repeat(text, len(columns[0])) for text in (steps["layering"][0].as_py(), name)]
        names_of = [*_BY_NODE, "time", *State._fields]
        yield pa.table([*where, *map(pa.array, columns)], names_of)
