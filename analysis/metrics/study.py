"""Studies: runs of one scenario compared, with their differences and the influence of chance.

Runs that differ only in their seed are repetitions: their values become a mean and a confidence interval.
Runs over Mininet with equal seeds are repetitions, too; in the emulator those are one and the same run. Any
other difference (the network, the loss, a layering's parameter, a key of the scenario) is the study's
subject.
"""

import json
import re
from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from analysis.metrics.catalogue import BY_KEY, Metric, is_time, why_unranked
from analysis.run.keys import LOSS, NET, Words, value_words, words
from analysis.run.manifest import Question

EXTRA = "extra_frames"
"""Frames per delivered item beyond those of the same layering and seed on lossless links: the cost of all
repair. Unknown without such runs.
"""

CONFIDENCE = 0.95

_KEYS = (
    "delivered_share",
    "latency_p50",
    "latency_p99",
    "recovery_max",
    "stale_p50",
    "signalling_per_move",
    "fib_entries_mean",
    "state_entries_mean",
    "state_bytes_mean",
    "pit_entries_mean",
    "pit_bytes_mean",
    "interests_network",
    "bytes_per_item",
    "repeated_share",
    "wire_ratio",
)
STUDIED = (
    *(BY_KEY[key] for key in _KEYS),
    Metric("", EXTRA, "Packets spent on repair, per delivered item", "frames", "lower"),
)
"""Metrics with plots, as far as studied() has them. The table of runs that differ only in seeds has all of
METRICS.
"""

_NOISE = 9
"""Decimals of a difference: rounds the residue of equal float sums to 0."""


class Point(NamedTuple):
    """A group of repetitions: `x`, their value of the study's subject, a number or words; and their other
    settings in words, "" if there are none.
    """

    x: float | str
    group: str = ""


