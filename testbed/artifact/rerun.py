"""Repeats a run from its directory, and compares the results.

An emulated run is identical, byte for byte. Over Mininet it is repeated several times, and each metric should
lie within the prediction interval (Student's t) of these repetitions.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple, cast

from analysis.metrics.catalogue import BY_KEY, Metric
from testbed.api.results import Results
from testbed.errors import UserError, as_user_error
from testbed.experiment import code
from testbed.experiment import run as running
from testbed.experiment.inputs import scenario_of
from testbed.experiment.platform import Impairment, Net, Platform
from testbed.scenario import workload

CONFIDENCE = 0.99
HEADLINES = (
    "delivered",
    "latency_p50",
    "latency_p99",
    "state_entries_mean",
    "frames_per_item",
    "bytes_per_item",
)
"""Metrics that judge repetitions; the pages have all."""

_RESOLUTION = 1e-9


class Comparison(NamedTuple):
    """A metric of a layering: its original value, its values in repetitions, and the prediction interval.

    `low` and `high` are None with too few repetitions.
    """

    layering: str
    metric: Metric
    was: float
    now: Sequence[float]
    low: float | None
    high: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether the original lies in the interval; None without one."""
        if self.low is None or self.high is None:
            return None
        return self.low - _RESOLUTION <= self.was <= self.high + _RESOLUTION


def check(run: Results, *, is_trusted: bool) -> None:
    """Raise UserError if a run cannot be repeated from its directory.

    A run with code of its own, such as strategies, is repeated only if trusted.
    """
    from analysis.errors import AnalysisError
    from analysis.run.manifest import Run

    manifest = run.manifest
    if manifest.scripted:
        raise UserError(f"{run.directory}: a script has run this: run the script again")
    if manifest.held:
        raise UserError(f"{run.directory}: it was held, for as long as somebody wanted; it has no other end")
    with as_user_error(AnalysisError):
        Run(run.directory).verify()
    own = code.named(scenario_of(run.directory).model_dump(mode="json"))
    if own and not is_trusted:
        raise UserError(f"{run.directory}: it has code of its own: {', '.join(own)}; {code.TRUST}")


def repeat(run: Results, directory: Path, progress: Callable[[str], None] = lambda _: None) -> Results:
    """Repeat a run into a new directory. Raises UserError."""
    scenario = scenario_of(run.directory)
    manifest = run.manifest
    net = cast(Net, manifest.net)
    impairment = cast(Impairment, manifest.impairment if net == "mininet" else "auto")
    platform = Platform.chosen(net, impairment, manifest.dilation)._replace(reason="as it was")
    load = workload.load(scenario)
    running.run(scenario, load, platform, directory, command=manifest.command, progress=progress)
    return Results(directory)


def compared(run: Results, repetitions: Sequence[Results]) -> list[Comparison]:
    """Return the headline metrics of each layering: original values and repetitions."""
    was, now = _values(run), [_values(each) for each in repetitions]
    found = []
    for layering in run.manifest.layerings:
        for key in HEADLINES:
            values = [each[layering, key] for each in now if (layering, key) in each]
            if (layering, key) in was and len(values) == len(now):
                interval = _interval(values)
                found.append(Comparison(layering, BY_KEY[key], was[layering, key], values, *interval))
    return found


def _values(run: Results) -> dict[tuple[str, str], float]:
    """Return the known values, by layering and metric."""
    rows = run.arrow("comparison").to_pylist()
    return {(row["layering"], row["metric"]): row["value"] for row in rows if row["value"] is not None}


def _interval(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the prediction interval with CONFIDENCE, for values of one normal distribution."""
    from scipy.stats import t  # slow to import

    count = len(values)
    if count < 2:
        return None, None
    half = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * stdev(values) * sqrt(1 + 1 / count)
    return fmean(values) - half, fmean(values) + half
