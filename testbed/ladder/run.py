"""Many runs of the ladder's models, over processes or as tasks of a Spark job."""

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial

from testbed.errors import UserError
from testbed.experiment.workers import work_off
from testbed.ladder.tables import Cell, Trial, cells, play

Task = tuple[str, int]
"""A table, and a seed."""
Progress = Callable[[int, int], None]
"""Told how many runs are done, and of how many."""


def run_models(
    peers: Mapping[str, int],
    seeds: Sequence[int],
    jobs: int,
    master: str | None,
    progress: Progress,
) -> dict[str, list[Cell]]:
    """Return the cells of each table; `peers` gives the size of its networks.

    The runs are shared by `jobs` processes; with `master`, by the executors of that Spark cluster, which need
    this package. Raises AnalysisError if there is no such Spark.
    """
    tasks = [(name, seed) for seed in seeds for name in peers]
    work = partial(_play, dict(peers))
    played = _on_spark(work, tasks, master) if master is not None else work_off(work, tasks, jobs)
    trials: dict[str, dict[int, Trial]] = {name: {} for name in peers}
    try:
        with closing(played):
            for done, ((name, seed), trial) in enumerate(played, start=1):
                trials[name][seed] = trial
                progress(done, len(tasks))
    except BrokenProcessPool as error:
        raise UserError(
            "a process of the models was killed, perhaps for want of memory: give fewer --jobs"
        ) from error
    # In the order of their seeds, so that sums of floats do not depend on who was first.
    return {name: cells(name, size, [trials[name][seed] for seed in seeds]) for name, size in peers.items()}


def _play(peers: Mapping[str, int], task: Task) -> tuple[Task, Trial]:
    name, seed = task
    return task, play(name, peers[name], seed)


def _on_spark(
    work: Callable[[Task], tuple[Task, Trial]], tasks: Sequence[Task], master: str
) -> Generator[tuple[Task, Trial], None, None]:
    from analysis.spark.session import spark_session

    context = spark_session(master, small=True).sparkContext
    yield from context.parallelize(tasks, len(tasks)).map(work).toLocalIterator(prefetchPartitions=True)
