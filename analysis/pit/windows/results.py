"""Results of a window of a node's packets, as Arrow tables of entries and changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.columns.answers import KEYS
from analysis.pit.entry import Interval, Step
from analysis.pit.windows.vector import Episodes, Rows
from analysis.tables.schema import PIT_INTERVALS
from captures.formats.records import Ints

INTERVALS = pa.schema([PIT_INTERVALS.arrow.field(name) for name in Interval._fields])
"""Entries of one node."""

_COUNTS = ("interests_in", "interests_out", "downstreams", "upstreams", "items_out")

STEPS = pa.schema([(name, pa.int64()) for name in Step._fields])
"""Changes of one node's table."""


def intervals_of(names: pa.Array, rows: Rows, episodes: Episodes) -> pa.Table:
    """Return the plain entries that have ended."""
    ended = np.flatnonzero(episodes.ended)
    first = episodes.starts[ended]
    zeros = pa.array(np.zeros(len(ended), np.int64))
    outcomes = pa.DictionaryArray.from_arrays(
        episodes.by_data[ended].astype(np.int8), pa.array(["expired", "satisfied"])
    )
    columns: dict[str, Any] = {
        "kind": pa.repeat("classic", len(ended)),
        "name": names.take(pa.array(rows.key[first] // KEYS)),
        "opened": rows.time[first],
        "closed": episodes.closed[ended],
        "outcome": outcomes.dictionary_decode(),
        **{name: getattr(episodes, name)[ended] for name in _COUNTS},
        "items_in": episodes.came_in[ended].astype(np.int64),
        "renewals": zeros,
        "peak_bytes": episodes.peak[ended],
        "peak_credit": zeros,
    }
    return pa.Table.from_arrays([pa.array(columns[name]) for name in INTERVALS.names], schema=INTERVALS)


Changes = tuple[Ints, dict[str, Ints]]
"""Ascending times, and the increments of some fields of a step."""


def steps_of(rows: Rows, episodes: Episodes) -> Changes:
    """Return the changes of the table not yet returned."""
    changes = np.zeros(len(rows.time), np.int64)
    changes[episodes.starts] = episodes.real
    size = np.where(episodes.real[episodes.of_row], episodes.row_bytes, 0)
    satisfied = np.zeros(len(rows.time), np.int64)
    by_data = np.flatnonzero(episodes.by_data)
    last = np.append(episodes.starts, len(rows.time))[1:][by_data] - 1
    changes[last] = -1
    satisfied[last] = episodes.came_in[by_data]
    # Back in the order of time; changes of carried rows were returned before.
    reported = np.flatnonzero(rows.is_new & (size != 0))
    reported = reported[np.argsort(rows.place[reported])]
    expired = np.flatnonzero(episodes.ended & ~episodes.by_data)
    gone = np.ones(len(expired), np.int64)
    none = np.zeros(len(expired), np.int64)
    return (
        np.concatenate([rows.time[reported], episodes.closed[expired]]),
        {
            "entries": np.concatenate([changes[reported], -gone]),
            "bytes": np.concatenate([size[reported], -episodes.bytes[expired]]),
            "satisfied": np.concatenate([satisfied[reported], none]),
            "expired": np.concatenate([np.zeros(len(reported), np.int64), gone]),
        },
    )


def merged(parts: Sequence[Changes]) -> pa.Table:
    """Return STEPS from changes: one per time, without those that change nothing."""
    times = np.concatenate([part[0] for part in parts])
    if not len(times):
        return STEPS.empty_table()
    order = np.argsort(times, kind="stable")
    times = times[order]
    first = np.flatnonzero(np.append(True, times[1:] != times[:-1]))
    sums = []
    for name in STEPS.names[1:]:
        if not any(name in part[1] for part in parts):
            sums.append(np.zeros(len(first), np.int64))
            continue
        values = np.concatenate([part[1].get(name, np.zeros(len(part[0]), np.int64)) for part in parts])
        sums.append(np.add.reduceat(values[order], first))
    changed = np.logical_or.reduce([each != 0 for each in sums])
    arrays = [times[first][changed], *(each[changed] for each in sums)]
    return pa.Table.from_arrays([pa.array(each) for each in arrays], schema=STEPS)


def columns_of(steps: Sequence[Step]) -> Changes:
    """Return the model's steps as columns."""
    if not steps:
        return np.zeros(0, np.int64), {}
    times, *fields = (np.array(values, np.int64) for values in zip(*steps, strict=True))
    return times, dict(zip(STEPS.names[1:], fields, strict=True))


def table_of(rows: Sequence[Interval] | Sequence[Step], schema: pa.Schema) -> pa.Table:
    """Return the model's tuples as a table."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
