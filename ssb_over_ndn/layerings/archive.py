"""The archive of a feed: it subscribes, stores all items, and serves them under the feed's own name."""

from collections.abc import Sequence
from functools import partial

from base.timers import earliest
from forwarder.feedcache.items import Item
from forwarder.lli.producer import Producer
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Data, parse_data
from ssb.application import Event, Plan
from ssb.message import Message
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.following.subscriptions import Subscription, WrappedSubscription
from ssb_over_ndn.layerings.lli import LliSubscription
from ssb_over_ndn.naming import message_packet


class Archivist:
    """An application that is a Subscriber to its node and a publisher to everyone else.

    Its node sends it Interests for the feed; its own Interests reach the publisher, as forwarders never
    send an Interest back.

    Args:
        feed: the feed's name.
        subscription: its network side.
        plan: when it follows the feed.
        kept: items stored before a restart, from the first.
    """

    def __init__(
        self, feed: bytes, subscription: Subscription, plan: Plan, kept: Sequence[Message] = ()
    ) -> None:
        self._items = [parse_data(message_packet(message)) for message in kept]
        relayed = None
        if isinstance(subscription, LliSubscription):
            relayed = partial(getattr, subscription, "evidence")  # it is no source, but a relay
        self._producer = Producer(feed, self._get, lambda: len(self._items), relayed=relayed)
        self._fresh: list[Item] = []
        self._subscriber = Subscriber({feed: _Watched(subscription, self._fresh)}, plan)

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest, or pass a packet to the subscription."""
        interest = open_interest(packet)
        if interest is not None:
            self._producer.receive(interest, now)
        self._subscriber.receive(packet, now)
        self._keep(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._subscriber.take_outputs() + self._producer.take_outputs()

    def take_events(self) -> list[Event]:
        """Return the subscriber's events."""
        return self._subscriber.take_events()

    def ends(self) -> tuple[int, int]:
        """See Subscriber: both ends."""
        feeds, size = self._subscriber.ends()
        return feeds, size + self._producer.size()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._subscriber.next_deadline(), self._producer.next_deadline())

    def wake(self, now: int) -> None:
        """Wake both ends."""
        self._producer.wake(now)
        self._subscriber.wake(now)
        self._keep(now)

    def _keep(self, now: int) -> None:
        for item in self._fresh:
            if item.seq == len(self._items) + 1:  # else it is kept, from before a restart
                self._items.append(item.data)
                self._producer.appended(item.seq, now)
        self._fresh.clear()
        if self._producer.is_relay:
            self._producer.source_changed()

    def _get(self, seq: int) -> Data | None:
        return self._items[seq - 1] if 1 <= seq <= len(self._items) else None


class _Watched(WrappedSubscription):
    """A Subscription that appends items to `seen` as they are taken."""

    def __init__(self, inner: Subscription, seen: list[Item]) -> None:
        super().__init__(inner)
        self._seen = seen

    def take_items(self, limit: int | None = None) -> list[Item]:
        items = super().take_items(limit)
        self._seen += items
        return items
