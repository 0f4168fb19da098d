"""The results of a study: a value for each seed, of each metric that a claim uses, in a small CSV file.

The file stands beside the study's. Verdicts, tables and figures are computed from it, so that whoever has it
can test otherwise.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from analysis.metrics.catalogue import UNFINISHED
from testbed.errors import UserError
from testbed.study.spec import Side, StudySpec

_HEAD = ("runs", "layering", "setting", "metric")
_DIGITS = 8


class Row(NamedTuple):
    """What identifies values over seeds."""

    runs: str
    layering: str
    setting: str
    metric: str


def setting_words(setting: Mapping[str, Any]) -> str:
    """Return a setting as a word: "poll.window=64, loss=5"."""
    return ", ".join(f"{key}={value}" for key, value in setting.items())


class Results:
    """Values by seed.

    Args:
        values: {row: {seed: value}}.
        facts: what the file says of their making, by name.
    """

    def __init__(self, values: Mapping[Row, Mapping[int, float]], facts: Mapping[str, str]) -> None:
        # As written, so that what is decided now is decided from the file, too.
        self.values = {
            row: {seed: float(_text(value)) for seed, value in known.items()} for row, known in values.items()
        }
        self.facts = dict(facts)

    def by_seed(self, runs: str, layering: str, setting: Mapping[str, Any], metric: str) -> dict[int, float]:
        """Return the values of a metric, by seed; empty if unknown."""
        return self.values.get(Row(runs, layering, setting_words(setting), metric), {})

    def updated(self, runs: str, by: "Results", rows: Iterable[Row]) -> "Results":
        """Return these results, with all rows of `runs` replaced; of rows only those that are needed.

        A fact of that name says how they were made: by other code perhaps, on another day.
        """
        values = {row: known for row, known in self.values.items() if row.runs != runs} | by.values
        made = "; ".join(f"{name}: {fact}" for name, fact in by.facts.items())
        needed = {row: values[row] for row in rows if row in values}
        return Results(needed, {**self.facts, runs: made})

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        seeds = sorted({seed for known in self.values.values() for seed in known})
        with path.open("w", newline="", encoding="utf-8") as file:
            file.writelines(f"# {name}: {fact}\n" for name, fact in self.facts.items())
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow((*_HEAD, *seeds))
            for row, known in self.values.items():
                texts = (_text(known[seed]) if seed in known else "" for seed in seeds)
                writer.writerow((*row, *texts))

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Read a file; raise UserError."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            said = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
            facts = {name: fact for name, _, fact in (line.partition(": ") for line in said)}
            head, *rows = csv.reader(line for line in lines if not line.startswith("# "))
            if tuple(head[: len(_HEAD)]) != _HEAD:
                raise ValueError(f"its columns do not begin with {', '.join(_HEAD)}")
            seeds = [int(text) for text in head[len(_HEAD) :]]
            values = {
                Row(*row[: len(_HEAD)]): {
                    seed: float(text) for seed, text in zip(seeds, row[len(_HEAD) :], strict=True) if text
                }
                for row in rows
            }
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{path}: no results of a study: {error}") from error
        return cls(values, facts)


def _text(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def needed(study: StudySpec, claims: Iterable[str]) -> list[Row]:
    """Return the rows that claims need, each once, in order."""
    rows: dict[Row, None] = {}
    for key in claims:
        for expected in study.claims[key].expects:
            rows |= dict.fromkeys(_rows(study, study.sides(expected), expected.metric))
    return [*rows]


def all_needed(study: StudySpec) -> list[Row]:
    """Return the rows that all claims, figures and tables need, each once, in order."""
    rows = dict.fromkeys(needed(study, study.claims))
    for figure in study.figures.values():
        rows |= dict.fromkeys(_rows(study, study.sides_of(figure), figure.x, figure.y))
    for table in study.tables.values():
        rows |= dict.fromkeys(_rows(study, study.sides_of(table), *table.metrics))
    return [*rows]


def _rows(study: StudySpec, sides: Iterable[Side], *metrics: str) -> Iterator[Row]:
    for runs, layering, setting in sides:
        more = UNFINISHED if study.runs[runs].model is None else ()
        for metric in (*metrics, *more):
            yield Row(runs, layering, setting_words(setting), metric)
