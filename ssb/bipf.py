"""BIPF, the Binary In-Place Format: values as type, length and bytes (https://github.com/ssbc/bipf).

A value is a tag, `varint(length << 3 | type)`, and that many bytes. tinySSB's dialect encodes integers in the
fewest bytes that include their sign, the least significant first. Its Android client omits the sign bit, so
that 128 is one byte, 0x80: `decode(..., unsigned=True)` reads both dialects, where no number is negative.
npm's bipf also encodes JavaScript's `undefined`, which `decode(..., undefined=True)` reads as
`JSON.stringify` does: members of dictionaries are left out, those of lists are None.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Value = None | bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"]

STRING, BYTES, INT, DOUBLE, LIST, DICT, BOOL_NONE = range(7)

_SMALL: Final = 1 << 3 | INT
"""The tag of an integer of one byte."""
_SMALL_VALUES: Final = {value: bytes((_SMALL, value & 0xFF)) for value in range(-128, 128)}
_DEEPEST: Final = 16
_DEEPEST_MESSAGE: Final = 80
"""Deeper than a message of 8,192 characters can be nested: each level adds 2 characters of indentation."""
_MOST_INT_BYTES: Final = 8
_MOST_VARINT_BYTES: Final = 5
_DOUBLE: Final = struct.Struct("<d")


_UNDEFINED: Final = object()


class MalformedBipf(ValueError):
    """Not a BIPF value; the message has the reason."""


def varint(number: int) -> bytes:
    """Return a non-negative number in LEB128: seven bits a byte, the least significant first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at a position before `end`, and the position behind it.

    Raises MalformedBipf if it is truncated, longer than 5 bytes, or not in its shortest form.
    """
    number = shift = 0
    while at < end and shift < 7 * _MOST_VARINT_BYTES:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            if byte == 0 and shift > 7:
                raise MalformedBipf("a number in more bytes than it needs")
            return number, at
    raise MalformedBipf("a number without an end")


def encode(value: Value) -> bytes:
    """Encode a value. Raises ValueError for an integer of more than 64 bits."""
    if type(value) is int and -128 <= value < 128:  # most values of vectors are
        return _SMALL_VALUES[value]
    return _tagged(*_body(value))


def encode_list(parts: Iterable[bytes]) -> bytes:
    """Encode a list from its encoded values."""
    return _tagged(LIST, b"".join(parts))


def decode(data: bytes, *, unsigned: bool = False, undefined: bool = False) -> Value:
    """Decode a value that fills all of the bytes; integers have a sign unless `unsigned`.

    With `undefined`, JavaScript's value of that name is allowed, and deeper nesting, as in messages.
    Raises MalformedBipf.
    """
    value, end = _read(data, 0, len(data), 0, unsigned=unsigned, undefined=undefined)
    if end != len(data):
        raise MalformedBipf("bytes behind the value")
    return None if value is _UNDEFINED else value


def _tagged(kind: int, body: bytes) -> bytes:
    tag = len(body) << 3 | kind
    return (bytes((tag,)) if tag < 0x80 else varint(tag)) + body


def _body(value: Value) -> tuple[int, bytes]:
    match value:
        case None:
            return BOOL_NONE, b""
        case bool():
            return BOOL_NONE, bytes((value,))
        case int():
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"{value} has more than 64 bits")
            length = 1 + (value if value >= 0 else ~value).bit_length() // 8
            return INT, value.to_bytes(length, "little", signed=True)
        case float():
            return DOUBLE, _DOUBLE.pack(value)
        case str():
            return STRING, value.encode()
        case bytes() | bytearray():
            return BYTES, bytes(value)
        case list() | tuple():
            return LIST, b"".join(map(encode, value))
        case Mapping():
            return DICT, b"".join(encode(part) for item in value.items() for part in item)
        case _:
            return LIST, b"".join(map(encode, value))


def _read(data: bytes, at: int, end: int, depth: int, *, unsigned: bool, undefined: bool) -> tuple[Any, int]:
    tag, at = read_varint(data, at, end)
    kind, stop = tag & 7, at + (tag >> 3)
    if stop > end:
        raise MalformedBipf("a value longer than what it is in")
    deepest = _DEEPEST_MESSAGE if undefined else _DEEPEST
    if depth > deepest:
        raise MalformedBipf("lists in lists without end")
    if kind in (LIST, DICT):
        parts: list[Any] = []
        while at < stop:
            if data[at] == _SMALL and at + 1 < stop and depth < deepest:  # most values of vectors are
                byte = data[at + 1]
                parts.append(byte if unsigned or byte < 0x80 else byte - 0x100)
                at += 2
                continue
            part, at = _read(data, at, stop, depth + 1, unsigned=unsigned, undefined=undefined)
            parts.append(part)
        if kind == DICT:
            return _pairs(parts), stop
        return ([None if part is _UNDEFINED else part for part in parts] if undefined else parts), stop
    if undefined and kind == BOOL_NONE and data[at:stop] == b"\2":
        return _UNDEFINED, stop
    return _scalar(kind, data[at:stop], unsigned=unsigned), stop


def _scalar(kind: int, body: bytes, *, unsigned: bool) -> Value:
    if kind == STRING:
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise MalformedBipf("a string that is not UTF-8") from None
    if kind == BYTES:
        return body
    if kind == INT:
        if not 1 <= len(body) <= _MOST_INT_BYTES:
            raise MalformedBipf(f"an integer of {len(body)} bytes")
        return int.from_bytes(body, "little", signed=not unsigned)
    if kind == DOUBLE:
        if len(body) != _DOUBLE.size:
            raise MalformedBipf(f"a double of {len(body)} bytes")
        number: float = _DOUBLE.unpack(body)[0]
        return number
    if kind == BOOL_NONE and not body:
        return None
    if kind == BOOL_NONE and body in (b"\0", b"\1"):
        return body == b"\1"
    raise MalformedBipf("a value of no type")


def _pairs(parts: list[Any]) -> dict[str, Value]:
    keys = parts[::2]
    if len(parts) % 2 or not all(isinstance(key, str) for key in keys) or len(set(keys)) != len(keys):
        raise MalformedBipf("a dictionary that is none")
    pairs = zip(keys, parts[1::2], strict=True)
    return {key: value for key, value in pairs if value is not _UNDEFINED}
