"""Deadlines of many things, of which the next is found without a look at all of them."""

from heapq import heapify, heappop, heappush
from typing import Final

_SPARE: Final = 32  # stale entries that the heap may hold, beyond one for each deadline


class Timers:
    """Deadlines by number, in ns."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def set(self, number: int, due: int | None) -> None:
        """Replace the deadline of a number; None for none."""
        before = self._due.get(number)
        if due == before:
            return
        if due is None:
            del self._due[number]
            return
        self._due[number] = due
        heappush(self._heap, (due, number))
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._heap = [(due, number) for number, due in self._due.items()]
            heapify(self._heap)

    def next(self) -> int | None:
        """Return the earliest deadline."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now: int) -> list[int]:
        """Return the numbers whose deadline has come, the earliest first, and remove these deadlines."""
        taken = []
        while (due := self.next()) is not None and due <= now:
            number = heappop(self._heap)[1]
            del self._due[number]
            taken.append(number)
        return taken
