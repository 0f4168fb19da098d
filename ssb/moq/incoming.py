"""One direction of a connection, read: frames, control messages, and objects of data streams."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ssb.moq.fields import Fields, Incomplete, ProtocolViolation
from ssb.moq.frames import Frame, Parameters, Records, Reset, StreamData
from ssb.moq.messages import CONTROL, Head, Location, Message, Object, read_head, read_message, read_object


class End(NamedTuple):
    """A data stream ends; `is_whole`: it was not reset."""

    head: Head
    is_whole: bool


class Unit(NamedTuple):
    """A frame other than a stream's, a message, an object or an end.

    `size`: its bytes of the connection, with those around it. All units together have all bytes.
    """

    content: Frame | Message | Object | End
    size: int


_MOST_HELD: Final = 1 << 20
"""Bytes of messages and objects that are not complete, of all streams."""


class _Stream:
    """A stream: bytes of it so far, and those that wait for more."""

    def __init__(self) -> None:
        self.offset = 0
        self.waiting = bytearray()
        self.head: Head | None = None
        self.last: Location | None = None


class Incoming:
    """Reads what one side of a connection sends.

    Args:
        from_client: that side has opened the connection.
        streams: data streams that it may have open at a time.
    """

    def __init__(self, *, from_client: bool, streams: int) -> None:
        self._records = Records()
        self._streams: dict[int, _Stream] = {CONTROL: _Stream()}
        self._first = 2 if from_client else 3  # of its data streams (RFC 9000, 2.1)
        self._next = self._first
        self._most = streams
        self._has_begun = False
        self._spent = self._held = 0

    def receive(self, data: bytes) -> Iterator[Unit]:
        """Yield the units that bytes complete. Raises ProtocolViolation."""
        for head, frames in self._records.receive(data):
            self._spent += head
            for frame, size in frames:
                if isinstance(frame, Parameters) == self._has_begun:
                    raise ProtocolViolation("parameters are the first frame, and come once")
                self._has_begun = True
                if isinstance(frame, StreamData):
                    self._spent += size - len(frame.data)
                    yield from self._read(frame)
                elif isinstance(frame, Reset):
                    self._spent += size
                    yield from self._reset(frame)
                else:
                    self._spent += size
                    yield self._unit(frame)

    def _read(self, frame: StreamData) -> Iterator[Unit]:
        stream = self._stream(frame.stream)
        if frame.offset != stream.offset:
            raise ProtocolViolation("a stream out of order")
        stream.offset += len(frame.data)
        self._held += len(frame.data)
        stream.waiting += frame.data
        is_control = frame.stream == CONTROL
        while stream.waiting:
            fields = Fields(stream.waiting)
            try:
                found = read_message(fields) if is_control else _data(stream, fields)
            except Incomplete:
                break
            del stream.waiting[: fields.at]
            self._held -= fields.at
            self._spent += fields.at
            if found is not None:
                yield self._unit(found)
        if self._held > _MOST_HELD:
            raise ProtocolViolation("too much that is not complete")
        if frame.is_last:
            if is_control or stream.waiting or stream.head is None:
                raise ProtocolViolation("a stream that ends early")
            del self._streams[frame.stream]
            yield self._unit(End(stream.head, True))

    def _reset(self, frame: Reset) -> Iterator[Unit]:
        if frame.stream == CONTROL:
            raise ProtocolViolation("the control stream ends")
        stream = self._stream(frame.stream)
        if frame.size < stream.offset:
            raise ProtocolViolation("a stream with fewer bytes than came")
        del self._streams[frame.stream]
        self._held -= len(stream.waiting)
        self._spent += len(stream.waiting)
        if stream.head is not None:
            yield self._unit(End(stream.head, False))

    def _stream(self, number: int) -> _Stream:
        """Return a stream; the sender opens them in the order of their numbers."""
        if number == self._next:
            if len(self._streams) > self._most:
                raise ProtocolViolation("too many streams")
            self._next += 4
            self._streams[number] = _Stream()
        if number not in self._streams:
            raise ProtocolViolation(f"stream {number}, which is not open")
        return self._streams[number]

    def _unit(self, content: Frame | Message | Object | End) -> Unit:
        size, self._spent = self._spent, 0
        return Unit(content, size)


def _data(stream: _Stream, fields: Fields) -> Object | None:
    if stream.head is None:
        stream.head = read_head(fields)
        return None
    found = read_object(fields, stream.head, stream.last)
    stream.last = found.location
    return found
