"""The base of the protocols that replicate feeds: a store, and bodies that may be messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

from ssb.canonical import InvalidJson, Value, parse_bytes
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import ProtocolError, SetAside
from ssb.store.feeds import FeedStore

_READ: Final = 64  # messages of one feed per read of the store, so that feeds alternate


class Admitted(NamedTuple):
    """Result of adding messages to the store.

    Attributes:
        before: their feeds -> the tip before.
        new: number of new ones.
        refused: reason for each feed with an invalid one.
    """

    before: Mapping[str, int]
    new: int
    refused: Mapping[str, InvalidMessage | ForkedFeed]


class Visited(Protocol):
    """A connection, and the number of messages received on it that are not wanted here."""

    unwanted: int


def count_unwanted(session: Visited, most: int) -> None:
    """Count a received message that is not wanted here; raise ProtocolError if it is one too many."""
    session.unwanted += 1
    if session.unwanted > most:
        raise ProtocolError(f"more than {most} messages that are not wanted here")


class Replicator:
    """Input and output of messages for a Replication.

    Faults of feeds and of peers are separate. Honest peers forward all that is valid by their own rules, and
    these differ: so a refused message affects its feed alone. The feed is set aside on the connection of the
    message: its further messages there are dropped, and others may send it. A peer is blamed only for bodies
    that it alone can have made: those that are neither a message of a feed nor defined by the protocol.

    Args:
        feeds: the store, which verifies messages.
        wanted: the initially replicated feeds.
    """

    other: ClassVar[str]
    """Kind of a body without a message, for errors."""

    def __init__(self, feeds: FeedStore, wanted: Iterable[str]) -> None:
        self._feeds = feeds
        self._tips = feeds.tips()
        self._wanted: dict[str, None] = dict.fromkeys(wanted)
        self._stored: list[Message] = []
        self._set_aside: dict[str, SetAside] = {}
        self._changed: dict[int, None] = {}

    @property
    def wanted(self) -> Collection[str]:
        return self._wanted.keys()

    def take_stored(self) -> list[Message]:
        stored, self._stored = self._stored, []
        return stored

    @property
    def set_aside(self) -> Mapping[str, SetAside]:
        return self._set_aside

    def put_aside(self, feed: str, remote: str, reason: str) -> None:
        """See Replication; forked feeds have a proof instead."""
        if feed not in self._feeds.forks():
            self._set_aside[feed] = SetAside(remote, reason)

    @property
    def has_changed(self) -> bool:
        return bool(self._changed)

    def take_changed(self) -> Iterable[int]:
        changed = [*self._changed]
        self._changed.clear()
        return changed

    def receive(self, number: int, bodies: Iterable[bytes], now: int, received: float) -> None:
        """See Replication; a body is processed only if the earlier ones are valid.

        Messages before an invalid one are stored.
        """
        batch: list[Message] = []
        try:
            for body in bodies:
                value = parse_bytes(body)
                if not isinstance(value, dict):
                    raise ProtocolError(f"a body that is neither a message nor {self.other}")
                if "signature" in value:
                    if self._expects(number, _author(value)):
                        self._take_message(number, value, batch, now, received)
                else:
                    self._store_batch(number, batch, now, received)
                    self._read(number, value, now)
        except InvalidJson as error:
            raise ProtocolError(f"a body that cannot be read: {error}") from None
        finally:
            self._store_batch(number, batch, now, received)

    def is_over(self, number: int) -> bool:
        """See Replication; by default peers stay connected."""
        return False

    def on_lost(self, feed: str, now: int) -> None:
        """See Replication; by default they are requested when peers connect."""

    # For each protocol

    def _expects(self, number: int, feed: str) -> bool:
        """Whether to accept a message of a feed on a connection. Raises ProtocolError."""
        raise NotImplementedError

    def _read(self, number: int, value: dict[str, Value], now: int) -> None:
        """Process a body without a message. Raises ProtocolError."""
        raise NotImplementedError

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        """Store messages from a connection, and set aside feeds with a refused one."""
        raise NotImplementedError

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        """Set a feed aside on a connection: from now on, `_expects` accepts none of its messages there."""
        raise NotImplementedError

    # For all protocols

    def _admit(self, messages: Sequence[Message], received: float) -> Admitted:
        """Add messages to the store, and record the new ones."""
        before = {message.author: self._tips.get(message.author, 0) for message in messages}
        refused = self._feeds.append(messages, received).refused
        new: dict[tuple[str, int], Message] = {}
        for message in messages:
            if before[message.author] < message.sequence <= self._tips.get(message.author, 0):
                new.setdefault((message.author, message.sequence), message)
        self._stored += new.values()
        for feed, _ in new:
            self._set_aside.pop(feed, None)
        return Admitted(before, len(new), refused)

    def _append_messages(self, feed: str, sent: int, room: int, bodies: list[bytes]) -> tuple[int, int, bool]:
        """Append the next messages of a feed to bodies, until about `room` bytes.

        Returns the number of the last one, the room left, and whether there are more messages.
        """
        read = self._feeds.after(feed, sent, _READ)
        for stored in read:
            body = stored.compact
            bodies.append(body)
            sent = stored.sequence
            room -= len(body)
            if room <= 0:
                break
        return sent, room, bool(read) and sent < self._tips.get(feed, 0)

    def _take_message(
        self, number: int, value: dict[str, Value], batch: list[Message], now: int, received: float
    ) -> None:
        """Append a message to the batch; if it is invalid, store those before it and set its feed aside."""
        try:
            batch.append(Message.from_value(value))
        except InvalidMessage as error:
            self._store_batch(number, batch, now, received)
            if self._expects(number, _author(value)):  # none of those before it was refused
                self._refuse(number, _author(value), error, now)

    def _store_batch(self, number: int, batch: list[Message], now: int, received: float) -> None:
        """Store a batch, and empty it first: a refused message is not retried."""
        if batch:
            messages = batch.copy()
            batch.clear()
            self._store(number, messages, now, received)


def _author(value: Mapping[str, Value]) -> str:
    """Return the author in a message's body. Raises ProtocolError if there is none."""
    author = value.get("author")
    if not isinstance(author, str):
        raise ProtocolError("a message without an author")
    return author
