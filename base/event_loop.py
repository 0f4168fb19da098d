"""Adapters of asyncio's event loop for sans-IO programs: clock, next deadline, bursts."""

import asyncio
import time
from collections.abc import Callable

BURST = 32
"""Most frames that a face receives before others get their turn."""


def steady_clock() -> Callable[[], int]:
    """Return a clock of ns since 1970, unaffected by later changes of the machine's clock."""
    offset = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns
    return lambda: monotonic_ns() + offset


class Alarm:
    """A timer of an event loop for the next deadline of its programs.

    Args:
        loop: the event loop.
        clock: the time, ns.
        ring: called at the deadline, or a little before.
    """

    __slots__ = ("_at", "_clock", "_loop", "_ring", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int], ring: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0

    def set(self, deadline: int | None) -> None:
        """Ring at a deadline, ns, instead of the previous one; None for never.

        A timer that would ring too early stays: a call with nothing due costs less than to move a timer.
        """
        if self._timer is not None:
            if deadline is not None and self._at <= deadline:
                return
            self.cancel()
        if deadline is not None:
            self._at = deadline
            self._timer = self._loop.call_later(max(deadline - self._clock(), 0) / 1e9, self._on_time)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        self._ring()
