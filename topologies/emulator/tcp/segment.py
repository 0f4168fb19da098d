"""Encoding and decoding of TCP segments over IPv4: header, options, checksum.

Sources: RFC 9293, sections 3.1 and 3.2 (header, options); RFC 7323, section 2.2 (window scale). Timestamps
and selective acknowledgements are neither sent nor read. The checksum is computed as in
captures.layers.frames: one remainder modulo 65535 instead of a loop.
"""

import struct
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Final, NamedTuple

HEADER: Final = 20
MODULUS_MASK: Final = 0xFFFFFFFF
"""Sequence numbers are counted modulo 2^32; so many bits of them are on the wire."""

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
PSH: Final = 8
ACK: Final = 16

DEFAULT_MSS: Final = 536
"""Default MSS of a peer without the option (RFC 9293, section 3.7.1)."""
MOST_SCALE: Final = 14
"""RFC 7323, section 2.3."""
_TCP: Final = 6
_END, _NOTHING, _MSS, _SCALE = 0, 1, 2, 3
_LENGTHS: Final = {_MSS: 4, _SCALE: 3}

_HEAD: Final = struct.Struct("!HHIIHHHH")


class MalformedSegment(ValueError):
    """Not a TCP segment between these addresses; the message names the field."""


class Segment(NamedTuple):
    """A segment.

    sequence, acknowledgement: 32 bits, as on the wire. window: as on the wire, not scaled. mss, scale: of the
    options, None without.
    """

    source_port: int
    destination_port: int
    sequence: int
    acknowledgement: int
    flags: int
    window: int
    payload: bytes = b""
    mss: int | None = None
    scale: int | None = None

    @property
    def length(self) -> int:
        """Sequence numbers that it takes up: its payload, and one each for SYN and FIN (section 3.4)."""
        return len(self.payload) + (self.flags >> 1 & 1) + (self.flags & 1)


@lru_cache(maxsize=4096)
def pseudo_header(source_ip: str, destination_ip: str) -> int:
    """Return the sum of the pseudo-header's addresses and protocol, without the segment's length.

    It is the same in both directions. Raises ValueError for an invalid address. RFC 9293, section 3.1.
    """
    return int(IPv4Address(source_ip)) + int(IPv4Address(destination_ip)) + _TCP


def options(mss: int, scale: int | None) -> bytes:
    """Return the options of a SYN, a multiple of four bytes; `scale` None omits window scaling."""
    found = struct.pack("!BBH", _MSS, 4, mss)
    return found if scale is None else found + bytes((_NOTHING, _SCALE, 3, scale))


def encode(
    pseudo: int,
    source_port: int,
    destination_port: int,
    sequence: int,
    acknowledgement: int,
    flags: int,
    window: int,
    option_bytes: bytes = b"",
    payload: bytes = b"",
) -> bytes:
    """Return a segment's bytes.

    pseudo: pseudo_header() of its addresses. sequence, acknowledgement: taken modulo 2^32. option_bytes: a
    multiple of four, 40 at most. Raises ValueError for a field out of range.
    """
    sequence &= MODULUS_MASK
    acknowledgement &= MODULUS_MASK
    length = HEADER + len(option_bytes)
    if length > 60 or length & 3:
        raise ValueError(f"options of TCP take a multiple of 4 bytes up to 40, not {len(option_bytes)}")
    word = length << 10 | flags  # the offset counts in units of four bytes, from bit 12 on
    total = length + len(payload)
    words = pseudo + total + source_port + destination_port + sequence + acknowledgement + word + window
    if option_bytes:
        words += int.from_bytes(option_bytes)
    if payload:
        words += int.from_bytes(payload) << (len(payload) % 2 * 8)
    try:
        head = _HEAD.pack(
            source_port, destination_port, sequence, acknowledgement, word, window, -words % 0xFFFF, 0
        )
    except struct.error as error:
        raise ValueError(f"cannot be a TCP header: {error}") from None
    return b"".join((head, option_bytes, payload))


def decode(octets: bytes, pseudo: int) -> Segment:
    """Return the segment; raise MalformedSegment, and no other error, for other bytes.

    octets: the IPv4 datagram's content. pseudo: pseudo_header() of its addresses. Unknown options are ignored
    (RFC 9293, MUST-6); an impossible option length or a wrong checksum makes the segment malformed.
    """
    size = len(octets)
    if size < HEADER:
        raise MalformedSegment("shorter than a header")
    source, destination, sequence, acknowledgement, word, window, _, _ = _HEAD.unpack_from(octets)
    length = word >> 12 << 2
    if not HEADER <= length <= size:
        raise MalformedSegment("data offset")
    if (pseudo + size + (int.from_bytes(octets) << (size % 2 * 8))) % 0xFFFF:
        raise MalformedSegment("checksum")
    flags = word & 0x3F
    if length == HEADER:
        return Segment(source, destination, sequence, acknowledgement, flags, window, octets[HEADER:])
    mss, scale = _options(octets[HEADER:length])
    payload = octets[length:]
    return Segment(source, destination, sequence, acknowledgement, flags, window, payload, mss, scale)


def _options(octets: bytes) -> tuple[int | None, int | None]:
    mss = scale = None
    at, end = 0, len(octets)
    while at < end:
        kind = octets[at]
        if kind == _END:
            break
        if kind == _NOTHING:
            at += 1
            continue
        length = octets[at + 1] if at + 1 < end else 0
        if length < 2 or at + length > end or length != _LENGTHS.get(kind, length):
            raise MalformedSegment("option length")
        if kind == _MSS:
            mss = octets[at + 2] << 8 | octets[at + 3]
        elif kind == _SCALE:
            scale = min(octets[at + 2], MOST_SCALE)
        at += length
    return mss, scale
