"""Common base of all rungs: a store, connections, and bodies with a message or a clock.

A body is the JSON of a message, as under EBT, or of an object {"clock": {feed: number, ...}}. A number is the
sender's number of messages of the feed, or IGNORE: it does not replicate the feed. The last body of a clock
has a member "end", which is true. A side sends {"over": true} when it has nothing more to send.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

from ssb.canonical import Value, stringify
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import ProtocolError
from ssb.replication.replicator import Replicator, count_unwanted
from ssb.store.feeds import FeedStore

LADDER: Final = ("ladder",)
"""The name of the call that opens the stream of a rung between two peers."""
IGNORE: Final = -1
_STRAY = 1_000  # unwanted messages on a connection
_ELEMENTS = 1_000  # of a clock in one body at most


@dataclass(slots=True)
class Session:
    """A connection.

    Attributes:
        number: its number.
        changed: the numbers of connections with new output.
        remote: the other peer's reference.
        is_caller: this side has called.
        clock: the remote's, feed -> number.
        clocks, asked: number of complete clocks received and sent.
        partial: the received part of the next one.
        sent, named: the first clock sent, and the feeds of the first one received.
        bodies: to be sent before any message.
        ready: feed -> the last message that the remote has or that was sent; more are to be sent.
        is_live: it is a hub's client that stays.
        unwanted: received messages of feeds that are not wanted here.
        sends_end: "over" is to be sent behind all messages.
        has_ended: it has been sent.
        is_over: the remote has sent its last message.
        aside: feeds with a refused message: their further messages are dropped.
    """

    number: int
    changed: dict[int, None]
    remote: str
    is_caller: bool
    clock: dict[str, int] = field(default_factory=dict)
    clocks: int = 0
    asked: int = 0
    partial: dict[str, int] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    named: Collection[str] = ()
    bodies: list[bytes] = field(default_factory=list)
    ready: dict[str, int] = field(default_factory=dict)
    is_live: bool = False
    unwanted: int = 0
    sends_end: bool = False
    has_ended: bool = False
    is_over: bool = False
    aside: set[str] = field(default_factory=set)

    def send(self, feed: str, after: int) -> None:
        """Send the messages of a feed behind one in its turn, unless earlier ones are due."""
        self.ready.setdefault(feed, after)
        self.changed[self.number] = None


class Rung(Replicator):
    """The base of all rungs; see ssb.replication.replication.Replication.

    Args:
        feeds: the store, which verifies messages.
        wanted: the initially replicated feeds.

    Attributes:
        elements: of clocks sent.
        repeated: duplicate messages received.
    """

    name: Final = LADDER
    request: Final[Mapping[str, Value]] = MappingProxyType({})
    is_mutual: ClassVar[bool] = True
    other = "a clock"
    _most_unwanted: ClassVar[int] = 5_000
    """Most feeds in a remote's clocks that are not wanted here."""

    def __init__(self, feeds: FeedStore, wanted: Iterable[str] = ()) -> None:
        super().__init__(feeds, wanted)
        self.sessions: dict[int, Session] = {}
        self.elements = 0
        self.repeated = 0

    # For each rung

    def _begin(self, session: Session, now: int) -> None:
        """Handle a new connection."""

    def _on_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value], now: int
    ) -> None:
        """Process a complete clock of the remote; `more` is its last body."""

    def _forward(self, feed: str, before: int, by: int | None, now: int) -> None:
        """Forward new messages of a feed, after `before`."""

    def _on_sent(self, session: Session, feed: str, number: int) -> None:
        """Handle that messages of a feed were sent, up to a number."""

    def _on_received(self, session: Session, feed: str, number: int) -> None:
        """Handle that messages of a feed were received, up to a number: the remote has them."""
        session.clock[feed] = max(number, session.clock.get(feed, 0))

    # Replication

    def refuses(self, request: Value) -> str:
        return ""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Replication: others are notified by the next clock."""
        self._wanted |= dict.fromkeys(feeds)

    def unwant(self, feed: str, now: int) -> None:
        self._wanted.pop(feed, None)
        self._set_aside.pop(feed, None)

    def hides(self, feed: str, peer: str) -> bool:
        """See Replication: nobody is blocked here."""
        return False

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        admitted = self._admit(messages, received)
        if by is not None and not admitted.refused:
            self.repeated += len(messages) - admitted.new
        for feed, tip in admitted.before.items():
            if self._tips.get(feed, 0) > tip:
                self._forward(feed, tip, by, now)
        return admitted.refused

    def on_appended(self, feed: str, now: int, by: int | None = None) -> None:
        self._forward(feed, self._tips.get(feed, 0) - 1, by, now)

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        self.sessions[number] = session = Session(number, self._changed, remote, is_caller)
        self._begin(session, now)

    def close(self, number: int, now: int) -> None:
        del self.sessions[number]

    def is_over(self, number: int) -> bool:
        session = self.sessions[number]
        return session.is_over and session.has_ended and session.is_caller

    def exchanges(self) -> int:
        return sum(len(session.clock) for session in self.sessions.values())

    def output_due(self, number: int) -> int | None:
        session = self.sessions[number]
        has_output = session.bodies or session.ready or (session.sends_end and not session.has_ended)
        return 0 if has_output else None

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        session = self.sessions[number]
        bodies, session.bodies = session.bodies, []
        room -= sum(map(len, bodies))
        while room > 0 and session.ready:
            feed, sent = next(iter(session.ready.items()))
            del session.ready[feed]
            sent, room, has_more = self._append_messages(feed, sent, room, bodies)
            self._on_sent(session, feed, sent)
            if has_more:
                session.ready[feed] = sent
        if session.sends_end and not session.ready and not session.has_ended:
            session.has_ended = True
            bodies.append(b'{"over":true}')
        return bodies

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        """See Replication."""

    # For all rungs

    def _clock(self) -> dict[str, int]:
        """Return this peer's clock over all wanted feeds."""
        return {feed: self._tips.get(feed, 0) for feed in self._wanted}

    def _send_clock(
        self, session: Session, clock: Mapping[str, int], more: Mapping[str, Value] = MappingProxyType({})
    ) -> None:
        """Send a clock; its last body has `more` members."""
        session.asked += 1
        self.elements += len(clock) + sum(elements_of(value) for value in more.values())
        entries: list[tuple[str, Value]] = [*clock.items()]
        for start in range(0, len(entries) or 1, _ELEMENTS):
            body: dict[str, Value] = {"clock": dict(entries[start : start + _ELEMENTS])}
            if start + _ELEMENTS >= len(entries):
                body |= {"end": True, **more}
            session.bodies.append(stringify(body, indent=0).encode())
        session.changed[session.number] = None

    def _send_after(self, session: Session, clock: Mapping[str, int]) -> None:
        """Send the messages that the remote lacks, by its numbers in `clock`."""
        for feed, number in clock.items():
            if IGNORE < number < self._tips.get(feed, 0):
                session.ready.pop(feed, None)
                session.send(feed, number)

    # Replicator

    def _expects(self, number: int, feed: str) -> bool:
        session = self.sessions[number]
        if feed in self._wanted:
            return feed not in session.aside
        # Some may be in transit when a feed is left.
        count_unwanted(session, _STRAY)
        return False

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        session = self.sessions[number]
        session.aside.add(feed)
        self.put_aside(feed, session.remote, str(error))

    def _read(self, number: int, value: dict[str, Value], now: int) -> None:
        session = self.sessions[number]
        if value.get("over") is True:
            session.is_over = True
            return
        clock = numbers(value.get("clock"))
        session.partial |= clock
        if len(session.clock.keys() | session.partial.keys()) > len(self._wanted) + self._most_unwanted:
            raise ProtocolError("clocks of too many feeds")
        if value.get("end") is True:
            whole, session.partial = session.partial, {}
            session.clocks += 1
            self._on_clock(session, whole, value, now)

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        refused = self.append(messages, now, received, by=number)
        for message in messages:
            if message.sequence <= self._tips.get(message.author, 0):
                self._on_received(self.sessions[number], message.author, message.sequence)
        for feed, error in refused.items():
            self._refuse(number, feed, error, now)


def numbers(clock: Value) -> dict[str, int]:
    """Parse a received clock. Raises ProtocolError if it is malformed."""
    if not isinstance(clock, dict) or not all(type(number) is int for number in clock.values()):
        raise ProtocolError("a body that is neither a message nor a clock")
    return {feed: number for feed, number in clock.items() if isinstance(number, int)}


def elements_of(value: Value) -> int:
    """Return the number of clock elements that a member of a body counts for."""
    return len(value) if isinstance(value, dict) else int(isinstance(value, list))
