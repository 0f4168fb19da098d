"""PIT reconstruction of captures: packets in, entries and states out.

Theory of operation. Entries do not depend on each other. So packets are divided by node and, if there are
many, by names and feeds (analysis.tables.shares); each part is followed by itself, in windows (PitScan). Its
changes are steps, which one task of a run adds up to the states of each node and of all nodes together.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from analysis.columns.arrays import coded, compact, starts, values
from analysis.columns.grouped import in_groups
from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.pit.entry import COUNTED, State
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.window import COLUMNS, WINDOW
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, of_table, set_aside, write
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.shares import Ends, Follower, followed, nodes_of

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
) -> None:
    """Write the tables of write_told(), of packets; arguments as of pits()."""
    with set_aside(followed(packets, nodes_of(packets), pits(ends, breaks)), out / ".followed") as rows:
        write_told(rows, out, keep_steps=keep_steps)


def write_told(rows: DataFrame, out: Path, *, keep_steps: bool = False) -> None:
    """Write `out`/pit_intervals and `out`/pit_occupancy, in directories by layering, of the rows
    that pits() makes (analysis.tables.shares.followed). `keep_steps`: write STEPS to `out`/pit_steps, too.
    """
    entries = of_table(rows, PIT_INTERVALS.name, PIT_INTERVALS.arrow)
    steps = of_table(rows, _STEPS, STEPS)
    in_parallel(
        lambda: write(entries, out / PIT_INTERVALS.name, BY[:1]),
        lambda: write(occupancy(steps), out / PIT_OCCUPANCY.name, BY[:1]),
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


def occupancy(steps: DataFrame) -> DataFrame:
    """Return analysis.tables.schema.PIT_OCCUPANCY of STEPS: of each run in one task."""
    needed = steps.select(*_BY_NODE, "time", *_OF_STATE)
    return in_groups(needed, ("layering",), _occupied, PIT_OCCUPANCY.spark)


_OF_STATE = tuple(f"delta_{name}" for name in State._fields)


def _occupied(steps: pa.Table) -> Iterator[pa.Table]:
    """Yield the states of a run's nodes, and of all together, from their changes."""
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
        columns = [time[rows][begins][changed], *(np.cumsum(each[changed]) for each in sums)]
        where = [pa.repeat(text, len(columns[0])) for text in (steps["layering"][0].as_py(), name)]
        names_of = [*_BY_NODE, "time", *State._fields]
        yield pa.table([*where, *map(pa.array, columns)], names_of)
