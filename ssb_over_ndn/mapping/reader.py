"""The reader's side: subscriptions whose Interests have hints to the place in the name service's record."""

from collections.abc import Mapping
from typing import NamedTuple

from base.timers import earliest
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import INTEREST, parse_interest
from ssb.application import Event, Plan
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.following.subscriptions import Subscription, WrappedSubscription
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.naming import log_key, log_name


class Directed(WrappedSubscription):
    """A Subscription of another layering, started once the feed's place is known, with hints to it.

    Args:
        feed: the feed's name.
        inner: the other layering's.
        resolver: of the node.
    """

    def __init__(self, feed: bytes, inner: Subscription, resolver: Resolver) -> None:
        super().__init__(inner)
        self._author = log_key(feed)
        self._resolver = resolver
        self._is_open = False
        self._place: tuple[bytes, ...] = ()

    def start(self, now: int) -> None:
        self._is_open = True
        self._resolver.want(self._author, now)
        self._update_place(now)

    def stop(self, now: int) -> None:
        if self._is_open:
            self._is_open = False
            self._resolver.forget(self._author)
            if self._place:
                self._inner.stop(now)

    def receive(self, header: LpPacket, now: int) -> None:
        """See Subscription; a Nack may come from a former place."""
        if header.nack_reason is not None:
            self._resolver.query_again(self._author, now)
        self._inner.receive(header, now)

    def take_outputs(self) -> list[bytes]:
        return [self._directed(packet) for packet in self._inner.take_outputs()]

    def next_deadline(self) -> int | None:
        return self._inner.next_deadline() if self._place else None

    def wake(self, now: int) -> None:
        self._update_place(now)
        if self._place:
            self._inner.wake(now)

    def _update_place(self, now: int) -> None:
        """Start once the place is known; restart after changes of the place."""
        place = self._resolver.place(self._author)
        if not self._is_open or place == self._place:
            return
        if self._place:
            self._inner.stop(now)
        self._place = place
        self._inner.start(now)

    def _directed(self, packet: bytes) -> bytes:
        return parse_interest(packet).with_hint(self._place) if packet[:1] == bytes((INTEREST,)) else packet


class ReaderCounts(NamedTuple):
    """Counters of a reader's resolver: queries sent, records refused, records held."""

    queries: int
    refused: int
    records: int


class Reader:
    """An application that follows feeds at any place: a Subscriber and a resolver behind one face.

    Args:
        subscriptions: of another layering, by the feeds' names.
        plan: when and how fast.
        resolver: of the node.

    Attributes:
        resolver: see above.
    """

    def __init__(self, subscriptions: Mapping[bytes, Subscription], plan: Plan, resolver: Resolver) -> None:
        directed = {feed: Directed(feed, inner, resolver) for feed, inner in subscriptions.items()}
        self._subscriber = Subscriber(directed, plan)
        self.resolver = resolver
        self._events: list[Event] = []

    @property
    def counts(self) -> ReaderCounts:
        """See ReaderCounts."""
        resolver = self.resolver
        return ReaderCounts(resolver.counters["queries"], resolver.refused.total(), len(resolver))

    def receive(self, packet: bytes, now: int) -> None:
        """Receive a packet, for the resolver or a subscription."""
        if self.resolver.receive(packet, now):
            self._follow_up(now)
        else:
            self._subscriber.receive(packet, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self.resolver.take_outputs() + self._subscriber.take_outputs()

    def take_events(self) -> list[Event]:
        """Return the subscriber's events, and "resolved" for each feed with a new place."""
        events, self._events = self._events + self._subscriber.take_events(), []
        return sorted(events, key=lambda event: event.time)

    def ends(self) -> tuple[int, int]:
        """Return the feeds with state, and its bytes: of subscriptions, and of records."""
        feeds, size = self._subscriber.ends()
        return feeds + len(self.resolver), size + self.resolver.size

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._subscriber.next_deadline(), self.resolver.next_deadline())

    def wake(self, now: int) -> None:
        """Wake both."""
        self.resolver.wake(now)
        self._subscriber.wake(now)

    def _follow_up(self, now: int) -> None:
        for record in self.resolver.take_changed():
            self._events.append(Event(now, "resolved", record.author, record.seq))
            self._subscriber.refresh(log_name(record.author), now)
