"""Common base of all rungs: a store, connections, and bodies with a message or a clock.

A body is the JSON of a message, as under EBT, or of an object {"clock": {feed: number, ...}}. A number says
how many messages of the feed its sender has, or IGNORE: it does not replicate the feed. The last body of a
clock has a member "end", which is true. A side that has nothing more to send says {"over": true}.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

from ssb.canonical import Value, stringify
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import ProtocolError
from ssb.replication.replicator import Replicator
from ssb.store.feeds import FeedStore

LADDER: Final = ("ladder",)
"""The name of the call that opens the stream of a rung between two peers."""
IGNORE: Final = -1
_STRAY = 1_000  # messages on a connection that are not wanted here
_ELEMENTS = 1_000  # of a clock in one body at most


@dataclass(slots=True)
class Session:
    """A connection.

    Attributes:
        number: its number.
        stirred: the numbers of connections with something new to be sent.
        remote: the other peer's reference.
        is_caller: this side has called.
        clock: what the remote has said, feed -> number.
        clocks, asked: how many whole clocks it has said, and this side has.
        saying: what has come of the next one.
        said, heard: what this side has said first, and the feeds that the remote has named first.
        bodies: to be sent before any message.
        ready: feed -> the last message that the remote has or that was sent; more are to be sent.
        is_live: it is a hub's client that stays.
        unwanted: messages that came of feeds that are not wanted here.
        sends_end: "over" is to be sent behind all messages.
        has_ended: it has been sent.
        is_over: the remote has sent its last message.
        aside: feeds of which a message was refused: what else comes of them is dropped.
    """

    number: int
    stirred: dict[int, None]
    remote: str
    is_caller: bool
    clock: dict[str, int] = field(default_factory=dict)
    clocks: int = 0
    asked: int = 0
    saying: dict[str, int] = field(default_factory=dict)
    said: Mapping[str, int] = field(default_factory=dict)
    heard: Collection[str] = ()
    bodies: list[bytes] = field(default_factory=list)
    ready: dict[str, int] = field(default_factory=dict)
    is_live: bool = False
    unwanted: int = 0
    sends_end: bool = False
    has_ended: bool = False
    is_over: bool = False
    aside: set[str] = field(default_factory=set)

    def send(self, feed: str, after: int) -> None:
        """Send the messages of a feed behind one when its turn comes, if none before it is to be sent."""
        self.ready.setdefault(feed, after)
        self.stirred[self.number] = None


class Rung(Replicator):
    """The base of all rungs; see ssb.replication.replication.Replication.

    Args:
        feeds: the store, which verifies what it appends.
        wanted: the feeds that are replicated from the start.

    Attributes:
        elements: of clocks that were sent.
        repeated: messages that came and were here already.
    """

    name: Final = LADDER
    request: Final[Mapping[str, Value]] = MappingProxyType({})
    is_mutual: ClassVar[bool] = True
    other = "a clock"
    _most_unwanted: ClassVar[int] = 5_000
    """Feeds in a remote's clocks that are not wanted here."""

    def __init__(self, feeds: FeedStore, wanted: Iterable[str] = ()) -> None:
        super().__init__(feeds, wanted)
        self.sessions: dict[int, Session] = {}
        self.elements = 0
        self.repeated = 0

    # What rungs differ in

    def _begin(self, session: Session, now: int) -> None:
        """Act on a connection that has been opened."""

    def _hear(self, session: Session, said: Mapping[str, int], more: Mapping[str, Value], now: int) -> None:
        """Act on a clock that the remote has said, which is complete; `more` is its last body."""

    def _pass_on(self, feed: str, before: int, by: int | None, now: int) -> None:
        """Act on messages of a feed that are new, behind `before`."""

    def _was_sent(self, session: Session, feed: str, number: int) -> None:
        """Act on messages of a feed that have been sent, up to a number."""

    def _came(self, session: Session, feed: str, number: int) -> None:
        """Act on messages of a feed that the remote has sent, and so has, up to a number."""
        session.clock[feed] = max(number, session.clock.get(feed, 0))

    # Replication

    def refuses(self, request: Value) -> str:
        """See Replication."""
        return ""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """See Replication: others hear of it with the next clock."""
        self._wanted |= dict.fromkeys(feeds)

    def unwant(self, feed: str, now: int) -> None:
        """See Replication."""
        self._wanted.pop(feed, None)
        self._set_aside.pop(feed, None)

    def hides(self, feed: str, peer: str) -> bool:
        """See Replication: nobody is blocked here."""
        return False

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """See Replication."""
        admitted = self._admit(messages, received)
        if by is not None and not admitted.refused:
            self.repeated += len(messages) - admitted.new
        for feed, tip in admitted.before.items():
            if self._tips.get(feed, 0) > tip:
                self._pass_on(feed, tip, by, now)
        return admitted.refused

    def appended(self, feed: str, now: int, by: int | None = None) -> None:
        """See Replication."""
        self._pass_on(feed, self._tips.get(feed, 0) - 1, by, now)

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        """See Replication."""
        self.sessions[number] = session = Session(number, self._stirred, remote, is_caller)
        self._begin(session, now)

    def close(self, number: int, now: int) -> None:
        """See Replication."""
        del self.sessions[number]

    def is_over(self, number: int) -> bool:
        """See Replication."""
        session = self.sessions[number]
        return session.is_over and session.has_ended and session.is_caller

    def exchanges(self) -> int:
        """See Replication."""
        return sum(len(session.clock) for session in self.sessions.values())

    def output_due(self, number: int) -> int | None:
        """See Replication."""
        session = self.sessions[number]
        has_output = session.bodies or session.ready or (session.sends_end and not session.has_ended)
        return 0 if has_output else None

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        """See Replication."""
        session = self.sessions[number]
        bodies, session.bodies = session.bodies, []
        room -= sum(map(len, bodies))
        while room > 0 and session.ready:
            feed, sent = next(iter(session.ready.items()))
            del session.ready[feed]
            sent, room, has_more = self._put_out(feed, sent, room, bodies)
            self._was_sent(session, feed, sent)
            if has_more:
                session.ready[feed] = sent
        if session.sends_end and not session.ready and not session.has_ended:
            session.has_ended = True
            bodies.append(b'{"over":true}')
        return bodies

    def next_deadline(self) -> int | None:
        """See Replication."""
        return None

    def wake(self, now: int) -> None:
        """See Replication."""

    # For rungs

    def _clock(self) -> dict[str, int]:
        """Return how far this peer is in all feeds that it wants."""
        return {feed: self._tips.get(feed, 0) for feed in self._wanted}

    def _say(
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
        session.stirred[session.number] = None

    def _send_after(self, session: Session, clock: Mapping[str, int]) -> None:
        """Send what is here and the remote lacks, by what it said of the feeds in `clock`."""
        for feed, number in clock.items():
            if IGNORE < number < self._tips.get(feed, 0):
                session.ready.pop(feed, None)
                session.send(feed, number)

    # Parts of the above

    def _expects(self, number: int, feed: str) -> bool:
        """See Replicator."""
        session = self.sessions[number]
        if feed in self._wanted:
            return feed not in session.aside
        # Some may be under way when a feed is left.
        session.unwanted += 1
        if session.unwanted > _STRAY:
            raise ProtocolError("too many messages that are not wanted here")
        return False

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        """See Replicator."""
        session = self.sessions[number]
        session.aside.add(feed)
        self.put_aside(feed, session.remote, str(error))

    def _read(self, number: int, value: dict[str, Value], now: int) -> None:
        """See Replicator."""
        session = self.sessions[number]
        if value.get("over") is True:
            session.is_over = True
            return
        said = numbers(value.get("clock"))
        session.saying |= said
        if len(session.clock.keys() | session.saying.keys()) > len(self._wanted) + self._most_unwanted:
            raise ProtocolError("clocks of too many feeds")
        if value.get("end") is True:
            whole, session.saying = session.saying, {}
            session.clocks += 1
            self._hear(session, whole, value, now)

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        """See Replicator."""
        refused = self.append(messages, now, received, by=number)
        for message in messages:
            if message.sequence <= self._tips.get(message.author, 0):
                self._came(self.sessions[number], message.author, message.sequence)
        for feed, error in refused.items():
            self._refuse(number, feed, error, now)


def numbers(clock: Value) -> dict[str, int]:
    """Return a clock that was received. Raises ProtocolError if it is none."""
    if not isinstance(clock, dict) or not all(type(number) is int for number in clock.values()):
        raise ProtocolError("a body that is neither a message nor a clock")
    return {feed: number for feed, number in clock.items() if isinstance(number, int)}


def elements_of(value: Value) -> int:
    """Return how many elements of a clock a member of a body is worth."""
    return len(value) if isinstance(value, dict) else int(isinstance(value, list))
