"""Several runs of one scenario beside each other: what differs between them, and how far chance does.

Runs that differ in their seed only are repetitions: their values become a mean and a confidence interval.
What else differs (the loss, a layering's parameter, any key of the scenario) is what the study is about.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.compare import METRICS, Metric
from analysis.errors import AnalysisError
from analysis.manifest import Run
from analysis.pipeline import analyze

SWEEP = "sweep.json"
MEASURES = "measures.parquet"
"""In the directory of a sweep (testbed.sweep): what it was, and a row of measures for each run and
layering."""

EXTRA = "extra_frames"
"""Frames per delivered item beyond those of the runs with the least loss: what repair takes, of every
kind."""

CONFIDENCE = 0.95

LOSS = "topology.link.loss_percent"
_TITLES = {
    LOSS: ("loss of each link", "%"),
    "workload.items": ("items published", "items"),
    "topology.link.delay_ms": ("delay of each link", "ms"),
    "topology.link.bw_mbit": ("rate of each link", "Mbit/s"),
    "topology.link.jitter_ms": ("jitter of each link", "ms"),
}
_KEYS = (
    "delivered_share",
    "latency_p50",
    "latency_p99",
    "recovery_max",
    "pit_entries_mean",
    "pit_bytes_mean",
    "interests_per_item",
    "bytes_per_item",
    "repeated_share",
    "wire_ratio",
)
_BY_KEY = {metric.key: metric for metric in METRICS}
STUDIED = (
    *(_BY_KEY[key] for key in _KEYS),
    Metric("", EXTRA, "Packets spent on repair, per delivered item", "frames", "lower"),
)
"""What is drawn. All of METRICS is in the table of runs that differ in nothing but their seeds."""

Point = float | str
"""A value of what differs between runs: a number, or words."""


class Estimate(NamedTuple):
    """A mean over `n` runs, and the ends of its confidence interval (CONFIDENCE), None of a single run."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def opposite(self) -> "Estimate":
        """The estimate of what is so much below 0 as this is above."""
        if self.low is None or self.high is None:
            return self._replace(mean=-self.mean)
        return Estimate(-self.mean, -self.high, -self.low, self.n)

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean


class Record(NamedTuple):
    """What one run of one layering came to: what was set (key -> value, without the seed), and its
    measures."""

    settings: dict[str, Any]
    seed: int
    layering: str
    values: dict[str, float]


class Study(NamedTuple):
    """`values` by (metric's key, layering, point); what is unknown is not there.

    `samples` has the values that an estimate is of, by seed: layerings that ran with the same seed had the
    same workload, so their difference is told seed by seed. `key` is what differs between the runs, "" if
    only their seeds do; `points` are its values, in order, and `what` and `unit` name it. `runs` and `seeds`
    are how many there are.
    """

    scenario: str
    title: str
    layerings: list[str]
    key: str
    what: str
    unit: str
    points: list[Point]
    values: dict[tuple[str, str, Point], Estimate]
    samples: dict[tuple[str, str, Point], dict[int, float]]
    runs: int
    seeds: int

    def difference(self, metric: str, a: str, b: str, point: Point) -> Estimate | None:
        """Return the estimate of a's value less b's over the seeds that both ran with, None without two of
        them."""
        mine, other = (self.samples.get((metric, x, point), {}) for x in (a, b))
        both = [mine[seed] - other[seed] for seed in mine if seed in other]
        return estimate(both) if len(both) > 1 else None

    @property
    def is_numeric(self) -> bool:
        """Whether the points are numbers, at their places on an axis."""
        return all(isinstance(point, int | float) for point in self.points)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of some values and Student's t interval for it."""
    mean, n = fmean(values), len(values)
    if n < 2:
        return Estimate(mean, None, None, n)
    from scipy.stats import t  # a second to import, which a single run need not wait for

    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * stdev(values) / sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def study(scenario: str, title: str, records: Iterable[Record]) -> Study:
    """Set what runs of one scenario came to beside each other. A run that is there twice counts once."""
    every = list(records)
    key, point_of = _difference(every)
    seen: dict[tuple[str, str, Point], dict[int, float]] = {}
    for record in every:
        for metric, value in record.values.items():
            seen.setdefault((metric, record.layering, point_of(record)), {})[record.seed] = value
    points = sorted({point_of(record) for record in every}, key=_order)
    layerings = list(dict.fromkeys(record.layering for record in every))
    if key == LOSS:
        for layering in layerings:
            least = seen.get(("frames_per_item", layering, points[0]))
            for point in points:
                frames = seen.get(("frames_per_item", layering, point))
                if least and frames:
                    mean = fmean(least.values())
                    seen[EXTRA, layering, point] = {seed: value - mean for seed, value in frames.items()}
    what, unit = _TITLES.get(key, (key.removeprefix("parameters."), ""))
    return Study(
        scenario,
        title,
        layerings,
        key,
        what,
        unit,
        points,
        {place: estimate(list(values.values())) for place, values in seen.items()},
        seen,
        len({(record.seed, point_of(record)) for record in every}),
        len({record.seed for record in every}),
    )


