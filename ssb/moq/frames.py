"""Records and frames of QMux, which carry QUIC's streams over TCP. Section numbers are the draft's."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from ssb.moq.fields import MOST, Fields, Incomplete, ProtocolViolation, integer, text

LARGEST_RECORD: Final = 16_382
"""Bytes of a record's frames, at most (5.2)."""


class _Type(IntEnum):
    """Types of frames (RFC 9000, section 19; 6.2 and 6.3)."""

    PADDING = 0x00
    RESET_STREAM = 0x04
    STREAM = 0x08
    PARAMETERS = 0x3F5153300D0A0D0A
    PING = 0x348C67529EF8C7BD
    PONG = 0x348C67529EF8C7BE


_OFFSET, _LENGTH, _FIN = 4, 2, 1  # flags of STREAM (RFC 9000, 19.8)
_INTEGERS: Final = {0x05: 2, 0x10: 1, 0x11: 2, 0x12: 1, 0x13: 1, 0x14: 1, 0x15: 2, 0x16: 1, 0x17: 1}
"""Fields of frames that have integers alone: STOP_SENDING, MAX_DATA to STREAMS_BLOCKED."""
_CLOSES: Final = {0x1C: 2, 0x1D: 1}
"""Integers of CONNECTION_CLOSE; a reason follows them."""
_MAX_IDLE_TIMEOUT: Final = 0x01
_MAX_RECORD_SIZE: Final = 0x0571C59429CD0845
_UNLIMITED: Final = (0x04, 0x05, 0x06, 0x07, 0x08, 0x09)  # data and streams: TCP's window limits them
_MOST_STREAMS: Final = 1 << 60  # RFC 9000, 18.2
_FORBIDDEN: Final = frozenset((0x00, 0x02, 0x03, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10))  # 5.1


class Parameters(NamedTuple):
    """The first frame of each side: after how many ms of silence it gives up, 0 for never."""

    idle_ms: int


class StreamData(NamedTuple):
    """Bytes of a stream, from an offset on, and whether they are its last."""

    stream: int
    offset: int
    data: bytes
    is_last: bool = False


class Reset(NamedTuple):
    """A stream ends early: why, and how many of its bytes were sent."""

    stream: int
    code: int
    size: int


class Ping(NamedTuple):
    """A question whether the other side is there."""

    number: int


class Pong(NamedTuple):
    """Its answer."""

    number: int


class Other(NamedTuple):
    """A frame without effect here: padding, or a limit, for TCP's window limits the connection.

    STOP_SENDING is one, too, since UNSUBSCRIBE or FETCH_CANCEL say the same, and CONNECTION_CLOSE, for the
    end of the connection follows.
    """

    kind: int


Frame = Parameters | StreamData | Reset | Ping | Pong | Other


def encode(frame: Frame) -> bytes:
    """Return a record with a frame alone."""
    match frame:
        case Parameters(idle_ms):
            said = _parameter(_MAX_IDLE_TIMEOUT, idle_ms)
            said += b"".join(_parameter(key, MOST if key < 0x08 else _MOST_STREAMS) for key in _UNLIMITED)
            body = integer(_Type.PARAMETERS) + text(said)
        case StreamData(stream, offset, data, is_last):
            kind = _Type.STREAM | (_OFFSET if offset else 0) | (_FIN if is_last else 0)
            body = integer(kind) + integer(stream) + (integer(offset) if offset else b"") + data
        case Reset(stream, code, size):
            body = integer(_Type.RESET_STREAM) + integer(stream) + integer(code) + integer(size)
        case Ping(number):
            body = integer(_Type.PING) + integer(number)
        case Pong(number):
            body = integer(_Type.PONG) + integer(number)
        case Other():
            raise AssertionError("it is only read")
    return text(body)


def stream_frames(stream: int, offset: int, data: bytes, *, is_last: bool) -> Iterator[bytes]:
    """Yield the records that carry bytes of a stream."""
    most = LARGEST_RECORD - 17  # kind, stream and offset
    for at in range(0, max(len(data), 1), most):
        piece = data[at : at + most]
        yield encode(StreamData(stream, offset + at, piece, is_last and at + most >= len(data)))


class Records:
    """Reads the records of one direction."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def receive(self, data: bytes) -> Iterator[tuple[int, list[tuple[Frame, int]]]]:
        """Yield of each record that bytes complete: the bytes of its size, and its frames with their bytes.

        Raises ProtocolViolation.
        """
        self._bytes += data
        while self._bytes:
            fields = Fields(self._bytes)
            try:
                size = fields.integer()
                if size > LARGEST_RECORD:
                    raise ProtocolViolation(f"a record of {size} bytes")
                body = fields.take(size)
            except Incomplete:
                return
            head = fields.at - size
            del self._bytes[: fields.at]
            yield head, _frames(body)


def _frames(body: bytes) -> list[tuple[Frame, int]]:
    fields, found = Fields(body), []
    while fields:
        before = fields.at
        kind = fields.integer()
        found.append((_frame(kind, fields), fields.at - before))
    if not found:
        raise ProtocolViolation("a record without a frame")
    return found


def _frame(kind: int, fields: Fields) -> Frame:
    if kind & ~(_OFFSET | _LENGTH | _FIN) == _Type.STREAM:
        stream = fields.integer()
        offset = fields.integer() if kind & _OFFSET else 0
        data = fields.text(LARGEST_RECORD) if kind & _LENGTH else fields.rest()
        return StreamData(stream, offset, data, bool(kind & _FIN))
    match kind:
        case _Type.RESET_STREAM:
            return Reset(fields.integer(), fields.integer(), fields.integer())
        case _Type.PARAMETERS:
            return _read_parameters(Fields(fields.text(LARGEST_RECORD)))
        case _Type.PING:
            return Ping(fields.integer())
        case _Type.PONG:
            return Pong(fields.integer())
        case _Type.PADDING:
            fields.zeros()
            return Other(kind)
    if kind in _INTEGERS or kind in _CLOSES:
        for _ in range(_INTEGERS.get(kind) or _CLOSES[kind]):
            fields.integer()
        if kind in _CLOSES:
            fields.text(LARGEST_RECORD)
        return Other(kind)
    raise ProtocolViolation(f"a frame of type {kind:#x}")


def _parameter(key: int, value: int) -> bytes:
    return integer(key) + text(integer(value))


def _read_parameters(fields: Fields) -> Parameters:
    said: dict[int, bytes] = {}
    while fields:
        key = fields.integer()
        if key in said or key in _FORBIDDEN:
            raise ProtocolViolation(f"transport parameter {key:#x}, twice or where it is forbidden")
        said[key] = fields.text(LARGEST_RECORD)
    if _MAX_RECORD_SIZE in said and Fields(said[_MAX_RECORD_SIZE]).integer() < LARGEST_RECORD:
        raise ProtocolViolation("records smaller than those that all can read")
    return Parameters(Fields(said.get(_MAX_IDLE_TIMEOUT, b"\0")).integer())
