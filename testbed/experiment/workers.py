"""Work shared out: to processes, which end with this one, however it ends; to Spark's executors."""

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir, closing, contextmanager
from contextvars import ContextVar
from multiprocessing import active_children, connection, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

Task = TypeVar("Task")
Result = TypeVar("Result")
Hear = Callable[[Any], None]
"""Called with what tasks report()."""

_AHEAD = 2
"""Queued tasks per worker: none waits for the next, and memory stays constant."""

_TASKS_A_CORE = 4
"""Tasks of a Spark job, for each core of the cluster."""

_LISTENING_S = 0.1
"""Time between two looks at reports."""

_hear: ContextVar[Hear | None] = ContextVar("hear", default=None)

_works: list[Callable[[Any], Any]] = []
"""The work of this process, if it is a worker: sent once, so that tasks share its objects, and caches find
them.
"""


def report(message: Any) -> None:
    """Report a message from a task to the process that works tasks off."""
    hear = _hear.get()
    if hear is not None:
        hear(message)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cyclic garbage a hundredth as often, and only among new objects: what runs in virtual time
    leaves hardly any, and looking takes 5 to 10 % of the time."""
    before, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0  # as a worker is: see _begin()
    gc.set_threshold(100 * before[0], *before[1:])
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


@contextmanager
def unless_killed(whose: str, remedy: str = "give fewer --jobs") -> Iterator[None]:
    """Raise UserError with a remedy if a worker of work_off() has been killed; `whose`: "the run"."""
    try:
        yield
    except BrokenProcessPool as error:
        raise UserError(f"a process of {whose} was killed, perhaps for want of memory: {remedy}") from error


def resumable(
    whose: str, work: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Generator[Result, None, None]:
    """Yield as work_off() does what the same command would not do again. Raises UserError as unless_killed()
    does.
    """
    remedy = "give the same command again, with the same --out and fewer --jobs, and it goes on"
    done = work_off(work, tasks, min(workers, max(len(tasks), 1)))
    with unless_killed(whose, remedy), closing(done):
        yield from done


def work_off(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, hear: Hear | None = None
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each task, in order of completion; call `hear` with each message that a
    task reports.

    One worker is this process itself: another would only have to be started. Closing the generator ends the
    workers in mid-task. Must be called from the main thread. Raises
    concurrent.futures.process.BrokenProcessPool if a worker was killed.
    """
    if workers == 1:
        _hear.set(hear)
        yield from map(work, tasks)
        return
    context = get_context("fork" if _may_fork() else "spawn")
    messages = None if hear is None else context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(messages, work))
    waiting: set[Future[Result]] = set()
    try:
        for task in tasks:
            waiting.add(_submit(pool, task))
            if len(waiting) >= _AHEAD * workers:
                done, waiting = _wait(waiting, messages, hear)
                yield from (each.result() for each in done)
        while waiting:
            done, waiting = _wait(waiting, messages, hear)
            yield from (each.result() for each in done)
    except BaseException:
        for process in active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _wait(
    waiting: set[Future[Result]], messages: SimpleQueue[Any] | None, hear: Hear | None
) -> tuple[set[Future[Result]], set[Future[Result]]]:
    """Wait until a task is done, and hear what tasks report; return those that are done, and the others."""
    while True:
        done, rest = wait(waiting, None if hear is None else _LISTENING_S, FIRST_COMPLETED)
        while messages is not None and hear is not None and not messages.empty():
            hear(messages.get())
        if done:
            return done, rest


def _submit(pool: ProcessPoolExecutor, task: Any) -> Future[Any]:
    # Workers start with the first tasks, and inherit blocked signals: a terminal's Ctrl-C is for this
    # process, which ends its workers itself.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_do, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _may_fork() -> bool:
    """Return whether workers may be copies of this process, with its modules: they begin at once then.

    A second thread may hold a lock, for ever in the copy.
    """
    threads = Path("/proc/self/task")
    return sys.platform == "linux" and threads.is_dir() and len(list(threads.iterdir())) == 1


def _do(task: Any) -> Any:
    return _works[0](task)


def _begin(messages: SimpleQueue[Any] | None, work: Callable[[Any], Any]) -> None:
    """Begin a worker."""
    _works[:] = [work]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    gc.freeze()  # what a copy inherits is its parent's to close
    _hear.set(None if messages is None else messages.put)
    _end_with_parent()


def _end_with_parent() -> None:
    """End this worker when its parent ends, even by SIGKILL."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def work_off_on_spark(
    work: Callable[[Task], Result], tasks: Sequence[Task], master: str | None
) -> Iterator[Result]:
    """Yield the result of `work` for each task, in order; each is a Spark task.

    Executors need this package, and the working directory under the same path. If an executor is lost,
    another one repeats its tasks, so a task may run twice. Raises UserError if a task fails.
    """
    import pyarrow as pa
    from pyspark.errors import PythonException

    from analysis.errors import reason
    from analysis.spark.session import spark_session

    def do(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            with chdir(home):  # the user's paths are relative to it
                results = [pickle.dumps(work(pickle.loads(task))) for task in batch["task"].to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.binary())})

    home = Path.cwd()
    spark = spark_session(master, small=True)
    context = spark.sparkContext

    def run(part: Sequence[Task]) -> list[Result]:
        rows = [(pickle.dumps(task),) for task in part]
        # One partition per task: parallelize() cuts the list evenly, unlike repartition() by hash.
        table = spark.createDataFrame(context.parallelize(rows, len(rows)), "task binary")
        return [pickle.loads(row.result) for row in table.mapInArrow(do, "result binary").collect()]

    size = _TASKS_A_CORE * context.defaultParallelism
    parts = [tasks[at : at + size] for at in range(0, len(tasks), size)]
    # Of two jobs at a time, the second keeps cores busy while the first has its last tasks.
    pool = ThreadPoolExecutor(2)
    try:
        for results in pool.map(run, parts):
            yield from results
    except PythonException as error:
        raise UserError(f"a task failed on an executor: {reason(error)}") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        context.cancelAllJobs()
