"""Layering `notify`: an Interest triggers an Interest (Tarr et al. 2019, section 4.3, the first option).

The publisher announces each new item by an Interest, which forwarders multicast to the subscribers; these
answer it with an empty Data packet and fetch the item. So an item takes a round trip and a half.

One answer satisfies the Interest on all branches: it proves that one subscriber was notified, not that all
were. A notification is repeated until it is answered; after that, heartbeats announce the newest item at
growing intervals. A newer notification supersedes all earlier ones.
"""

from random import Random

from base.units import MS
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest, make_data, make_interest
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.layerings.pull import Question
from ssb_over_ndn.naming import notify_name, read_notify_name
from ssb_over_ndn.serving.server import Announcer

_LONGEST_SHIFT = 3
"""Heartbeats slow down to an eighth of their first rate."""


class Notifier(Announcer):
    """A publisher's Announcer: announces the newest item.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime of notifications.
        heartbeat_ms: time from an answer to the first heartbeat.
    """

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int, heartbeat_ms: int) -> None:
        super().__init__()
        self._feed = feed
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._heartbeat = heartbeat_ms * MS
        self._timeout = Timeout()
        self._tip = 0
        self._sent_at = 0
        self._is_again = False
        self._beats = 0  # heartbeats of the newest item
        self._is_answered = False
        self._due: int | None = None

    def published(self, seq: int, item: Data, now: int) -> None:
        self._tip = seq
        self._is_again = False
        self._beats = 0
        self._notify(now)

    def on_data(self, data: Data, now: int) -> None:
        if self._tip and data.name == notify_name(self._feed, self._tip) and not self._is_answered:
            self._is_answered = True
            self._timeout.answered(None if self._is_again else now - self._sent_at)
            self._due = now + (self._heartbeat << min(self._beats, _LONGEST_SHIFT))

    def next_deadline(self) -> int | None:
        return self._due

    def wake(self, now: int) -> None:
        if self._due is not None and self._due <= now:
            self._is_again = not self._is_answered
            if self._is_again:
                self._timeout.missed(now)
            else:
                self._beats += 1
            self._notify(now)

    def size(self) -> int:
        """See Announcer: the newest item's number, and when it is told of again."""
        return len(self._feed) + 2 * 8

    def _notify(self, now: int) -> None:
        self._is_answered = False
        self._sent_at = now
        self._due = now + self._timeout.length
        notification = make_interest(
            notify_name(self._feed, self._tip),
            must_be_fresh=True,  # a cached answer would confirm nothing
            nonce=self._rng.getrandbits(32),
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
        )
        self.outputs.append(notification)


class NotifyScout(Scout):
    """Answers notifications. At the start it requests the newest item's number.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime.
        suffix: encoded components after the names of its questions and of its notifications.
    """

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int, suffix: bytes = b"") -> None:
        super().__init__()
        self._feed = feed
        self._suffix = suffix
        self._question = Question(feed, rng=rng, lifetime_ms=lifetime_ms, suffix=suffix)

    def start(self, now: int) -> None:
        self.outputs += self._question.request(now)

    def on_interest(self, interest: Interest, now: int) -> None:
        if not interest.name.endswith(self._suffix):
            return
        seq = read_notify_name(self._feed, interest.name.removesuffix(self._suffix))
        if seq is not None:
            self.tip = max(self.tip, seq)
            self.outputs.append(make_data(interest.name, b""))  # and never fresh

    def on_data(self, data: Data, now: int) -> None:
        self.tip = max(self.tip, self._question.answered(data, now) or 0)

    def next_deadline(self) -> int | None:
        return self._question.next_deadline()

    def wake(self, now: int) -> None:
        self.outputs += self._question.wake(now)

    def size(self) -> int:
        """See Scout: the newest item's number."""
        return len(self._feed) + 8


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, heartbeat_ms: int, after: int = 0
) -> Follower:
    """Return a subscription; see Follower and NotifyScout. Heartbeats are the publisher's."""
    scout = NotifyScout(feed, rng=rng, lifetime_ms=lifetime_ms)
    return Follower(feed, scout, rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
