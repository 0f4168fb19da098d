"""Control packets of MQTT 3.1.1, with quality of service 0 and 1. Section numbers are the standard's."""

from collections.abc import Container, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple


class _Type(IntEnum):
    """Types of packets (2.2.1)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    SUBSCRIBE = 8
    SUBACK = 9
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14


LARGEST: Final = 1 << 20
"""Bytes of a packet, at most; the standard allows 256 MiB."""
IDENTIFIERS: Final = 65_535
"""Packet identifiers, from 1 on."""
REJECTED, UNAVAILABLE = 2, 3
"""Why a broker refuses a client (3.2.2.3): its id is not allowed, or the server is unavailable."""
_PROTOCOL: Final = b"\x00\x04MQTT\x04"
_FLAGS: Final[dict[int, int]] = {_Type.SUBSCRIBE: 2}
"""Flags of packets that have fixed ones; 0 of all others but PUBLISH."""


class InvalidPacket(ValueError):
    """Bytes are no packet of MQTT, or one that is not supported."""


class Connect(NamedTuple):
    """A client's first packet: its id, whether the session begins anew, and seconds of silence at most."""

    client: str
    is_clean: bool
    keep_alive: int


class Connected(NamedTuple):
    """The answer: whether the broker remembers the session, and 0 or why it refuses."""

    is_known: bool
    code: int = 0


class Publish(NamedTuple):
    """A message; `number` is None with quality of service 0."""

    topic: str
    payload: bytes
    number: int | None = None
    is_retained: bool = False
    is_again: bool = False


class Published(NamedTuple):
    """The acknowledgement of a message with quality of service 1."""

    number: int


class Subscribe(NamedTuple):
    """Filters of topics, each with the highest quality of service."""

    number: int
    filters: tuple[tuple[str, int], ...]


class Subscribed(NamedTuple):
    """The answer: the quality of service granted to each filter, or 128."""

    number: int
    codes: tuple[int, ...]


class Ping(NamedTuple):
    """A client is there."""


class Pong(NamedTuple):
    """The answer."""


class Disconnect(NamedTuple):
    """A client leaves."""


Packet = Connect | Connected | Publish | Published | Subscribe | Subscribed | Ping | Pong | Disconnect


_EMPTY: Final[dict[int, Packet]] = {
    _Type.PINGREQ: Ping(),
    _Type.PINGRESP: Pong(),
    _Type.DISCONNECT: Disconnect(),
}


def encode(packet: Packet) -> bytes:
    """Return a packet's bytes."""
    match packet:
        case Connect(client, is_clean, keep_alive):
            body = _PROTOCOL + bytes((2 * is_clean,)) + keep_alive.to_bytes(2) + _text(client)
            return _packet(_Type.CONNECT, 0, body)
        case Connected(is_known, code):
            return _packet(_Type.CONNACK, 0, bytes((is_known, code)))
        case Publish(topic, payload, number, is_retained, is_again):
            flags = 8 * is_again + 2 * (number is not None) + is_retained
            head = _text(topic) + (b"" if number is None else number.to_bytes(2))
            return _packet(_Type.PUBLISH, flags, head + payload)
        case Published(number):
            return _packet(_Type.PUBACK, 0, number.to_bytes(2))
        case Subscribe(number, filters):
            wanted = b"".join(_text(each) + bytes((quality,)) for each, quality in filters)
            return _packet(_Type.SUBSCRIBE, _FLAGS[_Type.SUBSCRIBE], number.to_bytes(2) + wanted)
        case Subscribed(number, codes):
            return _packet(_Type.SUBACK, 0, number.to_bytes(2) + bytes(codes))
        case Ping():
            return _packet(_Type.PINGREQ, 0, b"")
        case Pong():
            return _packet(_Type.PINGRESP, 0, b"")
        case Disconnect():
            return _packet(_Type.DISCONNECT, 0, b"")


