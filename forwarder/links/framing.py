"""Packets that follow each other in a stream of bytes, with nothing between them."""

from typing import Final

from forwarder.links.link import LP_HEADERS
from forwarder.wire.packet import LARGEST_PACKET
from forwarder.wire.tlv import MalformedPacket, read_number

LARGEST_FRAME: Final = LARGEST_PACKET + LP_HEADERS
"""Most bytes that a frame on a stream may have: a packet of the largest size, and its header fields."""

_HEADER = 18  # most that a type and a length take


def cut(buffer: bytes, most: int) -> tuple[list[bytes], int]:
    """Cut up to `most` packets off a stream; return them, and where the rest begins.

    Raises MalformedPacket if the rest can never become a packet.
    """
    frames: list[bytes] = []
    at, size = 0, len(buffer)
    while at + 1 < size and len(frames) < most:
        kind, length = buffer[at], buffer[at + 1]
        if 0 < kind < 253 and length < 253:
            end = at + 2 + length
        elif 0 < kind < 253 and length == 253 and at + 4 <= size and buffer[at + 2]:
            end = at + 4 + (buffer[at + 2] << 8 | buffer[at + 3])
        else:
            whole = _end_of(buffer, at, size)
            if whole is None:
                break
            end = whole
        if end - at > LARGEST_FRAME:
            raise MalformedPacket(f"a packet of {end - at} bytes")
        if end > size:
            break
        frames.append(buffer[at:end])
        at = end
    return frames, at


def _end_of(buffer: bytes, at: int, size: int) -> int | None:
    """Return the end of an element with an uncommon header; None if it is incomplete."""
    try:
        kind, start = read_number(buffer, at)
        length, start = read_number(buffer, start)
    except MalformedPacket:
        if size - at >= _HEADER or not _is_incomplete(buffer, at, size):
            raise
        return None
    if not 0 < kind < 1 << 32:
        raise MalformedPacket(f"type {kind} on a stream")
    return start + length


def _is_incomplete(buffer: bytes, at: int, size: int) -> bool:
    """Return whether a header is incomplete and valid so far."""
    for _ in range(2):
        if at >= size:
            return True
        width = 1 if buffer[at] < 253 else 1 + (2 << (buffer[at] - 253))
        if at + width > size:
            return True
        read_number(buffer, at)
        at += width
    return False
