"""What PITs held over time: each state for as long as it lasted, means of that, and curves for drawing.

A mean over samples would be another figure, and one over all nodes could not be had: nodes are sampled at
different moments. A node's states are taken in windows of ascending times (Levels), by Spark's tasks or by
this process, from a DataFrame (drawn) or right from Parquet of any size (scan).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from analysis.decode.tlv_batch import Ints
from analysis.run.context import Span
from analysis.spark.parallel import by_group, each
from analysis.spark.parquet import directories
from analysis.spark.parquet_windows import Group, in_windows, row_groups
from analysis.tables.slices import with_span
from analysis.tables.values import ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICES = 100
"""Parts of a run in which a mean is taken for the heat map."""

HELD = ("entries", "bytes")
"""What the means are of."""

_NODE = ("layering", "node")
_DRAWN = StructType(
    [
        *(StructField(name, StringType()) for name in _NODE),
        *(StructField(name, LongType()) for name in ("slice", "time")),
        *(StructField(name, DoubleType()) for name in HELD),
    ]
)


class Levels:
    """A node's states over a run.

    `of` names the columns of states, HELD first; a curve of them keeps the first, last, least and greatest
    of each in `bins` parts of the run. What lies outside the run does not count, but that a curve's first
    point may be before it.
    """

    def __init__(self, span: Span, of: Sequence[str], bins: int, slices: int = SLICES) -> None:
        self._start, self._end = span
        self._of = tuple(of)
        self._bins = bins
        # Rounded to whole ns, the parts of a run are alike within 1 ns; of the shortest runs some are empty.
        steps = np.floor(np.arange(slices + 1) * float(self._end - self._start) / slices).astype(np.int64)
        self._borders: Ints = self._start + steps
        # Wide enough for the largest state over the longest run.
        self._sums = np.zeros((slices, len(HELD)), np.longdouble)
        self._first: int | None = None
        self._last: tuple[Ints, Ints] | None = None
        self._peaks: list[int] = []
        self._peak_ns = 0
        self._points: list[tuple[Ints, Ints]] = []

    def push(self, times: Ints, states: Ints) -> None:
        """Take states (rows of `of`'s columns) in the order of their times, of which no two are the same."""
        if not len(times):
            return
        within = times <= self._end
        self._points.append(self._thinned(times[within], states[within]))
        if self._last is not None:
            times, states = np.append(self._last[0], times), np.append(self._last[1], states, axis=0)
        self._last = times[-1:], states[-1:]
        self._hold(times[:-1], times[1:], states[:-1])

    def finish(self) -> None:
        """Count the last state to the end of the run."""
        if self._last is not None:
            times, states = self._last
            self._hold(times, np.maximum(times, self._end), states)

    def summary(self) -> dict[str, Any] | None:
        """Return mean and peak of HELD, and peak_ns, when into the run there were most entries; None if
        nothing was held in the run."""
        if self._first is None:
            return None
        told: dict[str, Any] = {"peak_ns": self._peak_ns}
        for place, what in enumerate(HELD):
            told[f"mean_{what}"] = float(self._sums[:, place].sum() / (self._end - self._start))
            told[f"peak_{what}"] = self._peaks[place]
        return told

    def heat(self) -> list[dict[str, Any]]:
        """Return slice and the means of HELD over it; nothing of what is before the node's first entry."""
        widths = np.diff(self._borders)
        if self._first is None or self._first >= self._end:
            return []
        there = np.flatnonzero((self._borders[1:] > self._first) & (widths > 0))
        means = (self._sums[there] / widths[there, None]).astype(float)
        return [
            {"slice": int(place), **dict(zip(HELD, values, strict=True))}
            for place, values in zip(there, means.tolist(), strict=True)
        ]

    def curve(self) -> list[dict[str, int]]:
        """Return time and the columns of states: steps such that a line through them looks like all."""
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
        begun, until, held = begun[kept], until[kept], states[kept, : len(HELD)]
        if not len(begun):
            return
        if self._first is None:
            self._first = int(begun[0])
        peaks = held.max(axis=0).tolist()
        if not self._peaks or peaks[0] > self._peaks[0]:  # of equal ones the first
            self._peak_ns = int(begun[np.argmax(held[:, 0])]) - self._start
        self._peaks = [max(pair) for pair in zip(self._peaks or peaks, peaks, strict=True)]
        lasted = (until - begun).astype(np.longdouble)
        so_far = np.zeros((len(begun) + 1, len(HELD)), np.longdouble)
        np.cumsum(held * lasted[:, None], axis=0, out=so_far[1:])
        # Up to each border: what was held whole, and the part of the state that the border is in.
        place = np.searchsorted(begun, self._borders, "right") - 1
        inside = np.clip(place, 0, None)
        part = np.clip(self._borders - begun[inside], 0, until[inside] - begun[inside])
        total = np.where((place >= 0)[:, None], so_far[inside] + held[inside] * part[:, None], 0)
        self._sums += np.diff(total, axis=0)

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


def drawn(changes: DataFrame, runs: DataFrame, bins: int, *, here: bool) -> tuple[pa.Table, pa.Table]:
    """Return curves and heat of analysis.pit.history.changes: layering, node and Levels'; of heat, no ALL.

    `runs` has layering, start_ns, end_ns; `here`: changes are few, and come to this process.
    """
    states = with_span(changes.select(*_NODE, "time", *HELD), runs)
    schema = to_arrow_schema(_DRAWN)

    def draw(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        layering, node = (value.as_py() for value in key)
        levels = Levels(Span(rows["start_ns"][0].as_py(), rows["end_ns"][0].as_py()), HELD, bins)
        levels.push(*_arrays(rows.sort_by("time"), HELD))
        levels.finish()
        told = [*levels.curve(), *(levels.heat() if node != ALL else [])]
        return pa.Table.from_pylist([{"layering": layering, "node": node} | row for row in told], schema)

    found = by_group(states, _NODE, draw, _DRAWN, here=here).toArrow()
    is_point = pc.is_valid(found["time"])
    curves = found.filter(is_point).drop_columns(["slice"])
    for what in HELD:
        place = curves.schema.get_field_index(what)
        curves = curves.set_column(place, what, curves[what].cast(pa.int64()))
    return curves, found.filter(pc.invert(is_point)).drop_columns(["time"])


def scan(
    occupancy: Path, spans: Mapping[str, Span], of: Sequence[str], bins: int, spark: "SparkSession | None"
) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `summary`, `curves` and `heat` of analysis.tables.schema.PIT_OCCUPANCY in directories by
    run: layering, node and Levels'. A task a run; memory is bounded by nodes and a window of states."""
    occupancy = occupancy.resolve()  # tasks work in directories of their own
    files: dict[str, list[Group]] = defaultdict(list)
    for path in sorted(occupancy.rglob("*.parquet")):
        place = path.relative_to(occupancy)
        if not any(part.startswith(("_", ".")) for part in place.parts):
            files[directories(place).get("run") or ""] += [group for group, _ in row_groups(path, {})]
    runs = sorted(run for run in files if run in spans)

    def follow(number: int) -> dict[str, Any]:
        run = runs[number]
        nodes: dict[str, Levels] = {}
        for window in in_windows(files[run], ["time", "node", *of]):
            names = window["node"].combine_chunks().dictionary_encode()
            codes = names.indices.to_numpy()
            times, states = _arrays(window, of)
            for code, node in enumerate(names.dictionary.to_pylist()):
                own = codes == code
                levels = nodes.setdefault(node, Levels(spans[run], of, bins))
                levels.push(times[own], states[own])
        told: dict[str, Any] = {"summary": [], "curves": [], "heat": []}
        for node, levels in sorted(nodes.items()):
            levels.finish()
            where = {"layering": run, "node": node}
            summary = levels.summary()
            told["summary"] += [where | summary] if summary else []
            told["curves"] += [where | row for row in levels.curve()]
            told["heat"] += [where | row for row in levels.heat()] if node != ALL else []
        return told

    reports = each(spark, follow, len(runs))
    return {
        what: [row for report in reports for row in report[what]] for what in ("summary", "curves", "heat")
    }


def _arrays(rows: pa.Table, of: Sequence[str]) -> tuple[Ints, Ints]:
    columns = [rows[name].to_numpy() for name in of]
    return rows["time"].to_numpy(), np.stack(columns, axis=1) if len(rows) else np.zeros(
        (0, len(of)), np.int64
    )