class Reader:
    """Reads the packets of one direction of a stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def receive(self, data: bytes) -> Iterator[tuple[Packet, int]]:
        """Yield each packet that bytes complete, and its size. Raises InvalidPacket."""
        self._bytes += data
        while (found := _length(self._bytes)) is not None:
            start, length = found
            if length > LARGEST:
                raise InvalidPacket(f"a packet of {length} bytes")
            end = start + length
            if len(self._bytes) < end:
                return
            packet = decode(self._bytes[0], bytes(self._bytes[start:end]))
            del self._bytes[:end]
            yield packet, end


def decode(first: int, body: bytes) -> Packet:
    """Return a packet, from its first byte and what follows its length. Raises InvalidPacket."""
    kind, flags = first >> 4, first & 15
    if kind != _Type.PUBLISH and flags != _FLAGS.get(kind, 0):
        raise InvalidPacket(f"flags {flags} of packet type {kind}")
    try:
        packet = _decoded(kind, flags, _Fields(body))
    except UnicodeDecodeError:
        raise InvalidPacket("a text that is not UTF-8") from None
    return packet


def _decoded(kind: int, flags: int, fields: "_Fields") -> Packet:
    packet: Packet
    match kind:
        case _Type.CONNECT:
            if fields.take(len(_PROTOCOL)) != _PROTOCOL:
                raise InvalidPacket("another protocol than MQTT 3.1.1")
            options = fields.take(1)[0]
            if options & ~2:
                raise InvalidPacket("a will, a user name or a password")
            keep_alive = fields.number()
            packet = Connect(fields.text(), bool(options & 2), keep_alive)
        case _Type.CONNACK:
            known, code = fields.take(2)
            packet = Connected(bool(known & 1), code)
        case _Type.PUBLISH:
            quality = flags >> 1 & 3
            if quality > 1:
                raise InvalidPacket(f"quality of service {quality}")
            topic = fields.text()
            if not topic or "+" in topic or "#" in topic:
                raise InvalidPacket("no topic, or one with wildcards")
            if not quality and fields.size > LARGEST - 2:
                raise InvalidPacket("a message too large to be sent on with a packet identifier")
            number = _identifier(fields) if quality else None
            packet = Publish(topic, fields.rest(), number, bool(flags & 1), bool(flags & 8))
        case _Type.PUBACK:
            packet = Published(_identifier(fields))
        case _Type.SUBSCRIBE:
            number, filters = _identifier(fields), []
            while fields:
                wanted, highest = fields.text(), fields.take(1)[0]
                if not _is_filter(wanted) or highest > 2:
                    raise InvalidPacket("a filter that is none, or quality of service above 2")
                filters.append((wanted, min(highest, 1)))
            if not filters:
                raise InvalidPacket("a subscription to nothing")
            packet = Subscribe(number, tuple(filters))
        case _Type.SUBACK:
            packet = Subscribed(_identifier(fields), tuple(fields.rest()))
        case _Type.PINGREQ | _Type.PINGRESP | _Type.DISCONNECT:
            packet = _EMPTY[kind]
        case _:
            raise InvalidPacket(f"packet type {kind}")
    if fields:
        raise InvalidPacket(f"bytes after a packet of type {kind}")
    return packet


def next_identifier(last: int, *used: Container[int]) -> int:
    """Return the packet identifier after the last one (2.3.1), but for those in use."""
    while True:
        last = last % IDENTIFIERS + 1
        if not any(last in each for each in used):
            return last


def _is_filter(text: str) -> bool:
    """Whether a text is a filter (4.7.1): a wildcard is a whole level, and `#` the last one."""
    levels = text.split("/")
    wild = [level for level in levels if "#" in level or "+" in level]
    return bool(text) and "#" not in levels[:-1] and all(len(level) == 1 for level in wild)


def _identifier(fields: "_Fields") -> int:
    number = fields.number()
    if not number:
        raise InvalidPacket("packet identifier 0")
    return number


class _Fields:
    """The fields of a packet, one after the other."""

    def __init__(self, body: bytes) -> None:
        self.size = len(body)
        self._body = body
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._body)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._body):
            raise InvalidPacket("a packet that ends early")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def number(self) -> int:
        return int.from_bytes(self.take(2))

    def text(self) -> str:
        text = self.take(self.number()).decode()
        if "\0" in text:
            raise InvalidPacket("a text with U+0000")
        return text


def _length(data: Sequence[int]) -> tuple[int, int] | None:
    """Return where a packet's content starts and how long it is; None if more bytes are needed (2.2.3)."""
    length = 0
    for place in range(4):
        if len(data) < 2 + place:
            return None
        byte = data[1 + place]
        length |= (byte & 127) << 7 * place
        if byte < 128:
            return 2 + place, length
    raise InvalidPacket("a length of more than four bytes")


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    left, length = len(body), bytearray()
    while not length or left:
        left, low = left >> 7, left & 127
        length.append(low | 128 * bool(left))
    return bytes((kind << 4 | flags, *length)) + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2) + encoded
