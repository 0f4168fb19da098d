"""Plain-poll over TCP: each subscriber connects to the publishers of its feeds every so often."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from pydantic import Field

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    Ended,
    Opened,
    Program,
    Received,
    Send,
    StreamAction,
    StreamEvent,
    StreamPort,
)
from base.key_log import Secret
from base.units import MS
from plain_poll.protocol import PORT, Client, ProtocolError, Server
from ssb.application import Event
from ssb.message import ForkedFeed, InvalidMessage, Message
from testbed.layerings.nodes.node import Context, EventRows, Node, Parameters, StateSize
from testbed.layerings.nodes.workload import Feature, Feed

STREAM_BYTES = 40
"""State of an end of a stream: addresses and ports 12, sequence numbers and windows 20, time-out 8."""
REQUEST_BYTES = 40
"""State of a request that is not answered: the feed's key 32, the number of its newest message here 8."""
_PATIENCE = 100_000 * MS
"""How long a poll may bring nothing before it is broken off: as long as TCP itself would send again."""


class PlainPollParameters(Parameters):
    """Parameters of `plain-poll`."""

    poll_ms: int = Field(default=1000, ge=1, le=3_600_000)
    """From the start of one poll to the start of the next; a poll still under way goes on."""


class PlainPollLayering(NamedTuple):
    """SSB feeds by polls over TCP.

    Attributes: see Layering.
    """

    title: str = "SSB by polls over TCP"
    parameters: type[PlainPollParameters] = PlainPollParameters
    protocol: str = "plain-poll"
    carries: frozenset[Feature] = frozenset({Feature.MEDIUM, Feature.FOLLOWING})

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return PlainPollNode(context)


class Publisher:
    """The feeds that a node publishes, each message at its time, and the streams of those who ask for them.

    Args:
        feeds: with the times of their messages, ns.
    """

    def __init__(self, feeds: Sequence[tuple[Feed, Sequence[int]]]) -> None:
        self._due = deque(
            sorted(
                (time, number, seq)
                for number, (_, times) in enumerate(feeds)
                for seq, time in enumerate(times, start=1)
            )
        )
        self._feeds = [feed for feed, _ in feeds]
        self._logs: dict[str, list[Message]] = {feed.key: [] for feed in self._feeds}
        self._servers: dict[int, Server] = {}
        self.events: list[Event] = []
        self.actions: list[StreamAction] = []

    @property
    def streams(self) -> int:
        """Streams that others have opened."""
        return len(self._servers)

    def next_deadline(self) -> int | None:
        """Return when the next message is due, ns."""
        return self._due[0][0] if self._due else None

    def wake(self, now: int) -> None:
        """Publish what is due."""
        while self._due and self._due[0][0] <= now:
            _, number, seq = self._due.popleft()
            feed = self._feeds[number]
            message = feed.messages[seq - 1]
            self._logs[message.author].append(message)
            self.events.append(Event(now, "published", feed.key, seq, len(message.encoded)))

    def on_stream(self, event: StreamEvent) -> None:
        """Answer on a stream that another has opened."""
        stream = event.stream
        if isinstance(event, Opened):
            self._servers[stream] = Server(self._logs)
        elif isinstance(event, Closed):
            self._servers.pop(stream, None)
        elif isinstance(event, Ended):
            self.actions.append(Close(stream))
        elif isinstance(event, Received) and stream in self._servers:
            try:
                answer = self._servers[stream].receive(event.data)
            except ProtocolError:
                self.actions.append(Close(stream, abort=True))
            else:
                self.actions.append(Send(stream, answer))


@dataclass
class _Poll:
    """A stream to a publisher; `heard` is when something came last, or it was asked for, ns."""

    address: Address
    client: Client
    heard: int


