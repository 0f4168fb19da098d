"""Results of the bench: figures over repetitions, rows, a table."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.table import Table


@dataclass
class Series:
    """A figure over the repetitions, and the total count."""

    values: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, value: float, **counts: int) -> None:
        """Append the figure of one repetition."""
        self.values.append(value)
        self.counts.update(counts)

    def over(self, other: "Series") -> "Series":
        """Return the ratio to another figure, by repetition."""
        return Series([a / b for a, b in zip(self.values, other.values, strict=True)])

    def map(self, function: Callable[[float], float]) -> "Series":
        """Return a transformed figure."""
        return Series([function(value) for value in self.values])

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    def summary(self) -> dict[str, Any]:
        """Return median, minimum, maximum and the values themselves."""
        return {
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "samples": self.values,
        }

    def __str__(self) -> str:
        least, most = min(self.values), max(self.values)
        spread = f" ({readable(least)} - {readable(most)})" if len(self.values) > 1 else ""
        return readable(self.median) + spread


MOST_GROWTH = 1.1
"""Target for an exponent of growth."""


def exponent(costs: Sequence[tuple[float, float]]) -> float:
    """Return the exponent of growth between the first and the last (size, cost)."""
    (least, cheap), (most, dear) = costs[0], costs[-1]
    return math.log(dear / cheap) / math.log(most / least)


def readable(value: float) -> str:
    """Format with three significant digits: figures vary by a tenth."""
    return f"{float(f'{value:.3g}'):,.10g}"


Measured = defaultdict[str, Series]


@dataclass
class Row:
    """A row of the result.

    Attributes:
        what: the measured quantity.
        series: the figure, None if missing; `note` then has the reason.
        unit: its unit.
        bar: the figure's target: a minimum, or a maximum if `is_most`.
        is_most: see `bar`.
        note: remarks.
        ratio, ratio_of: a ratio and its meaning.
        exchanges: exchanges of Interest and Data per CPU second at this cost.
    """

    what: str
    series: Series | None
    unit: str
    bar: float | None = None
    is_most: bool = False
    note: str = ""
    ratio: Series | None = None
    ratio_of: str = ""
    exchanges: Series | None = None

    def met(self) -> bool | None:
        """Return whether the median reaches the bar; None without a bar."""
        if self.bar is None or self.series is None:
            return None
        return self.series.median <= self.bar if self.is_most else self.series.median >= self.bar

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return {
            "what": self.what,
            "unit": self.unit,
            "figure": self.series and self.series.summary(),
            "counts": self.series and dict(self.series.counts),
            "ratio": self.ratio and {"of": self.ratio_of, **self.ratio.summary()},
            "exchanges": self.exchanges and self.exchanges.summary(),
            "bar": self.bar,
            "met": self.met(),
            "note": self.note,
        }

    def cells(self) -> dict[str, str]:
        """Return the row for reading, by column."""
        notes = [self.note] if self.note else []
        if self.exchanges is not None:
            notes.insert(0, f"{readable(self.exchanges.median)} exchanges/s")
        if self.bar is not None and self.series is not None:
            notes.append(f"bar {self.bar:,.10g}: {'met' if self.met() else 'missed'}")
        ratio = f"{self.ratio} {self.ratio_of}" if self.ratio else ""
        return {"figure": str(self.series or ""), "unit": self.unit, "ratio": ratio, "note": "; ".join(notes)}


def figure(what: str, value: float, unit: str, bar: float | None = None, is_most: bool = False) -> Row:
    """Return the row of a figure that is measured once."""
    return Row(what, Series([value]), unit, bar, is_most)


class Line(NamedTuple):
    """A row with several figures, by title with unit."""

    what: str
    figures: dict[str, float]
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return self._asdict()

    def cells(self) -> dict[str, str]:
        """Return the row for reading, by column."""
        return {title: readable(value) for title, value in self.figures.items()} | {"note": self.note}


def table(rows: Sequence[Row | Line], caption: str) -> Table:
    """Format the rows for reading, without empty columns."""
    cells = [row.cells() for row in rows]
    titles = dict.fromkeys(title for each in cells for title, text in each.items() if text)
    shown = Table("what", *titles, caption=caption or None)
    for row, each in zip(rows, cells, strict=True):
        shown.add_row(row.what, *(each.get(title, "") for title in titles))
    return shown
