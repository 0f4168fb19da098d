"""Parallel work in threads, and its end."""

import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event
from typing import Any

from pyspark import SparkContext

_GRACE_S = 5.0
_stopping = Event()


def stop() -> None:
    """End all work of this process soon, in Spark and in threads, because the process is about to end.

    Spark has ended when this returns, unless that takes more than 5 s.
    """
    _stopping.set()
    logging.disable(logging.CRITICAL)  # py4j would log each lost connection
    accumulators = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if accumulators is not None:  # as would the accumulator server
        accumulators.handle_error = lambda *_: None
    # Spark may be starting; without PySpark's connection file it would never end.
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            for child in place.read_text(encoding="ascii").split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGTERM)
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        with suppress(TimeoutExpired):
            jvm.wait(_GRACE_S)


def raise_if_stopping() -> None:
    """Raise an exception if the process is about to end; long computations in its own threads, such as
    Sail's, call it periodically.
    """
    if _stopping.is_set():
        raise InterruptedError("interrupted")


def in_parallel(*tasks: Callable[[], Any], most: int | None = None) -> list[Any]:
    """Return the results of tasks, run in threads: small Spark jobs leave cores idle for other jobs.

    Large ones share memory: at `most` so many run at once.
    """
    with ThreadPoolExecutor(most) as pool:
        try:
            return [future.result() for future in [pool.submit(task) for task in tasks]]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an exception: the others are in vain
