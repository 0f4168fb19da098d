"""Feeds over a python-ndn application's face.

Theory of operation. `Feeds` is a layer between the face and the application: packets of a feed that is
subscribed to or published here go to that feed's sans-IO end (forwarder.lli), all others to the application
as before. The ends' packets leave by the same face.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from random import SystemRandom
from types import TracebackType
from typing import Any, Protocol

from feednet.log import Log
from feednet.prefixes import Prefixes
from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import Item
from forwarder.lli.consumer import Consumer
from forwarder.lli.credit import AdaptiveCredit
from forwarder.lli.producer import Producer
from forwarder.wire.feed import check_feed_name, split_fork, split_item
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import DATA, INTEREST, Data, Interest, parse_interest, read_name
from forwarder.wire.tlv import MalformedPacket

LIFETIME_MS = 60_000
_LATE = 10_000_000
"""An alarm later than this, ns, first lets the event loop read pending input."""


class Forked(Exception):
    """The feed's author has signed two items with one number; no later item can be trusted.

    Attributes:
        fork: the evidence; fork.packet() proves it to others.
    """

    def __init__(self, feed: bytes, fork: Fork) -> None:
        super().__init__(f"{to_uri(feed)} is forked at item {fork.seq}")
        self.fork = fork


class _End(Protocol):
    """Methods that Consumer and Producer share."""

    def take_outputs(self) -> list[bytes]: ...
    def next_deadline(self) -> int | None: ...
    def wake(self, now: int) -> None: ...


class _Owner(Protocol):
    """Methods that Subscription and Feed share."""

    @property
    def _end(self) -> _End: ...
    def _advance(self) -> None:
        """Send the end's outputs, and process its results."""


