"""Packets of muxrpc: a header of nine bytes, and a body.

The header has a byte of flags, the body's length and the number of the request, both four bytes, the most
significant first. The side that makes a request numbers it from 1; packets of the other side about it have
the negative number. Nine bytes of zeros are the goodbye. (Scuttlebutt Protocol Guide, "RPC protocol"; npm's
packet-stream-codec.)
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

HEADER_BYTES: Final = 9
MAX_BODY: Final = 4 << 20
"""Most bytes of a body. Stock peers have no bound; the notes of 40,000 feeds are smaller."""

_HEADER = Struct(">BIi")
_STREAM = 8
_END = 4
_BODY = 3


class ProtocolError(ValueError):
    """Not a packet, or a packet out of place; the message has the reason."""


class BodyType(IntEnum):
    """Type of a body."""

    BINARY = 0
    TEXT = 1
    JSON = 2


class Packet(NamedTuple):
    """A packet.

    Attributes:
        number: of the request, as on the wire: never 0.
        body: its bytes.
        body_type: its encoding.
        is_stream: it belongs to a stream, in contrast to a single request or answer.
        is_end: it ends the sender's part of a stream, or is an error in place of an answer.
    """

    number: int
    body: bytes
    body_type: BodyType = BodyType.JSON
    is_stream: bool = False
    is_end: bool = False


GOODBYE: Final = bytes(HEADER_BYTES)


def encode(packet: Packet) -> bytes:
    """Return a packet's bytes."""
    flags = packet.body_type | _STREAM * packet.is_stream | _END * packet.is_end
    return _HEADER.pack(flags, len(packet.body), packet.number) + packet.body


class PacketReader:
    """The receiving side: bytes in, packets out.

    Args:
        max_body: most bytes of a body that is accepted.

    Attributes:
        has_ended: whether the goodbye was received.
    """

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._waiting = bytearray()
        self.has_ended = False

    def receive(self, data: bytes) -> list[Packet]:
        """Process received bytes and return the completed packets; raise ProtocolError."""
        waiting = self._waiting
        waiting += data
        packets = []
        start = 0
        while len(waiting) - start >= HEADER_BYTES:
            if self.has_ended:
                raise ProtocolError("bytes after the goodbye")
            flags, size, number = _HEADER.unpack_from(waiting, start)
            if number == 0:
                if flags or size:
                    raise ProtocolError("a packet of request 0")
                self.has_ended = True
                start += HEADER_BYTES
                continue
            if size > self._max_body:
                raise ProtocolError(f"a body of {size} bytes")
            if flags > _STREAM + _END + _BODY or flags & _BODY == _BODY:
                raise ProtocolError(f"flags {flags:#04x}, which nothing is known of")
            end = start + HEADER_BYTES + size
            if len(waiting) < end:
                break
            body = bytes(waiting[start + HEADER_BYTES : end])
            packets.append(
                Packet(number, body, BodyType(flags & _BODY), bool(flags & _STREAM), bool(flags & _END))
            )
            start = end
        del waiting[:start]
        return packets
