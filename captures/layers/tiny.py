"""Types of tinySSB packets by their form alone: without the feed, a demultiplexer does not identify an entry.

Claims and novelties are recognised by their letters and lengths, vectors by their numbers. Packets of 120
bytes are entries if their type and length are valid; one that ends with zeros, as no signature does, is the
last chunk of a side chain. Of a hundred chunks of random bytes, one looks like an entry.
"""

import zlib
from typing import Any, Final, NamedTuple

from ssb.bipf import MalformedBipf, decode, read_varint

PORT: Final = 1558
"""UDP port of tinySSB nodes, whose group is 239.5.5.8."""
CRC: Final = 4
"""Bytes of the big-endian CRC-32 at the end of each packet over UDP."""
PACKET, DEMUX, POINTER, CHUNK = 120, 7, 20, 100
ENTRY, CHUNKS, WANT, VECTOR, NOVELTY, CLAIM = "entry", "chunk", "want", "chunk vector", "novelty", "claim"
"""Packet types; CHUNKS is a chunk of a side chain."""
TUNNEL: Final = "tunnel"
"""Command of an entry with another entry in it."""
_INLINE, _PLAIN = 28, 48
_LONGEST = 16_384
_NOVELTY, _CLAIM = 40, 105


def read_numbers(data: bytes) -> list[Any]:
    """Return a BIPF list of numbers, or of lists of them; numbers are unsigned. Raises MalformedBipf."""
    value = decode(data, unsigned=True)
    if not isinstance(value, list):
        raise MalformedBipf("no list")
    for each in value:
        if not all(type(number) is int for number in (each if isinstance(each, list) else [each])):
            raise MalformedBipf("neither a number nor a list of numbers")
    return value


def without_crc(payload: bytes) -> bytes | None:
    """Return the packet in a datagram; None if the CRC is wrong."""
    packet, crc = payload[:-CRC], payload[-CRC:]
    return packet if zlib.crc32(packet).to_bytes(CRC) == crc else None


class Content(NamedTuple):
    """Content of an entry, as far as its packet has it.

    Attributes:
        length: bytes.
        inline: its beginning in the entry.
    """

    length: int
    inline: bytes

    @property
    def chunks(self) -> int:
        """Number of chunks of the side chain."""
        return -(-(self.length - len(self.inline)) // CHUNK)


def content_of(packet: bytes) -> Content | None:
    """Return the content of a packet of 120 bytes; None if it is no entry."""
    kind, payload = packet[DEMUX], packet[DEMUX + 1 : DEMUX + 1 + _PLAIN]
    if not any(packet[-POINTER:]) or kind > 1:
        return None
    if kind == 0:
        return Content(_PLAIN, payload)
    try:
        length, at = read_varint(payload, 0, _INLINE)
    except MalformedBipf:
        return None
    has_chain = length > _INLINE - at
    is_padded = not any(payload[at + length : _INLINE])
    if length > _LONGEST or has_chain != any(payload[_INLINE:]) or not (has_chain or is_padded):
        return None
    return Content(length, payload[at:_INLINE][:length])


def command_of(packet: bytes) -> str:
    """Return an entry's tinyISP command, by its beginning: TUNNEL for an entry in an entry."""
    content = content_of(packet)
    if content is None:
        return ""
    if packet[DEMUX] == 1 and content.length and content.length % PACKET == 0:
        return TUNNEL
    inline = content.inline
    try:
        _, at = read_varint(inline, 0, len(inline))
        if inline[at : at + 4] != b"\x18ISP":
            return ""
        size, start = read_varint(inline, at + 4, len(inline))
    except MalformedBipf:
        return ""
    return inline[start : start + (size >> 3)].decode("ascii", "replace") if size & 7 == 0 else ""


def kind_of(packet: bytes) -> str | None:
    """Return the type of a packet without its CRC; None if it is not of tinySSB."""
    if len(packet) == PACKET:
        return ENTRY if content_of(packet) is not None else CHUNKS
    if len(packet) == _CLAIM and packet[DEMUX : DEMUX + 1] == b"c":
        return CLAIM
    if len(packet) == _NOVELTY and packet[DEMUX : DEMUX + 1] == b"n":
        return NOVELTY
    if not DEMUX < len(packet) < PACKET:
        return None
    try:
        numbers = read_numbers(packet[DEMUX:])
    except MalformedBipf:
        return None
    if len(numbers) > 1 and all(isinstance(number, int) for number in numbers):
        return WANT
    if all(isinstance(each, list) and len(each) == 3 for each in numbers):
        return VECTOR
    return None
