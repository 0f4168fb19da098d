"""Sweeps: a scenario run many times, with other settings and other seeds, side by side over the cores.

A sweep is a directory of runs, OUT/<settings>/seed=<n>, each like that of `feednet run`; what they came to
(analysis.study); and a page that compares them. Runs are emulated: the same settings and seed give the same
bytes, in whatever order and wherever they are run.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import chdir
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from testbed import run as running
from testbed import scenario as scenarios
from testbed import workload
from testbed.errors import UserError, shown
from testbed.layerings import LAYERINGS

MOST_RUNS = 10_000
BATCH_BYTES = 1 << 30
BATCH_CASES = 64
"""What is analysed at once: captures of so many bytes, so many layerings of runs."""

Changes = dict[str, Any]
Progress = Callable[[int, int, str], None]
"""Told (how many are done, of how many, what is being done)."""


class Axis(NamedTuple):
    """What is varied: a key path of the scenario, and its values."""

    key: str
    values: list[Any]


class Job(NamedTuple):
    """One run: its directory inside the sweep's, and how its scenario is loaded (arguments of
    scenarios.load)."""

    place: str
    scenario: str
    options: dict[str, Any]


def parse_axis(text: str) -> Axis:
    """Read "loss=0,1,5": loss, items, seed, LAYERING.PARAMETER or a scenario's key path; raise UserError.

    Values are JSON where they can be; "1..10" is each whole number from 1 to 10.
    """
    name, equals, listed = text.partition("=")
    values = [value for part in listed.split(",") for value in _values(part)]
    if not equals or not name or not listed or "" in values:
        raise UserError(
            f"--sweep {shown(text)}: write it as KEY=VALUE,VALUE,..., e.g. loss=0,1,5 or poll.window=4,8"
        )
    if len(set(map(str, values))) != len(values):
        raise UserError(f"--sweep {shown(text)}: a value is there twice")
    short = {"loss": "topology.link.loss_percent", "items": "workload.items"}
    first = name.partition(".")[0]
    return Axis(short.get(name, f"parameters.{name}" if first in LAYERINGS else name), values)


def _values(text: str) -> list[Any]:
    low, dots, high = text.partition("..")
    if dots and low.isdigit() and high.isdigit() and int(high) - int(low) < MOST_RUNS:
        return list(range(int(low), int(high) + 1))
    try:
        return [json.loads(text)]
    except ValueError:
        return [text]


def plan(scenario: str, axes: Sequence[Axis], repeat: int, options: dict[str, Any]) -> list[Job]:
    """Return the runs of a sweep, all checked; raise UserError.

    `options` are arguments of testbed.scenario.load for all of them. Each setting is run with `repeat` seeds,
    from the scenario's on, unless the seed itself is varied.
    """
    if len({axis.key for axis in axes}) != len(axes):
        raise UserError("--sweep: a key is there twice")
    if repeat > 1 and any(axis.key == "seed" for axis in axes):
        raise UserError("--repeat: the sweep names the seeds itself; leave one of them out")
    total = repeat
    for axis in axes:
        total *= len(axis.values)
    if total > MOST_RUNS:
        raise UserError(f"--sweep: that is {total} runs; at most {MOST_RUNS} make a sweep")
    jobs = []
    for values in product(*(axis.values for axis in axes)):
        changes = dict(zip((axis.key for axis in axes), values, strict=True))
        seed = changes.pop("seed", options.get("seed"))
        for number in range(repeat):
            given = options | {"changes": changes}
            first = scenarios.load(scenario, **(given | {"seed": seed}))
            given["seed"] = first.seed + number
            named = [f"{key.rpartition('.')[2]}={_safe(value)}" for key, value in changes.items()]
            jobs.append(Job("/".join([",".join(named) or "all", f"seed={given['seed']}"]), scenario, given))
    if len({job.place for job in jobs}) != len(jobs):
        raise UserError("--sweep: two of the keys are too alike to name directories by")
    return jobs


def _safe(value: Any) -> str:
    return "".join(sign if sign.isalnum() or sign in ".-_" else "_" for sign in str(value))


def emulate(job: Job, directory: Path) -> str:
    """Run a job into its directory; return its place. Raises UserError."""
    chosen = scenarios.load(job.scenario, **job.options)
    running.run(chosen, workload.load(chosen), "emulated", "a sweep", directory / job.place)
    return job.place


def emulate_all(jobs: Sequence[Job], directory: Path, workers: int, progress: Progress) -> None:
    """Run all jobs on this machine's cores; raise UserError."""
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(emulate, job, directory) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                progress(done, len(jobs), future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def emulate_on_spark(jobs: Sequence[Job], directory: Path, master: str | None, progress: Progress) -> None:
    """Run all jobs as one Spark job, a task each; raise UserError.

    Executors need this package, and under the same paths the directory and the working directory.
    """
    import pandas as pd
    from pyspark.errors import PythonException

    from analysis.errors import reason
    from analysis.session import spark_session

    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            with chdir(home):  # paths of scenarios, feeds and topologies are as the user wrote them
                done = [emulate(Job(**json.loads(text)), target) for text in batch["job"]]
            yield pd.DataFrame({"place": done})

    home, target = Path.cwd(), directory.resolve()
    spark = spark_session(master, small=True)
    rows = [(json.dumps(job._asdict()),) for job in jobs]
    # One partition a job: parallelize() cuts the list evenly, which repartition() by hash would not.
    table = spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), "job string")
    placed = table.mapInPandas(work, "place string").toLocalIterator(prefetchPartitions=True)
    try:
        for done, row in enumerate(placed, start=1):
            progress(done, len(jobs), row.place)
    except PythonException as error:
        raise UserError(f"a run failed on an executor: {reason(error)}") from error


def measure(
    jobs: Sequence[Job], directory: Path, master: str | None, engine: str, progress: Progress
) -> Path:
    """Analyse the runs of a sweep, many at once, and write what they came to and their page; return the page.

    Raises analysis.errors.AnalysisError.
    """
    from analysis.compare import METRICS
    from analysis.manifest import Run
    from analysis.pipeline import measure_cases
    from analysis.report.study import write_study
    from analysis.setting import Case
    from analysis.study import Record, settings_of, study, write_sweep

    runs = [Run(directory / job.place) for job in jobs]
    records: list[Record] = []
    tables = directory / "tables.partial"
    for batch in _batches(runs):
        progress(len(records), sum(len(run.manifest.layerings) for run in runs), "measuring")
        cases = {f"{k:04d} {x}": Case(run, x) for k, run in enumerate(batch) for x in run.manifest.layerings}
        rows = {row["layering"]: row for row in measure_cases(cases, tables, master, engine).to_pylist()}
        for name, case in cases.items():
            values = {m.key: rows[name][m.key] for m in METRICS if rows[name][m.key] is not None}
            records.append(Record(settings_of(case.run), case.manifest.seed, case.layering, values))
        shutil.rmtree(tables, ignore_errors=True)
    first = runs[0].manifest
    write_sweep(directory, first.scenario, first.title, records)
    page = directory / "study.html"
    write_study(page, study(first.scenario, first.title, records))
    return page


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


def make_directory(directory: Path) -> None:
    """Make the directory of a sweep; raise UserError if it is there or cannot be made."""
    if os.path.lexists(directory):
        raise UserError(f"{directory}: exists already; choose another --out or remove it")
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made: {error.strerror}; choose another --out") from error
