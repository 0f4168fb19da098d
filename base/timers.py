"""Deadlines: the earliest of a few, or by key, in O(1) with changes in O(log n).

Every `next_deadline()` over a set uses one of these, so no event scans the set. The structure is a heap with
lazy deletion: a removed or replaced deadline stays in the heap until it reaches the top, or until such
entries outnumber the others. Then all are removed, so their number is independent of how often deadlines
change. Both costs are amortised.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

_SPARE: Final = 64  # removed deadlines in the heap, beyond one for each valid one

MANY: Final = 1 << 30

K = TypeVar("K")


def earliest(*deadlines: int | None) -> int | None:
    """Return the earliest of a few deadlines, ns; None if all are."""
    least = None
    for deadline in deadlines:
        if deadline is not None and (least is None or deadline < least):
            least = deadline
    return least


class Timers(Generic[K]):
    """Deadlines in ns by key, any hashable value. Of equal deadlines, the one that was set first is first."""

    __slots__ = ("_heap", "_number", "_set")

    def __init__(self) -> None:
        self._set: dict[K, tuple[int, int, K]] = {}  # deadline, number of the setting, key
        self._heap: list[tuple[int, int, K]] = []
        self._number = 0

    def set(self, key: K, deadline: int | None) -> None:
        """Replace the deadline of a key; None removes it. An equal deadline keeps its rank."""
        current = self._set
        if deadline is None:
            current.pop(key, None)
            return
        before = current.get(key)
        if before is not None and before[0] == deadline:
            return
        self._number = number = self._number + 1
        heap = self._heap
        current[key] = entry = (deadline, number, key)
        heappush(heap, entry)
        if len(heap) > 2 * len(current) + _SPARE:
            self._heap = sorted(current.values())  # which is a heap

    def get(self, key: K) -> int | None:
        """Return the deadline of a key, None if it has none."""
        found = self._set.get(key)
        return None if found is None else found[0]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline, None if there is none."""
        heap = self._heap
        while heap:
            first = heap[0]
            found = self._set.get(first[2])
            if found is not None and found[1] == first[1]:
                return first[0]
            if len(heap) > 2 * len(self._set):
                heap = self._heap = sorted(self._set.values())
            else:
                heappop(heap)
        return None

    def expire(self, now: int, most: int = MANY) -> list[K]:
        """Remove the deadlines up to `now`, at most `most`; return their keys, earliest first."""
        due: list[K] = []
        heap = self._heap
        while heap and heap[0][0] <= now and len(due) < most:
            _, number, key = heappop(heap)
            found = self._set.get(key)
            if found is not None and found[1] == number:
                del self._set[key]
                due.append(key)
        return due

    def __contains__(self, key: K) -> bool:
        return key in self._set

    def __iter__(self) -> Iterator[K]:
        return iter(self._set)

    def __len__(self) -> int:
        return len(self._set)
