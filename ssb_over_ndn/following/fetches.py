"""Many fetches over NDN, of blobs or of messages: some at once, and again after a pause if they fail."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from base.timers import Timers, earliest
from forwarder.wire.lp import LpPacket
from ssb_over_ndn.following.fetch import Fetcher

PATIENCE: Final = 30_000_000_000
"""Time-out of a fetch without progress, ns."""

_AT_ONCE = 16
_FIRST_PAUSE = 60_000_000_000
_LONGEST_PAUSE = 3_600_000_000_000


class Fetch(ABC):
    """A fetch of one thing, by one Fetcher at a time.

    Args:
        give_up: time-out without progress, ns.

    Attributes:
        error: why it has failed; "" while it has not.
        is_complete: whether it has succeeded.
        silence: why it fails if it gives up.
    """

    silence = "nobody answers"
    _fetcher: Fetcher

    def __init__(self, give_up: int) -> None:
        self.error = ""
        self.is_complete = False
        self._patience = give_up
        self._gives_up_at = 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.is_complete or bool(self.error)

    @abstractmethod
    def start(self, now: int) -> None:
        """Send the first Interest."""

    @abstractmethod
    def receive(self, number: int, header: LpPacket, now: int) -> None:
        """Receive Data or a Nack under the name of a segment; a thing without segments has number 1."""

    def stop(self) -> None:
        """Stop."""
        self._fetcher.stop()

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._fetcher.take_outputs()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self.is_over:
            return None
        return earliest(self._fetcher.next_deadline(), self._gives_up_at)

    def wake(self, now: int) -> None:
        """Repeat Interests, or give up."""
        if self.is_over:
            return
        if now >= self._gives_up_at:
            self.error = self.silence
            self.stop()
            return
        self._fetcher.wake(now)
        self._fetcher.request(now)

    def _goes_on(self, now: int) -> None:
        """Wait anew, after progress."""
        self._gives_up_at = now + self._patience


F = TypeVar("F", bound=Fetch)


class Fetches(Generic[F]):
    """Fetches by reference: a limited number at once; failed ones are repeated after a pause, which doubles.

    Args:
        make: reference, forwarding hint of the Interests -> a fetch.
        where: reference -> the hint; None to postpone it.
        counters: errors, by reason.
        noun: begins a reason.
    """

    def __init__(
        self,
        make: Callable[[str, tuple[bytes, ...]], F],
        where: Callable[[str], tuple[bytes, ...] | None],
        counters: Counter[str],
        noun: str,
    ) -> None:
        self._make = make
        self._where = where
        self._counters = counters
        self._noun = noun
        self._queue: Timers[str] = Timers()  # of when to fetch
        self._pauses: dict[str, int] = {}  # the pause after the next fetch
        self._fetches: dict[str, F] = {}
        self._complete: dict[str, F] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pauses)

    def __contains__(self, ref: object) -> bool:
        return ref in self._pauses

    def want(self, ref: str, now: int) -> None:
        """Start fetching, until drop()."""
        if ref not in self._fetches:
            self._queue.set(ref, now)
            self._pauses[ref] = _FIRST_PAUSE

    def drop(self, ref: str) -> None:
        """Stop fetching: it is no longer wanted, or has arrived from elsewhere."""
        self._queue.set(ref, None)
        self._pauses.pop(ref, None)
        fetch = self._fetches.pop(ref, None)
        if fetch is not None:
            fetch.stop()

    def start(self, now: int) -> None:
        """Start due fetches, within the limit."""
        while len(self._fetches) < _AT_ONCE and (due := self._queue.expire(now, 1)):
            ref = due[0]
            hint = self._where(ref)
            if hint is None:
                self._postpone(ref, now)
                continue
            self._fetches[ref] = fetch = self._make(ref, hint)
            fetch.start(now)
            self._check_end(ref, now)

    def receive(self, ref: str, number: int, header: LpPacket, now: int) -> None:
        """Receive Data or a Nack under the name of a segment."""
        if ref in self._fetches:
            self._fetches[ref].receive(number, header, now)
            self._check_end(ref, now)

    def take_complete(self) -> dict[str, F]:
        """Return the fetches completed since the last call, by reference."""
        complete, self._complete = self._complete, {}
        return complete

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return [packet for fetch in self._fetches.values() for packet in fetch.take_outputs()]

    def next_deadline(self) -> int | None:
        """Return when wake() or start() is due, ns."""
        due = [fetch.next_deadline() for fetch in self._fetches.values()]  # _AT_ONCE at most
        if len(self._fetches) < _AT_ONCE:
            due.append(self._queue.next_deadline())
        return earliest(*due)

    def wake(self, now: int) -> None:
        """Repeat requests, or pause failed fetches."""
        for ref, fetch in list(self._fetches.items()):
            fetch.wake(now)
            self._check_end(ref, now)

    def _check_end(self, ref: str, now: int) -> None:
        fetch = self._fetches[ref]
        if not fetch.is_over:
            return
        del self._fetches[ref]
        if fetch.is_complete:
            self._complete[ref] = fetch
            del self._pauses[ref]
        else:
            self._counters[f"{self._noun}: {fetch.error}"] += 1
            self._postpone(ref, now)

    def _postpone(self, ref: str, now: int) -> None:
        pause = self._pauses[ref]
        self._queue.set(ref, now + pause)
        self._pauses[ref] = min(2 * pause, _LONGEST_PAUSE)
