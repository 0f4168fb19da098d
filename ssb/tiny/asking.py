"""When a node asks for what it lacks: often while something comes, ever less often while nothing does."""

from typing import NamedTuple

from ssb.tiny.vectors import CREDIT

MS = 1_000_000


class Timing(NamedTuple):
    """How often a node speaks; all in ns. A slow medium needs longer times.

    Attributes:
        round: between two vectors while nothing is known to be missing.
        claims: between two claims of an open set.
        retry: after which it asks again for what is known to be missing; doubles up to `round`.
        pause: of silence after which the packets of an answer count as over, and it asks for the next ones.
        spread: an answer waits for a random time up to this, so that one of those who know it gives it.
        gap: the least time from one packet to the next that a node sends; at random up to twice as long.
            So what others say meanwhile is not said again.
    """

    round: int = 5000 * MS
    claims: int = 10_000 * MS
    retry: int = 500 * MS
    pause: int = 20 * MS
    spread: int = 5 * MS
    gap: int = 0


class Asking:
    """When to send the next vector of a kind.

    Attributes:
        due: ns; None for never.
    """

    def __init__(self, timing: Timing, due: int | None) -> None:
        self._timing = timing
        self._interval = timing.retry
        self._come = 0
        self.due = due

    def is_due(self, now: int) -> bool:
        """Whether to ask."""
        return self.due is not None and self.due <= now

    def progress(self, now: int) -> None:
        """Something has come: ask for more when the answer is over."""
        self._come += 1
        self._interval = self._timing.retry
        self.due = now + (0 if self._come >= CREDIT else self._timing.pause)

    def hurry(self, now: int) -> None:
        """There is more to ask for than was known."""
        soon = now + self._timing.pause
        if self.due is None or soon < self.due:
            self._interval = self._timing.retry
            self.due = soon

    def remind(self, now: int) -> None:
        """Others lack what was written here: they learn it from what is wanted here."""
        self._interval = self._timing.retry
        self.due = min(self.due if self.due is not None else now + self._interval, now + self._interval)

    def asked(self, now: int, *, is_lacking: bool) -> None:
        """Note that it has asked."""
        self._come = 0
        self.due = now + (self._interval if is_lacking else self._timing.round)
        self._interval = min(2 * self._interval, self._timing.round)
