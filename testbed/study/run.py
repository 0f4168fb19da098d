"""Runs the cells of a study that are not kept yet, side by side, and collects what claims need."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from analysis.files import locked
from base.files import write_whole
from testbed.experiment.provenance import code_version, commit, processor
from testbed.experiment.sweeps import sweep as sweeping
from testbed.experiment.sweeps.directory import Job
from testbed.experiment.workers import resumable, work_off_on_spark
from testbed.study.cells import Cell, Kept, Store
from testbed.study.models import MODELS, Figures
from testbed.study.results import Results, Row
from testbed.study.spec import StudySpec

_AT_ONCE = 24
_AT_ONCE_ON_SPARK = 256
"""Runs whose captures are on disk together: a study that is stopped has lost no more."""

CELLS, CAPTURES = "cells", "captures.partial"
"""Directories in that of a study."""

Progress = Callable[[int, int, str], None]


class Means(NamedTuple):
    """What works: processes, or Spark's executors, which see the directory under the same path.

    Attributes:
        workers: number of processes.
        engine: of the analysis.
        master: Spark's; None for one of this machine.
        on_spark: whether runs are Spark tasks; models are played here in any case.
    """

    workers: int = 1
    engine: str = "auto"
    master: str | None = None
    on_spark: bool = False


def run(
    study: StudySpec, cells: Sequence[Cell], directory: Path, means: Means, progress: Progress
) -> dict[str, Kept]:
    """Run the cells that `directory` does not keep; return all, by key.

    Raises UserError, analysis.errors.AnalysisError and OSError. Must be called from the main thread.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        store = Store(directory / CELLS)
        every = {cell.key: cell for cell in cells}
        kept = {key: found for key in every if (found := store.get(key)) is not None}
        left = [cell for key, cell in every.items() if key not in kept]
        for key, found in _run(study, left, directory, means):
            store.put(key, found)
            kept[key] = found
            progress(len(kept), len(every), "")
    return kept


def _run(
    study: StudySpec, cells: Sequence[Cell], directory: Path, means: Means
) -> Iterator[tuple[str, Kept]]:
    models = [cell for cell in cells if cell.job is None]
    if models:
        names = {name: runs.model for name, runs in study.runs.items() if runs.model is not None}
        with closing(resumable("the study", partial(_play, names), models, means.workers)) as played:
            yield from played
    emulated = {cell.job.place: cell for cell in cells if cell.job is not None}
    captures = directory / CAPTURES
    shutil.rmtree(captures, ignore_errors=True)  # of a study that was killed
    try:
        done: dict[str, tuple[Cell, float]] = {}
        most = _AT_ONCE_ON_SPARK if means.on_spark else _AT_ONCE
        for place, cpu_s in _emulated([cell.job for cell in emulated.values() if cell.job], captures, means):
            done[place] = emulated[place], cpu_s
            if len(done) == most:
                yield from _measured([*done.values()], captures, means)
                done = {}
        if done:
            yield from _measured([*done.values()], captures, means)
    finally:
        shutil.rmtree(captures, ignore_errors=True)


def _emulated(jobs: Sequence[Job], captures: Path, means: Means) -> Iterator[tuple[str, float]]:
    """Run jobs; yield place and processor time of each. Processes go on while those that are done are
    analysed.
    """
    work = partial(_emulate, directory=captures.resolve())
    if means.on_spark:
        yield from work_off_on_spark(work, jobs, means.master)
        return
    with closing(resumable("the study", work, jobs, means.workers)) as places:
        yield from places


def _emulate(job: Job, directory: Path) -> tuple[str, float]:
    since = time.process_time()
    return sweeping.emulate(job, directory), time.process_time() - since


def _play(names: Mapping[str, str], cell: Cell) -> tuple[str, Kept]:
    since = time.process_time()
    figures: Figures = MODELS[names[cell.runs]].play(cell.layering, cell.setting, cell.seed)
    return cell.key, Kept(figures, time.process_time() - since, {}, {})


def _measured(
    cells: Sequence[tuple[Cell, float]], captures: Path, means: Means
) -> Iterator[tuple[str, Kept]]:
    """Analyse runs, and remove their captures."""
    from analysis.pipelines.compare import origin_of
    from analysis.run.manifest import Run

    since = time.process_time()
    runs = [Run(captures / cell.job.place) for cell, _ in cells if cell.job is not None]
    measured = [*sweeping.measures(runs, captures / "tables", means.master, means.engine)]
    each_s = (time.process_time() - since) / len(cells)
    records = [record for found, _ in measured for record in found]
    for (cell, cpu_s), run_, record in zip(cells, runs, records, strict=True):
        rest = {"settings": record.settings, "seed": record.seed, "began_ns": record.began_ns}
        origin = origin_of(run_, measured[0][1])._asdict()
        yield cell.key, Kept(record.values, cpu_s + each_s, rest, origin, run_.manifest.title)
        shutil.rmtree(run_.directory)


def collect(rows: Sequence[Row], cells: Sequence[Cell], kept: Mapping[str, Kept]) -> Results:
    """Return the values of rows, from the cells that have been run."""
    places: dict[Row, list[Cell]] = {}
    for cell in cells:
        places.setdefault(cell.place, []).append(cell)
    values: dict[Row, dict[int, float]] = {}
    for row in rows:
        there = places.get(row._replace(metric=""), [])
        known = {cell.seed: kept[cell.key].values.get(row.metric) for cell in there}
        values[row] = {seed: value for seed, value in known.items() if value is not None}
    return Results(values, _facts(cells, kept))


def _facts(cells: Sequence[Cell], kept: Mapping[str, Kept]) -> dict[str, str]:
    keys = {cell.key for cell in cells}
    seconds = sum(kept[key].cpu_s for key in keys)
    return {
        "code": f"{code_version()[:16]} (commit {commit() or 'unknown'})",
        "written": f"{datetime.now(UTC):%Y-%m-%d}",
        "runs": f"{len(keys)}, {seconds:.0f} s of processor time with their analysis",
        "machine": processor(),
    }


def write_pages(
    study: StudySpec, cells: Sequence[Cell], kept: Mapping[str, Kept], directory: Path
) -> list[Path]:
    """Write page and measures of each scenario's runs, as a sweep does; return the pages."""
    from analysis.metrics.study import Origin, Record
    from analysis.metrics.study import study as studied
    from analysis.pipelines.compare import write_sweep
    from analysis.report.study import render_study

    pages = []
    for name, runs in study.runs.items():
        here = [cell for cell in cells if cell.runs == name and cell.job is not None]
        if not here or runs.scenario is None:
            continue
        those = [(cell, kept[cell.key]) for cell in here]
        records = [
            Record(layering=cell.layering, values=found.values, source=name, **found.record)
            for cell, found in those
        ]
        origin, title = Origin(**those[0][1].origin), those[0][1].title
        place = directory / name
        place.mkdir(exist_ok=True)
        write_sweep(place, runs.scenario, title, origin, records)
        page = place / "study.html"
        write_whole(page, render_study(studied(runs.scenario, title, records, [origin])))
        pages.append(page)
    return pages
