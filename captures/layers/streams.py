"""TCP reassembly: one direction of a connection, from its captured segments.

A capture is not a receiver: it may begin in the middle of a connection, lack segments that did arrive, and
have only the first bytes of each. So a Stream never waits for ever: when too many bytes are held back for a
missing segment, it skips the gap and counts it. captures/layers/packet_stream.py finds NDN packets in the
bytes.

Source: RFC 9293 (sequence numbers).
"""

from collections.abc import Iterator
from typing import NamedTuple

HELD_BYTES = 1 << 18
"""Bytes held back for a missing segment at most."""

FIN, SYN, RST, ACK = 1, 2, 4, 16
"""Flags of a segment."""


class Segment(NamedTuple):
    """A captured segment: sequence number, flags, captured payload, its length on the wire, and the bytes of
    the frame's headers."""

    sequence: int
    flags: int
    payload: bytes
    length: int
    headers: int = 0


class Chunk(NamedTuple):
    """The next bytes of a stream: `length` from position `at` on, of which `data` was captured.

    Positions count from the stream's first known byte, 0. A chunk that does not begin at the end of the one
    before follows a gap.
    """

    at: int
    length: int
    data: bytes
    segment: Segment


class Stream:
    """One direction of a connection.

    Attributes:
        first: the sequence number of position 0; None before the first segment.
        begun: whether the connection began at position 0.
        gaps: runs of missing bytes.
        repeated: bytes received again, or after their gap was skipped.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.begun = False
        self.gaps = 0
        self.repeated = 0
        self._end = 0  # the position after the last chunk
        self._held: dict[int, Segment] = {}  # early segments, by their position
        self._held_bytes = 0

    def receive(self, segment: Segment) -> Iterator[Chunk]:
        """Process a segment; yield the next chunks in order."""
        if segment.flags & SYN:
            if self.first is None:
                self.first = segment.sequence + 1 & 0xFFFFFFFF
                self.begun = True
            return
        if not segment.length:
            return
        if self.first is None:
            self.first = segment.sequence
        at = self._end + distance(self.first + self._end & 0xFFFFFFFF, segment.sequence)
        if at > self._end:
            self._buffer(at, segment)
            while self._held_bytes > HELD_BYTES:
                yield from self._skip_gap()
        else:
            yield from self._append(at, segment)
            yield from self._release()

    def finish(self) -> Iterator[Chunk]:
        """Yield the chunks still held back; no segment follows."""
        while self._held:
            yield from self._skip_gap()

    def _buffer(self, at: int, segment: Segment) -> None:
        known = self._held.get(at)
        if known is not None and known.length >= segment.length:
            self.repeated += segment.length
            return
        if known is not None:
            self.repeated += known.length
            self._held_bytes -= len(known.payload)
        self._held[at] = segment
        self._held_bytes += len(segment.payload)

    def _skip_gap(self) -> Iterator[Chunk]:
        """Skip a gap, to the first segment held back."""
        self.gaps += 1
        self._end = min(self._held)
        yield from self._release()

    def _release(self) -> Iterator[Chunk]:
        """Yield the held segments that are next."""
        while due := sorted(at for at in self._held if at <= self._end):
            for at in due:
                segment = self._held.pop(at)
                self._held_bytes -= len(segment.payload)
                yield from self._append(at, segment)

    def _append(self, at: int, segment: Segment) -> Iterator[Chunk]:
        old = self._end - at
        if old >= segment.length:
            self.repeated += segment.length
            return
        self.repeated += old
        data, length = segment.payload[old:], segment.length - old
        begin = self._end
        self._end += length
        if len(data) < length:
            self.gaps += 1  # the capture truncated it
        yield Chunk(begin, length, data, segment)


def distance(start: int, end: int) -> int:
    """Return the distance from sequence number `start` to `end`, both modulo 2^32; negative if `end` is
    before."""
    return (end - start + 0x80000000 & 0xFFFFFFFF) - 0x80000000
