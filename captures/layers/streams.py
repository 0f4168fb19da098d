"""TCP, put together again: one direction of a connection, from its segments as they were captured.

A capture is not a receiver: it may begin in the middle of a connection, lack segments that did arrive, and
hold only the first bytes of each. So a Stream never waits for ever: when what it holds back for a missing
segment gets too much, it gives the gap up and counts it. What the bytes mean is for others to say:
captures/layers/packet_stream.py cuts NDN packets out of them.

Source: RFC 9293 (sequence numbers).
"""

from collections.abc import Iterator
from typing import NamedTuple

HELD_BYTES = 1 << 18
"""How much is held back for a segment that is missing."""

FIN, SYN, RST, ACK = 1, 2, 4, 16
"""Flags of a segment."""


class Segment(NamedTuple):
    """A captured segment: sequence number, flags, payload as captured, and its length on the wire; and
    what else its frame had, in bytes."""

    sequence: int
    flags: int
    payload: bytes
    length: int
    headers: int = 0


class Chunk(NamedTuple):
    """The next bytes of a stream: `length` from place `at` on, of which `data` was captured.

    Places count from the stream's first byte that is known of, 0. A chunk that does not begin where the one
    before ended comes after a gap.
    """

    at: int
    length: int
    data: bytes
    segment: Segment


class Stream:
    """One direction of a connection.

    Attributes:
        first: the sequence number of place 0; None before the first segment.
        begun: whether place 0 is where the connection began.
        gaps: places where bytes are missing.
        repeated: bytes that came once more, or after their gap had been given up.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.begun = False
        self.gaps = 0
        self.repeated = 0
        self._end = 0  # the place after the last chunk
        self._held: dict[int, Segment] = {}  # segments that came early, by their place
        self._held_bytes = 0

    def receive(self, segment: Segment) -> Iterator[Chunk]:
        """Take a segment in; yield what is next, in order."""
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
            self._hold(at, segment)
            while self._held_bytes > HELD_BYTES:
                yield from self._leap()
        else:
            yield from self._append(at, segment)
            yield from self._release()

    def finish(self) -> Iterator[Chunk]:
        """Yield what is still held back; nothing follows."""
        while self._held:
            yield from self._leap()

    def _hold(self, at: int, segment: Segment) -> None:
        known = self._held.get(at)
        if known is not None and known.length >= segment.length:
            self.repeated += segment.length
            return
        if known is not None:
            self.repeated += known.length
            self._held_bytes -= len(known.payload)
        self._held[at] = segment
        self._held_bytes += len(segment.payload)

    def _leap(self) -> Iterator[Chunk]:
        """Go on after a gap, with the first segment that is held."""
        self.gaps += 1
        self._end = min(self._held)
        yield from self._release()

    def _release(self) -> Iterator[Chunk]:
        """Yield what is held and due."""
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
            self.gaps += 1  # the capture kept only the first bytes of it
        yield Chunk(begin, length, data, segment)


def distance(start: int, end: int) -> int:
    """Return how far sequence number `end` is after `start`, both modulo 2^32; negative if before."""
    return (end - start + 0x80000000 & 0xFFFFFFFF) - 0x80000000
