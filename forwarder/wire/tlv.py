"""Type-Length-Value encoding (NDN packet format 0.3, section "Type-Length-Value (TLV) Encoding").

An element is a TLV-TYPE, a TLV-LENGTH and that many bytes of TLV-VALUE. Types and lengths are
variable-size numbers of 1, 3, 5 or 9 bytes, and the shortest form is the only valid one.
"""

from collections.abc import Iterator
from typing import Final


class MalformedPacket(ValueError):
    """The bytes violate the specification; the message says how.

    Messages are a fixed set without offsets, as reasons are counted. Other parsers (captures/dissectors/) use
    the same ones.
    """


CUT_SHORT: Final = "an element runs past the end"


def read_number(buf: bytes, at: int) -> tuple[int, int]:
    """Read a variable-size number at offset `at`; return (value, offset after it)."""
    try:
        first = buf[at]
    except IndexError:
        raise MalformedPacket(CUT_SHORT) from None
    if first < 253:
        return first, at + 1
    size = 2 << (first - 253)
    end = at + 1 + size
    if end > len(buf):
        raise MalformedPacket(CUT_SHORT)
    value = int.from_bytes(buf[at + 1 : end], "big")
    if value < _SHORTEST[first]:
        raise MalformedPacket("number not in its shortest form")
    return value, end


_SHORTEST: Final = {253: 253, 254: 1 << 16, 255: 1 << 32}
_LARGEST_TYPE: Final = 0xFFFF_FFFF


def read_header(buf: bytes, at: int, limit: int) -> tuple[int, int, int]:
    """Read an element's type and length at `at`; return (type, value start, value end).

    `limit` is where the enclosing element ends; an element that runs past it is malformed.
    """
    try:
        kind = buf[at]
        length = buf[at + 1]
    except IndexError:
        raise MalformedPacket(CUT_SHORT) from None
    if kind < 253 and length < 253:
        start = at + 2
    elif kind < 253 and length == 253 and at + 4 <= limit and buf[at + 2]:
        length = buf[at + 2] << 8 | buf[at + 3]  # the common long form, without a call
        start = at + 4
    else:
        kind, start = read_number(buf, at)
        if kind > _LARGEST_TYPE:
            raise MalformedPacket("type out of range")
        length, start = read_number(buf, start)
    end = start + length
    if end > limit:
        raise MalformedPacket(CUT_SHORT)
    return kind, start, end


def elements(buf: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over the (type, value start, value end) of the elements that fill buf[start:end]."""
    while start < end:
        kind, value, start = read_header(buf, start, end)
        yield kind, value, start


def number(value: int) -> bytes:
    """Encode a variable-size number (a TLV-TYPE or TLV-LENGTH)."""
    if value < 253:
        return value.to_bytes(1, "big")
    if value < 1 << 16:
        return b"\xfd" + value.to_bytes(2, "big")
    if value < 1 << 32:
        return b"\xfe" + value.to_bytes(4, "big")
    return b"\xff" + value.to_bytes(8, "big")


def element(kind: int, value: bytes = b"") -> bytes:
    """Encode one element."""
    return number(kind) + number(len(value)) + value


def nni(value: int) -> bytes:
    """Encode a NonNegativeInteger: big-endian in 1, 2, 4 or 8 bytes, whichever fits first."""
    if value < 1 << 8:
        return value.to_bytes(1, "big")
    if value < 1 << 16:
        return value.to_bytes(2, "big")
    if value < 1 << 32:
        return value.to_bytes(4, "big")
    return value.to_bytes(8, "big")


def read_nni(value: bytes) -> int:
    """Decode a NonNegativeInteger's TLV-VALUE."""
    size = len(value)
    if size == 1:  # the usual ones, without a call
        return value[0]
    if size == 2:
        return value[0] << 8 | value[1]
    if size not in (4, 8):
        raise MalformedPacket(f"NonNegativeInteger of {size} bytes")
    return int.from_bytes(value, "big")


def check_ignorable(kind: int, is_known: bool = False) -> None:
    """Raise unless an element that is not recognised may be ignored: of an unknown type, or out of order.

    NDN packet format 0.3, "Considerations for Evolvability": types up to 31 and odd types are critical.
    """
    if kind <= 31 or kind & 1:
        if is_known:
            raise MalformedPacket(f"element of type {kind} out of order or repeated")
        raise MalformedPacket(f"unrecognised critical element of type {kind}")
