"""Layering `pull`: NDN as intended; a subscriber requests only items that exist.

It requests the newest item's number (Realtime Data Retrieval, RDR), fetches all items up to it, and repeats.
Requests follow the feed's pace: a new number halves the interval to the next one, an old one lengthens it by
half.
"""

from random import Random

from base.units import MS
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, make_interest
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.naming import metadata_name, read_metadata


class Question:
    """Requests a feed's metadata until there is an answer.

    After the third, repetitions are sent at irregular times: a forwarder whose other consumers send in step
    with this one could suppress every one of its repetitions.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime.
        suffix: components after the metadata's name, of a question that others do not share.

    Attributes:
        is_open: whether the request is pending.
        asked_at: time of the first Interest, ns.
        timeout: the retransmission time-out.
    """

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int, suffix: bytes = b"") -> None:
        self.feed = feed
        self._suffix = suffix
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._repetitions = 0
        self._due = 0
        self.asked_at = 0
        self.is_open = False
        self.timeout = Timeout()

    def request(self, now: int) -> list[bytes]:
        """Return a new request's Interest; nothing while one is pending."""
        if self.is_open:
            return []
        self.is_open = True
        self.asked_at = now
        self._repetitions = 0
        return [self._interest(now)]

    def answered(self, data: Data, now: int) -> int | None:
        """Return the newest item's number from a Data packet; None if it has none."""
        tip = read_metadata(self.feed, data)
        if tip is not None and self.is_open:
            self.is_open = False
            self.timeout.answered(None if self._repetitions else now - self.asked_at)
        return tip

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._due if self.is_open else None

    def wake(self, now: int) -> list[bytes]:
        """Return the repeated Interest, if it is due."""
        if not self.is_open or self._due > now:
            return []
        self._repetitions += 1
        self.timeout.missed(now)
        return [self._interest(now)]

    def _interest(self, now: int) -> bytes:
        irregularity = self._rng.uniform(0.75, 1.25) if self._repetitions > 2 else 1
        self._due = now + round(self.timeout.length * irregularity)
        return make_interest(
            metadata_name(self.feed) + self._suffix,
            can_be_prefix=True,
            must_be_fresh=True,
            nonce=self._rng.getrandbits(32),
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
        )


class PullScout(Scout):
    """Requests the newest item's number periodically.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime.
        shortest_ms, longest_ms: bounds of the interval.
    """

    def __init__(
        self, feed: bytes, *, rng: Random, lifetime_ms: int, shortest_ms: int, longest_ms: int
    ) -> None:
        super().__init__()
        if shortest_ms > longest_ms:
            raise ValueError(f"questions every {shortest_ms} to {longest_ms} ms: nothing lies between")
        self._question = Question(feed, rng=rng, lifetime_ms=lifetime_ms)
        self._shortest = shortest_ms * MS
        self._longest = longest_ms * MS
        self._interval = self._shortest
        self._is_open = False

    def start(self, now: int) -> None:
        self._is_open = True
        self.outputs += self._question.request(now)

    def stop(self, now: int) -> None:
        self._is_open = False

    def on_data(self, data: Data, now: int) -> None:
        tip = self._question.answered(data, now)
        if tip is None:
            return
        if tip > self.tip:
            self.tip = tip
            self._interval = max(self._interval // 2, self._shortest)
        else:
            self._interval = min(self._interval * 3 // 2, self._longest)

    def size(self) -> int:
        """See Scout: when it asks again, and after which pause."""
        return len(self._question.feed) + 2 * 8

    def next_deadline(self) -> int | None:
        if self._question.is_open:
            return self._question.next_deadline()
        if self._is_open and self.arrived >= self.tip:
            return self._question.asked_at + self._interval
        return None

    def wake(self, now: int) -> None:
        self.outputs += self._question.wake(now)
        due = self.next_deadline()
        if due is not None and due <= now:
            self.outputs += self._question.request(now)


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0, **bounds: int
) -> Follower:
    """Return a subscription; see Follower and, for `bounds`, PullScout."""
    scout = PullScout(feed, rng=rng, lifetime_ms=lifetime_ms, **bounds)
    return Follower(feed, scout, rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
