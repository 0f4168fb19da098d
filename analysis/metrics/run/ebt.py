"""EBT by connection: the feeds that each peer receives over it (eager), and those of which the two exchange
notes only (lazy), over time.

Source: Scuttlebutt Protocol Guide, "EBT replication"; ssb/replication/session.py reads the notes.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analysis.columns.values import HELD
from analysis.files import Rows
from analysis.pit.entry import State
from analysis.pit.windows.levels import Levels
from analysis.run.context import Span

_Way: TypeAlias = tuple[str, str, str]

_WAY = (("layering", pa.string()), ("node", pa.string()), ("peer", pa.string()))
MODES = ("eager", "lazy")

EBT_CONNECTIONS = pa.schema(
    [*_WAY, *((name, pa.int64()) for name in (*MODES, "switched", "messages", "again"))]
)
"""A row for each peer of a node: feeds eager and lazy when their connection, or the run, ended; times that a
feed went from one to the other; messages that the peer sent the node, and those of them that it had.
"""

EBT_MODES = pa.schema([*_WAY, ("slice", pa.int64()), *((name, pa.float64()) for name in MODES)])
"""Means of the feeds eager and lazy over each time slice of the run."""

TABLES = {"ebt_connections": EBT_CONNECTIONS, "ebt_modes": EBT_MODES}
"""The tables by name."""


def notes(seen: DataFrame) -> DataFrame:
    """Return layering, node, peer, time, eager, lazy, switched of the EBT notes that each node sent; `seen`
    has messages of Scuttlebutt at_ends().
    """
    return seen.where(F.col("is_out") & F.col("eager").isNotNull()).select(
        "layering", "node", F.col("receiver").alias("peer"), "time", *MODES, "switched"
    )


def ebt(noted: Rows, brought: Rows, connections: Rows, spans: Mapping[str, Span]) -> dict[str, pa.Table]:
    """Return TABLES.

    `noted` are rows of notes(), `brought` of analysis.metrics.run.replication.Replication, `connections` of
    analysis.decode.connections.CONNECTIONS; `spans` are of runs, by layering.
    """
    totals: dict[_Way, dict[str, int]] = {}
    steps: defaultdict[_Way, dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in sorted(noted, key=itemgetter("time")):
        way = _way(row)
        before = totals.get(way, {"switched": 0})["switched"]
        totals[way] = {name: row[name] for name in MODES} | {"switched": before + row["switched"]}
        steps[way][row["time"]] = row["eager"], row["lazy"]
    for way, closed in _closings(connections):
        if way in steps:
            steps[way][closed] = 0, 0
    came = {_way(row): {name: row[name] for name in ("messages", "again")} for row in brought}
    nothing = {"messages": 0, "again": 0}
    ways = sorted(totals)
    return {
        "ebt_connections": pa.Table.from_pylist(
            [_labels(way) | totals[way] | came.get(way, nothing) for way in ways], EBT_CONNECTIONS
        ),
        "ebt_modes": pa.Table.from_pylist(
            [_labels(way) | row for way in ways for row in _means(steps[way], spans[way[0]])], EBT_MODES
        ),
    }


def _way(row: Mapping[str, Any]) -> _Way:
    return row["layering"], row["node"], row["peer"]


def _labels(way: _Way) -> dict[str, Any]:
    return dict(zip(("layering", "node", "peer"), way, strict=True))


def _closings(connections: Rows) -> Iterator[tuple[_Way, int]]:
    """Yield node and peer of each end of a connection, and the time when it was closed."""
    far = {True: "dst", False: "src"}
    node_of = {
        (row["layering"], row[far[row["direction"] != "out"]]): row["node"]
        for row in connections
        if row["direction"]
    }
    for row in connections:
        peer = node_of.get((row["layering"], row[far[row["direction"] == "out"]]))
        if row["closed"] is not None and peer is not None:
            yield (row["layering"], row["node"], peer), row["closed"]


def _means(steps: Mapping[int, tuple[int, int]], span: Span) -> Iterator[dict[str, Any]]:
    """Yield slice, eager, lazy; `steps` are the numbers that hold from each time on."""
    times = np.array(sorted(steps))
    states = np.zeros((len(times), len(State._fields)), np.int64)
    states[:, : len(MODES)] = [steps[time] for time in times.tolist()]
    levels = Levels(span, HELD, bins=1)
    levels.push(times, states)
    levels.finish()
    for row in levels.heat():
        yield {"slice": row["slice"]} | {mode: row[held] for mode, held in zip(MODES, HELD, strict=True)}
