"""Stream faces: Unix sockets and TCP. Packets follow each other with nothing between them.

A neighbour that does not read makes a queue, which is bounded; one that sends what cannot be a packet is
sent away.
"""

import socket
from collections import deque
from collections.abc import Callable

from forwarder.faces.driver import BURST, Driver
from forwarder.link import LP_HEADERS
from forwarder.wire.packet import LARGEST_PACKET
from forwarder.wire.tlv import MalformedPacket, read_number

LARGEST_FRAME = LARGEST_PACKET + LP_HEADERS
"""Most bytes that a frame on a stream may have: a packet of the largest size, and its header fields."""
SEND_QUEUE = 1 << 20
"""Most bytes that wait for a neighbour to read."""

_CHUNK = 1 << 16
_WRITE = 1 << 18
_HEADER = 18  # most that a type and a length take


def cut(buffer: bytes, most: int) -> tuple[list[bytes], int]:
    """Cut up to `most` packets off a stream; return them, and where the rest begins.

    Raises MalformedPacket if the rest can never become a packet.
    """
    frames: list[bytes] = []
    at, size = 0, len(buffer)
    while at + 1 < size and len(frames) < most:
        kind, length = buffer[at], buffer[at + 1]
        if 0 < kind < 253 and length < 253:
            end = at + 2 + length
        elif 0 < kind < 253 and length == 253 and at + 4 <= size and buffer[at + 2]:
            end = at + 4 + (buffer[at + 2] << 8 | buffer[at + 3])
        else:
            whole = _end_of(buffer, at, size)
            if whole is None:
                break
            end = whole
        if end - at > LARGEST_FRAME:
            raise MalformedPacket(f"a packet of {end - at} bytes")
        if end > size:
            break
        frames.append(buffer[at:end])
        at = end
    return frames, at


def _end_of(buffer: bytes, at: int, size: int) -> int | None:
    """Return where an element ends whose header is not of the common forms; None if it is not all there."""
    try:
        kind, start = read_number(buffer, at)
        length, start = read_number(buffer, start)
    except MalformedPacket:
        if size - at >= _HEADER or not _may_go_on(buffer, at, size):
            raise
        return None
    if not 0 < kind < 1 << 32:
        raise MalformedPacket(f"type {kind} on a stream")
    return start + length


def _may_go_on(buffer: bytes, at: int, size: int) -> bool:
    """Tell whether a header is only cut short."""
    for _ in range(2):
        if at >= size:
            return True
        width = 1 if buffer[at] < 253 else 1 + (2 << (buffer[at] - 253))
        if at + width > size:
            return True
        read_number(buffer, at)
        at += width
    return False


class StreamTransport:
    """One face's connection.

    Args:
        driver: whose host the face is of.
        face: its number.
        sock: connected, does not block.
        on_end: called once with the reason when the connection has ended, not by close().

    Attributes:
        queued: bytes that wait for the neighbour to read.
    """

    def __init__(self, driver: Driver, face: int, sock: socket.socket, on_end: Callable[[str], None]) -> None:
        self._driver = driver
        self._face = face
        self._socket = sock
        self._on_end = on_end
        self._rest = b""
        self._queue: deque[bytes] = deque()
        self.queued = 0
        self._is_open = True
        self._is_paused = False
        driver.transports[face] = self
        driver.loop.add_reader(sock, self._on_readable)

    def send(self, frames: list[bytes]) -> None:
        """See Transport."""
        if not self._is_open:
            return
        if self._queue:
            self._enqueue(frames)
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        sent = self._write(data)
        if sent is not None and sent < len(data):
            self._queue.append(data[sent:])
            self._driver.loop.add_writer(self._socket, self._on_writable)
            self._count(len(data) - sent)

    def _write(self, data: bytes) -> int | None:
        """Return how much the kernel has taken; None if the connection has ended."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error.strerror or str(error))
            return None

    def _enqueue(self, frames: list[bytes]) -> None:
        added = 0
        for frame in frames:
            if self.queued + added + len(frame) > SEND_QUEUE:
                self._driver.drops["send queue full"] += 1
                continue
            self._queue.append(frame)
            added += len(frame)
        self._count(added)

    def _count(self, change: int) -> None:
        self.queued += change
        self._driver.host.link(self._face).set_queue(self.queued, self._driver.clock())

    def _on_writable(self) -> None:
        parts, size = [], 0
        while self._queue and size < _WRITE:
            parts.append(self._queue.popleft())
            size += len(parts[-1])
        data = b"".join(parts)
        sent = self._write(data)
        if sent is None:
            return
        if sent < len(data):
            self._queue.appendleft(data[sent:])
        self._count(-sent)
        if not self._queue:
            self._driver.loop.remove_writer(self._socket)

    def _on_readable(self) -> None:
        try:
            chunk = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        if not chunk:
            self._end("closed by the other end")
            return
        self._rest = self._rest + chunk if self._rest else chunk
        self._deliver()

    def _has_ended(self) -> bool:
        return not self._is_open

    def _deliver(self) -> None:
        """Take in what has come, a burst at a time: the rest has its turn after the other faces."""
        if not self._is_open:
            return
        try:
            frames, at = cut(self._rest, BURST)
        except MalformedPacket as error:
            self._driver.drops["bad framing"] += 1
            self._end(f"not a packet on the stream: {error}")
            return
        self._rest = self._rest[at:]
        self._driver.receive(self._face, frames)
        if self._has_ended():
            return
        has_more = len(frames) == BURST and bool(self._rest)
        if has_more != self._is_paused:
            self._is_paused = has_more
            if has_more:
                self._driver.loop.remove_reader(self._socket)
            else:
                self._driver.loop.add_reader(self._socket, self._on_readable)
        if has_more:
            self._driver.loop.call_soon(self._deliver)

    def _end(self, why: str) -> None:
        if self._is_open:
            self.close()
            self._driver.loop.call_soon(self._on_end, why)

    def close(self) -> None:
        """See Transport."""
        if self._is_open:
            self._is_open = False
            self._driver.loop.remove_reader(self._socket)
            self._driver.loop.remove_writer(self._socket)
            self._socket.close()
            self._queue.clear()
            self._rest = b""


class Listener:
    """A listening stream socket.

    Args:
        driver: whose loop it is on.
        sock: bound.
        on_connection: called with each new socket, which does not block.
    """

    def __init__(
        self, driver: Driver, sock: socket.socket, on_connection: Callable[[socket.socket], None]
    ) -> None:
        self._loop = driver.loop
        self._drops = driver.drops
        self._socket = sock
        self._on_connection = on_connection
        self._is_open = True
        sock.setblocking(False)
        sock.listen(512)
        self._loop.add_reader(sock, self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(BURST):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:
                # Most often there are no file descriptors left: the next connection would say so at once.
                self._drops["cannot accept"] += 1
                self._loop.remove_reader(self._socket)
                self._loop.call_later(1, self._resume)
                return
            connection.setblocking(False)
            self._on_connection(connection)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._on_readable)

    def close(self) -> None:
        """Stop listening; connections stay."""
        self._is_open = False
        self._loop.remove_reader(self._socket)
        self._socket.close()