class Feeds:
    """All feeds of one application.

    Args:
        app: an NDNApp of python-ndn (ndn.app or ndn.appv2), running or not.
    """

    def __init__(self, app: Any) -> None:
        self._prefixes = Prefixes(app)
        self._face = app.face
        self._pass_on = self._face.callback
        self._shut_down = self._face.shutdown
        self._face.callback = self._receive
        self._face.shutdown = self._on_shutdown
        self._subscriptions: dict[bytes, Subscription] = {}
        self._feeds: dict[bytes, Feed] = {}
        self._alarms: dict[_Owner, asyncio.TimerHandle] = {}

    def subscribe(
        self,
        feed: str | bytes,
        *,
        after: int = 0,
        credit: int | None = None,
        skips_gaps: bool = False,
        on_problem: Callable[[str], None] | None = None,
    ) -> "Subscription":
        """Follow a feed: an async iterator of its items, in order, each verified, without an end.

        Args:
            feed: its name, as an NDN URI or as the bytes of its components.
            after: the last item that is known already.
            credit: items that the network may send before they are taken: the back-pressure. None: adapted to
                the path and the application's pace.
            skips_gaps: skip items that nobody holds any more; else they are waited for.
            on_problem: called with temporary problems, in a word: "waiting" (the network knows no source),
                "resumed" (it knows one again), "gone" (nobody holds the next items any more), "loop",
                "refused". The subscription continues.

        Raises ValueError if it is not a feed's name, or is followed or published here already. Iterating
        raises Forked, or ConnectionError when the application's face is closed.
        """
        name = _feed_name(feed)
        if name in self._feeds:
            raise ValueError(f"{to_uri(name)} is published by this application: read its log")
        if name in self._subscriptions:
            raise ValueError(f"{to_uri(name)} is subscribed to already")
        consumer = Consumer(
            name,
            rng=SystemRandom(),
            after=after,
            credit=AdaptiveCredit() if credit is None else credit,
            lifetime_ms=LIFETIME_MS,
            skips_gaps=skips_gaps,
        )
        subscription = Subscription(self, consumer, on_problem)
        self._subscriptions[name] = subscription
        return subscription

    async def publish(self, log: Log) -> "Feed":
        """Serve a log's present and future items.

        Raises ValueError if it is published already, ConnectionError if the forwarder refuses the prefix.
        """
        if log.name in self._feeds:
            raise ValueError(f"{log.uri} is published already")
        feed = self._feeds[log.name] = Feed(self, log)
        try:
            is_registered = await self._prefixes.register(log.name)
        except BaseException:
            self._feeds.pop(log.name, None)
            raise
        if not is_registered:
            del self._feeds[log.name]
            raise ConnectionError(f"the forwarder does not let this application serve {log.uri}")
        return feed

    async def _receive(self, kind: int, wire: Any) -> None:
        if not self._deliver(bytes(wire)):
            await self._pass_on(kind, wire)

    def _deliver(self, packet: bytes) -> bool:
        """Pass a packet to its feed; return whether there is one."""
        try:
            header = parse_lp(packet)
            if header.hello is not None:
                self._reply(header.hello)
            subscription, feed = self._owner(header)
            interest = None if feed is None else parse_interest(header.fragment)
        except MalformedPacket:
            return False  # left to the application
        if subscription is not None:
            subscription._end.receive(header, time.monotonic_ns())
            subscription._advance()
        if feed is not None and interest is not None:
            feed._queue(interest)
        return subscription is not None or feed is not None or not header.fragment

    def _reply(self, value: bytes) -> None:
        """Repeat the number of a Hello: it confirms to the forwarder that its packets arrive."""
        number = parse_hello(value).number
        if number is not None and self._face.running:
            self._face.send(make_hello(Hello(reply=number)))

    def _owner(self, header: LpPacket) -> "tuple[Subscription | None, Feed | None]":
        kind = header.fragment[0] if header.fragment else None
        if kind is None:
            return self._subscriptions.get(header.feed or b""), None
        if kind not in (DATA, INTEREST):
            return None, None
        name = read_name(header.fragment)
        parts = split_item(name) or (split_fork(name) if kind == DATA else None)
        if parts is None:
            return None, None
        if kind == DATA or header.nack_reason is not None:
            return self._subscriptions.get(parts[0]), None
        return None, self._feeds.get(parts[0])

    def _settle(self, owner: _Owner) -> None:
        """Send an end's outputs, and set its alarm."""
        self._disarm(owner)
        for packet in owner._end.take_outputs():
            if self._face.running:
                self._face.send(packet)
        deadline = owner._end.next_deadline()
        if deadline is not None:
            delay = max(deadline - time.monotonic_ns(), 0)
            self._arm(owner, delay, deadline if delay else time.monotonic_ns())

    def _arm(self, owner: _Owner, delay: int, due: int | None) -> None:
        loop = asyncio.get_running_loop()
        self._alarms[owner] = loop.call_later(delay / 1e9, self._alarm, owner, due)

    def _disarm(self, owner: _Owner) -> None:
        alarm = self._alarms.pop(owner, None)
        if alarm is not None:
            alarm.cancel()

    def _alarm(self, owner: _Owner, due: int | None) -> None:
        del self._alarms[owner]
        now = time.monotonic_ns()
        if due is not None and now > due + _LATE:
            # The application has blocked the event loop: packets that seem lost may be in the socket.
            # Only once, or a busy application would delay it for ever.
            self._arm(owner, _LATE, None)
            return
        owner._end.wake(now)
        owner._advance()

    def _on_shutdown(self) -> None:
        """End all subscriptions: either side has closed the face."""
        self._shut_down()
        for subscription in list(self._subscriptions.values()):
            subscription._fail("the connection to the forwarder is closed")


