"""When a node asks for what it lacks: often while something comes, ever less often while nothing does.

What was asked for is not asked for again as long as an answer takes.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import NamedTuple

from base.round_trip import RoundTrip
from base.units import MS
from ssb.tiny.feed import Waiting
from ssb.tiny.vectors import CREDIT


class Timing(NamedTuple):
    """Intervals between a node's packets, ns. A slow medium needs longer ones.

    Attributes:
        round: between two vectors while nothing is known to be missing.
        claims: between two claims of an open set.
        retry: after which it asks again for what is known to be missing; doubles up to `round`.
        pause: of silence after which the packets of an answer count as over, and it asks for the next ones.
        spread: an answer waits for a random time up to this, so that one of those who know it gives it.
        gap: the least time from one packet to the next that a node sends; at random up to twice as long.
            With a gap questions, too, wait for a random time up to `spread`, and longer when another asks
            the same. So what others say meanwhile is not said again.
    """

    round: int = 5000 * MS
    claims: int = 10_000 * MS
    retry: int = 500 * MS
    pause: int = 20 * MS
    spread: int = 5 * MS
    gap: int = 0


class _Asked(NamedTuple):
    """Chunks of an entry that were asked for: all before `end`, first at `at`, latest at `again`, ns."""

    end: int
    at: int
    again: int


class OutstandingChunks:
    """The chunks that were asked for and may still come.

    An answer is waited for as long as its round trip says: at least `pause`, at most `retry`, and `pause` as
    long as nothing is measured.

    Args:
        timing: of the node.
    """

    def __init__(self, timing: Timing) -> None:
        self._rtt = RoundTrip(timing.pause, timing.pause, max(timing.pause, timing.retry))
        self._asked: dict[tuple[bytes, int], _Asked] = {}  # by feed and number of the entry

    @property
    def time(self) -> int:
        """Time-out of an answer, ns."""
        return self._rtt.timeout()

    def until(self, waiting: Waiting) -> int:
        """Return the time by which the next chunk of an entry should come, ns; -1 if it was not asked for."""
        asked = self._asked.get((waiting.entry.feed, waiting.entry.sequence))
        return asked.again + self.time if asked is not None and waiting.held < asked.end else -1

    def ask(self, waiting: Waiting, most: int, now: int) -> int:
        """Note that the next chunks of an entry are asked for, at most so many; return how many."""
        entry = waiting.entry.feed, waiting.entry.sequence
        end = min(waiting.held + most, waiting.entry.chunks)
        before = self._asked.get(entry)
        at = before.at if before is not None and waiting.held < before.end else now
        if end > waiting.held:
            self._asked[entry] = _Asked(end, at, now)
        return end - waiting.held

    def on_chunk(self, feed: bytes, sequence: int, now: int) -> None:
        """Note that a chunk of an entry has come."""
        asked = self._asked.get((feed, sequence))
        if asked is not None:
            self._rtt.sample(now - asked.at)

    def keep(self, entries: Collection[tuple[bytes, int]]) -> None:
        """Forget all entries but these."""
        self._asked = {entry: self._asked[entry] for entry in entries if entry in self._asked}


class RequestTimer:
    """When to send the next vector of a kind.

    Args:
        timing: how often.
        due: ns; None for never.
        random: of the waits.
        changed: called when `due` has changed.

    Attributes:
        due: ns; None for never.
    """

    def __init__(self, timing: Timing, due: int | None, random: Random, changed: Callable[[], None]) -> None:
        self._timing = timing
        self._random = random
        self._changed = changed
        self._interval = timing.retry
        self._come = 0
        self._due = due

    @property
    def due(self) -> int | None:
        """See above."""
        return self._due

    @due.setter
    def due(self, due: int | None) -> None:
        self._due = due
        self._changed()

    def is_due(self, now: int) -> bool:
        """Whether to ask."""
        return self.due is not None and self.due <= now

    def reset(self, now: int) -> None:
        """Something has come: ask for more when the answer is over."""
        self._come += 1
        self._interval = self._timing.retry
        self.due = now + (0 if self._come >= CREDIT else self._timing.pause) + self._wait()

    def begin(self, now: int) -> None:
        """Ask, and if nothing comes soon again."""
        self._interval = self._timing.retry
        self.due = now + self._wait()

    def shorten(self, now: int) -> None:
        """There is more to ask for than was known."""
        soon = now + self._timing.pause + self._wait()
        if self.due is None or soon < self.due:
            self._interval = self._timing.retry
            self.due = soon

    def remind(self, now: int) -> None:
        """Others lack what was written here: they learn it from what is wanted here."""
        self._interval = self._timing.retry
        soon = now + self._interval + self._wait()
        self.due = min(self.due if self.due is not None else soon, soon)

    def yield_to(self, now: int) -> None:
        """Another has asked for what is lacking here: the answer may serve both."""
        if self._timing.gap and self.due is not None:
            self.due = max(self.due, now + self._timing.pause + self._wait())

    def put_off(self, until: int | None) -> None:
        """Nothing is to be asked for before a time, ns; None for never."""
        self.due = None if until is None else until + self._wait()

    def asked(self, now: int, *, is_lacking: bool) -> None:
        """Note that it has asked."""
        self._come = 0
        self.due = now + (self._interval if is_lacking else self._timing.round) + self._wait()
        self._interval = min(2 * self._interval, self._timing.round)

    def _wait(self) -> int:
        return round(self._random.random() * self._timing.spread) if self._timing.gap else 0
