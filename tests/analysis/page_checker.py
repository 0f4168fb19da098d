"""Reads the findings of a report, and computes every figure in them again from the run's Parquet tables.

    PYTHONPATH=tests:tests/analysis:. python tests/analysis/page_checker.py RUN...

It shares no code with what writes findings. A figure in a page is a <data> element that says in `data-of`
what it is; any digit outside of one, and outside of names (<bdi>, <code>), is one that nobody can check.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from math import inf, isclose
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from analysis.run.manifest import Manifest, Run

HIGHER = {"forked", "cache_hits", "useful_share", "delivered_share", "fairness", "throughput"}
HIGHER |= {"delivered", "pit_satisfied_share", "latency_fairness"}
"""Metrics of which higher values are better, as written down by hand."""

NAMES = ("bdi", "code", "a")


@dataclass
class Told:
    """A figure: what it is, its exact value if it has one, and its text."""

    of: list[str]
    value: float | None
    text: str


class Reader(HTMLParser):
    """Collects the figures in the answer and the findings, and digits that are in none."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: list[Told] = []
        self.loose: list[str] = []
        self.sentences = 0
        self._inside: list[str] = []
        self._open: list[str] = []
        self._figure: Told | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        if tag in ("p", "ul", "div") and ({"headline", "findings", "answers"} & {*classes}):
            self._inside.append(tag)
            self.sentences += "headline" in classes
        elif self._inside and tag == self._inside[-1]:
            self._inside.append(tag)
        self.sentences += bool(self._inside) and tag == "li"
        self._open.append(tag)
        if tag == "data" and self._inside:
            exact = given.get("value")
            self._figure = Told((given["data-of"] or "").split(), float(exact) if exact else None, "")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass
        if tag == "data" and self._figure is not None:
            self.figures.append(self._figure)
            self._figure = None
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._figure is not None:
            self._figure.text += data
        elif self._inside and re.search(r"\d", data) and not {*NAMES, "h3", "select"} & {*self._open}:
            self.loose.append(data.strip())


class Tables:
    """A run's tables, as rows."""

    def __init__(self, run: Run) -> None:
        self.manifest: Manifest = run.manifest
        self._directory = run.tables
        rows = self.rows("comparison")
        self.values = {(row["metric"], row["layering"]): row["value"] for row in rows}
        self.metrics = {row["metric"]: row for row in rows}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        found: list[dict[str, Any]] = pq.read_table(self._directory / f"{name}.parquet").to_pylist()
        return found

    def is_higher_better(self, metric: str) -> bool:
        """Return the direction of a metric: by hand, or as the scenario asks."""
        asked = self.manifest.question
        return metric in HIGHER or (asked is not None and asked.direction.get(metric) == "higher")

    def worse(self, metric: str, best: str, other: str) -> float:
        """Return how much worse another layering is than the best, as a share of the best's value."""
        a, b = self.values[metric, best], self.values[metric, other]
        gap = a - b if self.is_higher_better(metric) else b - a
        return inf if not a else gap / abs(a)

    def got(self) -> dict[tuple[str, str], int]:
        """Return the deliveries by layering and subscriber."""
        return {(row["layering"], row["node"]): row["deliveries"] for row in self.rows("latency_quantiles")}

    def missing(self, layering: str, node: str = "") -> int:
        """Return the expected deliveries that did not take place."""
        got, expected = self.got(), self.manifest.workload.expected
        nodes = [node] if node else list(expected)
        return sum(max(expected[each] - got.get((layering, each), 0), 0) for each in nodes)

    def kept(self, layering: str, node: str = "") -> list[dict[str, Any]]:
        """Return rows of keeping_up."""
        rows = self.rows("keeping_up")
        return [row for row in rows if row["layering"] == layering and node in ("", row["node"])]

    def first_error(self, layering: str) -> float:
        """Return when the first error was reported, s into the run."""
        times = [
            row["time"]
            for row in self.rows("incidents")
            if (row["event"], row["layering"]) == ("error", layering)
        ]
        return (min(times) - self.manifest.runs[layering].start_ns) / 1e9


def expected_value(tables: Tables, of: list[str]) -> float | None:
    """Compute a figure anew; None if it is no number."""
    kind, *rest = of
    asked = tables.manifest.question
    if kind == "value":
        return float(tables.values[rest[0], rest[1]])
    if kind == "effect":
        return tables.worse(*rest)
    if kind == "missing":
        return tables.missing(*rest)
    if kind == "expected":
        by_node = tables.manifest.workload.expected
        return by_node[rest[0]] if rest else sum(by_node.values())
    if kind == "quarter":
        return float(tables.kept(rest[0], rest[1])[0]["quarters_ms"][int(rest[2])])
    if kind == "at-last":
        return sum(row["at_last"] for row in tables.kept(rest[0]) if row["cut_off"])
    if kind == "first-error":
        return tables.first_error(rest[0])
    if kind == "measures":
        known = {metric for (metric, _), value in tables.values.items() if value is not None}
        return len([key for key in (asked.metrics if asked else ()) if key in known]) or None
    assert kind in ("against", "front"), of
    return None