class Subscriber:
    """Polls publishers for feeds.

    Args:
        feeds: those of each publisher, by its address.
        tips: the newest message that is here of each feed, by its reference.
        interval: between polls, ns.
        start, stop: of polling, ns.
    """

    def __init__(
        self,
        feeds: Mapping[Address, Sequence[Feed]],
        tips: Mapping[str, Message | None],
        interval: int,
        start: int,
        stop: int,
    ) -> None:
        self._feeds = {address: {feed.key: feed for feed in of} for address, of in feeds.items()}
        self._tips = dict(tips)
        self._interval = interval
        self._next: int | None = start
        self._stop: int | None = stop
        self._has_joined = False
        self._numbers = count(1)
        self._polls: dict[int, _Poll] = {}
        self.events: list[Event] = []
        self.actions: list[StreamAction] = []

    @property
    def streams(self) -> int:
        """Streams that this subscriber has opened."""
        return len(self._polls)

    @property
    def requests(self) -> int:
        """Requests, one for each feed, that are not answered."""
        return sum(poll.client.pending for poll in self._polls.values())

    def next_deadline(self) -> int | None:
        """Return when the next poll is due, or the end, ns."""
        return min((time for time in (self._next, self._stop) if time is not None), default=None)

    def wake(self, now: int) -> None:
        """Poll every publisher that is not being polled, or end."""
        if self._stop is not None and now >= self._stop:
            self._next = self._stop = None
            self.actions += [Close(stream, abort=True) for stream in self._polls]
            self._tell_all(now, "stopped")
        elif self._next is not None and now >= self._next:
            if not self._has_joined:
                self._has_joined = True
                self._tell_all(now, "joined")
            self._next += self._interval
            for stream, poll in self._polls.items():
                if now >= poll.heard + _PATIENCE:
                    self.actions.append(Close(stream, abort=True))
            busy = {poll.address for poll in self._polls.values()}
            for address in self._feeds:
                if address not in busy:
                    self._poll(address, now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Take in what has happened to a stream of this subscriber's."""
        poll = self._polls.get(event.stream)
        if poll is None:
            return
        if isinstance(event, Closed):
            del self._polls[event.stream]
        elif isinstance(event, Ended):
            self.actions.append(Close(event.stream))
        elif isinstance(event, Received) and self._stop is not None:
            self._read(event, poll, now)

    def _read(self, event: Received, poll: _Poll, now: int) -> None:
        poll.heard = now
        feeds = self._feeds[poll.address]
        try:
            for message in poll.client.receive(event.data):
                self._tips[message.author] = message
                feed = feeds[message.author]
                size = len(message.encoded)
                self.events.append(Event(now, "delivered", feed.key, message.sequence, size))
        except (ProtocolError, InvalidMessage, ForkedFeed) as error:
            self.actions.append(Close(event.stream, abort=True))
            self.events += [Event(now, "error", feed.key, detail=str(error)) for feed in feeds.values()]
        else:
            if poll.client.is_done:
                self.actions.append(Close(event.stream))

    def _poll(self, address: Address, now: int) -> None:
        client = Client({author: self._tips[author] for author in self._feeds[address]})
        stream = next(self._numbers)
        self._polls[stream] = _Poll(address, client, now)
        self.actions += [Connect(stream, address), Send(stream, client.requests())]

    def _tell_all(self, now: int, event: str) -> None:
        self.events += [
            Event(now, event, feed.key) for feeds in self._feeds.values() for feed in feeds.values()
        ]


class PlainPollNode:
    """A node: what it publishes and what it follows, as one endpoint.

    Attributes: see Node.
    """

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.state = context.state
        self._rows = EventRows(context.name, context.state)
        workload, network = context.workload, context.network
        self._publisher = Publisher(
            [
                (feed, [context.start + time for time in feed.times])
                for feed in workload.feeds
                if feed.publisher == context.name
            ]
        )
        self._subscriber: Subscriber | None = None
        if context.plan is not None and (context.since is None or context.since < context.plan.stop):
            feeds: dict[Address, list[Feed]] = {}
            tips: dict[str, Message | None] = {}
            for feed in workload.follows[context.name]:
                feeds.setdefault((network.address(feed.publisher), PORT), []).append(feed)
                here = self.state.delivered[feed.key]
                tips[feed.key] = feed.messages[here - 1] if here else None
            start = max(context.plan.start, context.since or 0)
            interval = context.parameters["poll_ms"] * MS
            self._subscriber = Subscriber(feeds, tips, interval, start, context.plan.stop)
        self.programs = [Program(self, {1: StreamPort(PORT)})]

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint: there are no datagrams."""

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint: TCP notices by itself."""

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint: there are no datagrams."""
        return []

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        deadlines = [self._publisher.next_deadline()]
        if self._subscriber is not None:
            deadlines.append(self._subscriber.next_deadline())
        return min((due for due in deadlines if due is not None), default=None)

    def wake(self, now: int) -> None:
        """Publish and poll what is due."""
        self._publisher.wake(now)
        if self._subscriber is not None:
            self._subscriber.wake(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """See StreamEndpoint."""
        if event.stream < 0:
            self._publisher.on_stream(event)
        elif self._subscriber is not None:
            self._subscriber.on_stream(event, now)

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        actions: list[StreamAction] = []
        for part in self._parts():
            actions += part.actions
            part.actions.clear()
        return actions

    def take_events(self) -> list[dict[str, Any]]:
        """See Node."""
        rows = []
        for part in self._parts():
            rows += self._rows.of(part.events)
            part.events.clear()
        return rows

    def take_secrets(self) -> list[Secret]:
        """Return no secrets: nothing is encrypted."""
        return []

    def held(self) -> dict[str, StateSize]:
        """Return what the node holds: ends of streams, and requests that it waits for."""
        streams = sum(part.streams for part in self._parts())
        requests = self._subscriber.requests if self._subscriber is not None else 0
        return {
            "streams": StateSize(streams, STREAM_BYTES * streams),
            "requests": StateSize(requests, REQUEST_BYTES * requests),
        }

    def counters(self) -> dict[str, Any]:
        """Return nothing more."""
        return {}

    def _parts(self) -> list[Publisher | Subscriber]:
        return [self._publisher] if self._subscriber is None else [self._publisher, self._subscriber]
