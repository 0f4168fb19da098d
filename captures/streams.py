"""NDN packets out of TCP: one direction of a connection, put together from its segments as they were
captured.

A capture is not a receiver: it may begin in the middle of a connection, lack segments that did arrive, and
hold only the first bytes of each. So a Stream never waits for ever: when what it holds back for a missing
segment gets too much, it gives the gap up, counts it, and looks for the next place where a packet plausibly
begins.

Sources: RFC 9293 (sequence numbers); NDN packets over TCP are TLV elements end to end, as NFD's
TcpTransport does.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

LARGEST_PACKET = 1 << 16
"""A longer element is not taken for a packet; NFD sends 8800 bytes at most."""
HELD_BYTES = 1 << 18
"""How much is held back for a segment that is missing."""

_FIN, _SYN, _RST = 1, 2, 4
_INTEREST, _DATA, _LP, _NAME = 5, 6, 100, 7
_U16, _U32 = struct.Struct("!H"), struct.Struct("!I")


class Segment(NamedTuple):
    """A captured segment: sequence number, flags, payload as captured, and its length on the wire."""

    sequence: int
    flags: int
    payload: bytes
    length: int


class Stream:
    """One direction of a connection. Counts: `gaps`, places where bytes are missing; `skipped`, bytes that
    were captured and belong to no packet that could be read."""

    def __init__(self) -> None:
        self.gaps = 0
        self.skipped = 0
        self._next: int | None = None  # sequence number of the next byte, 32 bits
        self._held: dict[int, Segment] = {}  # segments that came early, by sequence number
        self._bytes = bytearray()  # what follows the last packet
        self._in_step = False  # whether a packet begins there

    def receive(self, segment: Segment) -> Iterator[bytes]:
        """Take a segment in; yield the packets that it completes."""
        if segment.flags & _SYN:
            yield from self.finish()
            self._next = segment.sequence + 1 & 0xFFFFFFFF
            self._in_step = True
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
        self.skipped += len(self._bytes)
        self._bytes.clear()
        self._in_step = False
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
        self.skipped += len(self._bytes)
        self._bytes.clear()
        self._in_step = False

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
        at, data = 0, self._bytes
        while at < len(data):
            if not self._in_step:
                begin = _packet_after(data, at)
                self.skipped += begin - at
                at = begin
            size = _size(data, at)
            if size is None:  # not all of its header is there
                break
            if not size:
                self._in_step = False
                at += 1
                self.skipped += 1
                continue
            if at + size > len(data):
                break
            self._in_step = True
            yield bytes(data[at : at + size])
            at += size
        del data[:at]


def _distance(start: int, end: int) -> int:
    """Return how far `end` is after `start`, both modulo 2^32; negative if before."""
    return (end - start + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _size(data: bytearray, at: int) -> int | None:
    """Return the size of the packet at `at`; 0 if there can be none, None if that cannot be said yet."""
    if at >= len(data):
        return None
    if data[at] not in (_INTEREST, _DATA, _LP):
        return 0
    if at + 2 > len(data):
        return None
    first = data[at + 1]
    if first < 253:
        return 2 + first if first else 0
    width = {253: _U16, 254: _U32}.get(first)
    if width is None:
        return 0
    if at + 2 + width.size > len(data):
        return None
    (length,) = width.unpack_from(data, at + 2)
    return 2 + width.size + length if 253 <= length <= LARGEST_PACKET else 0


def _packet_after(data: bytearray, at: int) -> int:
    """Return the first place from `at` on that looks like a packet's beginning, or like the beginning of
    one."""
    while at < len(data):
        size = _size(data, at)
        if size is None:
            return at
        if size:
            start = at + {253: 4, 254: 6}.get(data[at + 1], 2)
            if start + 1 >= len(data):
                return at
            kind, length = data[start], data[start + 1]
            follows = at + size >= len(data) or data[at + size] in (_INTEREST, _DATA, _LP)
            # A Name; or a field of an LpPacket, all of which are above 80.
            begins = kind >= 80 if data[at] == _LP else kind == _NAME
            if follows and begins and (length >= 253 or start + 2 + length <= at + size):
                return at
        at += 1
    return at
