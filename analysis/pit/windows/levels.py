"""PIT state over time: each state weighted by its duration, means, and curves for plots.

A mean over samples would differ, and could not be taken over all nodes, which are sampled at different times.
Levels takes a node's states in windows of ascending times.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.columns.grouped import in_groups
from analysis.columns.values import ALL, HELD, SLICES
from analysis.files import Rows
from analysis.pit.entry import State
from analysis.pit.windows.slots import SLOT, Slots, with_slot
from analysis.pit.windows.window import WINDOW
from analysis.run.context import Span
from captures.formats.records import Ints

SUMMARY = pa.schema(
    [
        *((name, pa.string()) for name in ("layering", "node")),
        ("peak_ns", pa.int64()),
        *((f"mean_{what}", pa.float64()) for what in State._fields),
        *((f"peak_{what}", pa.int64()) for what in State._fields),
    ]
)
"""The rows of scan()'s summary: Levels.summary() of each node."""

_BY_NODE = ("layering", "node")

HEAT = pa.schema(
    [
        *((name, pa.string()) for name in _BY_NODE),
        ("slice", pa.int64()),
        *((what, pa.float64()) for what in HELD),
    ]
)
"""The rows of scan()'s heat: Levels.heat() of each node."""
_FOUND = pa.schema([*((name, pa.string()) for name in _BY_NODE), (SLOT, pa.int32()), ("levels", pa.binary())])


def curves(of: Sequence[str]) -> pa.Schema:
    """Return the schema of scan()'s curves: Levels.curve() of each node."""
    return pa.schema(
        [*((name, pa.string()) for name in _BY_NODE), *((name, pa.int64()) for name in ("time", *of))]
    )


class Levels:
    """A node's states over a run; means are over the time `over`, the run's if it is None.

    A curve of the first columns of states, `of`, keeps the first, last, least and greatest of each in `bins`
    parts of the run. Times outside the run do not count, but a curve's first point may precede it.
    """

    def __init__(
        self, span: Span, of: Sequence[str], bins: int, slices: int = SLICES, over: Span | None = None
    ) -> None:
        self._start, self._end = span
        self._over = over or span
        self._of = tuple(of)
        self._bins = bins
        # Rounded to ns, the parts of a run are equal within 1 ns; of the shortest runs some are empty.
        steps = np.floor(np.arange(slices + 1) * float(self._end - self._start) / slices).astype(np.int64)
        self._borders: Ints = self._start + steps
        # Integrals of the state up to each border, and to the ends of `over`; they fit the largest state over
        # the longest run.
        self._sums = np.zeros((slices + 3, len(State._fields)), np.longdouble)
        self._first: int | None = None
        self._last: tuple[Ints, Ints] | None = None
        self._peaks: list[int] = []
        self._peak_ns = 0
        self._points: list[tuple[Ints, Ints]] = []

    def push(self, times: Ints, states: Ints) -> None:
        """Add rows of State in the order of their distinct times."""
        if not len(times):
            return
        within = times <= self._end
        self._points.append(self._thinned(times[within], states[within, : len(self._of)]))
        if self._last is not None:
            times, states = np.append(self._last[0], times), np.append(self._last[1], states, axis=0)
        self._last = times[-1:], states[-1:]
        self._hold(times[:-1], times[1:], states[:-1])

    def finish(self, until: int | None = None) -> None:
        """Count the last state until a time (ns), by default to the end of the run."""
        if self._last is not None:
            times, states = self._last
            self._hold(times, np.maximum(times, self._end if until is None else until), states)

    def add(self, later: "Levels") -> None:
        """Add the states from the time on until which these have been counted."""
        self._points += later._points
        self._sums += later._sums
        if later._first is None:
            return
        if self._first is None or later._peaks[0] > self._peaks[0]:  # the first of equal ones
            self._peak_ns = later._peak_ns
        self._first = later._first if self._first is None else self._first
        self._peaks = [max(pair) for pair in zip(self._peaks or later._peaks, later._peaks, strict=True)]

    def summary(self) -> dict[str, Any] | None:
        """Return mean and peak of each field of State, and peak_ns, the time in the run of most entries; None
        if the table was empty throughout the run."""
        if self._first is None:
            return None
        summary: dict[str, Any] = {"peak_ns": self._peak_ns}
        sums = (self._sums[-1] - self._sums[-2]).astype(float)
        for what, total, peak in zip(State._fields, sums.tolist(), self._peaks, strict=True):
            summary[f"mean_{what}"] = total / (self._over.end_ns - self._over.start_ns)
            summary[f"peak_{what}"] = peak
        return summary

    def heat(self) -> Rows:
        """Return slice and the means of HELD over it, without those before the node's first entry."""
        widths = np.diff(self._borders)
        if self._first is None or self._first >= self._end:
            return []
        there = np.flatnonzero((self._borders[1:] > self._first) & (widths > 0))
        sums = np.diff(self._sums[:-2, : len(HELD)], axis=0)
        means = (sums[there] / widths[there, None]).astype(float)
        return [
            {"slice": int(place), **dict(zip(HELD, values, strict=True))}
            for place, values in zip(there, means.tolist(), strict=True)
        ]

    def curve(self) -> list[dict[str, int]]:
        """Return time and the columns of states, thinned so that a line through them looks the same."""
        if not self._points:
            return []
        times, states = (np.concatenate(parts) for parts in zip(*self._points, strict=True))
        times, states = self._thinned(times, states)
        names = ("time", *self._of)
        return [
            dict(zip(names, (time, *state), strict=True))
            for time, state in zip(times.tolist(), states.tolist(), strict=True)
        ]

    def _hold(self, begun: Ints, until: Ints, states: Ints) -> None:
        until = np.minimum(until, self._end)
        begun = np.maximum(begun, self._start)
        kept = (begun <= self._end) & (until >= self._start)
        begun, until, held = begun[kept], until[kept], states[kept]
        if not len(begun):
            return
        if self._first is None:
            self._first = int(begun[0])
        peaks = held.max(axis=0).tolist()
        if not self._peaks or peaks[0] > self._peaks[0]:  # the first of equal ones
            self._peak_ns = int(begun[np.argmax(held[:, 0])]) - self._start
        self._peaks = [max(pair) for pair in zip(self._peaks or peaks, peaks, strict=True)]
        lasted = (until - begun).astype(np.longdouble)
        so_far = np.zeros((len(begun) + 1, held.shape[1]), np.longdouble)
        np.cumsum(held * lasted[:, None], axis=0, out=so_far[1:])
        # Up to each border: the integral over whole states, and the part of the state at the border.
        borders = np.append(self._borders, self._over)
        place = np.searchsorted(begun, borders, "right") - 1
        inside = np.clip(place, 0, None)
        part = np.clip(borders - begun[inside], 0, until[inside] - begun[inside])
        self._sums += np.where((place >= 0)[:, None], so_far[inside] + held[inside] * part[:, None], 0)

    def _thinned(self, times: Ints, states: Ints) -> tuple[Ints, Ints]:
        if not len(times):
            return times, states
        since = (times - self._start).astype(float)
        bins = np.clip(np.floor(since * self._bins / (self._end - self._start)), 0, self._bins - 1)
        first = np.flatnonzero(np.diff(bins, prepend=-1))
        sizes = np.diff(np.append(first, len(times)))
        group = np.repeat(np.arange(len(first)), sizes)
        kept = [first, first + sizes - 1]
        for column in states.T:
            # Of equal values the first of the least, and the last of the greatest.
            least = np.flatnonzero(column == np.minimum.reduceat(column, first)[group])
            kept.append(least[np.flatnonzero(np.diff(group[least], prepend=-1))])
            most = np.flatnonzero(column == np.maximum.reduceat(column, first)[group])
            kept.append(most[np.flatnonzero(np.diff(group[most], append=-1))])
        places = np.unique(np.concatenate(kept))
        return times[places], states[places]


