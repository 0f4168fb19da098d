"""Several feeds followed behind one face: a demultiplexer of packets and deadlines.

A layering's part is its Subscription, one object a feed.
"""

from collections.abc import Iterator
from typing import Protocol

from base.passive import Outputs
from base.timers import Timers
from forwarder.feedcache.items import Item
from forwarder.wire.feed import split_item
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import read_name
from forwarder.wire.tlv import MalformedPacket


class Subscription(Protocol):
    """The network side of following one feed: verified items in order, each once; or an error.

    The buffer of items not taken by the application is bounded, which limits requests.
    """

    @property
    def forked_at(self) -> int | None:
        """The lowest sequence number of two different items; None if no fork is known."""
        ...

    def start(self, now: int) -> None:
        """Subscribe."""
        ...

    def stop(self, now: int) -> None:
        """Unsubscribe, and notify the network if the protocol can."""
        ...

    def receive(self, header: LpPacket, now: int) -> None:
        """Receive a packet, as parse_lp() reads it; packets of other feeds are ignored."""
        ...

    def take_items(self, limit: int | None = None) -> list[Item]:
        """Return deliverable items, at most `limit`; call wake() if there are any."""
        ...

    def take_errors(self) -> list[str]:
        """Return the errors since the last call, by a word each: "fork" is final, "no-route" is not."""
        ...

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> None:
        """Process a deadline, or new room after take_items()."""
        ...

    def size(self) -> int:
        """Return the bytes that this end of the feed's protocol holds: docs/architecture.md, State."""
        ...


class WrappedSubscription:
    """A Subscription around another one."""

    def __init__(self, inner: Subscription) -> None:
        self._inner = inner

    @property
    def forked_at(self) -> int | None:
        return self._inner.forked_at

    def start(self, now: int) -> None:
        self._inner.start(now)

    def stop(self, now: int) -> None:
        self._inner.stop(now)

    def receive(self, header: LpPacket, now: int) -> None:
        self._inner.receive(header, now)

    def take_items(self, limit: int | None = None) -> list[Item]:
        return self._inner.take_items(limit)

    def take_errors(self) -> list[str]:
        return self._inner.take_errors()

    def take_outputs(self) -> list[bytes]:
        return self._inner.take_outputs()

    def next_deadline(self) -> int | None:
        return self._inner.next_deadline()

    def wake(self, now: int) -> None:
        self._inner.wake(now)

    def size(self) -> int:
        return self._inner.size()


class Subscriptions(Outputs):
    """Subscriptions by the names of their feeds.

    Attributes:
        offering: feeds that may have items to take, in turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subscriptions: dict[bytes, Subscription] = {}
        self._timers: Timers[bytes] = Timers()
        self._errors: list[tuple[bytes, str]] = []
        self._sizes: dict[bytes, int] = {}  # of subscriptions that hold state
        self._resized: dict[bytes, None] = {}  # feeds whose sizes may have changed
        self.offering: dict[bytes, None] = {}

    def __getitem__(self, feed: bytes) -> Subscription:
        return self._subscriptions[feed]

    def __contains__(self, feed: bytes) -> bool:
        return feed in self._subscriptions

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._subscriptions)

    def start(self, feed: bytes, subscription: Subscription, now: int) -> None:
        """Follow a feed."""
        self._subscriptions[feed] = subscription
        subscription.start(now)
        self._follow_up(feed)

    def stop(self, feed: bytes, now: int) -> None:
        """Unfollow a feed; its errors can still be taken."""
        self._subscriptions[feed].stop(now)
        self._follow_up(feed)
        del self._subscriptions[feed]
        self._timers.set(feed, None)
        self.offering.pop(feed, None)
        self._resized.pop(feed, None)
        self._sizes.pop(feed, None)

    def receive(self, packet: bytes, now: int) -> None:
        """Receive a packet; packets of feeds that are not followed are ignored."""
        try:
            header = parse_lp(packet)
            feed = self._feed_of(read_name(header.fragment) if header.fragment else header.feed or b"")
        except MalformedPacket:
            return
        if feed is not None:
            self._subscriptions[feed].receive(header, now)
            self._follow_up(feed)

    def take_items(self, feed: bytes, now: int, limit: int | None = None) -> list[Item]:
        """Return the items of a feed that have become deliverable, at most `limit`."""
        self.offering.pop(feed, None)
        items = self._subscriptions[feed].take_items(limit)
        if items:
            self._subscriptions[feed].wake(now)
            self._follow_up(feed)
        return items

    def take_errors(self) -> list[tuple[bytes, str]]:
        """Return the errors since the last call: the feed, and Subscription's word."""
        errors, self._errors = self._errors, []
        return errors

    def refresh(self, feed: bytes, now: int) -> None:
        """Wake a feed's subscription, if it is followed, after an external change."""
        if feed in self._subscriptions:
            self._subscriptions[feed].wake(now)
            self._follow_up(feed)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Wake the subscriptions whose deadlines have passed."""
        for feed in self._timers.expire(now):
            self._subscriptions[feed].wake(now)
            self._follow_up(feed)

    def ends(self) -> tuple[int, int]:
        """Return the number of subscriptions that hold state, and its bytes: see Subscription.size()."""
        if self._resized:
            for feed in self._resized:
                if size := self._subscriptions[feed].size():
                    self._sizes[feed] = size
                else:
                    self._sizes.pop(feed, None)
            self._resized.clear()
        return len(self._sizes), sum(self._sizes.values())

    def _feed_of(self, name: bytes) -> bytes | None:
        """Return the followed feed that a name is under; raise MalformedPacket."""
        parts = split_item(name)
        if parts is not None and parts[0] in self._subscriptions:
            return parts[0]
        return next((name[:end] for end in prefix_ends(name) if name[:end] in self._subscriptions), None)

    def _follow_up(self, feed: bytes) -> None:
        """Collect a subscription's outputs, errors, items and deadline after any call."""
        subscription = self._subscriptions[feed]
        self.outputs += subscription.take_outputs()
        errors = subscription.take_errors()
        if errors:
            self._errors += [(feed, word) for word in errors]
        self.offering[feed] = self._resized[feed] = None
        self._timers.set(feed, subscription.next_deadline())
