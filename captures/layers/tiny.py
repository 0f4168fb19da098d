"""What a packet of tinySSB is, by its form alone: who knows no feed knows no entry by its demultiplexer.

Claims and novelties are known by their letters and lengths, vectors by their numbers. Of packets of 120
bytes, those are entries whose type and length are an entry's; one that ends with zeros, as no signature does,
is the last chunk of a side chain. Of a hundred chunks of random bytes, one looks like an entry.
"""

import zlib
from typing import Any, Final, NamedTuple

from ssb.bipf import MalformedBipf, decode, read_varint

PORT: Final = 1558
"""UDP port of tinySSB nodes, whose group is 239.5.5.8."""
CRC: Final = 4
"""Bytes of the CRC-32 behind each packet over UDP, the most significant first."""
PACKET, DEMUX, POINTER, CHUNK = 120, 7, 20, 100
ENTRY, CHUNKS, WANT, VECTOR, NOVELTY, CLAIM = "entry", "chunk", "want", "chunk vector", "novelty", "claim"
"""What packets are; CHUNKS is a chunk of a side chain."""
TUNNEL: Final = "tunnel"
"""What is said of an entry that has another entry in it."""
_INLINE, _PLAIN = 28, 48
_LONGEST = 16_384
_NOVELTY, _CLAIM = 40, 105


def read_numbers(data: bytes) -> list[Any]:
    """Return a BIPF list of numbers, or of lists of them; numbers have no sign. Raises MalformedBipf."""
    value = decode(data, unsigned=True)
    if not isinstance(value, list):
        raise MalformedBipf("no list")
    for each in value:
        if not all(type(number) is int for number in (each if isinstance(each, list) else [each])):
            raise MalformedBipf("neither a number nor a list of numbers")
    return value


def without_crc(payload: bytes) -> bytes | None:
    """Return the packet in a datagram; None if the CRC is another packet's."""
    packet, crc = payload[:-CRC], payload[-CRC:]
    return packet if zlib.crc32(packet).to_bytes(CRC) == crc else None


class Content(NamedTuple):
    """What an entry tells of its content.

    Attributes:
        length: bytes.
        inline: its beginning, which is in the entry.
    """

    length: int
    inline: bytes

    @property
    def chunks(self) -> int:
        """How many chunks the side chain has."""
        return -(-(self.length - len(self.inline)) // CHUNK)


def content_of(packet: bytes) -> Content | None:
    """Return what a packet of 120 bytes tells of its content; None if it is no entry."""
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
    """Return the tinyISP command that an entry is, by its beginning: TUNNEL for an entry in an entry."""
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
    """Return what a packet without its CRC is; None if it is none of tinySSB's."""
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
