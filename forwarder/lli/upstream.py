"""What one holder has asked of its upstream for one feed: the sending side of send credit.

Recovery is go-back-N: one LLI from the first missing item, at most one a recovery time-out. A tail that
is lost shows no gap, so the holder of unspent credit repeats its LLI after a silence: soon if the
upstream has said that it holds more, else with a time-out that doubles while the feed is idle. A holder
that will outlive its LLI repeats it in time.
"""

from typing import NamedTuple

from forwarder.wire.feed import item_name
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest

MS = 1_000_000

INITIAL_RTO = 250 * MS
"""Recovery time-out before there is a measurement: over a continental RTT, under human patience."""
MIN_RTO = 10 * MS
MAX_RTO = 4_000 * MS
IDLE_PROBE = 1_000 * MS
"""First time-out of a holder that has no reason to believe that anything is missing."""
MAX_IDLE_PROBES = 3
"""Doublings of that time-out: what looks like an idle feed may be a link that loses a lot."""

NEVER = (1 << 63) - 1


class Lli(NamedTuple):
    """A long-lived Interest to be sent: items `first` .. `first + credit - 1`."""

    first: int
    credit: int
    lifetime_ms: int

    def packet(self, feed: bytes, nonce: int, hop_limit: int = SENT_HOP_LIMIT) -> bytes:
        """Build the packet, for the feed of that name."""
        return make_interest(
            item_name(feed, self.first),
            nonce=nonce,
            lifetime_ms=self.lifetime_ms,
            hop_limit=hop_limit,
            send_credit=self.credit,
        )


class Upstream:
    """State towards one upstream.

    Args:
        first: the first item that is wanted.
        max_lifetime_ms: InterestLifetime of an LLI at most.

    Attributes:
        next: the next item that is expected.
        limit: the last item asked for.
        until: how long the holder wants items, ns.
        expiry: when the upstream forgets, ns.
        known_tip: the newest item that the upstream is known to hold, 0 if it never said.
        deadline: when to call wake(), ns.
    """

    __slots__ = (
        "_asked_again_at",
        "_backoff",
        "_idle_probes",
        "_max_lifetime_ms",
        "_quiet_since",
        "_rttvar",
        "_sent_at",
        "_srtt",
        "deadline",
        "expiry",
        "known_tip",
        "limit",
        "next",
        "until",
    )

    def __init__(self, first: int, max_lifetime_ms: int = 3_600_000) -> None:
        self.next = first
        self.limit = first - 1
        self.until = 0
        self.expiry = 0
        self.known_tip = 0
        self.deadline = NEVER
        self._max_lifetime_ms = max_lifetime_ms
        self._sent_at = 0
        self._quiet_since = 0  # when the last LLI went out or the last item came in
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
        """Want items up to `limit`, until a time (ns); return the LLI to send, if it is time for one.

        An extension goes out once it is no smaller than the credit that is left: with a steady window,
        one LLI each half window. It starts after the old limit, see Ranges.
        """
        self.until = until
        extra = limit - self.limit
        if extra <= 0 or extra < self.limit - self.next + 1:
            self._schedule()
            return None
        return self._ask(self.limit + 1, limit, now)

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
        self._quiet_since = now
        self._schedule()

    def missed(self, seq: int, now: int) -> Lli | None:
        """Note that item `seq` has come before `next`; return the LLI that goes back, if it is time."""
        self.known_tip = max(self.known_tip, seq)
        if self._asked_again_at is not None and now < self._asked_again_at + self.rto:
            return None
        return self._ask_again(now)

    def wake(self, now: int) -> Lli | None:
        """Repeat the LLI after a silence, or to outlive its lifetime."""
        if now < self.deadline:
            return None
        if self._asked_again_at is not None and self.known_tip >= self.next:
            self._backoff = min(self._backoff + 1, 10)  # the upstream has it, and our asking was lost
        self._idle_probes = min(self._idle_probes + 1, MAX_IDLE_PROBES)
        return self._ask_again(now)

    def cancel(self, now: int) -> Lli | None:
        """Want nothing more; return the LLI that says so, None if the upstream knows."""
        self.deadline = NEVER
        if self.next > self.limit or self.expiry <= now:
            return None
        return Lli(self.next, 0, 1)

    def _ask_again(self, now: int) -> Lli | None:
        if self.next > self.limit:
            self._schedule()
            return None
        self._asked_again_at = now
        return self._ask(self.next, self.limit, now)

    def _ask(self, first: int, limit: int, now: int) -> Lli | None:
        lifetime_ms = min((self.until - now) // MS, self._max_lifetime_ms)
        if lifetime_ms <= 0:
            self.deadline = NEVER
            return None
        self.limit = limit
        self._sent_at = self._quiet_since = now
        self.expiry = now + lifetime_ms * MS
        self._schedule()
        return Lli(first, limit - first + 1, lifetime_ms)

    def _schedule(self) -> None:
        if self.next > self.limit:
            self.deadline = NEVER
            return
        silence = self.rto if self.known_tip >= self.next else IDLE_PROBE << self._idle_probes
        self.deadline = self._quiet_since + silence
        if self.until - self.expiry >= MS:
            # Half a lifetime before the upstream forgets there is time for another try.
            self.deadline = min(self.deadline, (self._sent_at + self.expiry) // 2)

    def _measure(self, sample: int) -> None:
        if self._srtt is None:
            self._srtt, self._rttvar = sample, sample // 2
        else:
            self._rttvar = (3 * self._rttvar + abs(self._srtt - sample)) // 4
            self._srtt = (7 * self._srtt + sample) // 8
