"""The congestion window, in bytes: RFC 5681, with NewReno's recovery and the initial window of RFC 6928.

Sources: RFC 5681, sections 3.1, 3.2 and 4.1; RFC 6582, section 3.2; RFC 6928, section 2; RFC 3465 (bytes are
counted, not acknowledgements); RFC 7661 (unused windows).
"""

from typing import Final

UNKNOWN_THRESHOLD: Final = 1 << 40
_MOST_GROWTH: Final = 2
"""Segments by which one acknowledgement widens the window in slow start: RFC 3465's L, as every second
segment is acknowledged."""
DUPLICATES: Final = 3
"""Duplicate acknowledgements that indicate a loss (RFC 5681, section 3.2)."""


def initial_window(mss: int) -> int:
    """Return the initial window, in bytes (RFC 6928, section 2)."""
    return min(10 * mss, max(2 * mss, 14_600))


class Congestion:
    """The window and its threshold, bytes.

    Args:
        mss: bytes of a full segment.
        window: the initial one.
    """

    def __init__(self, mss: int, window: int) -> None:
        self.mss = mss
        self.window = self._first = window
        self.threshold = UNKNOWN_THRESHOLD
        self._counted = 0  # bytes acknowledged since the last growth in congestion avoidance

    def acknowledged(self, count: int, pipe: int) -> None:
        """Widen the window for `count` newly acknowledged bytes; `pipe` bytes were in flight before.

        It does not grow while the sender does not fill it: unused window is no evidence (RFC 7661).
        """
        if self.window < self.threshold:
            if self.window < 2 * pipe:
                self.window += min(count, _MOST_GROWTH * self.mss)
        elif pipe + self.mss > self.window:
            self._counted += count
            if self._counted >= self.window:
                self._counted -= self.window
                self.window += self.mss

    def lost(self, flight: int) -> None:
        """Begin recovery: half of the flight size is the threshold (RFC 6582, section 3.2, step 2)."""
        self._halve(flight)
        self.window = self.threshold + DUPLICATES * self.mss  # three duplicates: three segments have left

    def _halve(self, flight: int) -> None:
        """Set the threshold (RFC 5681, equation 4), without limited transmit's segments beyond the window."""
        self.threshold = max(min(flight, self.window) // 2, 2 * self.mss)
        self._counted = 0

    def duplicate(self) -> None:
        """One more segment has left (RFC 5681, section 3.2, step 4)."""
        self.window += self.mss

    def partial(self, count: int) -> None:
        """Deflate the window by a partial acknowledgement of `count` bytes (RFC 6582, step 3)."""
        self.window = max(self.window - count, 0) + (self.mss if count >= self.mss else 0)

    def recovered(self, flight: int) -> None:
        """End NewReno's recovery, without a burst (RFC 6582, step 3, full acknowledgement, 1)."""
        self.window = min(self.threshold, max(flight, self.mss) + self.mss)

    def timed_out(self, flight: int, is_first: bool) -> None:
        """Restart with one segment (RFC 5681, section 3.1); the threshold is reduced once per loss."""
        if is_first:
            self._halve(flight)
        self.window = self.mss

    def restart_after_idle(self) -> None:
        """Restart after idle time of a time-out: the window is outdated (RFC 5681, section 4.1)."""
        self.window = min(self.window, self._first)
