"""Results of the bench: figures over repetitions, rows, a table."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        return f"{readable(self.median)} ({readable(min(self.values))} - {readable(max(self.values))})"


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
        unit: its unit; all times are CPU time, except round trips.
        ratio, ratio_of: a ratio and its meaning.
        note: remarks.
        bar: the figure's target.
        exchanges: exchanges of Interest and Data per CPU second at this cost.
    """

    what: str
    series: Series | None
    unit: str
    ratio: Series | None = None
    ratio_of: str = ""
    note: str = ""
    bar: float | None = None
    exchanges: Series | None = None

    def met(self) -> bool | None:
        """Return whether the median reaches the bar; None without a bar."""
        return None if self.bar is None or self.series is None else self.series.median >= self.bar

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


def table(rows: Sequence[Row]) -> Table:
    """Format the rows for reading."""
    caption = (
        "median (least - greatest); seconds and microseconds of CPU time, those of one exchange at a time by"
        " the clock"
    )
    shown = Table("what", "figure", "unit", "ratio", "note", caption=caption)
    for row in rows:
        notes = [row.note] if row.note else []
        if row.exchanges is not None:
            notes.insert(0, f"{readable(row.exchanges.median)} exchanges/s")
        if row.bar is not None:
            notes.append(f"bar {row.bar:,.0f}: {'met' if row.met() else 'missed'}")
        ratio = f"{row.ratio} {row.ratio_of}" if row.ratio else ""
        shown.add_row(row.what, str(row.series or ""), row.unit, ratio, "; ".join(notes))
    return shown
