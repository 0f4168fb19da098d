"""Deadlines of many things, of which the next is found without a look at all of them."""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

K = TypeVar("K", int, bytes)

_SPARE: Final = 32  # stale entries that the heap may hold, beyond one for each deadline


class Timers(Generic[K]):
    """Deadlines by the numbers or keys of things, in ns. Of equal ones the lower key is first."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def set(self, key: K, due: int | None) -> None:
        """Replace the deadline of a key; None for none."""
        before = self._due.get(key)
        if due == before:
            return
        if due is None:
            del self._due[key]
            return
        self._due[key] = due
        heappush(self._heap, (due, key))
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._heap = [(due, key) for key, due in self._due.items()]
            heapify(self._heap)

    def next(self) -> int | None:
        """Return the earliest deadline."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now: int) -> list[K]:
        """Return the keys whose deadline has come, the earliest first, and remove these deadlines."""
        taken = []
        while (due := self.next()) is not None and due <= now:
            key = heappop(self._heap)[1]
            del self._due[key]
            taken.append(key)
        return taken