def scan(
    occupancy: DataFrame,
    spans: Mapping[str, Span],
    of: Sequence[str],
    bins: int,
    over: Mapping[str, Span] | None = None,
    *,
    slots: Slots,
) -> dict[str, Rows]:
    """Return rows of `summary`, `curves` and `heat` of analysis.tables.schema.PIT_OCCUPANCY, in the order of
    runs and nodes: layering, node and Levels'; of heat, no ALL. A task follows a node in one of a run's
    `slots`.
    """
    rows_of: dict[str, Rows] = {"summary": [], "curves": [], "heat": []}
    if not spans:
        return rows_of
    known = with_slot(occupancy.where(F.col("layering").isin(*spans)), slots)
    next_time = _next_times(known) if slots.are_several else {}

    def levels_of(rows: pa.Table) -> Iterator[pa.Table]:
        place = run, node, slot = tuple(rows[name][0].as_py() for name in (*_BY_NODE, SLOT))
        levels = Levels(spans[run], of, bins, over=over[run] if over else None)
        rows = rows.sort_by("time")
        states = np.stack([rows[name].to_numpy() for name in State._fields], axis=1)
        times = rows["time"].to_numpy()
        for begin in range(0, len(times), WINDOW):
            levels.push(times[begin : begin + WINDOW], states[begin : begin + WINDOW])
        levels.finish(next_time.get(place))
        yield pa.table([[run], [node], [slot], [pickle.dumps(levels)]], _FOUND)

    found = in_groups(known, (SLOT, *_BY_NODE), levels_of, from_arrow_schema(_FOUND), slots.number).toArrow()
    nodes: dict[tuple[str, str], Levels] = {}
    for row in found.sort_by([(name, "ascending") for name in _FOUND.names[:3]]).to_pylist():
        levels = pickle.loads(row["levels"])
        if (before := nodes.setdefault((row["layering"], row["node"]), levels)) is not levels:
            before.add(levels)
    for (run, node), levels in nodes.items():
        summary, heat = levels.summary(), levels.heat() if node != ALL else []
        where = {"layering": run, "node": node}
        rows_of["summary"] += [where | summary] if summary else []
        rows_of["curves"] += [where | row for row in levels.curve()]
        rows_of["heat"] += [where | row for row in heat]
    return rows_of


def _next_times(known: DataFrame) -> dict[tuple[str, str, int], int]:
    """Return by layering, node and slot the node's first time in a later slot."""
    firsts = known.groupBy(*_BY_NODE, SLOT).agg(F.min("time").alias("time")).toArrow()
    rows = firsts.sort_by([(name, "ascending") for name in (*_BY_NODE, SLOT)]).to_pylist()
    return {
        (*(row[name] for name in _BY_NODE), row[SLOT]): later["time"]
        for row, later in pairwise(rows)
        if all(row[name] == later[name] for name in _BY_NODE)
    }


def with_idle(summary: Rows, nodes: Iterable[tuple[str, str]]) -> Rows:
    """Return scan()'s summary with a row for each idle node (layering, name), too."""
    there = {(row["layering"], row["node"]) for row in summary}
    nothing = dict.fromkeys(SUMMARY.names, 0)
    idle = [nothing | {"layering": run, "node": node} for run, node in nodes if (run, node) not in there]
    return summary + idle
