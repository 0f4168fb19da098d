"""Signals: none leaves a command half done.

Ctrl-C, SIGTERM and the end of a terminal (SIGHUP) stop a command: partial results are removed, and one line
is printed. SIGUSR1 and SIGUSR2 have no effect instead of killing it. `feednet forward` reloads on SIGHUP.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

received: list[int] = []
"""The signals since the block began."""


@contextmanager
def stopping() -> Iterator[None]:
    """Let SIGINT, SIGTERM, SIGHUP raise KeyboardInterrupt in this block, and end running analyses.

    Any consequent exception becomes KeyboardInterrupt. Ignored signals stay ignored.
    """
    received.clear()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _ignore)  # a handler, as child processes would inherit SIG_IGN
    try:
        yield
    except BaseException:
        if received:
            raise KeyboardInterrupt from None
        raise


def leave() -> NoReturn:
    """End the process of a stopped command: exit status 130 after SIGINT.

    Python's own end would wait for its threads, and those of Sail's server may wait for Python.
    """
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # nobody reads it any more
                stream.flush()
    finally:
        os._exit(128 + (received or [signal.SIGINT])[0])


def _ignore(_: int, __: FrameType | None) -> None:
    pass


def _stop(number: int, _: FrameType | None) -> None:
    received.append(number)
    if "pyspark" in sys.modules:  # otherwise no analysis has begun: save the import
        from analysis.spark.parallel import stop

        stop()
    raise KeyboardInterrupt
