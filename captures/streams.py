"""NDN packets out of TCP: one direction of a connection, put together from its segments as they were
captured, and read as captures.framing or captures.websocket say.

A capture is not a receiver: it may begin in the middle of a connection, lack segments that did arrive, and
hold only the first bytes of each. So a Stream never waits for ever: when what it holds back for a missing
segment gets too much, it gives the gap up, counts it, and looks for the next place where a packet plausibly
begins.

Source: RFC 9293 (sequence numbers).
"""

from collections.abc import Iterator
from typing import NamedTuple

from captures.framing import Elements, Framing
from captures.websocket import WebSocket, begins_http

HELD_BYTES = 1 << 18
"""How much is held back for a segment that is missing."""

_FIN, _SYN, _RST = 1, 2, 4


class Segment(NamedTuple):
    """A captured segment: sequence number, flags, payload as captured, and its length on the wire."""

    sequence: int
    flags: int
    payload: bytes
    length: int


class Stream:
    """One direction of a connection; `websocket`: its port is one of WebSocket.

    Counts: `gaps`, places where bytes are missing; `skipped`, bytes that were captured and belong to no
    packet that could be read.
    """

    def __init__(self, websocket: bool = False) -> None:
        self.gaps = 0
        self._websocket = websocket
        self._skipped = 0
        self._next: int | None = None  # sequence number of the next byte, 32 bits
        self._held: dict[int, Segment] = {}  # segments that came early, by sequence number
        self._bytes = bytearray()  # what follows the last packet
        self._begun = False  # whether the stream begins there
        self._framing: Framing | None = None  # not known before the first bytes

    @property
    def skipped(self) -> int:
        """Bytes that belong to no packet."""
        return self._skipped + (self._framing.skipped if self._framing else 0)

    @property
    def is_websocket(self) -> bool:
        """Whether its packets are messages of WebSocket."""
        return isinstance(self._framing, WebSocket)

    def receive(self, segment: Segment) -> Iterator[bytes]:
        """Take a segment in; yield the packets that it completes."""
        if segment.flags & _SYN:
            yield from self.finish()
            self._next = segment.sequence + 1 & 0xFFFFFFFF
            self._begun = True
            return
        if segment.length:
            if self._next is None:
                self._next = segment.sequence
            ahead = _distance(self._next, segment.sequence)
            if ahead > 0:
                self._hold(segment)
                yield from self._give_up()
            else:
                yield from self._append(segment)
                yield from self._release()
        if segment.flags & (_FIN | _RST):
            yield from self._flush()

    def finish(self) -> Iterator[bytes]:
        """Yield what can still be read; nothing follows."""
        yield from self._flush()
        self._drop()
        self._skipped, self._framing = self.skipped, None
        self._next = None

    def _hold(self, segment: Segment) -> None:
        known = self._held.get(segment.sequence)
        if known is None or known.length < segment.length:
            self._held[segment.sequence] = segment

    def _give_up(self) -> Iterator[bytes]:
        while sum(len(each.payload) for each in self._held.values()) > HELD_BYTES:
            yield from self._leap()

    def _flush(self) -> Iterator[bytes]:
        while self._held:
            yield from self._leap()

    def _leap(self) -> Iterator[bytes]:
        """Go on after a gap, with the first segment that is held."""
        assert self._next is not None
        at = self._next
        self._lose()
        self._next = min(self._held, key=lambda sequence: _distance(at, sequence))
        yield from self._release()

    def _lose(self) -> None:
        self.gaps += 1
        self._drop()

    def _drop(self) -> None:
        self._skipped += len(self._bytes)
        self._bytes.clear()
        self._begun = False
        if self._framing is not None:
            self._framing.lose()

    def _release(self) -> Iterator[bytes]:
        """Append what is held and due."""
        assert self._next is not None
        while due := [each for each in self._held if _distance(self._next, each) <= 0]:
            for sequence in sorted(due, key=lambda each: _distance(due[0], each)):
                yield from self._append(self._held.pop(sequence))

    def _append(self, segment: Segment) -> Iterator[bytes]:
        assert self._next is not None
        old = -_distance(self._next, segment.sequence)
        if old >= segment.length:
            return  # sent again
        self._bytes += segment.payload[old:]
        self._next = segment.sequence + segment.length & 0xFFFFFFFF
        yield from self._packets()
        if len(segment.payload) < segment.length:
            self._lose()  # the capture kept only the first bytes of it

    def _packets(self) -> Iterator[bytes]:
        if self._framing is None:
            self._framing = self._chosen()
        if self._framing is not None:
            yield from self._framing.read(self._bytes)

    def _chosen(self) -> Framing | None:
        """Return how the packets are framed that the bytes begin; None if that cannot be said yet."""
        is_http = begins_http(self._bytes)
        if is_http is None:
            return None
        # WebSocket begins with HTTP; a capture that begins later shows it by the port only.
        is_websocket = is_http or (self._websocket and not self._begun)
        return WebSocket(is_http) if is_websocket else Elements(self._begun)


def _distance(start: int, end: int) -> int:
    """Return how far `end` is after `start`, both modulo 2^32; negative if before."""
    return (end - start + 0x80000000 & 0xFFFFFFFF) - 0x80000000
