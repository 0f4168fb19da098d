"""NDN packets in WebSocket: the messages of one direction of a connection, from its bytes in order.

HTTP upgrades the connection; then every message is one packet, in one binary frame or split into several,
with pings between them. A client's frames are masked. Compressed messages (an extension that NFD does not
offer) are not read; their bytes count as skipped.

Sources: RFC 6455, sections 1.3 (handshake), 5.2 (frames) and 5.4 (fragmentation); NFD's WebSocketChannel and
WebSocketTransport, which serve it on TCP port 9696.
"""

from collections.abc import Iterator
from typing import NamedTuple

from captures.layers.framing import LARGEST_PACKET, packet_size

PORT = 9696
"""NFD's port of WebSocket."""

_HTTP = (b"GET /", b"HTTP/1.")
_ACCEPTED = b" 101"
_STATUS_AT = len("HTTP/1.1")
_BLANK_LINE = b"\r\n\r\n"
_LONGEST_HANDSHAKE = 1 << 16

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_OPCODES = (_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG)
_FINAL, _RESERVED, _MASKED = 0x80, 0x70, 0x80
_LONGEST_CONTROL = 125
_WHOLE_BINARY = bytes((_FINAL | _BINARY,))
_PACKET_HEADER = 6
"""Bytes that contain the size of a packet of up to LARGEST_PACKET bytes."""


class Frame(NamedTuple):
    """A frame's header: whether it is the message's last frame, its opcode, the mask (or empty), and the
    begin and end of its payload. A frame that ends at 0 is invalid."""

    is_final: bool
    opcode: int
    mask: bytes
    start: int
    end: int


_NONE = Frame(False, 0, b"", 0, 0)


def begins_http(data: bytes | bytearray) -> bool | None:
    """Return whether a stream begins with HTTP, as WebSocket does; None if more bytes are needed."""
    if data.startswith(_HTTP):
        return True
    return None if any(text.startswith(data) for text in _HTTP) else False


def read_frame(data: bytes | bytearray, at: int) -> Frame | None:
    """Return the frame whose header is at `at`, with an end of 0 if invalid; None if more bytes are needed.
    Its payload may be incomplete."""
    if at + 2 > len(data):
        return None
    first, second = data[at], data[at + 1]
    is_final, opcode, length = bool(first & _FINAL), first & 15, second & 127
    if first & _RESERVED or opcode not in _OPCODES:
        return _NONE
    if opcode >= _CLOSE and not (is_final and length <= _LONGEST_CONTROL):
        return _NONE
    start = at + 2
    if length > _LONGEST_CONTROL:
        size = 2 if length == 126 else 8
        if start + size > len(data):
            return None
        length = int.from_bytes(data[start : start + size], "big")
        if not (126 if size == 2 else 1 << 16) <= length <= LARGEST_PACKET:
            return _NONE
        start += size
    mask = b""
    if second & _MASKED:
        mask = bytes(data[start : start + 4])
        if len(mask) < 4:
            return None
        start += 4
    return Frame(is_final, opcode, mask, start, start + length)


def payload(data: bytes | bytearray, frame: Frame) -> bytes:
    """Return the available part of a frame's payload, unmasked."""
    masked = bytes(data[frame.start : frame.end])
    if not frame.mask:
        return masked
    mask = (frame.mask * (len(masked) // 4 + 1))[: len(masked)]
    return (int.from_bytes(masked, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(masked), "big")


class WebSocket:
    """The messages of one direction of a connection.

    It begins with HTTP (`handshake`), with a frame (`in_step`), or anywhere.
    """

    def __init__(self, handshake: bool = False, in_step: bool = False) -> None:
        self.skipped = 0
        self._handshake = handshake
        self._in_step = in_step
        self._message: bytearray | None = None  # parts of a message in several frames

    def read(self, data: bytearray) -> Iterator[bytes]:
        """Yield the messages that `data` completes; leave the rest that may become a frame."""
        at = 0
        while at < len(data):
            if self._handshake:
                end = data.find(_BLANK_LINE, at)
                if end < 0 and len(data) - at <= _LONGEST_HANDSHAKE:
                    break
                self._handshake = False
                self._in_step = end >= 0 and _is_accepted(data, at)
                at = end + len(_BLANK_LINE) if end >= 0 else at
                continue
            if not self._in_step:
                begin = _frame_after(data, at)
                self.skipped += begin - at
                at = begin
            frame = read_frame(data, at)
            if frame is None:
                break
            if not frame.end:
                self.resynchronise()
                at += 1
                self.skipped += 1
                continue
            if frame.end > len(data):
                break
            self._in_step = True
            yield from self._add_frame(frame, payload(data, frame))
            at = frame.end
        del data[:at]

    def resynchronise(self) -> None:
        """Search for the next frame's beginning; the parts of a message are dropped."""
        self._handshake = self._in_step = False
        self.skipped += len(self._message or b"")
        self._message = None

    def _add_frame(self, frame: Frame, part: bytes) -> Iterator[bytes]:
        if frame.opcode >= _CLOSE:
            return
        if frame.opcode == _CONTINUATION:
            if self._message is None or len(self._message) + len(part) > LARGEST_PACKET:
                self.resynchronise()
                self._in_step = True
                self.skipped += len(part)
                return
            self._message += part
        else:
            self.skipped += len(self._message or b"")
            self._message = bytearray(part)
        if frame.is_final:
            message, self._message = bytes(self._message), None
            if message:
                yield message


def _is_accepted(data: bytearray, at: int) -> bool:
    """Return whether frames follow the HTTP at `at`: after a request they do, and after `101`."""
    is_answer = data.startswith(_HTTP[1], at)
    return not is_answer or data.startswith(_ACCEPTED, at + _STATUS_AT)


def _frame_after(data: bytearray, at: int) -> int:
    """Return the first position from `at` on of a plausible frame with one packet, or of its beginning."""
    while (at := data.find(_WHOLE_BINARY, at)) >= 0:
        frame = read_frame(data, at)
        if frame is None:
            return at
        if frame.end:
            head = payload(data, frame._replace(end=min(frame.end, frame.start + _PACKET_HEADER)))
            size = packet_size(head, 0)
            if size == frame.end - frame.start or (size is None and frame.end > len(data)):
                return at
        at += 1
    return len(data)
