"""PIT reconstruction of captures of any size: packets in, entries and states out.

Theory of operation. Entries do not depend on each other. So packets are divided by node and, if there are
many, by names and feeds (analysis.tables.shares); each part is followed by itself, in windows (PitScan). Its
changes are steps, which the engine adds up to the states of each node and of all nodes together.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.pit.entry import COUNTED, State
from analysis.pit.windows.scan import PitScan
from analysis.pit.windows.window import COLUMNS, WINDOW
from analysis.spark.parallel import in_parallel
from analysis.spark.parquet import BY, of_table, set_aside, write
from analysis.tables.schema import PIT_INTERVALS, PIT_OCCUPANCY
from analysis.tables.shares import Follower, followed

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
    with set_aside(followed(packets, pits(packets, ends, breaks)), out / ".followed") as rows:
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


def pits(
    packets: DataFrame, ends: Mapping[str, int] | None = None, breaks: pa.Table | None = None
) -> Follower:
    """Return the follower that makes entries and steps of packets: those of captures without fragments
    (frag_count > 1), or of analysis.tables.reassembly.

    `ends` (ns) is the end of each run: by default, the last packet of any of its nodes. `breaks`
    (analysis.run.context.BREAKS) are restarts and links that go down; each precedes all packets of its time.
    """
    last = packets.groupBy("layering").agg(F.max("time").alias("time")).toArrow().to_pylist()
    ended = {row["layering"]: row["time"] for row in last} | dict(ends or {})
    broken = _broken(breaks)

    def follow(share: pa.Table) -> dict[str, pa.Table]:
        run, node = (share[name][0].as_py() for name in _BY_NODE)
        model = PitScan(broken.get((run, node)))
        in_order = share.sort_by([("time", "ascending"), ("frame", "ascending")])
        windows = (in_order.slice(begin, WINDOW) for begin in range(0, len(in_order), WINDOW))
        told = zip(*map(model.push, windows), model.finish(ended[run]), strict=True)
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


def _broken(breaks: pa.Table | None) -> dict[tuple[str, str], pa.Table]:
    """Return the breaks of each run's nodes, as PitScan takes them."""
    found: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in [] if breaks is None else breaks.to_pylist():
        if row["event"] != "peer-restart":
            row_of_break = {"time": row["time"], "interface": row["interface"], "kind": row["event"]}
            found[row["layering"], row["node"]].append(row_of_break)
    return {place: pa.Table.from_pylist(rows) for place, rows in found.items()}


def occupancy(steps: DataFrame) -> DataFrame:
    """Return analysis.tables.schema.PIT_OCCUPANCY of STEPS."""
    every = steps.union(steps.withColumn("node", F.lit(ALL)))
    changes = every.groupBy(*_BY_NODE, "time").agg(
        *(F.sum(f"delta_{name}").alias(f"delta_{name}") for name in State._fields)
    )
    changes = changes.where(" or ".join(f"delta_{name} <> 0" for name in State._fields))
    so_far = Window.partitionBy(*_BY_NODE).orderBy("time")
    states = [F.sum(f"delta_{name}").over(so_far).alias(name) for name in State._fields]
    return changes.select(*_BY_NODE, "time", *states).select(*PIT_OCCUPANCY.arrow.names)
