"""What one holder has asked of its upstream for one feed: the sending side of send credit.

Recovery is go-back-N: one LLI from the first missing item, at most one a recovery time-out. A tail that
is lost shows no gap, so the holder of unspent credit repeats its LLI after a silence: soon if the
upstream has said that it holds more, else with a time-out that doubles while the feed is idle. The same
repetition keeps the upstream's state alive on a feed that says nothing for longer than a lifetime.
"""

from typing import NamedTuple

MS = 1_000_000

INITIAL_RTO = 250 * MS
"""Recovery time-out before there is a measurement: over a continental RTT, under human patience."""
MIN_RTO = 10 * MS
MAX_RTO = 4_000 * MS
IDLE_PROBE = 1_000 * MS
"""First time-out of a holder that has no reason to believe that anything is missing."""


NEVER = (1 << 63) - 1


class Lli(NamedTuple):
    """A long-lived Interest to be sent: items `first` .. `first + credit - 1`."""

    first: int
    credit: int
    lifetime_ms: int


class Upstream:
    """State towards one upstream.

    Attributes:
        next: the next item that is expected.
        limit: the last item asked for.
        expiry: when the upstream forgets, ns.
        known_tip: the newest item that the upstream is known to hold, 0 if it never said.
        deadline: when to call wake(), ns.
    """

    __slots__ = (
        "_asked_again_at",
        "_backoff",
        "_idle_probes",
        "_lifetime",
        "_rttvar",
        "_srtt",
        "deadline",
        "expiry",
        "known_tip",
        "limit",
        "next",
    )

    def __init__(self, first: int) -> None:
        self.next = first
        self.limit = first - 1
        self.expiry = 0
        self.known_tip = 0
        self.deadline = 0
        self._lifetime = 0
        self._idle_probes = 0
        self._asked_again_at: int | None = None  # when a rewind went out that is not answered yet
        self._srtt: int | None = None
        self._rttvar = 0
        self._backoff = 0

    @property
    def rto(self) -> int:
        """Recovery time-out, ns (RFC 6298, on the time from a rewind to the item it asked for)."""
        base = INITIAL_RTO if self._srtt is None else max(self._srtt + 4 * self._rttvar, MIN_RTO)
        return min(base << self._backoff, MAX_RTO)

    def want(self, limit: int, until: int, now: int) -> Lli | None:
        """Ask for items up to `limit`, to be held until `until` (ns), if it is time to.

        An extension goes out once it is no smaller than the credit that is left: with a steady window,
        one LLI each half window. It starts after the old limit, see Ranges.
        """
        lifetime = (until - now) // MS
        extra = limit - self.limit
        if lifetime <= 0 or extra <= 0 or extra < self.limit - self.next + 1:
            return None
        first, self.limit = self.limit + 1, limit
        self._sent(lifetime, now)
        return Lli(first, extra, lifetime)

    def rewind(self, until: int, now: int) -> Lli | None:
        """Ask again from the first missing item."""
        lifetime = (until - now) // MS
        if lifetime <= 0 or self.next > self.limit:
            self.deadline = NEVER
            return None
        self._asked_again_at = now
        self._sent(lifetime, now)
        return Lli(self.next, self.limit - self.next + 1, lifetime)

    def heard(self, tip: int) -> None:
        """Note the tip that the upstream announced."""
        self.known_tip = max(self.known_tip, tip)

    def arrived(self, now: int) -> None:
        """Note that the item `next` has arrived."""
        if self._asked_again_at is not None:
            if not self._backoff and self.known_tip >= self.next:
                # Only a first repetition for an item that was there gives a measurement (Karn).
                self._measure(now - self._asked_again_at)
            self._asked_again_at = None
        self.next += 1
        self._idle_probes = 0
        self._backoff = 0
        self._schedule(now)

    def missed(self, seq: int, until: int, now: int) -> Lli | None:
        """Note that item `seq` has arrived before `next`; return the LLI that goes back, if it is time to."""
        self.known_tip = max(self.known_tip, seq)
        if self._asked_again_at is not None and now < self._asked_again_at + self.rto:
            return None
        return self.rewind(until, now)

    def wake(self, until: int, now: int) -> Lli | None:
        """Repeat the LLI after a silence, or to outlive its lifetime."""
        if now < self.deadline:
            return None
        if self._asked_again_at is not None and self.known_tip >= self.next:
            self._backoff = min(self._backoff + 1, 10)  # the upstream has it, and our asking was lost
        self._idle_probes = min(self._idle_probes + 1, 20)
        return self.rewind(until, now)

    def _sent(self, lifetime_ms: int, now: int) -> None:
        self._lifetime = lifetime_ms * MS
        self.expiry = now + self._lifetime
        self._schedule(now)

    def _schedule(self, now: int) -> None:
        if self.next > self.limit:
            self.deadline = NEVER
            return
        silence = self.rto if self.known_tip >= self.next else IDLE_PROBE << self._idle_probes
        # Half a lifetime before the upstream forgets there is time for two more tries.
        refresh = max(self.expiry - self._lifetime // 2, now + MIN_RTO)
        self.deadline = min(now + silence, refresh)

    def _measure(self, sample: int) -> None:
        if self._srtt is None:
            self._srtt, self._rttvar = sample, sample // 2
        else:
            self._rttvar = (3 * self._rttvar + abs(self._srtt - sample)) // 4
            self._srtt = (7 * self._srtt + sample) // 8
