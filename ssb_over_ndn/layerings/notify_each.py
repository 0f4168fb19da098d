"""Layering `notify-each`: an Interest to each consumer triggers one (Carzaniga, Papalini, Wolf 2011).

Each consumer has a routable prefix, `/ssb/consumers/<consumer>`, and the publisher sends a notification of
its own to each, which leaves a trail of state. In `notify`, one multicast Interest goes to all.

A consumer registers with the question for the newest item, which has its name as a suffix and so reaches the
publisher; the answer also tells what it has missed. It registers again every `renewal_ms`. The publisher
forgets a consumer that has not done so three times. It repeats each notification until that consumer answers,
so there are no heartbeats. The routable prefix is a forwarding hint; the notification's name is in the feed.
"""

from random import Random
from typing import Any

from base.timers import Timers, earliest
from base.units import MS
from forwarder.wire.name import GENERIC, component, components
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, Interest, make_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.follower import Follower
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.layerings.notify import NotifyScout
from ssb_over_ndn.naming import CONSUMERS, metadata_name, metadata_packet, notify_name
from ssb_over_ndn.serving.server import Announcer

_MISSED_RENEWALS = 3
_MOST_CONSUMERS = 10_000


def consumer_component(name: str) -> bytes:
    """Return the name component of a consumer."""
    return component(GENERIC, name.encode())


class _Consumer:
    """A registered consumer, and the notification that it is to answer."""

    def __init__(self) -> None:
        self.timeout = Timeout()
        self.until = 0
        self.sent_at = 0
        self.is_again = False


class EachNotifier(Announcer):
    """A publisher's Announcer: notifies each registered consumer of the newest item.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        lifetime_ms: InterestLifetime of notifications.
        renewal_ms: time between two registrations of a consumer.
    """

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int, renewal_ms: int) -> None:
        super().__init__()
        self._feed = feed
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._kept = _MISSED_RENEWALS * renewal_ms * MS
        self._tip = 0
        self._consumers: dict[bytes, _Consumer] = {}
        self._timers: Timers[bytes] = Timers()

    def published(self, seq: int, item: Data, now: int) -> None:
        self._tip = seq
        for name, consumer in [*self._consumers.items()]:
            if consumer.until <= now:
                self._forget(name)
                continue
            consumer.is_again = False
            self._notify(name, consumer, now)

    def on_interest(self, interest: Interest, now: int) -> None:
        """Register a consumer, and tell it the newest item; other packets are ignored."""
        name = _after(metadata_name(self._feed), interest.name)
        if name is None:
            return
        if name not in self._consumers and len(self._consumers) < _MOST_CONSUMERS:
            self._consumers[name] = _Consumer()
        if name in self._consumers:
            self._consumers[name].until = now + self._kept
        self.outputs.append(metadata_packet(self._feed, self._tip, name))

    def on_data(self, data: Data, now: int) -> None:
        name = _after(notify_name(self._feed, self._tip), data.name)
        if name is not None and name in self._timers:
            consumer = self._consumers[name]
            consumer.timeout.answered(None if consumer.is_again else now - consumer.sent_at)
            self._timers.set(name, None)

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        for name in self._timers.expire(now):
            consumer = self._consumers[name]
            if consumer.until <= now:
                self._forget(name)
                continue
            consumer.timeout.missed(now)
            consumer.is_again = True
            self._notify(name, consumer, now)

    def size(self) -> int:
        """See Announcer: the newest item's number; a consumer has a name, an end, and a time to be told."""
        return len(self._feed) + 8 + sum(len(name) + 2 * 8 for name in self._consumers)

    def _forget(self, name: bytes) -> None:
        del self._consumers[name]
        self._timers.set(name, None)

    def _notify(self, name: bytes, consumer: _Consumer, now: int) -> None:
        consumer.sent_at = now
        self._timers.set(name, now + consumer.timeout.length)
        notification = make_interest(
            notify_name(self._feed, self._tip) + name,
            must_be_fresh=True,  # a cached answer would confirm nothing
            nonce=self._rng.getrandbits(32),
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
            forwarding_hint=(CONSUMERS + name,),
        )
        self.outputs.append(notification)


class EachScout(NotifyScout):
    """Registers with the publisher, and answers its notifications.

    Args:
        feed: the feed's name.
        consumer: see consumer_component().
        rng: source of nonces.
        lifetime_ms: InterestLifetime.
        renewal_ms: time between two registrations.
    """

    def __init__(
        self, feed: bytes, consumer: bytes, *, rng: Random, lifetime_ms: int, renewal_ms: int
    ) -> None:
        super().__init__(feed, rng=rng, lifetime_ms=lifetime_ms, suffix=consumer)
        self._renewal = renewal_ms * MS
        self._renewed_at: int | None = None

    def start(self, now: int) -> None:
        super().start(now)
        self._renewed_at = now + self._renewal

    def stop(self, now: int) -> None:
        self._renewed_at = None

    def next_deadline(self) -> int | None:
        return earliest(super().next_deadline(), self._renewed_at)

    def wake(self, now: int) -> None:
        super().wake(now)
        if self._renewed_at is not None and self._renewed_at <= now:
            self.start(now)


def _after(prefix: bytes, name: bytes) -> bytes | None:
    """Return the one component that follows a prefix in a name; None if there is no such."""
    rest = name[len(prefix) :]
    if not name.startswith(prefix):
        return None
    try:
        return rest if len(components(rest)) == 1 and components(rest)[0][0] == GENERIC else None
    except MalformedPacket:
        return None


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0, **more: Any
) -> Follower:
    """Return a subscription; see Follower and, for `more`, EachScout."""
    scout = EachScout(feed, rng=rng, lifetime_ms=lifetime_ms, **more)
    return Follower(feed, scout, rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
