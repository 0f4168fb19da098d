"""Following a feed with classic Interests: a scout discovers items, a fetcher fetches them.

Layerings of this kind differ in their Scout.
"""

from collections.abc import Iterable
from random import Random

from base.passive import Outputs
from base.timers import earliest
from forwarder.feedcache.items import Item, read_data
from forwarder.wire.feed import split_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import DATA, Data, Interest, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.fetch import Fetcher
from ssb_over_ndn.following.inbox import Buffered, Inbox


class Scout(Outputs):
    """Discovers a feed's items. The default methods do nothing.

    Attributes:
        tip: the newest item known to exist.
        arrived: the last item that has arrived with all before it; updated by the follower.
        found: items from Interests' parameters; the follower processes them like answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tip = 0
        self.arrived = 0
        self.found: list[Data] = []

    def start(self, now: int) -> None:
        """Begin."""

    def stop(self, now: int) -> None:
        """End."""

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive an Interest."""

    def on_item(self, seq: int, data: Data, now: int) -> None:
        """Handle a received item, requested or not; `arrived` is up to date."""

    def on_data(self, data: Data, now: int) -> None:
        """Receive a Data packet other than an item."""

    def on_nack(self, interest: Interest, now: int) -> None:
        """Receive a Nack of an Interest other than for an item."""

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return None

    def wake(self, now: int) -> None:
        """Process a deadline, or a change of `arrived`."""

    def size(self) -> int:
        """Return the bytes that it holds: see Subscription."""
        return 0


class Follower(Buffered):
    """A Subscription of a scout and a fetcher.

    Args:
        feed: the feed's name.
        scout: the layering's.
        rng: source of nonces.
        buffer: most items in flight, or waiting for earlier ones or for the application.
        lifetime_ms: InterestLifetime of Interests for items.
        after: the last item that the application has.
    """

    def __init__(
        self, feed: bytes, scout: Scout, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0
    ) -> None:
        super().__init__(Inbox(feed, buffer, after))
        self._scout = scout
        scout.arrived = after
        self._fetcher = Fetcher(self._inbox, rng=rng, lifetime_ms=lifetime_ms)

    def hold(self, items: Iterable[Item]) -> None:
        """Take in verified items that are here, before the start."""
        for item in items:
            self._inbox.put(item)
        self._scout.arrived = self._inbox.arrived

    def start(self, now: int) -> None:
        self._is_open = True
        self._scout.start(now)
        self._follow_up(now)

    def stop(self, now: int) -> None:
        if self._is_open:
            self._is_open = False
            self._fetcher.stop()
            self._scout.stop(now)
            self.outputs += self._scout.take_outputs() + self._fetcher.take_outputs()

    def receive(self, header: LpPacket, now: int) -> None:
        if not self._is_open:
            return
        try:
            if header.fragment[:1] == bytes((DATA,)):
                self._on_data(read_data(header.fragment), header.congestion_mark, now)
            elif header.nack_reason is not None:
                self._on_nack(parse_interest(header.fragment), now)
            elif header.fragment:
                self._scout.on_interest(parse_interest(header.fragment), now)
                found, self._scout.found = self._scout.found, []
                for data in found:
                    self._on_data(data, 0, now)
        except MalformedPacket:
            return
        self._follow_up(now)

    def next_deadline(self) -> int | None:
        if not self._is_open:
            return None
        return earliest(self._scout.next_deadline(), self._fetcher.next_deadline())

    def wake(self, now: int) -> None:
        if self._is_open:
            self._fetcher.wake(now)
            self._scout.wake(now)
            self._follow_up(now)

    def size(self) -> int:
        return self._scout.size() if self._is_open else 0

    def _on_data(self, data: Data, mark: int, now: int) -> None:
        self._is_refused = False
        parts = split_item(data.name)
        if parts is None:
            self._scout.on_data(data, now)
        elif parts[0] == self._inbox.feed:
            is_item = self._fetcher.on_item(parts[1], data, mark, now)
            self._scout.arrived = self._inbox.arrived
            if is_item:
                self._scout.on_item(parts[1], data, now)

    def _on_nack(self, interest: Interest, now: int) -> None:
        if not self._is_refused:
            self._is_refused = True
            self._errors.append("no-route")
        parts = split_item(interest.name)
        if parts is not None:
            self._fetcher.on_nack(parts[1])
        else:
            self._scout.on_nack(interest, now)

    def _follow_up(self, now: int) -> None:
        """Request items that the scout has found, unless the feed is forked."""
        if self._inbox.forked_at is not None:
            self._errors.append("fork")
            self.stop(now)
            return
        self._fetcher.tip = max(self._fetcher.tip, self._scout.tip)
        self._fetcher.request(now)
        self.outputs += self._scout.take_outputs() + self._fetcher.take_outputs()
