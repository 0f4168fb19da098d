"""The subscribing application: when it follows which feeds, and how fast it takes what comes.

A layering's part is its Subscription, one object a feed. Everything that does not depend on how items
come is here, once: the schedule, pauses, the pace of a slow application, and the events that are reported.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Protocol

from forwarder.feedcache.items import Item
from forwarder.wire.feed import split_item
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import read_name
from forwarder.wire.tlv import MalformedPacket
from ssb.application import Event, Plan
from ssb_over_ndn.naming import log_key

_SECOND = 1_000_000_000


class Subscription(Protocol):
    """The network side of following one feed: every item once, in order, verified, or a named error.

    Items that are not taken bound what is asked for: a subscription buffers so many and no more.
    """

    @property
    def forked_at(self) -> int | None:
        """The lowest sequence number that the feed's author has given to two items; None if none is known."""
        ...

    def start(self, now: int) -> None:
        """Subscribe."""
        ...

    def stop(self, now: int) -> None:
        """Unsubscribe, and tell the network where the protocol can."""
        ...

    def receive(self, header: LpPacket, now: int) -> None:
        """Take in a packet, as parse_lp() reads it; what is not this feed's is ignored."""
        ...

    def take_items(self, limit: int | None = None) -> list[Item]:
        """Return the items that have become deliverable, at most `limit`; wake() follows if there are any."""
        ...

    def take_errors(self) -> list[str]:
        """Return what went wrong since the last call, a word each: "fork" ends it, "no-route" may pass."""
        ...

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> None:
        """Act on a deadline, or on room that taking items has made."""
        ...


class Subscriber:
    """An application that follows feeds.

    Args:
        subscriptions: by the feeds' names.
        plan: when and how fast.

    Raises ValueError for a drain rate that is not above 0.
    """

    def __init__(self, subscriptions: Mapping[bytes, Subscription], plan: Plan) -> None:
        if plan.drain_per_s is not None and plan.drain_per_s <= 0:
            raise ValueError(f"an application that takes {plan.drain_per_s} items a second never ends")
        self._subscriptions = dict(subscriptions)
        self._keys = {feed: log_key(feed) for feed in subscriptions}
        self._pauses = plan.pauses
        self._interval = None if plan.drain_per_s is None else round(_SECOND / plan.drain_per_s)
        self._start: int | None = plan.start
        self._stop: int | None = plan.stop
        self._alarms: list[tuple[int, bytes]] = []  # a heap; what does not agree with _due is out of date
        self._due: dict[bytes, int | None] = {}
        self._offering: dict[bytes, None] = {}  # feeds that may have items to take, in turn
        self._next_take = 0
        self._events: list[Event] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Pass a packet to its subscription; there is none before the start and after the end."""
        if not self._is_open():
            return
        try:
            header = parse_lp(packet)
            feed = self._feed_of(read_name(header.fragment) if header.fragment else header.feed or b"")
        except MalformedPacket:
            return
        if feed is not None:
            self._subscriptions[feed].receive(header, now)
            self._follow_up(feed, now)
            self._take(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def take_events(self) -> list[Event]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._start is not None:
            return self._start
        if self._stop is None:
            return None
        while self._alarms and self._due[self._alarms[0][1]] != self._alarms[0][0]:
            heappop(self._alarms)
        deadline = min(self._stop, self._alarms[0][0]) if self._alarms else self._stop
        return min(deadline, self._next_take) if self._offering else deadline

    def wake(self, now: int) -> None:
        """Subscribe, unsubscribe, take, or let subscriptions act."""
        if self._start is not None and self._start <= now:
            self._start = None
            for feed, subscription in self._subscriptions.items():
                self._events.append(Event(now, "joined", self._keys[feed]))
                subscription.start(now)
                self._follow_up(feed, now)
        if self._stop is not None and self._stop <= now:
            self._stop = None
            for feed, subscription in self._subscriptions.items():
                subscription.stop(now)
                self._follow_up(feed, now)
                self._events.append(Event(now, "stopped", self._keys[feed]))
        if self._is_open():
            due = []
            while self._alarms and self._alarms[0][0] <= now:
                deadline, feed = heappop(self._alarms)
                if self._due[feed] == deadline:
                    self._due[feed] = None
                    due.append(feed)
            for feed in due:
                self._subscriptions[feed].wake(now)
                self._follow_up(feed, now)
            self._take(now)

    def _is_open(self) -> bool:
        return self._start is None and self._stop is not None

    def _feed_of(self, name: bytes) -> bytes | None:
        """Return the followed feed that a name is under; raise MalformedPacket."""
        parts = split_item(name)
        if parts is not None and parts[0] in self._subscriptions:
            return parts[0]
        return next((name[:end] for end in prefix_ends(name) if name[:end] in self._subscriptions), None)

    def _take(self, now: int) -> None:
        """Let the application take what it can take now."""
        self._next_take = next((end for begin, end in self._pauses if begin <= now < end), self._next_take)
        while self._offering and self._next_take <= now:
            feed = next(iter(self._offering))
            del self._offering[feed]
            items = self._subscriptions[feed].take_items(None if self._interval is None else 1)
            key = self._keys[feed]
            self._events += [Event(now, "delivered", key, item.seq, len(item.message)) for item in items]
            if not items:
                continue
            if self._interval is not None:
                self._next_take = now + self._interval
            self._subscriptions[feed].wake(now)
            self._follow_up(feed, now)

    def _follow_up(self, feed: bytes, now: int) -> None:
        """Collect what a subscription has to say, after anything that it did."""
        subscription = self._subscriptions[feed]
        self._outputs += subscription.take_outputs()
        for word in subscription.take_errors():
            if word == "fork":
                self._events.append(Event(now, "forked", self._keys[feed], subscription.forked_at or 0))
            else:
                self._events.append(Event(now, "error", self._keys[feed], detail=word))
        self._offering[feed] = None
        deadline = subscription.next_deadline()
        if deadline is not None and deadline != self._due.get(feed):
            heappush(self._alarms, (deadline, feed))
        self._due[feed] = deadline
