"""Worker processes, which end with this one, however it ends."""

import os
import signal
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import active_children, connection, get_context, parent_process
from threading import Thread
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 2
"""Queued tasks per worker: none waits for the next, and memory stays constant."""


def work_off(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each task, in order of completion.

    One worker is this process itself: another would only have to be started. Closing the generator ends the
    workers in mid-task. Must be called from the main thread. Raises
    concurrent.futures.process.BrokenProcessPool if a worker was killed.
    """
    if workers == 1:
        yield from map(work, tasks)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)
    waiting: set[Future[Result]] = set()
    try:
        for task in tasks:
            waiting.add(_submit(pool, work, task))
            if len(waiting) >= _AHEAD * workers:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)
    except BaseException:
        for process in active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _submit(pool: ProcessPoolExecutor, work: Callable[[Task], Result], task: Task) -> Future[Result]:
    # Workers start with the first tasks, and inherit blocked signals: a terminal's Ctrl-C is for this
    # process, which ends its workers itself.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(work, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this worker when its parent ends, even by SIGKILL."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()
