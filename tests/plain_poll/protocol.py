"""Plain-poll: ask a peer now and then for what is newer than the last message that is here.

A poll costs what is new, and a request for each feed.

On the stream are frames: a length of four bytes, the most significant first, and so many bytes. A client
sends a request for each feed, JSON with members "feed" (`@...=.ed25519`) and "after" (the sequence number
that it has, 0 for none). The server answers in the order of requests: a frame with each newer message, its
canonical text, then an empty frame. The client closes the stream when it has what it asked for.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ssb.canonical import InvalidJson, parse, stringify
from ssb.keys import InvalidRef, parse_feed
from ssb.message import InvalidMessage, Message

MAX_FRAME: Final = 1 << 16
"""Most bytes of a frame: a message has up to 8192 UTF-16 units, which are less than 25,000 bytes."""
LENGTH: Final = 4
"""Bytes of a frame's length."""
PORT: Final = 8010
"""TCP port of servers; 8008 is that of stock peers."""


class ProtocolError(ValueError):
    """The peer does not keep to the protocol; the message says how, in few words."""


class Frames:
    """The receiving side of a stream: bytes in, frames out."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that bytes complete; raise ProtocolError for one that is too long."""
        self._waiting += data
        while len(self._waiting) >= LENGTH:
            size = int.from_bytes(self._waiting[:LENGTH])
            if size > MAX_FRAME:
                raise ProtocolError(f"a frame of {size} bytes")
            end = LENGTH + size
            if len(self._waiting) < end:
                return
            frame = bytes(self._waiting[LENGTH:end])
            del self._waiting[:end]
            yield frame


def frame(content: bytes) -> bytes:
    """Return a frame."""
    return len(content).to_bytes(LENGTH) + content


class Server:
    """The side of a stream that answers.

    Args:
        feeds: the messages of each feed from the first, by its reference; they may grow meanwhile.
    """

    def __init__(self, feeds: Mapping[str, Sequence[Message]]) -> None:
        self._feeds = feeds
        self._frames = Frames()

    def receive(self, data: bytes) -> bytes:
        """Take in bytes; return the answer to the requests that they complete. Raises ProtocolError."""
        answers = []
        for request in self._frames.receive(data):
            feed, after = read_request(request)
            newer = self._feeds.get(feed, ())[after:]
            answers += [frame(message.encoded) for message in newer]
            answers.append(frame(b""))
        return b"".join(answers)


class Client:
    """The side of a stream that asks, and believes nothing that it has not verified.

    Args:
        tips: the newest message that is here of each feed that is asked for, by its reference; None for none.
    """

    def __init__(self, tips: Mapping[str, Message | None]) -> None:
        self._tips = dict(tips)
        self._asked = deque(self._tips)
        self._frames = Frames()

    @property
    def pending(self) -> int:
        """Feeds that were asked for, and are not answered to the end."""
        return len(self._asked)

    @property
    def is_done(self) -> bool:
        """Whether all that was asked for has come."""
        return not self._asked

    def requests(self) -> bytes:
        """Return what to send first."""
        return b"".join(
            frame(stringify({"feed": feed, "after": tip.sequence if tip else 0}).encode())
            for feed, tip in self._tips.items()
        )

    def receive(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that bytes complete, each verified and the next one of its feed.

        Raises ProtocolError, InvalidMessage for a message that is none or does not come next, and ForkedFeed.
        """
        for content in self._frames.receive(data):
            if not self._asked:
                raise ProtocolError("more than was asked for")
            if not content:
                self._asked.popleft()
                continue
            feed = self._asked[0]
            message = Message.from_text(content)
            if message.author != feed:
                raise InvalidMessage(f"author {message.author} does not write the feed {feed}")
            message.verify()
            message.follow(self._tips[feed])
            self._tips[feed] = message
            yield message


def read_request(content: bytes) -> tuple[str, int]:
    """Return the feed that a request is for, and the sequence number after which. Raises ProtocolError."""
    try:
        value = parse(content.decode())
        if not isinstance(value, dict) or value.keys() != {"feed", "after"}:
            raise ProtocolError("a request has the members feed and after")
        feed, after = value["feed"], value["after"]
        if not isinstance(feed, str) or not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise ProtocolError("a request names a feed and a sequence number")
        parse_feed(feed)
    except (InvalidJson, InvalidRef, UnicodeDecodeError) as error:
        raise ProtocolError(f"a request that cannot be read: {error}") from None
    return feed, after
