"""What a packet of tinySSB is, by its form alone: who knows no feed knows no entry by its demultiplexer.

Claims and novelties are known by their letters and lengths, vectors by their numbers. Of packets of 120
bytes, those are entries whose type and length are an entry's; one that ends with zeros, as no signature does,
is the last chunk of a side chain. Of a hundred chunks of random bytes, one looks like an entry.
"""

import zlib
from typing import Any, Final, NamedTuple

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
_INT, _LIST = 2, 4


class NotBipf(ValueError):
    """The bytes are no list of numbers in BIPF."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, in seven bits a byte, and the place behind it. Raises NotBipf."""
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if byte == 0 and shift > 7:
                break
            return number, at
    raise NotBipf("no number")


def read_numbers(data: bytes) -> list[Any]:
    """Return a BIPF list of numbers, or of lists of them; numbers have no sign. Raises NotBipf."""
    value, end = _read(data, 0, len(data), 2)
    if end != len(data) or not isinstance(value, list):
        raise NotBipf("no list")
    return value


def _read(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    tag, at = read_varint(data, at)
    kind, stop = tag & 7, at + (tag >> 3)
    if stop > end:
        raise NotBipf("longer than what it is in")
    if kind == _INT and 1 <= stop - at <= 8:
        return int.from_bytes(data[at:stop], "little"), stop
    if kind != _LIST or not depth:
        raise NotBipf("neither a number nor a list")
    parts = []
    while at < stop:
        part, at = _read(data, at, stop, depth - 1)
        parts.append(part)
    return parts, stop


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
        length, at = read_varint(payload[:_INLINE], 0)
    except NotBipf:
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
        _, at = read_varint(inline, 0)
        if inline[at : at + 4] != b"\x18ISP":
            return ""
        size, start = read_varint(inline, at + 4)
    except NotBipf:
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
    except NotBipf:
        return None
    if len(numbers) > 1 and all(isinstance(number, int) for number in numbers):
        return WANT
    is_triples = all(isinstance(each, list) and len(each) == 3 for each in numbers)
    if is_triples and all(isinstance(number, int) for each in numbers for number in each):
        return VECTOR
    return None
