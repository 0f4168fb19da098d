"""Single messages by their ids, out of order: wanted, looked for through peers, and kept.

On `ooo.stream`, a duplex that either side opens when it has something to say, objects go from message ids to
values, as with npm's ssb-ooo: a number below 0 is a want, with its distance in hops; anything else the
message. A peer that lacks what a remote wants (-n) wants it on the remote's behalf (-n - 1), and tells the
others; as for blobs, a want of -3 is not forwarded. An answer counts if it is a message of that very id, and
signed: no peer on the way can alter it. What no log here reaches is not proved to be in its author's feed.

A message is not told to whom its author blocks. Beyond MOST_WANTS, a remote's oldest want gives way.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ssb.canonical import Value, parse, stringify
from ssb.keys import is_message, parse_message
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import read_object
from ssb.store.feeds import FeedStore

STREAM: Final = ("ooo", "stream")
MOST_WANTS: Final = 100
"""Wants of each remote, and of this peer's user."""

_OWN: Final = -1
_FARTHEST: Final = -3


@dataclass(slots=True)
class _Session:
    """A connection.

    Attributes:
        remote: the other peer.
        told: wants of this peer that the remote has been told, or will be.
        news: those of them that are still to be sent.
        wants: wants of the remote.
        answers: ids of messages to send.
    """

    remote: str
    told: dict[str, int] = field(default_factory=dict)
    news: dict[str, int] = field(default_factory=dict)
    wants: dict[str, int] = field(default_factory=dict)
    answers: dict[str, None] = field(default_factory=dict)


class Loose:
    """The wants and answers of a peer, over all connections.

    Args:
        feeds: its store.
    """

    def __init__(self, feeds: FeedStore) -> None:
        self._feeds = feeds
        self._own: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._sessions: dict[int, _Session] = {}
        self.hides: Callable[[str, str], bool] = lambda feed, remote: False

    @property
    def wanted(self) -> dict[str, int]:
        """Wants: -1 for this peer's own, -2 and -3 on behalf of others."""
        return self._wanted

    def want(self, id_: str) -> Message | None:
        """Return the message of an id if it is here; else look for it at all peers. Raises InvalidRef."""
        parse_message(id_)
        message = self._feeds.get(id_)
        if message is None:
            self._put(self._own, id_, _OWN)
        return message

    def open(self, number: int, remote: str) -> None:
        """Add a connection with a peer."""
        self._sessions[number] = _Session(remote, dict(self._wanted), dict(self._wanted))

    def close(self, number: int) -> None:
        """Remove a connection, and its peer's wants."""
        session = self._sessions.pop(number, None)
        for id_ in session.wants if session is not None else ():
            self._weigh(id_)

    def forget(self, number: int, id_: str) -> None:
        """End a want of a connection's peer."""
        session = self._sessions.get(number)
        if session is not None and session.wants.pop(id_, None) is not None:
            self._weigh(id_)

    def receive(self, number: int, body: bytes, received: float) -> None:
        """Process what a remote says; `received` is in ms since 1970. Raises InvalidRequest."""
        session = self._sessions.get(number)
        if session is None:
            return
        told = read_object(body, "wants of messages")
        for id_, value in islice(told.items(), MOST_WANTS):
            if not is_message(id_):
                continue
            if isinstance(value, dict):
                self._on_message(id_, value, received)
            elif isinstance(value, int) and not isinstance(value, bool) and value < 0:
                self._on_want(session, id_, value)

    def take(self, message: Message, received: float) -> None:
        """Keep a message that is wanted, and answer those that want it.

        One that is not valid has no effect: the next peer may have it. One that proves a fork ends the want.
        """
        if message.id not in self._wanted:
            return
        try:
            self._feeds.add_out_of_order(message, received)
        except InvalidMessage:
            return
        except ForkedFeed:
            self._end(message.id, None)  # the store has the proof
        else:
            self.came([message])

    def came(self, messages: Iterable[Message]) -> None:
        """Take note of messages that are in the store by now: no want of them remains."""
        for message in messages:
            if message.id in self._wanted:
                self._end(message.id, message)

    def has_output(self, number: int) -> bool:
        """Whether there is something to say on a connection."""
        session = self._sessions.get(number)
        return session is not None and bool(session.news or session.answers)

    def take_output(self, number: int, room: int) -> list[bytes]:
        """Return what to say on a connection, about `room` bytes at most: wants in one body, each message in
        its own.
        """
        session = self._sessions[number]
        news: dict[str, Value] = dict(session.news)
        session.news.clear()
        said = [stringify(news, indent=0).encode()] if news else []
        while session.answers and room > sum(map(len, said)):
            id_ = next(iter(session.answers))
            del session.answers[id_]
            if (message := self._feeds.get(id_)) is not None:
                said.append(stringify({id_: parse(message.text)}, indent=0).encode())
        return said

    def _on_want(self, session: _Session, id_: str, want: int) -> None:
        message = self._feeds.get(id_)
        if message is None:
            self._put(session.wants, id_, want)
        else:
            self._answer(session, message)

    def _on_message(self, id_: str, value: Value, received: float) -> None:
        """Keep an answer to a want; another has no effect."""
        if id_ not in self._wanted:
            return
        try:
            message = Message.from_value(value)
        except InvalidMessage:
            return
        if message.id == id_:
            self.take(message, received)

    def _end(self, id_: str, message: Message | None) -> None:
        """End a want, and answer those that have it, if there is an answer."""
        del self._wanted[id_]
        self._own.pop(id_, None)
        self._untell(id_)
        for session in self._sessions.values():
            if session.wants.pop(id_, None) is not None and message is not None:
                self._answer(session, message)

    def _answer(self, session: _Session, message: Message) -> None:
        if len(session.answers) < MOST_WANTS and not self.hides(message.author, session.remote):
            session.answers[message.id] = None

    def _put(self, wants: dict[str, int], id_: str, want: int) -> None:
        """Add a want to those of a remote or of the user."""
        if id_ not in wants and len(wants) >= MOST_WANTS:
            oldest = next(iter(wants))
            del wants[oldest]
            self._weigh(oldest)
        wants[id_] = want
        self._weigh(id_)

    def _weigh(self, id_: str) -> None:
        """Find out how much a message is wanted here; tell the peers for which that is more than before.

        A peer is not told of its own want.
        """
        wants: list[tuple[int, int | None]] = sorted(
            ((each.wants[id_] - 1, number) for number, each in self._sessions.items() if id_ in each.wants),
            reverse=True,
        )
        if id_ in self._own:
            wants.insert(0, (_OWN, None))
        near = [(want, source) for want, source in wants[:2] if want >= _FARTHEST]
        if not near:
            if self._wanted.pop(id_, None) is not None:
                self._untell(id_)
            return
        self._wanted[id_] = near[0][0]
        for number, session in self._sessions.items():
            want = next((want for want, source in near if source != number), None)
            if want is not None and want > session.told.get(id_, _FARTHEST - 1):
                session.told[id_] = session.news[id_] = want

    def _untell(self, id_: str) -> None:
        """Forget that a want was told: should it come again, it is told again."""
        for session in self._sessions.values():
            session.told.pop(id_, None)
            session.news.pop(id_, None)
