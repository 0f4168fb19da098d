"""Stream faces: Unix sockets and TCP. Packets follow each other with nothing between them.

A neighbour that reads slowly makes a queue, which is marked and from which nothing is lost: what it has asked
for bounds it. One that has stopped reading keeps no more than SEND_QUEUE. One that sends what cannot be a
packet is sent away.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from base.event_loop import BURST
from forwarder.faces.driver import Driver
from forwarder.links.framing import cut
from forwarder.wire.tlv import MalformedPacket

SEND_QUEUE = 1 << 20
"""Bytes that may wait for any neighbour, whether it reads or not."""
ALL_QUEUES = 128 << 20
"""Bytes that may wait for all neighbours of a driver; beyond that each has SEND_QUEUE and no more."""
PATIENCE_S = 10.0
"""A neighbour that has taken nothing for so long, twice the lifetime of most Interests, does not read."""

_LOOK_AGAIN_S = 0.01
_SIOCOUTQNSD = 0x894B  # linux/sockios.h: what TCP has not sent; TIOCOUTQ has what is under way, too
_CHUNK = 1 << 16
_WRITE = 1 << 18


class StreamTransport:
    """The Transport of one face: its connection.

    Args:
        driver: whose host the face is of.
        face: its number.
        sock: connected, does not block.
        on_end: called once with the reason when the connection has ended, not by close().

    Attributes:
        queued: bytes that wait for the kernel to take them.
    """

    def __init__(self, driver: Driver, face: int, sock: socket.socket, on_end: Callable[[str], None]) -> None:
        self._driver = driver
        self._face = face
        self._socket = sock
        self._on_end = on_end
        self._rest = b""
        self._link = driver.host.link(face)
        self._request = termios.TIOCOUTQ if sock.family == socket.AF_UNIX else _SIOCOUTQNSD
        self._queue: deque[bytes] = deque()
        self.queued = 0
        self._unsent = 0  # bytes that the kernel had when it was asked, and all that it has taken since
        self._taken_at = 0.0  # when the kernel last took anything off the queue
        self._look_again: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._is_open = True
        self._is_paused = False
        driver.transports[face] = self
        self._read = driver.reader(face, self._on_readable)
        self._deliver_rest = driver.reader(face, self._deliver, self._deliver_soon)
        driver.loop.add_reader(sock, self._read)

    def send(self, frames: list[bytes]) -> None:
        if not self._is_open:
            return
        if self._queue:
            self._enqueue(frames)
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        sent = self._write(data)
        if sent is None:
            return
        if sent < len(data):
            self._queue.append(data[sent:])
            self._driver.loop.add_writer(self._socket, self._on_writable)
            self._taken_at = self._driver.loop.time()
            self._count(len(data) - sent)
        elif self._unsent > self._link.face.marking_threshold:
            self._look()

    def _write(self, data: bytes) -> int | None:
        """Return how much the kernel has taken; None if the connection has ended."""
        try:
            sent = self._socket.send(data)
            self._unsent += sent
            return sent
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error.strerror or str(error))
            return None

    def _enqueue(self, frames: list[bytes]) -> None:
        added = 0
        for frame in frames:
            waiting = added + len(frame)
            if self.queued + waiting > SEND_QUEUE and (
                self._driver.waiting + waiting > ALL_QUEUES or self._is_stalled()
            ):
                self._driver.drops["send queue full"] += 1
                continue
            self._queue.append(frame)
            added = waiting
        self._count(added)
        if self.queued > SEND_QUEUE and self._stalled is None:
            self._stalled = self._driver.loop.call_later(PATIENCE_S, self._on_timeout)

    def _is_stalled(self) -> bool:
        return self._driver.loop.time() >= self._taken_at + PATIENCE_S

    def _on_timeout(self) -> None:
        """Shorten the queue of a neighbour that has stopped reading: its Interests have expired."""
        self._stalled = None
        if self.queued <= SEND_QUEUE:
            return
        if not self._is_stalled():
            self._stalled = self._driver.loop.call_at(self._taken_at + PATIENCE_S, self._on_timeout)
            return
        dropped = 0
        while self.queued - dropped > SEND_QUEUE and len(self._queue) > 1:  # the first may be under way
            dropped += len(self._queue.pop())
            self._driver.drops["send queue full"] += 1
        self._count(-dropped)

    def _count(self, change: int) -> None:
        self.queued += change
        self._driver.waiting += change
        self._look()

    def _look(self) -> None:
        """See how long the queue is, the kernel's part included, and again soon while it is too long.

        The kernel need not be asked before a queue that was short can be too long again.
        """
        face = self._link.face
        self._unsent = 0
        if not face.is_marking or not self._is_open:
            return
        with suppress(OSError):  # the kernel does not support it
            (self._unsent,) = struct.unpack("@i", fcntl.ioctl(self._socket, self._request, bytes(4)))
        size = self.queued + self._unsent
        self._link.set_queue(size, self._driver.clock())
        if size > face.marking_threshold and self._look_again is None:
            self._look_again = self._driver.loop.call_later(_LOOK_AGAIN_S, self._on_recheck)

    def _on_recheck(self) -> None:
        self._look_again = None
        self._look()

    def _on_writable(self) -> None:
        parts, size = [], 0
        while self._queue and size < _WRITE:
            parts.append(self._queue.popleft())
            size += len(parts[-1])
        data = b"".join(parts)
        sent = self._write(data)
        if sent is None:
            return
        if sent:
            self._taken_at = self._driver.loop.time()
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
        """Read one burst; the rest has its turn after the other faces."""
        if not self._is_open:
            return
        try:
            frames, at = cut(self._rest, BURST)
        except MalformedPacket as error:
            self._driver.drops["bad framing"] += 1
            self._end(f"not a packet on the stream: {error}")
            return
        taken = self._driver.receive(self._face, frames, ends=self._driver.turn_ends)
        if self._has_ended():
            return
        later = frames[taken:]
        self._rest = self._rest[at - sum(map(len, later)) :]
        has_more = bool(self._rest) and (bool(later) or len(frames) == BURST)
        if has_more != self._is_paused:
            self._is_paused = has_more
            if has_more:
                self._driver.loop.remove_reader(self._socket)
            else:
                self._driver.loop.add_reader(self._socket, self._read)
        if has_more:
            self._deliver_soon()

    def _deliver_soon(self) -> None:
        self._driver.loop.call_soon(self._deliver_rest)

    def _end(self, why: str) -> None:
        if self._is_open:
            self.close()
            self._driver.loop.call_soon(self._on_end, why)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._driver.loop.remove_reader(self._socket)
            self._driver.loop.remove_writer(self._socket)
            self._socket.close()
            for timer in (self._look_again, self._stalled):
                if timer is not None:
                    timer.cancel()
            self._queue.clear()
            self._driver.waiting -= self.queued
            self.queued = 0
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
