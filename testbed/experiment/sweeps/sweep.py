"""Sweeps: a scenario run many times, with other settings and seeds, in parallel.

A sweep leaves a directory of runs (testbed.experiment.sweeps.directory), each like that of `feednet run`,
their measures (analysis.pipelines.compare), and a page that compares them. Emulated runs of equal settings
and seed give the same bytes, in any order and on any machine. Runs over Mininet are sequential: each needs
all cores.
"""

import errno
import json
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from base.files import write_whole
from testbed.errors import UserError, shown
from testbed.experiment import run as running
from testbed.experiment.options import RunOptions
from testbed.experiment.platform import Platform
from testbed.experiment.sweeps.directory import Job, place_of
from testbed.experiment.workers import resumable, work_off_on_spark
from testbed.layerings.registry import LAYERINGS
from testbed.scenario import reader as scenarios
from testbed.scenario import workload
from testbed.scenario.overrides import long_key

if TYPE_CHECKING:
    import pyarrow as pa

    from analysis.metrics.study import Record
    from analysis.run.manifest import Run

MOST_RUNS = 10_000
BATCH_BYTES = 1 << 30
BATCH_CASES = 64
"""Limits of a batch for analysis: bytes of captures, and layerings of runs."""

_ATTEMPT = ".attempt-"
"""Begins the names of directories in which Spark's tasks run."""

Progress = Callable[[int, int, str], None]
"""Called with (runs done, total runs, the current run)."""


class Axis(NamedTuple):
    """A varied key path of the scenario, and its values."""

    key: str
    values: list[Any]


def parse_axis(text: str) -> Axis:
    """Parse "loss=0,1,5"; raise UserError.

    The key is loss, items, seed, strategy, LAYERING.PARAMETER or a scenario's key path. Values are JSON if
    possible; "1..10" is each whole number from 1 to 10.
    """
    name, equals, listed = text.partition("=")
    values = [value for part in listed.split(",") for value in _values(part)]
    if not equals or not name or not listed or "" in values:
        raise UserError(
            f"--sweep {shown(text)}: write it as KEY=VALUE,VALUE,..., e.g. loss=0,1,5 or poll.window=4,8"
        )
    if len(set(map(str, values))) != len(values):
        raise UserError(f"--sweep {shown(text)}: a value is there twice")
    first = name.partition(".")[0]
    return Axis(f"parameters.{name}" if first in LAYERINGS else long_key(name), values)


def _values(text: str) -> list[Any]:
    low, dots, high = text.partition("..")
    if dots and low.isdigit() and high.isdigit() and int(high) - int(low) < MOST_RUNS:
        return list(range(int(low), int(high) + 1))
    try:
        return [json.loads(text)]
    except ValueError:
        return [text]


def plan(scenario: str, options: RunOptions, words: Sequence[str]) -> list[Job]:
    """Return the runs of a sweep, all checked; raise UserError.

    `words` are the command of the options, without the seed. Each setting is run with `options.repeat` seeds,
    from the scenario's on, unless the seed itself is varied.
    """
    axes = [parse_axis(text) for text in options.sweeps]
    if len({axis.key for axis in axes}) != len(axes):
        raise UserError("--sweep: a key is there twice")
    other = f"--seed {options.seed}" if options.seed is not None else "--repeat" * (options.repeat > 1)
    if other and any(axis.key == "seed" for axis in axes):
        raise UserError(f"{other}: the sweep names the seeds itself; leave one of them out")
    total = options.repeat * prod(len(axis.values) for axis in axes)
    if total > MOST_RUNS:
        raise UserError(f"--sweep: that is {total} runs; at most {MOST_RUNS} make a sweep")
    jobs = []
    for values in product(*(axis.values for axis in axes)):
        changes = dict(zip((axis.key for axis in axes), values, strict=True))
        setting = replace(options, seed=changes.pop("seed", options.seed), changes=changes)
        first = scenarios.load(scenario, setting)
        for number in range(options.repeat):
            seed = first.seed + number
            given = replace(setting, seed=seed)
            if number:
                scenarios.load(scenario, given)
            own = [f"--sweep={key}={typed(value)}" for key, value in changes.items()]
            command = shlex.join([*words, *own, "--seed", str(seed)])
            jobs.append(Job(place_of([*changes.items()], seed), scenario, given, command))
    return jobs


def typed(value: Any) -> str:
    """Format a value for parse_axis()."""
    return value if isinstance(value, str) else json.dumps(value)


def emulate(job: Job, directory: Path) -> str:
    """Run a job into its directory; return its place. Raises UserError."""
    _run(job, directory, Platform("emulated", "a sweep"))
    return job.place


