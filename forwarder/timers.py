"""A timer wheel with exact deadlines.

Entries are bucketed by the millisecond of their deadline, so adding and cancelling are dictionary
operations whatever the number of entries; the heap holds a number for each bucket, and for buckets gone
since, which it is rid of before they outnumber the others. A bucket keeps the exact deadlines, so nothing
fires early or late: what the emulator's clock needs to be repeatable.
"""

from heapq import heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

_TICK_BITS: Final = 20  # 2**20 ns, about a millisecond
_STALE_TICKS: Final = 64  # not worth a clean-up


class Timed(Protocol):
    """Something that a wheel can hold: hashable by identity, with its deadline in nanoseconds."""

    deadline: int


T = TypeVar("T", bound=Timed)


class TimerWheel(Generic[T]):
    """Objects ordered by their `deadline`, which must not change while they are in the wheel."""

    __slots__ = ("_buckets", "_ticks")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[T, None]] = {}
        self._ticks: list[int] = []

    def add(self, item: T) -> None:
        """Insert an object at its deadline."""
        tick = item.deadline >> _TICK_BITS
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heappush(self._ticks, tick)
        bucket[item] = None

    def cancel(self, item: T) -> None:
        """Take an object out again before its deadline."""
        tick = item.deadline >> _TICK_BITS
        bucket = self._buckets[tick]
        del bucket[item]
        if not bucket:
            del self._buckets[tick]
            if len(self._ticks) > 2 * len(self._buckets) + _STALE_TICKS:
                self._ticks = sorted(self._buckets)  # which is a heap

    def next_deadline(self) -> int | None:
        """Return the earliest deadline, None if the wheel is empty."""
        while self._ticks:
            bucket = self._buckets.get(self._ticks[0])
            if bucket:
                return min(item.deadline for item in bucket)
            heappop(self._ticks)
        return None

    def expire(self, now: int) -> list[T]:
        """Take out all objects whose deadline is not after `now`, earliest first."""
        due: list[T] = []
        last = now >> _TICK_BITS
        while self._ticks and self._ticks[0] <= last:
            tick = self._ticks[0]
            bucket = self._buckets.get(tick, {})
            expired = [item for item in bucket if item.deadline <= now]
            expired.sort(key=_deadline)
            for item in expired:
                del bucket[item]
            due += expired
            if bucket:
                break
            self._buckets.pop(tick, None)
            heappop(self._ticks)
        return due


def _deadline(item: Timed) -> int:
    return item.deadline
