"""Signals: none ends a command in the middle of its work.

Ctrl-C, SIGTERM and the end of a terminal (SIGHUP) stop a command: what is half-made goes, and it is said
once. SIGUSR1 and SIGUSR2, which would kill it, have no effect. `feednet forward` reloads on SIGHUP.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

received: list[int] = []
"""The signals since the block began."""


@contextmanager
def stopping() -> Iterator[None]:
    """Have SIGINT, SIGTERM, SIGHUP raise KeyboardInterrupt in this block, and end what analyses have begun.

    Whatever exception comes of that, KeyboardInterrupt leaves the block. A signal that is ignored stays so.
    """
    received.clear()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _ignore)  # a handler of ours: programs that we start would inherit SIG_IGN
    try:
        yield
    except BaseException:
        if received:
            raise KeyboardInterrupt from None
        raise


def status() -> int:
    """Return the exit status of a command that was stopped."""
    return 128 + (received or [signal.SIGINT])[0]


def _ignore(_: int, __: FrameType | None) -> None:
    pass


def _stop(number: int, _: FrameType | None) -> None:
    received.append(number)
    if "pyspark" in sys.modules:  # who has not begun an analysis need not wait for the import
        from analysis.spark.parallel import stop

        stop()
    raise KeyboardInterrupt
