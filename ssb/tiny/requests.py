"""Timers of requests for missing entries and chunks: frequent while packets arrive, with backoff otherwise.

A request is not repeated within the time-out of its answer.
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
        retry: between requests for what is known to be missing; doubles up to `round`.
        pause: of silence, after which an answer counts as complete and the next request is sent.
        spread: largest random delay of an answer, so that only one node sends it.
        gap: the least time from one packet to the next that a node sends; at random up to twice as long.
            With a gap requests, too, are delayed at random up to `spread`, and longer after the same
            request of another node: packets that others send meanwhile are suppressed.
    """

    round: int = 5000 * MS
    claims: int = 10_000 * MS
    retry: int = 500 * MS
    pause: int = 20 * MS
    spread: int = 5 * MS
    gap: int = 0


class _Asked(NamedTuple):
    """Requested chunks of an entry: all before `end`; first request `at`, latest `again`, ns."""

    end: int
    at: int
    again: int


class OutstandingChunks:
    """Requested chunks that may still arrive.

    The time-out follows the measured round trip: at least `pause`, at most `retry`, and `pause` before the
    first measurement.

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

    def deadline(self, waiting: Waiting) -> int:
        """Return the deadline of the next chunk of an entry, ns; -1 if it was not requested."""
        asked = self._asked.get((waiting.entry.feed, waiting.entry.sequence))
        return asked.again + self.time if asked is not None and waiting.held < asked.end else -1

    def add(self, waiting: Waiting, most: int, now: int) -> int:
        """Record a request for the next chunks of an entry, at most `most`; return their number."""
        entry = waiting.entry.feed, waiting.entry.sequence
        end = min(waiting.held + most, waiting.entry.chunks)
        before = self._asked.get(entry)
        at = before.at if before is not None and waiting.held < before.end else now
        if end > waiting.held:
            self._asked[entry] = _Asked(end, at, now)
        return end - waiting.held

    def on_chunk(self, feed: bytes, sequence: int, now: int) -> None:
        """Record the arrival of a chunk."""
        asked = self._asked.get((feed, sequence))
        if asked is not None:
            self._rtt.sample(now - asked.at)

    def retain(self, entries: Collection[tuple[bytes, int]]) -> None:
        """Forget all entries but these."""
        self._asked = {entry: self._asked[entry] for entry in entries if entry in self._asked}


class RequestTimer:
    """Timer of the vectors of one kind.

    Args:
        timing: of the node.
        due: ns; None for never.
        random: for random delays.
        changed: called when `due` has changed.

    Attributes:
        due: ns; None for never.
    """

    def __init__(self, timing: Timing, due: int | None, random: Random, changed: Callable[[], None]) -> None:
        self._timing = timing
        self._random = random
        self._changed = changed
        self._interval = timing.retry
        self._arrived = 0
        self._due = due

    @property
    def due(self) -> int | None:
        return self._due

    @due.setter
    def due(self, due: int | None) -> None:
        self._due = due
        self._changed()

    def is_due(self, now: int) -> bool:
        """Whether a request is due."""
        return self.due is not None and self.due <= now

    def reset(self, now: int) -> None:
        """Reschedule after an arrival: request more when the answer is complete."""
        self._arrived += 1
        self._interval = self._timing.retry
        self.due = now + (0 if self._arrived >= CREDIT else self._timing.pause) + self._wait()

    def restart(self, now: int) -> None:
        """Request soon, with the shortest interval."""
        self._interval = self._timing.retry
        self.due = now + self._wait()

    def advance(self, now: int) -> None:
        """Advance the request: more is missing than was known."""
        soon = now + self._timing.pause + self._wait()
        if self.due is None or soon < self.due:
            self._interval = self._timing.retry
            self.due = soon

    def announce(self, now: int) -> None:
        """Send a vector soon after a local entry, which others learn of from it."""
        self._interval = self._timing.retry
        soon = now + self._interval + self._wait()
        self.due = min(self.due if self.due is not None else soon, soon)

    def yield_to(self, now: int) -> None:
        """Delay the request after the same one of another node: its answer may serve both."""
        if self._timing.gap and self.due is not None:
            self.due = max(self.due, now + self._timing.pause + self._wait())

    def postpone(self, until: int | None) -> None:
        """Schedule the next request at a time, ns; None for never."""
        self.due = None if until is None else until + self._wait()

    def on_sent(self, now: int, *, is_lacking: bool) -> None:
        """Record a request and schedule the next one."""
        self._arrived = 0
        self.due = now + (self._interval if is_lacking else self._timing.round) + self._wait()
        self._interval = min(2 * self._interval, self._timing.round)

    def _wait(self) -> int:
        return round(self._random.random() * self._timing.spread) if self._timing.gap else 0
