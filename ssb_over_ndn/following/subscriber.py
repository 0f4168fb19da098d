"""The subscribing application: which feeds it follows when, and how fast it reads.

It is the same for all layerings: the schedule, pauses, the pace of a slow application, and the reported
events. A subscription ends with its feed (`ssb.ending`), and one to the successor takes its place. If the end
names a key of another suite for the successor, an item counts only when a countersignature proves it
(`ssb.suites`).
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from base.units import SECOND
from forwarder.feedcache.items import Item
from forwarder.host import Application
from forwarder.lli.consumer import STATES
from ssb.application import Event, Plan
from ssb.ending import End, end_in
from ssb.message import InvalidMessage, Message
from ssb.suites.countersignature import Reader, successor_key
from ssb.suites.suite import PublicKey
from ssb_over_ndn.following.subscriptions import Subscription, Subscriptions
from ssb_over_ndn.naming import log_key, log_name

MOST_WAITING: Final = 1000
"""Items of a feed that wait for a countersignature, at most."""


class Reporter(Application, Protocol):
    """An application that reports events of items: a Publisher or a Subscriber."""

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        ...

    def ends(self) -> tuple[int, int]:
        """Return the feeds that it holds state for, beside the forwarder's, and its bytes."""
        ...


class Proofs:
    """Items of one feed that wait for a countersignature by a key.

    It holds MOST_WAITING at most; the oldest are dropped.
    """

    def __init__(self, key: PublicKey) -> None:
        self._reader = Reader(key)
        self._waiting: dict[int, Item] = {}

    def add(self, items: list[Item]) -> list[Item]:
        """Add the next items; return those that are proved now, in order."""
        found: list[Item] = []
        for item in items:
            try:
                message = Message.from_text(item.message)
            except InvalidMessage:  # a native item has no room for a countersignature
                continue
            self._waiting[item.seq] = item
            found += [self._waiting.pop(seq) for seq in self._reader.add(message) if seq in self._waiting]
            if len(self._waiting) > MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return found


class Subscriber:
    """An application that follows feeds.

    Args:
        subscriptions: by the feeds' names.
        plan: when and how fast.
        subscribe: successor's name -> a subscription to it; None: no feed takes an ended one's place.

    Raises ValueError for a drain rate that is not above 0.
    """

    def __init__(
        self,
        subscriptions: Mapping[bytes, Subscription],
        plan: Plan,
        subscribe: Callable[[bytes], Subscription] | None = None,
    ) -> None:
        if plan.drain_per_s is not None and plan.drain_per_s <= 0:
            raise ValueError(f"an application that takes {plan.drain_per_s} items a second never ends")
        self._planned = dict(subscriptions)
        self._subscribe = subscribe
        keys = {feed: log_key(feed) for feed in subscriptions}
        self._starts = sorted(
            ((max(plan.later.get(key, plan.start), plan.start), feed) for feed, key in keys.items()),
            key=lambda each: each[0],
        )
        self._starts.reverse()
        self._open = Subscriptions()
        self._proofs: dict[bytes, Proofs] = {}
        self._keys = keys
        self._pauses = plan.pauses
        self._interval = None if plan.drain_per_s is None else round(SECOND / plan.drain_per_s)
        self._stop: int | None = plan.stop
        self._next_take = 0
        self._events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Pass a packet to its subscription; it is dropped before the start and after the end."""
        if self._is_open():
            self._open.receive(packet, now)
            self._report_errors(now)
            self._take(now)

    def refresh(self, feed: bytes, now: int) -> None:
        """Wake a feed's subscription, if it is open, after an external change."""
        if self._is_open():
            self._open.refresh(feed, now)
            self._report_errors(now)
            self._take(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._open.take_outputs()

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        """Return the feeds with state at this end, and its bytes: docs/architecture.md, State."""
        return self._open.ends()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._stop is None:
            return None
        due = self._open.next_deadline()
        deadline = self._stop if due is None else min(self._stop, due)
        if self._starts:
            deadline = min(deadline, self._starts[-1][0])
        return min(deadline, self._next_take) if self._open.offering else deadline

    def wake(self, now: int) -> None:
        """Subscribe, unsubscribe, read items, and wake subscriptions, as far as due."""
        while self._starts and self._starts[-1][0] <= now:
            self._join(self._starts.pop()[1], now)
        if self._stop is not None and self._stop <= now:
            self._stop = None
            self._starts.clear()
            for feed in list(self._open):
                self._leave(feed, now)
        if self._is_open():
            self._open.wake(now)
            self._report_errors(now)
            self._take(now)

    def _join(self, feed: bytes, now: int) -> None:
        self._events.append(Event(now, "joined", self._keys[feed]))
        self._open.start(feed, self._planned[feed], now)
        self._report_errors(now)

    def _leave(self, feed: bytes, now: int) -> None:
        self._open.stop(feed, now)
        self._report_errors(now)
        self._events.append(Event(now, "stopped", self._keys[feed]))

    def _proved(self, feed: bytes, items: list[Item]) -> list[Item]:
        """Return the items that count now: all, if the feed has no key of another suite."""
        proofs = self._proofs.get(feed)
        return items if proofs is None else proofs.add(items)

    def _move(self, feed: bytes, end: End, last: Item, now: int) -> None:
        """Leave a feed that has ended, and follow its successor, unless it is followed already."""
        self._leave(feed, now)
        if end.successor is None or self._subscribe is None:
            return
        successor = log_name(end.successor)
        key = successor_key(Message.from_text(last.message))
        if key is not None:
            # The first end counts: a later one may be forged.
            self._proofs.setdefault(successor, Proofs(key))
        if successor not in self._planned:
            self._keys[successor] = end.successor
            self._planned[successor] = self._subscribe(successor)
            self._join(successor, now)

    def _is_open(self) -> bool:
        return self._stop is not None

    def _take(self, now: int) -> None:
        """Read items at the application's pace."""
        self._next_take = next((end for begin, end in self._pauses if begin <= now < end), self._next_take)
        offering = self._open.offering
        while offering and self._next_take <= now:
            feed = next(iter(offering))
            items = self._open.take_items(feed, now, None if self._interval is None else 1)
            if not items:
                continue
            key = self._keys[feed]
            ended: tuple[End, Item] | None = None
            for item in self._proved(feed, items):
                self._events.append(Event(now, "delivered", key, item.seq, len(item.message)))
                if (end := end_in(item.message)) is not None:  # later items are dropped
                    ended = end, item
                    break
            if self._interval is not None:
                self._next_take = now + self._interval
            self._report_errors(now)
            if ended is not None:
                self._move(feed, *ended, now)

    def _report_errors(self, now: int) -> None:
        for feed, word in self._open.take_errors():
            key = self._keys[feed]
            if word == "fork":
                self._events.append(Event(now, "forked", key, self._planned[feed].forked_at or 0))
            elif word in STATES:
                self._events.append(Event(now, word, key))
            else:
                self._events.append(Event(now, "error", key, detail=word))