def _run(job: Job, directory: Path, platform: Platform, tell: Callable[[str], None] = lambda _: None) -> None:
    chosen = job.checked()
    load, place = workload.load(chosen), directory / job.place
    running.run(chosen, load, platform, place, command=job.command, progress=tell)


def emulate_all(jobs: Sequence[Job], directory: Path, workers: int, progress: Progress) -> None:
    """Run all jobs on this machine's cores; raise UserError. Must be called from the main thread."""
    work = partial(emulate, directory=directory)
    with closing(resumable("the sweep", work, jobs, workers)) as places:
        for done, place in enumerate(places, start=1):
            progress(done, len(jobs), place)


def run_over_mininet(jobs: Sequence[Job], directory: Path, platform: Platform, progress: Progress) -> None:
    """Run all jobs over Mininet, one after the other; raise UserError."""
    for done, job in enumerate(jobs):

        def tell(name: str, done: int = done, place: str = job.place) -> None:
            progress(done, len(jobs), f"{place} {name}")

        _run(job, directory, platform, tell)
    progress(len(jobs), len(jobs), "")


def emulate_on_spark(jobs: Sequence[Job], directory: Path, master: str | None, progress: Progress) -> None:
    """Run all jobs as Spark tasks; raise UserError.

    Executors need the directory under the same path.
    """
    work = partial(emulate_as_task, directory=directory.resolve())
    try:
        for done, place in enumerate(work_off_on_spark(work, jobs, master), start=1):
            progress(done, len(jobs), place)
    finally:
        for left in directory.glob(f"{_ATTEMPT}*"):  # of executors that were lost
            shutil.rmtree(left, ignore_errors=True)


def emulate_as_task(job: Job, directory: Path) -> str:
    """Run a job as emulate() does; it may be run again, or twice at a time: the first whole run stays.

    Runs of one job are the same. Raises UserError, and OSError.
    """
    place = directory / job.place
    with TemporaryDirectory(prefix=_ATTEMPT, dir=directory) as own:
        emulate(job, Path(own))
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(own, job.place).rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    return job.place


def measure(
    jobs: Sequence[Job], directory: Path, command: str, master: str | None, engine: str, progress: Progress
) -> Path:
    """Analyse the runs of a sweep in batches, and write their measures and their page; return the page.

    `command` is the runs' command, for the page. Raises analysis.errors.AnalysisError.
    """
    from analysis.metrics.study import study
    from analysis.pipelines.compare import origin_of, write_sweep
    from analysis.report.study import render_study
    from analysis.run.manifest import Run

    runs = [Run(directory / job.place) for job in jobs]
    total = sum(len(run.manifest.layerings) for run in runs)
    records: list[Record] = []
    for batch in measures(runs, directory / "tables.partial", master, engine):
        found, measured = batch
        records += found
        progress(len(records), total, "measuring")
    first = runs[0].manifest
    origin = origin_of(runs[0], measured, command, datetime.now(UTC).isoformat(timespec="seconds"))
    write_sweep(directory, first.scenario, first.title, origin, records)
    page = directory / "study.html"
    write_whole(page, render_study(study(first.scenario, first.title, records, [origin])))
    return page


def measures(
    runs: "Sequence[Run]", tables: Path, master: str | None, engine: str
) -> "Iterator[tuple[list[Record], pa.Table]]":
    """Analyse runs in batches; yield the records of each batch, and the table from which they are.

    `tables` is a directory for the tables of a batch, removed with it. Raises analysis.errors.AnalysisError.
    """
    from analysis.metrics.catalogue import METRICS
    from analysis.pipelines.compare import record_of
    from analysis.pipelines.run import measure_cases
    from analysis.run.context import Case
    from analysis.run.settings import settings_of

    for batch in _batches(runs):
        cases = {f"{k:04d} {x}": Case(run, x) for k, run in enumerate(batch) for x in run.manifest.layerings}
        try:
            measured = measure_cases(cases, tables, master, engine)
        finally:
            shutil.rmtree(tables, ignore_errors=True)
        rows = {row["layering"]: row for row in measured.to_pylist()}
        records = []
        for name, case in cases.items():
            values = {m.key: rows[name][m.key] for m in METRICS if rows[name][m.key] is not None}
            records.append(record_of(case.run, case.layering, settings_of(case.run), values))
        yield records, measured


def _batches(runs: Sequence[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = cases = 0
    for run in runs:
        layerings = run.manifest.layerings
        bytes_of = sum(run.capture(layering).stat().st_size for layering in layerings)
        if batch and (size + bytes_of > BATCH_BYTES or cases + len(layerings) > BATCH_CASES):
            yield batch
            batch, size, cases = [], 0, 0
        batch.append(run)
        size, cases = size + bytes_of, cases + len(layerings)
    if batch:
        yield batch
