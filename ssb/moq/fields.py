"""Fields of messages: QUIC's variable-length integers (RFC 9000, section 16), and texts with a length."""

from typing import Final

MOST: Final = (1 << 62) - 1
"""The largest integer."""
_SIZES: Final = ((1 << 6, 1), (1 << 14, 2), (1 << 30, 4), (1 << 62, 8))


class ProtocolViolation(ValueError):
    """Bytes break the rules of the protocol; the session has to end."""


class Incomplete(ProtocolViolation):
    """Bytes end within a field. In a stream that may go on this is no violation."""


def integer(value: int) -> bytes:
    """Return an integer in the fewest bytes. Raises ValueError if it is out of range."""
    for power, (limit, size) in enumerate(_SIZES):
        if 0 <= value < limit:
            return (value | power << (8 * size - 2)).to_bytes(size)
    raise ValueError(f"{value} is no integer from 0 to 2^62 - 1")


def text(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return integer(len(data)) + data


class Fields:
    """A reader of fields, one after the other.

    Attributes:
        at: bytes that were read.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self.at = 0
        self._data = data

    def __bool__(self) -> bool:
        """Whether there is more."""
        return self.at < len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises Incomplete."""
        end = self.at + size
        if end > len(self._data):
            raise Incomplete("a message that ends early")
        taken = bytes(self._data[self.at : end])
        self.at = end
        return taken

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data) - self.at)

    def zeros(self) -> None:
        """Skip the bytes here that are zero."""
        left = self._data[self.at :]
        self.at += len(left) - len(left.lstrip(b"\0"))

    def byte(self) -> int:
        """Return the next byte. Raises Incomplete."""
        return self.take(1)[0]

    def integer(self) -> int:
        """Return the next integer, in any of its lengths. Raises Incomplete."""
        first = self.byte()
        value = first & 0x3F
        for byte in self.take((1 << (first >> 6)) - 1):
            value = value << 8 | byte
        return value

    def text(self, most: int) -> bytes:
        """Return the next bytes with a length before them. Raises ProtocolViolation if there are too many."""
        size = self.integer()
        if size > most:
            raise ProtocolViolation(f"a field of {size} bytes")
        return self.take(size)