def shown_number(text: str) -> float:
    """Return the number in a text: its last group of digits before the unit."""
    found = re.search(r"[\d.,]*\d", re.sub(r"[\u202f\u00a0]", "", text).replace(",", ""))
    assert found is not None, text
    return float(found[0])


def problems(run: Run, page: str) -> Iterator[str]:
    """Yield what is wrong with the figures of a page's findings."""
    reader, tables = Reader(), Tables(run)
    reader.feed(page)
    yield from unchecked(reader)
    for told in reader.figures:
        if told.of[0] == "front":
            yield from _front(tables, told)
            continue
        if told.of[0] == "against":
            yield from _against(tables, reader, told)
            continue
        yield from differing(told, expected_value(tables, told.of), _is_rounded)


def unchecked(reader: Reader) -> Iterator[str]:
    """Yield digits outside of figures, and a page without any."""
    yield from (f"nobody can check {text!r}" for text in reader.loose)
    if not reader.figures:
        yield "no figures"


def differing(told: Told, wanted: float | None, is_rounded: Callable[[Told, float], bool]) -> Iterator[str]:
    """Yield what is wrong with the exact value of a figure, or with its text."""
    if wanted is None or told.value is None or not isclose(told.value, wanted, rel_tol=1e-9, abs_tol=1e-9):
        yield f"{' '.join(told.of)}: {told.value}, and it should be {wanted}"
    elif not is_rounded(told, wanted):
        yield f"{' '.join(told.of)}: {told.text!r}, and it should be {wanted}"


def _is_rounded(told: Told, wanted: float) -> bool:
    number = shown_number(told.text)
    if told.of[0] == "effect":
        wanted = 1 + wanted if "times" in told.text else 100 * wanted
        return isclose(number, wanted, rel_tol=0.06)
    for unit, size in (("min", 60), ("ms", 1e-3), ("µs", 1e-6), ("s", 1)):
        if told.of[0] in ("quarter", "first-error") and told.text.endswith(unit):
            return isclose(number * size, wanted * (1e-3 if told.of[0] == "quarter" else 1), rel_tol=0.006)
    return isclose(number, wanted, rel_tol=0.006, abs_tol=1e-9)


def _front(tables: Tables, told: Told) -> Iterator[str]:
    """Check a Pareto front: nothing that is compared beats what is on it, and each other is beaten."""
    x, y, *front = told.of[1:]
    points = {
        each: (tables.values[x, each], tables.values[y, each])
        for each in tables.manifest.layerings
        if _is_complete(tables, each) and None not in (tables.values[x, each], tables.values[y, each])
    }
    for each in front:
        a, b = points[each]
        beaten = [o for o, (c, d) in points.items() if c <= a * 0.99 and d <= b * 0.99]
        if beaten:
            yield f"{each} is on no front of {x} and {y}: {beaten[0]} beats it"
    for each, (a, b) in points.items():
        near = [o for o in front if points[o][0] <= a * 1.01 and points[o][1] <= b * 1.01]
        if each not in front and not near:
            yield f"{each} is missing on the front of {x} and {y}"


def _is_complete(tables: Tables, layering: str) -> bool:
    values = {key: tables.values[key, layering] for key in ("fell_behind", "cut_off", "delivered_share")}
    return not values["fell_behind"] and not values["cut_off"] and (values["delivered_share"] or 0) >= 99.5


def _against(tables: Tables, reader: Reader, told: Told) -> Iterator[str]:
    """Check the counts of better, equal and worse measures against each other and against clear cases."""
    _, what, who, first = told.of
    counts = {each.of[1]: each.value or 0 for each in reader.figures if each.of[0] == "against"}
    if counts["better"] + counts["equal"] + counts["worse"] != counts["all"]:
        yield f"{who} against {first}: the counts do not add up"
    pairs = {
        key: tables.worse(key, who, first)
        for key, row in tables.metrics.items()
        if row["axis"] and row["better"] and None not in (tables.values[key, who], tables.values[key, first])
    }
    clear = [key for key, worse in pairs.items() if (worse > 0.05 if what == "better" else worse < -0.06)]
    if what in ("better", "worse") and counts[what] > len(clear):
        yield f"{who} against {first}: {what} in {counts[what]}, at most in {len(clear)}"


if __name__ == "__main__":
    found = [
        f"{each}: {line}"
        for each in sys.argv[1:]
        for run in [Run(Path(each))]
        for line in problems(run, run.report.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "all figures are right")
    sys.exit(bool(found))