def _difference(records: list[Record]) -> tuple[str, Callable[[Record], Point]]:
    """Return what differs between runs, and how to tell a run's value of it."""
    keys = dict.fromkeys(key for record in records for key in record.settings)
    first = records[0].settings
    differing = [
        key for key in keys if any(record.settings.get(key) != first.get(key) for record in records[1:])
    ]
    if not differing:
        return "", lambda _: ""
    if len(differing) == 1:
        (key,) = differing
        return key, lambda record: _point(record.settings.get(key))
    short = [key.rpartition(".")[2] for key in differing]
    return " and ".join(differing), lambda record: ", ".join(
        f"{name} {_point(record.settings.get(key))}" for name, key in zip(short, differing, strict=True)
    )


def _point(value: Any) -> Point:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _order(point: Point) -> tuple[bool, float, str]:
    return (True, 0.0, point) if isinstance(point, str) else (False, point, "")


def flattened(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree of settings as one level: {"a": {"b": 1}} as {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def settings_of(run: Run) -> dict[str, Any]:
    """Return what was set in a run, without its seed: its scenario.json, or the loss of its links if it has
    none."""
    try:
        told = json.loads((run.directory / "scenario.json").read_bytes())
    except FileNotFoundError:
        return {LOSS: loss_of(run)}
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{run.directory / 'scenario.json'}: {error}") from None
    return {key: value for key, value in flattened(told).items() if key not in ("seed", "title", "layerings")}


def loss_of(run: Run) -> float:
    """Return the loss of a run's worst link, %."""
    return max((link.loss_percent for link in run.manifest.topology.links), default=0.0)


def records_of(run: Run) -> list[Record]:
    """Return what the layerings of an analysed run came to."""
    settings = settings_of(run)
    values: dict[str, dict[str, float]] = {layering: {} for layering in run.manifest.layerings}
    for row in pq.read_table(run.comparison).to_pylist():
        if row["value"] is not None:
            values[row["layering"]][row["metric"]] = row["value"]
    return [Record(settings, run.manifest.seed, x, known) for x, known in values.items()]


def write_sweep(directory: Path, scenario: str, title: str, records: Sequence[Record]) -> None:
    """Write what the runs of a sweep came to, so that they need not be analysed again."""
    settings = [record.settings for record in records]
    written = {"scenario": scenario, "title": title, "settings": settings}
    (directory / SWEEP).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    columns: dict[str, Any] = {
        "run": pa.array(range(len(records)), pa.int64()),
        "seed": pa.array([record.seed for record in records], pa.int64()),
        "layering": pa.array([record.layering for record in records], pa.string()),
    }
    for metric in METRICS:
        columns[metric.key] = pa.array([record.values.get(metric.key) for record in records], pa.float64())
    pq.write_table(pa.table(columns), directory / MEASURES)


def read_sweep(directory: Path) -> tuple[str, str, list[Record]]:
    """Return scenario, title and records of a sweep's directory; raise AnalysisError."""
    try:
        told = json.loads((directory / SWEEP).read_bytes())
        rows = pq.read_table(directory / MEASURES).to_pylist()
        records = [
            Record(
                settings,
                row["seed"],
                row["layering"],
                {metric.key: row[metric.key] for metric in METRICS if row.get(metric.key) is not None},
            )
            for settings, row in zip(told["settings"], rows, strict=True)
        ]
        return told["scenario"], told["title"], records
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnalysisError(f"{directory}: not the directory of a sweep that has ended: {error}") from None


def compare_runs(
    directories: Sequence[Path],
    page: Path,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    engine: str = "auto",
) -> Study:
    """Analyse the runs that have not been, and write the page that compares them; raise AnalysisError.

    A directory is that of a run, or of a sweep. `progress` is told the name of each run that is analysed.
    """
    from analysis.report.study import write_study

    records: list[Record] = []
    known: tuple[str, str] | None = None
    for directory in directories:
        if (directory / SWEEP).is_file():
            scenario, title, found = read_sweep(directory)
        else:
            run = Run(directory)
            scenario, title = run.manifest.scenario, run.manifest.title
            if known is None or known[0] == scenario:
                if not run.comparison.is_file():
                    progress(directory.name)
                    analyze(directory, master, engine=engine)
                found = records_of(run)
        if known is not None and known[0] != scenario:
            raise AnalysisError(
                f"{directory}: a run of {scenario}, not of {known[0]}: compare runs of one scenario"
            )
        known = known or (scenario, title)
        records += found
    if known is None or len({(record.seed, json.dumps(record.settings)) for record in records}) < 2:
        raise AnalysisError(f"{directories[0]}: there is nothing to compare it with: give several runs")
    compared = study(*known, records)
    write_study(page, compared)
    return compared
