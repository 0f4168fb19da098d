"""Several runs of one scenario under different loss: what each layering's way of repairing it costs.

Every run is analysed as usual; the study only sets their comparisons beside each other. Runs of the same
loss (other seeds) count by their mean.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow.parquet as pq

from analysis.compare import METRICS, Metric
from analysis.errors import AnalysisError
from analysis.manifest import Run
from analysis.pipeline import analyze

EXTRA = "extra_frames"
"""Frames per delivered item beyond those of the run with the least loss: what repair takes, of every kind."""

_KEYS = (
    "delivered_share",
    "latency_p50",
    "latency_p99",
    "pit_bytes_mean",
    "interests_per_item",
    "repeated_share",
    "wire_ratio",
)
_BY_KEY = {metric.key: metric for metric in METRICS}
STUDIED = (
    *(_BY_KEY[key] for key in _KEYS),
    Metric("", EXTRA, "Packets spent on repair, per delivered item", "frames", "lower"),
)
"""What is followed from loss to loss."""


class Study(NamedTuple):
    """`values` by (metric's key, layering, loss in %); what is missing or None is unknown."""

    scenario: str
    title: str
    layerings: list[str]
    losses: list[float]
    values: dict[tuple[str, str, float], float]


def study(runs: Sequence[Run]) -> Study:
    """Set the comparisons of analysed runs of one scenario beside each other; raise AnalysisError."""
    first = runs[0].manifest
    seen: dict[tuple[str, str, float], list[float]] = {}
    layerings: dict[str, None] = {}
    for run in runs:
        if run.manifest.scenario != first.scenario:
            raise AnalysisError(
                f"{run.directory}: a run of {run.manifest.scenario}, not of {first.scenario}: "
                "compare runs of one scenario"
            )
        layerings |= dict.fromkeys(run.manifest.layerings)
        for row in pq.read_table(run.comparison).to_pylist():
            if row["value"] is not None:
                seen.setdefault((row["metric"], row["layering"], loss_of(run)), []).append(row["value"])
    values = {key: fmean(several) for key, several in seen.items()}
    losses = sorted({loss_of(run) for run in runs})
    if len(losses) < 2:
        raise AnalysisError(f"{runs[0].directory}: all runs have {losses[0]:g} % loss: give runs that differ")
    for layering in layerings:
        least = values.get(("frames_per_item", layering, losses[0]))
        for loss in losses:
            frames = values.get(("frames_per_item", layering, loss))
            if least is not None and frames is not None:
                values[EXTRA, layering, loss] = frames - least
    return Study(first.scenario, first.title, list(layerings), losses, values)


def loss_of(run: Run) -> float:
    """Return the loss of a run's worst link, %."""
    return max((link.loss_percent for link in run.manifest.topology.links), default=0.0)


def compare_runs(
    directories: Sequence[Path],
    page: Path,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Study:
    """Analyse the runs that have not been, and write the page that compares them; raise AnalysisError.

    `progress` is told the name of each run that is analysed.
    """
    from analysis.report.study import write_study

    runs = [Run(directory) for directory in directories]
    for run in runs:
        if not run.comparison.is_file():
            progress(run.directory.name)
            analyze(run.directory, master)
    compared = study(runs)
    write_study(page, compared)
    return compared
