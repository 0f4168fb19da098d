"""Layering `persistent`: one Interest for all future items of a feed (Moll, Theuermann and Hellwagner 2018).

The subscriber's persistent Interest for the feed's name stays in every PIT on the path for its lifetime,
however many Data it lets pass, and is renewed before. The publisher pushes each item when it is published.
There is no credit: items without room are dropped, and fetched later.

The paper's service is unreliable, and made for calls. A feed must be complete, so classic Interests fetch
missing items: when a later item shows a gap, and after a silence, when the subscriber requests the newest
item's number, as the last push may have been lost.
"""

from random import Random

from base.units import MS
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest, make_interest
from forwarder.wire.persistent import is_persistent, make_persistent
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.following.silence import Silence
from ssb_over_ndn.layerings.pull import Question
from ssb_over_ndn.serving.server import Announcer

_REFRESHES = 3
"""Times that a persistent Interest is sent in its lifetime, as some may be lost."""


class Pusher(Announcer):
    """A publisher's Announcer: sends each new item while a persistent Interest is pending."""

    def __init__(self, feed: bytes) -> None:
        super().__init__()
        self._feed = feed
        self._until = 0

    def published(self, seq: int, item: Data, now: int) -> None:
        if now < self._until:
            self.outputs.append(item.wire)

    def on_interest(self, interest: Interest, now: int) -> None:
        if interest.name == self._feed and is_persistent(interest):
            self._until = max(self._until, now + interest.lifetime_ms * MS)

    def size(self) -> int:
        """See Announcer: until when it pushes."""
        return len(self._feed) + 8


class PersistentScout(Scout):
    """Renews a persistent Interest, and detects lost items.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime of the persistent Interest.
        fetch_lifetime_ms: InterestLifetime of classic ones.
    """

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int, fetch_lifetime_ms: int) -> None:
        super().__init__()
        self._feed = feed
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._question = Question(feed, rng=rng, lifetime_ms=fetch_lifetime_ms)
        self._silence = Silence(0)
        self._refresh_at = 0
        self._sent_at = 0
        self._refusals = 0
        self._pushed = 0  # the newest item received
        self._gap_due: int | None = None  # when items missing before it count as lost

    def start(self, now: int) -> None:
        self._silence = Silence(now)
        self._refresh(now)
        self.outputs += self._question.request(now)

    def on_item(self, seq: int, data: Data, now: int) -> None:
        self._refusals = 0
        if seq > self._pushed:
            self._pushed = seq
            self._silence.restart(now, self._question.timeout.length)
        if self.arrived >= self._pushed:
            self._gap_due = None
        elif self._gap_due is None and self._pushed > self.tip:
            self._gap_due = now + self._question.timeout.rtt.reorder_delay()

    def on_data(self, data: Data, now: int) -> None:
        tip = self._question.answered(data, now)
        if tip is not None:
            if tip > max(self.tip, self._pushed) and self._question.asked_at > self._sent_at:
                self._refresh_at = now  # perhaps the Interest was lost
            self.tip = max(self.tip, tip)

    def on_nack(self, interest: Interest, now: int) -> None:
        if interest.name == self._feed:
            self._refusals += 1
            self._refresh_at = now + self._question.timeout.rtt.timeout(self._refusals)

    def next_deadline(self) -> int | None:
        due = (self._refresh_at, self._silence.due, self._gap_due, self._question.next_deadline())
        return min(time for time in due if time is not None)

    def wake(self, now: int) -> None:
        if self._refresh_at <= now:
            self._refresh(now)
        if self._gap_due is not None and self._gap_due <= now:
            self._gap_due = None
            self.tip = max(self.tip, self._pushed)
        self.outputs += self._question.wake(now)
        if self._silence.due <= now:
            self._silence.back_off(now)
            self.outputs += self._question.request(now)

    def size(self) -> int:
        """See Scout: the newest item's number, when it renews, and when a silence is too long."""
        return len(self._feed) + 3 * 8

    def _refresh(self, now: int) -> None:
        self._sent_at = now
        self._refresh_at = now + self._lifetime_ms * MS // _REFRESHES
        interest = make_interest(
            self._feed,
            can_be_prefix=True,
            nonce=self._rng.getrandbits(32),
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
        )
        self.outputs.append(make_persistent(interest))


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, fetch_lifetime_ms: int, after: int = 0
) -> Follower:
    """Return a subscription; see Follower and PersistentScout."""
    scout = PersistentScout(feed, rng=rng, lifetime_ms=lifetime_ms, fetch_lifetime_ms=fetch_lifetime_ms)
    return Follower(feed, scout, rng=rng, buffer=buffer, lifetime_ms=fetch_lifetime_ms, after=after)
