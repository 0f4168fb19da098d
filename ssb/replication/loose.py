"""Single messages by their ids, out of order: wanted, looked for through peers, and kept.

On `ooo.stream`, a duplex that either side opens when it has something to say, objects go from message ids to
values, as with npm's ssb-ooo: a number below 0 is a want, with its distance in hops; anything else the
message. A peer that lacks what a remote wants (-n) wants it on the remote's behalf (-n - 1), and passes it
on; as for blobs, a want of -3 is not forwarded. An answer counts if it is a message of that very id, and
signed: no peer on the way can alter it. What no log here reaches is not proved to be in its author's feed.

A message is not told to whom its author blocks. Wants beyond the limit are ignored, and are no fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ssb.canonical import InvalidJson, Value, parse, stringify
from ssb.keys import InvalidRef, parse_message
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import InvalidRequest
from ssb.store.feeds import FeedStore

STREAM: Final = ("ooo", "stream")
MOST_WANTS: Final = 1_000
"""Wants of a remote, and wants on behalf of all remotes together."""

_OWN: Final = -1
_FARTHEST: Final = -3


@dataclass(slots=True)
class _Session:
    """A connection: the other peer, what to tell it, what it wants, and which want it was told."""

    remote: str
    news: dict[str, int] = field(default_factory=dict)
    wants: dict[str, int] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)


class Loose:
    """The wants and answers of a peer, over all connections.

    Args:
        feeds: its store.
    """

    def __init__(self, feeds: FeedStore) -> None:
        self._feeds = feeds
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
            self._add_want(id_, _OWN)
        return message

    def open(self, number: int, remote: str) -> None:
        """Add a connection with a peer."""
        for id_ in [each for each in self._wanted if self._feeds.get(each) is not None]:
            self._told(id_)  # its feed has come
        self._sessions[number] = _Session(remote, dict(self._wanted))

    def close(self, number: int) -> None:
        """Remove a connection, and the wants on its peer's behalf."""
        if self._sessions.pop(number, None) is None:
            return
        for id_, want in list(self._wanted.items()):
            if want != _OWN and not any(one.wants.get(id_, want) > want for one in self._sessions.values()):
                del self._wanted[id_]

    def receive(self, number: int, body: bytes, received: float) -> None:
        """Process what a remote says; `received` is in ms since 1970. Raises InvalidRequest."""
        try:
            told = parse(body.decode())
        except (InvalidJson, UnicodeDecodeError) as error:
            raise InvalidRequest(f"wants of messages that cannot be read: {error}") from None
        if not isinstance(told, dict):
            raise InvalidRequest("wants of messages that are no object")
        session = self._sessions[number]
        for id_, value in told.items():
            try:
                parse_message(id_)
            except InvalidRef:
                continue
            if isinstance(value, dict):
                self._on_message(id_, value, received)
            elif isinstance(value, int) and not isinstance(value, bool) and value < 0:
                self._on_want(session, id_, value)

    def has_output(self, number: int) -> bool:
        """Whether there is something to say on a connection."""
        session = self._sessions[number]
        return bool(session.news or session.answers)

    def take_output(self, number: int) -> list[bytes]:
        """Return what to say on a connection: wants in one body, each message in its own."""
        session = self._sessions[number]
        news: dict[str, Value] = {id_: want for id_, want in session.news.items() if id_ in self._wanted}
        answers = [message for id_ in session.answers if (message := self._feeds.get(id_)) is not None]
        session.news.clear()
        session.answers.clear()
        said: list[Value] = [news] if news else []
        said += [{message.id: parse(message.text)} for message in answers]
        return [stringify(each, indent=0).encode() for each in said]

    def _on_want(self, session: _Session, id_: str, want: int) -> None:
        if id_ not in session.wants and len(session.wants) >= MOST_WANTS:
            return
        message = self._feeds.get(id_)
        if message is not None:
            self._answer(session, message)
            return
        session.wants[id_] = want
        if want > _FARTHEST and (id_ in self._wanted or len(self._wanted) < MOST_WANTS):
            self._add_want(id_, want - 1)

    def _on_message(self, id_: str, value: Value, received: float) -> None:
        """Keep an answer to a want; one that nobody wants any more has no effect."""
        if id_ not in self._wanted:
            return
        try:
            message = Message.from_value(value)
            if message.id != id_:
                raise InvalidRequest("a message of another id")
            self._feeds.add_out_of_order(message, received)
        except InvalidMessage as error:
            raise InvalidRequest(str(error)) from None
        except ForkedFeed:
            self._wanted.pop(id_, None)  # the store has the proof
            return
        self._told(id_)

    def _told(self, id_: str) -> None:
        """End a want whose message is here, and answer those that want it."""
        self._wanted.pop(id_, None)
        message = self._feeds.get(id_)
        for session in self._sessions.values():
            if session.wants.pop(id_, None) is not None and message is not None:
                self._answer(session, message)

    def _answer(self, session: _Session, message: Message) -> None:
        if not self.hides(message.author, session.remote):
            session.answers.append(message.id)

    def _add_want(self, id_: str, want: int) -> None:
        if self._wanted.get(id_, _FARTHEST - 1) < want:
            self._wanted[id_] = want
            for session in self._sessions.values():
                session.news[id_] = want
