"""`createHistoryStream`: the messages of one feed from a sequence number on, optionally live.

The classic way of replication, for peers without EBT: a call of form source for each feed (Scuttlebutt
Protocol Guide, "createHistoryStream"; npm's ssb-db and ssb-db2).
"""

from collections.abc import Callable, Sequence
from typing import Final

from ssb.canonical import InvalidJson, Value, parse_bytes, stringify
from ssb.keys import InvalidRef, parse_feed
from ssb.message import InvalidMessage, Message
from ssb.replication.replication import InvalidRequest
from ssb.store.feeds import FeedStore, Stored
from ssb.transport.muxrpc import BodyType

NAME: Final = ("createHistoryStream",)

_READ = 64
_MAX_WAITING = 1_000


def request(feed: str, after: int) -> list[Value]:
    """Return the arguments to request a feed's messages after a sequence number, old and live."""
    return [{"id": feed, "seq": after + 1, "live": True, "keys": False}]


def query(feed: str, tip: int) -> list[Value]:
    """Return the arguments to query a peer's position in a feed, of which `tip` messages are held here.

    The answer begins with the last message held here, if the peer has it, and ends with the peer's last.
    """
    return [{"id": feed, "seq": max(tip, 1), "live": False, "keys": False}]


class InvalidAnswer(ValueError):
    """The answers of a call are not the requested messages; the message has the reason."""


class HistorySource:
    """The answering side of a call.

    Args:
        feeds: the store.
        arguments: of the call; raises InvalidRequest.
        is_hidden: whether a feed is hidden from the caller.

    Attributes:
        feed: the feed's reference.
    """

    body_type = BodyType.JSON

    def __init__(
        self,
        feeds: FeedStore,
        arguments: Sequence[Value],
        is_hidden: Callable[[str], bool] = lambda feed: False,
    ) -> None:
        options = arguments[0] if arguments else None
        if not isinstance(options, dict):
            raise InvalidRequest("no options")
        feed = options.get("id")
        try:
            if not isinstance(feed, str):
                raise InvalidRequest("no id of a feed")
            parse_feed(feed)
        except InvalidRef as error:
            raise InvalidRequest(str(error)) from None
        self.feed = feed
        self._feeds = feeds
        self._is_hidden = is_hidden
        first = _number(options, "seq", _number(options, "sequence", 1))
        limit = _number(options, "limit", -1)
        self._left: int | None = None if limit < 0 else limit
        self._is_live = options.get("live") is True
        self._has_keys = options.get("keys") is not False
        self._sent = max(first - 1, 0)
        if options.get("old") is False:
            self._sent = max(self._sent, feeds.tips().get(feed, 0))

    @property
    def has_output(self) -> bool:
        """Whether there is a message to send."""
        if self._is_hidden(self.feed):
            return False
        return self._left != 0 and self._feeds.tips().get(self.feed, 0) > self._sent

    @property
    def is_over(self) -> bool:
        """Whether the stream is complete."""
        if self._left == 0 or self._is_hidden(self.feed):
            return True
        return not (self.has_output or (self._is_live and not self._feeds.is_complete(self.feed)))

    def take_output(self, room: int) -> list[bytes]:
        """Return the next parts of the stream, about `room` bytes at most."""
        bodies: list[bytes] = []
        while room > 0 and self.has_output:
            limit = _READ if self._left is None else min(self._left, _READ)
            for stored in self._feeds.after(self.feed, self._sent, limit):
                body = self._entry(stored) if self._has_keys else stored.compact
                bodies.append(body)
                room -= len(body)
                self._sent = stored.sequence
                if self._left is not None:
                    self._left -= 1
                if room <= 0:
                    break
        return bodies

    def _entry(self, stored: Stored) -> bytes:
        received = stringify(stored.received, indent=0)
        key = stringify(stored.id, indent=0)
        return b'{"key":%b,"value":%b,"timestamp":%b}' % (key.encode(), stored.compact, received.encode())


class HistoryFetch:
    """The calling side: restores the order of messages.

    Stock peers send by time of receipt, and may reorder messages received in one millisecond. So an invalid
    message, too, waits for its turn, and those before it are stored.

    Args:
        feed: the feed's reference.
        asked: time of a query(), ns; None for a request().

    Attributes:
        feed, asked: see above.
        last: number of the last message received in order.
        refusal: why the rest of the feed is refused; None if it is not.
    """

    def __init__(self, feed: str, asked: int | None = None) -> None:
        self.feed = feed
        self.asked = asked
        self.last = 0
        self.refusal: InvalidMessage | None = None
        self._waiting: dict[int, dict[str, Value]] = {}

    def receive(self, body: bytes, tip: int) -> list[Message]:
        """Process a part of the stream, and return the messages that follow `tip`.

        Raises InvalidAnswer for an unrequested answer, a fault of the remote. An invalid message, or too many
        that wait, are faults of the feed: they set `refusal`.
        """
        try:
            value = parse_bytes(body)
        except InvalidJson as error:
            raise InvalidAnswer(f"an answer that cannot be read: {error}") from None
        if not isinstance(value, dict) or value.get("author") != self.feed:
            raise InvalidAnswer("something else than a message of the feed that was asked for")
        sequence = value.get("sequence")
        self._waiting[sequence if type(sequence) is int else tip] = value
        found: list[Message] = []
        try:
            while (following := self._waiting.pop(tip + 1, None)) is not None:
                found.append(Message.from_value(following))
                tip += 1
            for number in [number for number in self._waiting if number <= tip]:
                found.append(Message.from_value(self._waiting.pop(number)))  # the store ignores duplicates
        except InvalidMessage as error:
            self.refusal = error
        if len(self._waiting) > _MAX_WAITING:
            self.refusal = InvalidMessage(f"no message comes after {tip}")
        self.last = max((message.sequence for message in found), default=self.last)
        return found


def _number(options: dict[str, Value], name: str, default: int) -> int:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name} is no number")
    return value
