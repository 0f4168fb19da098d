"""Append-poll: frames of a length of four bytes and JSON; see ssb.replication.append_poll."""

import json
from collections.abc import Iterator, Sequence

from analysis.decode.protocols.stream_protocol import StreamMessage
from captures.framing import Framing
from ssb.replication.append_poll import LENGTH, MAX_FRAME

_BEGINS = ord("{")


class AppendPoll:
    """See analysis.decode.protocols.stream_protocol.StreamProtocol."""

    ports = frozenset({8008})
    layers = ("append-poll",)
    control = frozenset({"request", "end"})

    def conversation(self, secrets: Sequence[bytes]) -> "AppendPoll":
        """Return a connection: nothing is secret, and the two directions do not depend on each other."""
        return self

    def framing(self, from_client: bool) -> Framing[StreamMessage]:
        """Return what cuts requests, or messages and ends."""
        return _Frames(from_client)


class _Frames:
    """Cuts frames; after a gap it looks for a length that JSON or another length follows."""

    def __init__(self, from_client: bool) -> None:
        self._from_client = from_client
        self._in_step = False
        self.skipped = 0

    def begin(self) -> None:
        """See Framing."""
        self._in_step = True

    def lose(self) -> None:
        """See Framing."""
        self._in_step = False

    def read(self, data: bytearray) -> Iterator[StreamMessage]:
        """See Framing."""
        at = 0
        while at + LENGTH <= len(data):
            size = int.from_bytes(data[at : at + LENGTH])
            end = at + LENGTH + size
            if size > MAX_FRAME or not (self._in_step or self._plausible(data, at, size)):
                self._in_step = False
                self.skipped += 1
                at += 1
                continue
            if end > len(data):
                break
            self._in_step = True
            yield self._message(bytes(data[at + LENGTH : end]))
            at = end
        del data[:at]

    def _plausible(self, data: bytearray, at: int, size: int) -> bool:
        content = at + LENGTH
        return size > 1 and (content >= len(data) or data[content] == _BEGINS)

    def _message(self, content: bytes) -> StreamMessage:
        if self._from_client:
            return StreamMessage("request", (LENGTH + len(content),))
        if not content:
            return StreamMessage("end", (LENGTH,))
        feed = seq = None
        try:
            message = json.loads(content)
            feed, seq = message["author"], message["sequence"]
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        if not isinstance(feed, str) or type(seq) is not int or not 0 < seq < 1 << 63:
            return StreamMessage("malformed", (LENGTH + len(content),))
        return StreamMessage("message", (LENGTH,), len(content), feed, seq)