class Subscription(AsyncIterator[Item]):
    """A subscription to a feed, from Feeds.subscribe().

    Iterate over it, from one task; as a context manager, or by aclose(), it ends, in the network too.
    """

    def __init__(self, feeds: Feeds, consumer: Consumer, on_problem: Callable[[str], None] | None) -> None:
        self._feeds = feeds
        self._end = consumer
        self._on_problem = on_problem
        self._changed = asyncio.Event()
        self._lost: str | None = None
        self._is_open = True
        self._has_begun = False

    @property
    def rejected(self) -> dict[str, int]:
        """Packets refused, by reason."""
        return dict(self._end.rejected)

    @property
    def arrived(self) -> int:
        """Number of the last item received in order; some may not have been taken yet."""
        return self._end.arrived

    async def __anext__(self) -> Item:
        """Return the next item."""
        if not self._has_begun:
            self._has_begun = True
            self._end.start(time.monotonic_ns())
            self._advance()
        while self._is_open:
            items = self._end.take_items(1)
            if items:
                self._advance()
                return items[0]
            if self._end.fork is not None and self._end.error == "fork":
                raise Forked(self._end.feed, self._end.fork)
            if self._lost is not None:
                raise ConnectionError(self._lost)
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the subscription."""
        if self._is_open:
            self._is_open = False
            self._end.cancel(time.monotonic_ns())
            self._feeds._settle(self)
            self._leave()

    async def __aenter__(self) -> "Subscription":
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscription."""
        await self.aclose()

    def _advance(self) -> None:
        self._feeds._settle(self)
        for problem in self._end.take_errors():
            if self._on_problem is not None and problem != "fork":
                self._on_problem(problem)
        self._changed.set()

    def _fail(self, why: str) -> None:
        self._lost = why
        self._leave()

    def _leave(self) -> None:
        self._feeds._disarm(self)
        self._feeds._subscriptions.pop(self._end.feed, None)
        self._changed.set()


class Feed:
    """A published feed, from Feeds.publish()."""

    def __init__(self, feeds: Feeds, log: Log) -> None:
        self._feeds = feeds
        self.log = log
        self._end = Producer(log.name, self._packet, lambda: log.tip, sign=log.sign)
        self._asked: list[Interest] = []

    @property
    def uri(self) -> str:
        """The feed's name, for subscribe()."""
        return self.log.uri

    def append(self, message: bytes) -> int:
        """Sign, store and push a message; return its number. Raises ValueError if it is too large."""
        item = self.log.append(message)
        self._end.appended(item.seq, time.monotonic_ns())
        self._advance()
        return item.seq

    def close(self) -> None:
        """Stop serving the feed; the log stays open."""
        self._feeds._disarm(self)
        self._feeds._feeds.pop(self.log.name, None)
        self._asked.clear()

    def _queue(self, interest: Interest) -> None:
        """Queue an Interest, to be answered together with all others read by then."""
        if not self._asked:
            asyncio.get_running_loop().call_soon(self._answer)
        self._asked.append(interest)

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        for interest in without_repeats(asked):
            self._end.receive(interest, time.monotonic_ns())
        if asked:
            self._advance()

    def _advance(self) -> None:
        self._feeds._settle(self)

    def _packet(self, seq: int) -> Data | None:
        item = self.log.get(seq)
        return None if item is None else item.data


def without_repeats(asked: Sequence[Interest]) -> list[Interest]:
    """Leave out the Interests whose items another one requests, too.

    They were queued while the application was busy, and nothing has been sent since: a repetition among them
    is due to a time-out, not to a lost item.
    """
    ranges = []
    kept = dict[bytes, int]()  # classic ones, by name: the last of each
    for index, interest in enumerate(asked):
        parts = split_item(interest.name)
        if interest.send_credit is None or parts is None:
            kept[interest.name] = index
        elif not interest.send_credit:
            ranges = [(0, 0, -index)]  # a cancellation voids earlier requests
        else:
            ranges.append((parts[1], -(parts[1] + interest.send_credit), -index))
    chosen, reach = [*kept.values()], 0
    for _, end, index in sorted(ranges):
        if -end > reach or not end:
            chosen.append(-index)
            reach = -end
    return [asked[index] for index in sorted(chosen)]


def _feed_name(feed: str | bytes) -> bytes:
    """Return a feed's name as bytes; raise ValueError if it is invalid."""
    name = from_uri(feed) if isinstance(feed, str) else bytes(feed)
    try:
        check_feed_name(name)
    except MalformedPacket as error:
        raise ValueError(f"{to_uri(name)}: {error}") from None
    return name
