"""Packet boundaries in a stream of bytes: the interface for captures.layers.streams, and consecutive TLVs.

Over TCP 6363, packets are consecutive TLV elements, as sent by NFD's TcpTransport.
"""

import struct
from collections.abc import Iterator
from typing import Protocol

LARGEST_PACKET = 1 << 16
"""Largest size of a packet; NFD sends 8800 bytes at most."""

_INTEREST, _DATA, _LP, _NAME = 5, 6, 100, 7
_U16, _U32 = struct.Struct("!H"), struct.Struct("!I")


class Framing(Protocol):
    """Framing of packets in the bytes of one direction of a connection.

    `skipped` counts bytes outside readable packets.
    """

    skipped: int

    def read(self, data: bytearray) -> Iterator[bytes]:
        """Yield the whole packets at the beginning of `data`; leave the rest that may become one."""

    def resynchronise(self) -> None:
        """Resynchronise after missing bytes: the next ones may begin anywhere."""


class Elements:
    """Consecutive TLV elements; `in_step`: the first byte begins one."""

    def __init__(self, in_step: bool) -> None:
        self.skipped = 0
        self._in_step = in_step

    def read(self, data: bytearray) -> Iterator[bytes]:
        """Yield the whole packets at the beginning of `data`; leave the rest that may become one."""
        at = 0
        while at < len(data):
            if not self._in_step:
                begin = _packet_after(data, at)
                self.skipped += begin - at
                at = begin
            size = packet_size(data, at)
            if size is None:  # its header is incomplete
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

    def resynchronise(self) -> None:
        """Search for the next packet's beginning."""
        self._in_step = False


def packet_size(data: bytes | bytearray, at: int) -> int | None:
    """Return the size of the packet at `at`; 0 if it is none, None if more bytes are needed."""
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
    """Return the first position from `at` on of a plausible packet, or of the beginning of one."""
    while at < len(data):
        size = packet_size(data, at)
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
