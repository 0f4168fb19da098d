"""Estimates of the path to an upstream: round-trip time and capacity."""

from typing import ClassVar, Final

from base.round_trip import RoundTrip
from base.units import MS

INITIAL_TIMEOUT: Final = 250 * MS
"""Before there is a measurement: over a continental RTT, under human patience."""
MIN_TIMEOUT: Final = 20 * MS
MAX_TIMEOUT: Final = 4_000 * MS
_GRANULARITY: Final = 1 * MS
_MOST_BACKOFF: Final = 3
_MOST_AMBIGUOUS: Final = 3
_MIN_REORDER: Final = 500_000
_MAX_REORDER_SHIFT: Final = 3


class Rtt(RoundTrip):
    """Round-trip time to an upstream, and how far packets overtake each other there (RFC 8985).

    Attributes:
        owed_until: a first answer may answer an LLI that was given up, until then, ns.
    """

    __slots__ = ("_ambiguous", "_backoff", "_is_rough", "_reorder_shift", "owed_until")

    def __init__(self) -> None:
        super().__init__(INITIAL_TIMEOUT, MIN_TIMEOUT, MAX_TIMEOUT, _GRANULARITY)
        self._ambiguous = 0  # answers in a row that were no samples
        self._backoff = 0
        self._is_rough = True
        self._reorder_shift = 0
        self.owed_until = 0

    def sample(self, measured: int, *, is_rough: bool = False) -> None:
        """Take in a measurement, ns, of something that was asked only once (Karn).

        One that is rough, no more than an upper bound, counts as long as there is none better.
        """
        self._backoff = self._ambiguous = 0
        if self._is_rough and not is_rough:
            self._is_rough = False
            self.smoothed = None
        if self.smoothed is None or not is_rough:
            super().sample(measured)

    def sample_of_repair(self, measured: int) -> None:
        """Take in the time from asking for a lost item to its arrival, ns, unless it is a late first copy."""
        if self.smoothed is None or measured > self.smoothed // 8:
            self.sample(measured)

    def sample_ambiguous(self, measured: int) -> None:
        """Learn from an answer to a repeated request; `measured`: ns since the repetition.

        It is no sample (Karn): it may answer either. After about a round trip, it answers the repetition: the
        first request was lost, and the time-out is right. Otherwise it answers the first request: the
        time-out is too short, and is doubled until an answer comes in time. So it is after more
        than _MOST_AMBIGUOUS answers in a row, whenever they come: the round trip that they are held against
        may be wrong.
        """
        if self.smoothed is None:
            return
        self._ambiguous += 1
        as_expected = abs(measured - self.smoothed) <= max(self.smoothed // 4, 2 * self._variation)
        if as_expected and self._ambiguous <= _MOST_AMBIGUOUS:
            self._backoff = 0
        else:
            self._backoff = min(self._backoff + 1, _MOST_BACKOFF)

    def timeout(self, tries: int = 0) -> int:
        """Return how long to wait for an answer that has been asked for `tries` times before, ns."""
        return min(super().timeout() << max(min(tries, 10), self._backoff), MAX_TIMEOUT)

    def unanswered(self) -> None:
        """Note that all tries were in vain: perhaps the round trip has grown beyond them."""
        self._backoff = min(self._backoff + 1, _MOST_BACKOFF)

    def reorder_delay(self) -> int:
        """Return how long an item may be late before it counts as lost, ns."""
        quarter = (self.smoothed or INITIAL_TIMEOUT // 8) // 4
        return max(quarter, _MIN_REORDER) << self._reorder_shift

    def repaired_for_nothing(self) -> None:
        """Note that an item came that was taken for lost: packets overtake each other by more."""
        self._reorder_shift = min(self._reorder_shift + 1, _MAX_REORDER_SHIFT)

    def repaired(self) -> None:
        """Note that an item was lost indeed."""
        self._reorder_shift = max(self._reorder_shift - 1, 0)


class Window:
    """The part of the credit that is used, in items: all of it, until the path is congested.

    A mark, or a loss while the upstream holds more than has come, halves what is in use, once for all items
    that were asked for by then (RFC 6582). Each window that has come then adds SEGMENT bytes, as TCP's
    congestion avoidance does (RFC 5681), so a feed and a connection get about the same of a link.

    Attributes:
        size: items; None while the credit alone is the limit.
    """

    __slots__ = ("_grown", "_recover", "size")

    SMALLEST: ClassVar[int] = 2
    SEGMENT: ClassVar[int] = 1_460

    def __init__(self) -> None:
        self.size: int | None = None
        self._grown = 0  # in 65,536th of an item
        self._recover = 0

    def congested(self, seq: int, in_use: int, limit: int) -> None:
        """Shrink because of an item that was marked or lost; `limit` is the last item asked for."""
        if seq > self._recover:
            used = in_use if self.size is None else min(in_use, self.size)
            self.size = max(used // 2, self.SMALLEST)
            self._grown = 0
            self._recover = limit

    def arrived(self, size: int, credit: int) -> None:
        """Grow by an item of so many bytes that has arrived; `credit` is where the window ends to matter."""
        if self.size is None:
            return
        self._grown += (self.SEGMENT << 16) // (self.size * size)
        self.size += self._grown >> 16
        self._grown &= 0xFFFF
        if self.size >= credit:
            self.size = None
