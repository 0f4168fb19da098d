"""Many runs of the ladder's models, over processes or as tasks of a Spark job."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from testbed.errors import UserError
from testbed.experiment.workers import work_off
from testbed.ladder import ratio, slopes
from testbed.ladder.ratio import Ratio
from testbed.ladder.slopes import AXES, Point, Slope
from testbed.ladder.tables import Cell, Trial, cells, play
from testbed.ladder.unchanged import FEEDS as UNCHANGED
from testbed.ladder.unchanged import Talk, talks

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Told how many runs are done, and of how many."""


def run_models(
    peers: Mapping[str, int],
    seeds: Sequence[int],
    jobs: int,
    master: str | None,
    progress: Progress,
    *,
    real: bool = False,
) -> dict[str, list[Cell]]:
    """Return the cells of each table; `peers` gives the size of its networks, and `real` is play()'s.

    Raises what run_all() and play() raise.
    """
    tasks = [(name, seed) for seed in seeds for name in peers]
    trials = run_all(partial(_play, dict(peers), real), tasks, jobs, master, progress)
    by_name: dict[str, list[Trial]] = {name: [] for name in peers}
    for (name, _), trial in zip(tasks, trials, strict=True):
        by_name[name].append(trial)
    return {name: cells(name, size, by_name[name]) for name, size in peers.items()}


def _play(peers: Mapping[str, int], real: bool, task: tuple[str, int]) -> Trial:
    name, seed = task
    return play(name, peers[name], seed, real=real)


PARTS: Final = (*AXES, "unchanged", "hub")
"""The parts of the study of costs: axes, feeds that have not changed, and EBT over the ideal hub."""


class Costs(NamedTuple):
    """The study of costs; parts that were not asked for are empty.

    Attributes: see the modules of these classes.
    """

    points: list[Point]
    slopes: list[Slope]
    talks: list[Talk]
    ratios: list[Ratio]


def run_costs(
    parts: Collection[str], seeds: Sequence[int], jobs: int, master: str | None, progress: Progress
) -> Costs:
    """Return what the real protocols cost. Raises what run_all() raises."""
    axes = [axis for axis in AXES if axis in parts]
    periods = slopes.tasks(axes, seeds)
    swarms = [(size, seed) for size in reversed(ratio.SIZES) for seed in seeds] if "hub" in parts else []
    # The longest first, so that no process is left with it at the end.
    tasks: list[tuple[Callable[[Any], Any], Any]] = [(ratio.play, swarm) for swarm in swarms]
    tasks += [(talks, number) for number in [UNCHANGED] if "unchanged" in parts]
    tasks += [(slopes.play, period) for period in periods]
    results = run_all(_do, tasks, jobs, master, progress)
    played = [result for (work, _), result in zip(tasks, results, strict=True) if work is slopes.play]
    points, grown = slopes.along(axes, seeds, dict(zip(periods, played, strict=True)))
    told = [result for (work, _), result in zip(tasks, results, strict=True) if work is talks]
    return Costs(points, grown, told[0] if told else [], ratio.ratios(results[: len(swarms)][::-1]))


def _do(task: tuple[Callable[[Any], Any], Any]) -> Any:
    work, what = task
    return work(what)


def run_all(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    jobs: int,
    master: str | None,
    progress: Progress,
) -> list[Result]:
    """Return what `work` returns for each task, in the order of the tasks.

    They are shared by `jobs` processes; with `master`, by the executors of that Spark cluster, which need
    this package. Raises AnalysisError if there is no such Spark, and a UserError that a task raises.
    """
    numbered = [*enumerate(tasks)]
    one = partial(_numbered, work)
    done = _on_spark(one, numbered, master) if master is not None else work_off(one, numbered, jobs)
    results: dict[int, Result] = {}
    try:
        with closing(done):
            for number, result in done:
                if isinstance(result, UserError):
                    raise result
                # Sums of floats must not depend on who was first.
                results[number] = result
                progress(len(results), len(tasks))
    except BrokenProcessPool as error:
        raise UserError(
            "a process of the models was killed, perhaps for want of memory: give fewer --jobs"
        ) from error
    return [results[number] for number in range(len(tasks))]


def _numbered(work: Callable[[Task], Result], task: tuple[int, Task]) -> tuple[int, Result | UserError]:
    try:
        return task[0], work(task[1])
    except UserError as error:  # Spark would wrap it into a traceback
        return task[0], error


def _on_spark(
    work: Callable[[Task], Result], tasks: Sequence[Task], master: str
) -> Generator[Result, None, None]:
    from analysis.spark.session import spark_session

    context = spark_session(master, small=True).sparkContext
    yield from context.parallelize(tasks, len(tasks)).map(work).toLocalIterator(prefetchPartitions=True)
