"""Ctrl-C and SIGTERM: whatever a command is doing, it stops; what is half-made goes, and it is said once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

received: list[int] = []
"""The signals since the block began."""


@contextmanager
def stopping() -> Iterator[None]:
    """Have SIGINT and SIGTERM raise KeyboardInterrupt in this block, and end what analyses have begun.

    Whatever exception comes of that, KeyboardInterrupt leaves the block. A signal that is ignored stays so.
    """
    received.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    except BaseException:
        if received:
            raise KeyboardInterrupt from None
        raise


def status() -> int:
    """Return the exit status of a command that was stopped."""
    return 128 + (received or [signal.SIGINT])[0]


def _stop(number: int, _: FrameType | None) -> None:
    received.append(number)
    if "pyspark" in sys.modules:  # who has not begun an analysis need not wait for the import
        from analysis.spark.parallel import stop

        stop()
    raise KeyboardInterrupt
