"""Virtual time: a clock that jumps to the next event.

Events are ordered by (time, rank, order of scheduling), so that one seed gives one order. At one instant
changes of the network come first, and apply to all other events of that instant. Alarms precede frames: an
entry that expires then is gone for a packet that arrives then. Observers come last, as they read the
resulting state.
"""

from collections.abc import Callable
from heapq import heappop, heappush

CHANGE, ALARM, FRAME, OBSERVER = range(4)
"""Ranks of events at one instant."""


class VirtualTime:
    """Pending events.

    Attributes:
        now: virtual time, ns, from 0.
    """

    def __init__(self) -> None:
        self.now = 0
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def at(self, time: int, rank: int, action: Callable[[], None]) -> None:
        """Schedule `action` at a time (ns)."""
        self._scheduled += 1
        heappush(self._queue, (time, rank, self._scheduled, action))

    def next_time(self) -> int | None:
        """Return the time of the next event, ns; None if there is none."""
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Execute the next event; there must be one."""
        self.now, _, _, action = heappop(self._queue)
        action()

    def run(self, until: int) -> None:
        """Execute all events up to and including a time (ns)."""
        while self._queue and self._queue[0][0] <= until:
            self.step()
        self.now = until


class Alarm:
    """The next wake-up of an endpoint: the earliest of its deadlines.

    Args:
        time: virtual time.
        wake: called at the deadline.
        most: alarms at one instant before time counts as standing still.
        stuck: called then.
    """

    def __init__(
        self, time: VirtualTime, wake: Callable[[], None], most: int, stuck: Callable[[], None]
    ) -> None:
        self._time = time
        self._wake = wake
        self._most = most
        self._stuck = stuck
        self._due: int | None = None
        self._at = -1  # time of the last alarm
        self._count = 0  # number of alarms at that instant

    def set(self, deadline: int | None) -> None:
        """Set the alarm to a deadline (ns), unless an earlier one is set; None has no effect."""
        if deadline is None:
            return
        due = max(deadline, self._time.now)
        if self._due is None or due < self._due:
            self._due = due
            self._time.at(due, ALARM, lambda: self._ring(due))

    def clear(self) -> None:
        """Cancel the alarm."""
        self._due = None

    def _ring(self, due: int) -> None:
        if self._due != due:
            return  # replaced by an earlier one
        self._due = None
        self._count = self._count + 1 if self._at == self._time.now else 1
        self._at = self._time.now
        if self._count > self._most:
            self._stuck()
        self._wake()
