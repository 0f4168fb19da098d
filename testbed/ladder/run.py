"""Parallel runs of the ladder's models, over processes or as tasks of a Spark job."""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from testbed.errors import UserError
from testbed.experiment.workers import unless_killed, work_off
from testbed.ladder.spread import Means
from testbed.ladder.tables import Cell, Trial, cells, play

Task = TypeVar("Task", bound=Hashable)
Found = TypeVar("Found")
Progress = Callable[[int, int], None]
"""Called with the runs done, and their total."""


def run_models(
    peers: Mapping[str, int],
    seeds: Sequence[int],
    jobs: int,
    master: str | None,
    progress: Progress,
    *,
    real: Means | None = None,
) -> dict[str, list[Cell]]:
    """Return the cells of each table; `peers` gives the size of its networks, and `real` is that of play().

    The runs are distributed over `jobs` processes; with `master`, over the executors of that Spark cluster,
    which need this package. Raises AnalysisError if there is no such Spark, and a UserError of a run.
    """
    tasks = [(name, seed) for seed in seeds for name in peers]
    trials = run_trials(partial(_play, dict(peers), real), tasks, jobs, master, progress)
    return {name: cells(name, size, [trials[name, seed] for seed in seeds]) for name, size in peers.items()}


def run_trials(
    work: Callable[[Task], Found], tasks: Sequence[Task], jobs: int, master: str | None, progress: Progress
) -> dict[Task, Found]:
    """Return the results of `work` for each task, in order; see run_models()."""
    told = partial(_result_or_error, work)
    played = _on_spark(told, tasks, master) if master is not None else work_off(told, tasks, jobs)
    found: dict[Task, Found] = {}
    with unless_killed("the models"), closing(played):
        for done, (task, trial) in enumerate(played, start=1):
            if isinstance(trial, UserError):
                raise trial
            found[task] = trial
            progress(done, len(tasks))
    # Float sums must not depend on the order of completion.
    return {task: found[task] for task in tasks}


def _result_or_error(work: Callable[[Task], Found], task: Task) -> tuple[Task, Found | UserError]:
    try:
        return task, work(task)
    except UserError as error:  # Spark would wrap it into a traceback
        return task, error


def _play(peers: Mapping[str, int], real: Means | None, task: tuple[str, int]) -> Trial:
    name, seed = task
    return play(name, peers[name], seed, real)


def _on_spark(
    work: Callable[[Task], tuple[Task, Found | UserError]], tasks: Sequence[Task], master: str
) -> Generator[tuple[Task, Found | UserError], None, None]:
    from analysis.spark.session import spark_session

    context = spark_session(master, small=True).sparkContext
    yield from context.parallelize(tasks, len(tasks)).map(work).toLocalIterator(prefetchPartitions=True)
