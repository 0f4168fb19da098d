"""Virtual time: a clock that jumps to the next event.

Events are ordered by (time, rank, order of scheduling), so that one seed gives one order. At one instant
changes of the network come first, so that everything else of that instant meets the network as it is then.
Alarms come before frames: an entry that expires then is not there for a packet that arrives then. Observers
come last, as they read the resulting state.
"""

from collections.abc import Callable
from heapq import heappop, heappush

CHANGE, ALARM, FRAME, OBSERVER = range(4)
"""Ranks of events at one instant."""


class VirtualTime:
    """Events to come.

    Attributes:
        now: virtual time, ns, from 0.
    """

    def __init__(self) -> None:
        self.now = 0
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def at(self, time: int, rank: int, action: Callable[[], None]) -> None:
        """Have `action` called at a time (ns)."""
        self._scheduled += 1
        heappush(self._queue, (time, rank, self._scheduled, action))

    def next_time(self) -> int | None:
        """Return when the next event is, ns; None if there is none."""
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
    """When an endpoint is to be woken, of all times that it has named the one that counts.

    Args:
        time: virtual time.
        wake: called when it is due.
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
        self._at = -1  # when it went off last
        self._count = 0  # how often at that instant

    def set(self, deadline: int | None) -> None:
        """Go off at a deadline (ns), or as soon as an earlier one that was set; None changes nothing."""
        if deadline is None:
            return
        due = max(deadline, self._time.now)
        if self._due is None or due < self._due:
            self._due = due
            self._time.at(due, ALARM, lambda: self._ring(due))

    def clear(self) -> None:
        """Do not go off."""
        self._due = None

    def _ring(self, due: int) -> None:
        if self._due != due:
            return  # an earlier one has come in between
        self._due = None
        self._count = self._count + 1 if self._at == self._time.now else 1
        self._at = self._time.now
        if self._count > self._most:
            self._stuck()
        self._wake()
