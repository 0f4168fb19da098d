"""A second, careful reader of pcapng, block by block, which what captures.formats.blocks reads is held
against.

Where a file is damaged it gives all that can be read up to there, and then raises CaptureError with the file
and the byte. Interface descriptions are read by captures.formats.pcapng.

Source: draft-ietf-opsawg-pcapng, "PCAP Now Generic (pcapng) Capture File Format"; sections below are its own.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from base.units import SECOND
from captures.formats.pcapng import CaptureError, Direction, Interface, Source, read_options, read_source

_SECTION_HEADER = 0x0A0D0D0A  # reads the same in both byte orders (section 4.1)
_INTERFACE_DESCRIPTION = 1
_OBSOLETE_PACKET = 2
_SIMPLE_PACKET = 3
_INTERFACE_STATISTICS = 5
_ENHANCED_PACKET = 6
_DECRYPTION_SECRETS = 10
_UNREADABLE = 0  # reserved by the draft; stands here for any block of a section whose version we do not know
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_READABLE_VERSIONS = ((1, 0), (1, 2))  # a minor version of 2 MUST be read as 0 (section 4.1)
_PACKET_FLAGS = 2  # epb_flags, and pack_flags of the obsolete block
_ISB_IFRECV, _ISB_IFDROP = 4, 5


class Packet(NamedTuple):
    """One captured frame.

    `time` is in nanoseconds, since 1970-01-01 UTC or since the emulator's start; a Simple Packet Block has no
    time, and gets 0. `original_length`, in bytes, is more than len(frame) if the capture cut the frame.
    """

    interface: Interface
    time: int
    direction: Direction
    frame: bytes
    original_length: int


class Statistics(NamedTuple):
    """What an Interface Statistics Block says (section 4.6): counts of frames since the capture began.

    `time` is in nanoseconds. A count is None if the block does not give it. `received` includes `dropped`.
    """

    interface: Interface
    time: int
    received: int | None
    dropped: int | None


_DIRECTIONS = (Direction.UNKNOWN, Direction.IN, Direction.OUT, Direction.UNKNOWN)  # by epb_flags' low bits


def read(path: str | Path) -> Iterator[Packet]:
    """Yield every packet of a capture, in file order; raise OSError, or CaptureError where it is damaged."""
    yield from _Reader(path).packets()


def statistics(path: str | Path) -> Iterator[Statistics]:
    """Yield the interface statistics of a capture, in file order; the last of an interface counts."""
    yield from _Reader(path).statistics()


def boundaries(path: str | Path) -> list[int]:
    """Return where each block ends."""
    return [stop for _, _, stop in _Reader(path).blocks()]


class _Reader:
    """Walks the blocks of one file, and decodes those it is asked to."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.data = Path(path).read_bytes()
        self.order = "<"
        self.sources: list[Source] = []  # of this section

    def _damage(self, at: int, reason: str) -> CaptureError:
        return CaptureError(self.path, at, reason)

    def _at(self, fields: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self.order + fields, self.data, at)

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (type, start, end) of each block; what describes the section is taken in."""
        data = self.data
        if data[:4] != b"\n\r\r\n":
            mend = "not a pcapng file (`editcap -F pcapng` converts other captures)"
            raise self._damage(0, f"no section header: {mend}")
        at, readable = 0, True
        while at < len(data):
            left = len(data) - at
            if left < 12:
                raise self._damage(at, f"cut off: {left} bytes left where a block should begin")
            kind, total = self._at("II", at)
            if kind == _SECTION_HEADER:
                self.order = self._byte_order(at)
                (total,) = self._at("I", at + 4)
            stop = at + total
            if total < 12 or total & 3:
                raise self._damage(at, f"impossible block length {total}")
            if total > left:
                raise self._damage(at, f"cut off: {left} bytes left of a block of {total}")
            if self._at("I", stop - 4)[0] != total:
                raise self._damage(at, f"the two lengths of the block disagree (the first is {total})")
            if kind == _SECTION_HEADER:
                if total < 28:
                    raise self._damage(at, "section header too short")
                readable = self._at("HH", at + 12) in _READABLE_VERSIONS
                self.sources = []
            if not readable:
                kind = _UNREADABLE
            elif kind == _INTERFACE_DESCRIPTION:
                self.sources.append(read_source(data, at, stop, self.order, self.path))
            yield kind, at, stop
            at = stop

    def _byte_order(self, at: int) -> str:
        for order in "<>":
            if struct.unpack_from(order + "I", self.data, at + 8)[0] == _BYTE_ORDER_MAGIC:
                return order
        raise self._damage(at, "section header without a byte-order magic")

    def packets(self) -> Iterator[Packet]:
        for kind, at, stop in self.blocks():
            if kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET):
                if stop - at < 32:
                    raise self._damage(at, "packet block too short")
                if kind == _ENHANCED_PACKET:
                    index, high, low, captured, original = self._at("IIIII", at + 8)
                else:  # with a drop count after the interface
                    index, _, high, low, captured, original = self._at("HHIIII", at + 8)
                first = at + 28
                options = first + captured + (-captured & 3)
                if options > stop - 4:
                    raise self._damage(at, f"a packet of {captured} bytes does not fit its block")
                source = self._referred(index, at)
                time, direction = _time(source, high, low), self._direction(options, stop - 4)
            elif kind == _SIMPLE_PACKET:
                if stop - at < 16:
                    raise self._damage(at, "packet block too short")
                source = self._referred(0, at)
                (original,) = self._at("I", at + 8)
                captured = min(original, source.interface.snaplen or original)
                first = at + 12
                if first + captured > stop - 4:
                    raise self._damage(at, f"a packet of {captured} bytes does not fit its block")
                time, direction = 0, Direction.UNKNOWN
            else:
                continue
            yield Packet(source.interface, time, direction, self.data[first : first + captured], original)

    def _direction(self, at: int, end: int) -> Direction:
        for code, value in read_options(self.data, at, end, self.order, {_PACKET_FLAGS: 4}, self.path):
            if code == _PACKET_FLAGS:
                return _DIRECTIONS[struct.unpack(self.order + "I", value)[0] & 3]
        return Direction.UNKNOWN

    def _referred(self, index: int, at: int) -> Source:
        if index >= len(self.sources):
            there = len(self.sources)
            raise self._damage(at, f"interface {index} is not described ({there} are in this section)")
        return self.sources[index]

    def statistics(self) -> Iterator[Statistics]:
        lengths = {_ISB_IFRECV: 8, _ISB_IFDROP: 8}
        for kind, at, stop in self.blocks():
            if kind == _INTERFACE_STATISTICS:
                if stop - at < 24:
                    raise self._damage(at, "statistics block too short")
                index, high, low = self._at("III", at + 8)
                source = self._referred(index, at)
                told = dict(read_options(self.data, at + 20, stop - 4, self.order, lengths, self.path))
                counts = (
                    struct.unpack(self.order + "Q", told[code])[0] if code in told else None
                    for code in lengths
                )
                yield Statistics(source.interface, _time(source, high, low), *counts)


def _time(source: Source, high: int, low: int) -> int:
    """Return a stamp in nanoseconds."""
    return (high << 32 | low) * SECOND // source.per_second + source.offset_ns


def without_secrets(capture: bytes) -> bytes:
    """Return a little-endian capture without its Decryption Secrets Blocks; there has to be one."""
    at, kept = 0, b""
    while at < len(capture):
        kind, size = struct.unpack_from("<II", capture, at)
        kept += b"" if kind == _DECRYPTION_SECRETS else capture[at : at + size]
        at += size
    assert len(kept) < len(capture)
    return kept
