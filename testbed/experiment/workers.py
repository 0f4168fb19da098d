"""Processes that work for this one, and end with it, however it ends."""

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
"""Tasks for each worker that are known to it: none waits for the next, and memory stays flat."""


def work_off(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Generator[Result, None, None]:
    """Yield what `work` returns for each task, in the order in which they are done.

    One worker is this process itself: another would only have to be started. Whoever closes the generator
    ends the workers, in the middle of what they do. To be called from the main thread. Raises
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
    # A worker begins with the first tasks, and inherits what is blocked: a terminal's Ctrl-C is for this
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
