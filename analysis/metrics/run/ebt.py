"""EBT by connection: the feeds that each peer receives over it (eager), and those of which the two exchange
notes only (lazy), over time.

Source: Scuttlebutt Protocol Guide, "EBT replication"; ssb/replication/session.py reads the notes.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.grouped import in_groups
from analysis.columns.values import HELD, MODES
from analysis.decode.protocols.ssb import DECLARATION
from analysis.files import Rows
from analysis.pit.entry import State
from analysis.pit.windows.levels import Levels
from analysis.run.context import Span
from base.units import NEVER

_Connection: TypeAlias = tuple[str, str, str]

_WAY = (("layering", pa.string()), ("node", pa.string()), ("peer", pa.string()))

EBT_CONNECTIONS = pa.schema(
    [*_WAY, *((name, pa.int64()) for name in (*MODES, "switched", "messages", "again"))]
)
"""A row for each node and peer: feeds eager and lazy when their connection, or the run, ended; how often a
feed switched; messages that the peer sent the node, and how many of them the node already had.
"""

EBT_MODES = pa.schema([*_WAY, ("slice", pa.int64()), *((name, pa.float64()) for name in MODES)])
"""Means of the feeds eager and lazy over each time slice of the run."""

TABLES = {"ebt_connections": EBT_CONNECTIONS, "ebt_modes": EBT_MODES}
"""The tables by name."""


def notes(seen: DataFrame) -> DataFrame:
    """Return layering, node, peer, time, note, eager, lazy, switched of the EBT notes that each node sent.

    `seen` are those of analysis.metrics.run.replication.Replication.ends.
    """
    return seen.where(F.col("is_out") & F.col("eager").isNotNull()).select(
        "layering", "node", F.col("receiver").alias("peer"), "time", "note", *MODES, "switched"
    )


def ebt(
    notes_sent: DataFrame, received: DataFrame, connections: Rows, spans: Mapping[str, Span]
) -> dict[str, pa.Table]:
    """Return TABLES.

    `notes_sent` are those of notes(), `received` is Replication.brought, `connections` are rows of
    analysis.decode.connections.CONNECTIONS; `spans` are of runs, by layering.
    """
    names = [name for name, _ in _WAY]
    schema = pa.schema([*_WAY, ("found", pa.string())])
    closings = _closings(connections)

    def follow(notes_of_one: pa.Table) -> Iterator[pa.Table]:
        rows = notes_of_one.sort_by([("time", "ascending"), ("note", "ascending")]).to_pylist()
        connection = _connection(rows[-1])
        total = {name: rows[-1][name] for name in MODES} | {"switched": sum(row["switched"] for row in rows)}
        means = _means(_steps(rows, closings.get(connection, ())), spans[connection[0]])
        yield pa.table([[value] for value in (*connection, json.dumps([total, [*means]]))], schema)

    nothing = {"messages": 0, "again": 0}
    rows: dict[str, Rows] = {name: [] for name in TABLES}
    found = in_groups(notes_sent, names, follow, from_arrow_schema(schema)).toArrow()
    brought = received.toArrow().to_pylist() if len(found) else []
    messages = {_connection(row): {name: row[name] for name in ("messages", "again")} for row in brought}
    for row in found.sort_by([(name, "ascending") for name in names]).to_pylist():
        total, means = json.loads(row.pop("found"))
        rows["ebt_connections"].append(row | total | messages.get(_connection(row), nothing))
        rows["ebt_modes"] += [row | mean for mean in means]
    return {name: pa.Table.from_pylist(rows[name], schema) for name, schema in TABLES.items()}


def modes(notes_sent: Rows, connections: Rows) -> dict[_Connection, dict[int, tuple[int, int]]]:
    """Return for each (layering, node, peer) the numbers of feeds eager and lazy from each time (ns) on, in
    order. The arguments are those of ebt(); no feed is either once the last connection of the two is closed.
    """
    notes: defaultdict[_Connection, Rows] = defaultdict(list)
    for row in sorted(notes_sent, key=itemgetter("time", "note")):
        notes[_connection(row)].append(row)
    closings = _closings(connections)
    return {connection: _steps(own, closings.get(connection, ())) for connection, own in notes.items()}


def _steps(notes: Rows, closings: Iterable[int]) -> dict[int, tuple[int, int]]:
    steps = {row["time"]: (row["eager"], row["lazy"]) for row in notes} | dict.fromkeys(closings, (0, 0))
    return dict(sorted(steps.items()))


def turns(notes_sent: Rows, connections: Rows) -> Iterator[tuple[int, _Connection, dict[str, str]]]:
    """Yield time, (layering, node, peer) and the mode of each feed by name, one of MODES, after each note
    that may have changed one, and once the last connection of the two is closed; in order of time.

    `notes_sent` are rows of the table of messages with layering, node and peer; of two connections of one
    pair the last note tells, as in modes().
    """
    modes_of = dict(zip("+-", MODES, strict=True))
    held: defaultdict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
    told: dict[_Connection, tuple[Any, ...]] = {}  # the connection whose modes were yielded last
    steps: list[tuple[int, int, _Connection, Mapping[str, Any]]] = [
        *((row["time"], row["note"], _connection(row), row) for row in notes_sent),
        *((closed, int(NEVER), who, {}) for who, times in _closings(connections).items() for closed in times),
    ]
    for time, _, connection, row in sorted(steps, key=itemgetter(0, 1)):
        if not row:
            told.pop(connection, None)
            yield time, connection, {}
            continue
        stream = tuple(row[name] for name in ("src", "src_port", "dst", "dst_port"))
        own, turned = held[stream], (row.get("turned") or "").split()
        for word in turned:
            own.pop(word[1:], None)
            if word[0] in modes_of:
                own[word[1:]] = modes_of[word[0]]
        if turned or told.get(connection) != stream:
            told[connection] = stream
            yield time, connection, dict(own)


def _connection(row: Mapping[str, Any]) -> _Connection:
    return row["layering"], row["node"], row["peer"]


def _closings(connections: Rows) -> dict[_Connection, list[int]]:
    """Return for node and peer of each end the times when their last connection was closed."""
    own = [row for row in connections if row["protocol"] == DECLARATION.name and row["direction"]]
    here, there = {"out": "src", "in": "dst"}, {"out": "dst", "in": "src"}
    node_of = {(row["layering"], row[here[row["direction"]]]): row["node"] for row in own}
    lives: defaultdict[_Connection, list[tuple[int, int]]] = defaultdict(list)
    for row in own:
        peer = node_of.get((row["layering"], row[there[row["direction"]]]))
        if peer is not None:
            life = row["opened"] or 0, NEVER if row["closed"] is None else row["closed"]
            lives[row["layering"], row["node"], peer].append(life)
    return {
        connection: [
            closed
            for _, closed in own_lives
            if closed < NEVER and not any(opened <= closed < until for opened, until in own_lives)
        ]
        for connection, own_lives in lives.items()
    }


def _means(steps: Mapping[int, tuple[int, int]], span: Span) -> Iterator[dict[str, Any]]:
    """Yield slice, eager, lazy; `steps` are the numbers that hold from each time on."""
    times = np.array(sorted(steps))
    # Levels takes the fields of State: eager and lazy stand in the first two.
    states = np.zeros((len(times), len(State._fields)), np.int64)
    states[:, : len(MODES)] = [steps[time] for time in times.tolist()]
    levels = Levels(span, HELD, bins=1)
    levels.push(times, states)
    levels.finish()
    for row in levels.heat():
        yield {"slice": row["slice"]} | {mode: row[held] for mode, held in zip(MODES, HELD, strict=True)}