class Estimate(NamedTuple):
    """A mean over `n` runs, and the ends of its confidence interval (CONFIDENCE), None of a single run."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


class Record(NamedTuple):
    """One layering in one run: its settings (key -> value, without the seed), and its measures.

    `began_ns` separates runs over Mininet with one seed; it is 0 in virtual time. `source` is the run's path
    as the user wrote it.
    """

    settings: dict[str, Any]
    seed: int
    layering: str
    values: dict[str, float]
    began_ns: int = 0
    source: str = ""


class Origin(NamedTuple):
    """Provenance of runs: the command, and its time in ISO 8601, each "" if unknown; the software versions by
    name, including the engine of the analysis and the processor; and the scenario's question
    (analysis.run.manifest.Question), if it asks one.
    """

    command: str
    created: str
    software: dict[str, str]
    question: dict[str, Any] | None = None


Sample = tuple[int, int]
"""A run at one point: its seed, and the number of earlier runs with that seed."""


class Study(NamedTuple):
    """A study: `values` by (metric's key, layering, point); unknown ones are absent.

    `samples` has the values of each estimate: layerings with the same seed had the same workload, so their
    difference is computed seed by seed. `key` is the study's subject, "" if only seeds differ; `points` are
    ordered by group, and by value in it. `shared` are the settings common to all runs. `runs` and `seeds` are
    counts.
    """

    scenario: str
    title: str
    layerings: list[str]
    key: str
    points: list[Point]
    values: dict[tuple[str, str, Point], Estimate]
    samples: dict[tuple[str, str, Point], dict[Sample, float]]
    shared: dict[str, Any]
    origins: list[Origin]
    runs: int
    seeds: int

    @property
    def question(self) -> Question | None:
        """What the scenario asks."""
        asked = next((origin.question for origin in self.origins if origin.question), None)
        return None if asked is None else Question.model_validate(asked)

    @property
    def words(self) -> Words:
        """The study's subject, and its unit."""
        return words(self.key)

    @property
    def groups(self) -> list[str]:
        """The groups of points, in order."""
        return list(dict.fromkeys(point.group for point in self.points))

    @property
    def xs(self) -> list[float | str]:
        """The values of the study's subject, in order."""
        return sorted(dict.fromkeys(point.x for point in self.points), key=_order)

    @property
    def has_repetitions(self) -> bool:
        """Whether runs with equal seeds exist."""
        return any(number for values in self.samples.values() for _, number in values)

    def difference(self, metric: str, a: str, b: str, point: Point) -> Estimate | None:
        """Return the estimate of a's value less b's over their common samples; None for fewer than two."""
        mine, other = (self.samples.get((metric, x, point), {}) for x in (a, b))
        both = [round(mine[sample] - other[sample], _NOISE) for sample in mine if sample in other]
        return estimate(both) if len(both) > 1 else None

    @property
    def is_numeric(self) -> bool:
        """Whether the points are numbers on an axis."""
        return all(isinstance(point.x, int | float) for point in self.points)


def studied(study: Study, metrics: Iterable[Metric] = STUDIED) -> list[Metric]:
    """Return the metrics with values in a study."""
    keys = {key for key, _, _ in study.values}
    return [metric for metric in metrics if metric.key in keys]


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of the values and Student's t interval for it."""
    mean, n = round(fmean(values), _NOISE) + 0.0, len(values)  # no -0
    if n < 2:
        return Estimate(mean, None, None, n)
    from scipy.stats import t  # slow to import, unneeded for a single run

    half = float(t.ppf((1 + confidence) / 2, n - 1)) * stdev(values) / sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def study(scenario: str, title: str, records: Iterable[Record], origins: Iterable[Origin] = ()) -> Study:
    """Combine the runs of one scenario into a study. Repeated runs count once."""
    every = list(records)
    places = _Subject(every)
    begun: dict[tuple[Point, int, str], set[int]] = {}
    for record in every:
        begun.setdefault((places.of(record), record.seed, record.layering), set()).add(record.began_ns)
    seen: dict[tuple[str, str, Point], dict[Sample, float]] = {}
    runs: set[tuple[Point, Sample]] = set()
    for record in every:
        point = places.of(record)
        number = sorted(begun[point, record.seed, record.layering]).index(record.began_ns)
        runs.add((point, (record.seed, number)))
        for metric, value in record.values.items():
            seen.setdefault((metric, record.layering, point), {})[record.seed, number] = value
    layerings = list(dict.fromkeys(record.layering for record in every))
    for point in places.points:
        for layering in layerings:
            lossless = places.lossless(point)
            frames = seen.get(("frames_per_item", layering, point))
            least = lossless and seen.get(("frames_per_item", layering, lossless))
            if least and frames:
                mean = fmean(least.values())  # where a seed has no lossless run
                extra = {run: round(value - least.get(run, mean), _NOISE) for run, value in frames.items()}
                seen[EXTRA, layering, point] = extra
    return Study(
        scenario,
        title,
        layerings,
        places.key,
        places.points,
        {place: estimate(list(values.values())) for place, values in seen.items()},
        seen,
        {key: value for key, value in every[0].settings.items() if key not in places.differing},
        list({json.dumps(origin): origin for origin in origins}.values()),
        len(runs),
        len({record.seed for record in every}),
    )


class _Subject:
    """Differences between runs, and the point of each.

    Attributes:
        differing: keys, the study's subject first.
        points: all, in order.
    """

    def __init__(self, records: list[Record]) -> None:
        found: dict[str, dict[Any, None]] = {}
        for key in dict.fromkeys(key for record in records for key in record.settings):
            # A parameter of a layering that did not run counts as equal.
            counted = (record for record in records if key in record.settings or not _is_parameter(key))
            found[key] = dict.fromkeys(_comparable(record.settings.get(key)) for record in counted)
        several = {key: values for key, values in found.items() if len(values) > 1}
        self.differing = sorted(several, key=lambda key: _subject_order(key, list(several[key])))
        raw = dict.fromkeys(self._raw(record) for record in records)
        self._labels = {
            key: _labels(key, [values[place] for values in raw]) for place, key in enumerate(self.differing)
        }
        ordered = sorted(raw, key=lambda values: [_order(value) for value in (*values[1:], *values[:1])])
        self._points = {values: self._point(values) for values in ordered}
        self._values = {point: values for values, point in self._points.items()}
        self.points = list(self._values)

    @property
    def key(self) -> str:
        """The study's subject."""
        return self.differing[0] if self.differing else ""

    def of(self, record: Record) -> Point:
        """Return a run's point."""
        return self._points[self._raw(record)]

    def lossless(self, point: Point) -> Point | None:
        """Return the point of the lossless runs that otherwise equal a point's; None if there are none, or no
        run differs in its loss.
        """
        values = self._values[point]
        if LOSS not in self.differing:
            return None
        at = self.differing.index(LOSS)
        return self._points.get((*values[:at], 0, *values[at + 1 :]))

    def _raw(self, record: Record) -> tuple[Any, ...]:
        return tuple(_comparable(record.settings.get(key)) for key in self.differing)

    def _point(self, values: tuple[Any, ...]) -> Point:
        if not values:
            return Point("")
        first, *others = (self._labels[key][value] for key, value in zip(self.differing, values, strict=True))
        is_number = all(isinstance(value, int | float) for value in self._labels[self.key])
        said = [
            label if key == NET else f"{words(key).what} {label} {words(key).unit}".rstrip()
            for key, label in zip(self.differing[1:], others, strict=True)
        ]
        return Point(values[0] if is_number else first, ", ".join(said))


def _is_parameter(key: str) -> bool:
    return key.startswith("parameters.")


def _comparable(value: Any) -> Any:
    """Return a value of scenario.json in hashable form, with distinct values kept distinct."""
    return json.dumps(value) if isinstance(value, list | dict | bool) else value


def _subject_order(key: str, values: list[Any]) -> tuple[bool, bool, int]:
    """Return a sort key for candidate subjects, best first: numbers with many values."""
    is_number = all(isinstance(value, int | float) for value in values)
    return not is_number, key == NET, -len(values)


def _labels(key: str, values: Iterable[Any]) -> dict[Any, str]:
    """Return distinct labels for the values of a key."""
    labels: dict[Any, str] = {}
    for value in values:
        label = value_words(key, value)
        alike = sum(other == label or other.startswith(f"{label} (") for other in labels.values())
        labels.setdefault(value, f"{label} ({alike + 1})" if alike else label)
    return labels


def _order(value: Any) -> tuple[bool, float, list[tuple[int, str]]]:
    """Return a sort key: numbers as numbers, then words with their numbers in numeric order."""
    if isinstance(value, int | float):
        return False, value, []
    parts = re.split(r"(\d+)", "" if value is None else value.casefold())
    return True, 0.0, [(int(part) if part.isdigit() else 0, part) for part in parts]


def unranked(study: Study, layering: str, point: Point) -> str:
    """Return why a layering's times at a point are not comparable, "" if they are."""
    known = {
        key: value.mean
        for key in ("delivered_share", "fell_behind", "cut_off")
        if (value := study.values.get((key, layering, point))) is not None
    }
    return why_unranked(known)


def has_star(study: Study, metric: Metric, layering: str, point: Point) -> bool:
    """Return whether a value is a time that is not comparable."""
    is_known = (metric.key, layering, point) in study.values
    return is_known and is_time(metric) and unranked(study, layering, point) != ""
