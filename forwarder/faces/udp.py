"""UDP unicast faces of a Host on an asyncio event loop.

One connected socket a neighbour, drained in bursts when it is readable: that costs less than half of what
asyncio's datagram protocol does.
"""

import asyncio
import socket
import time

from forwarder.host import Host

PORT = 6363
"""NDN over UDP."""

_BURST = 64
_BUFFER = 4 << 20


class UdpDriver:
    """Runs a Host over UDP: the only place where it meets sockets and the clock (CLOCK_REALTIME, ns)."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._sockets: dict[int, socket.socket] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0

    def open(self, face: int, local: tuple[str, int], remote: tuple[str, int]) -> tuple[str, int]:
        """Bind a face to a socket from `local` to `remote`; return `local`, with the port chosen if it is 0.

        Raises OSError.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(local)
        sock.connect(remote)
        self._sockets[face] = sock
        self._loop.add_reader(sock, self._on_readable, face, sock)
        host, port = sock.getsockname()
        return host, port

    def start(self) -> None:
        """Let the host act: for the first time, or after something has been done to it."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._on_alarm()

    def close(self) -> None:
        """Close all sockets."""
        if self._alarm is not None:
            self._alarm.cancel()
        for sock in self._sockets.values():
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()

    def _on_readable(self, face: int, sock: socket.socket) -> None:
        receive = self._host.receive
        for _ in range(_BURST):
            try:
                frame = sock.recv(65535)
            except BlockingIOError:
                break
            except OSError:
                continue  # the fate of a frame sent before: a connected socket reports it once and lives on
            receive(face, frame, time.time_ns())
            if not self._host.is_deferring:
                self._send()  # at once: the next frame of a burst may take long
        self._send()
        self._arm()

    def _on_alarm(self) -> None:
        self._alarm = None
        self._host.wake(time.time_ns())
        self._send()
        self._arm()

    def _send(self) -> None:
        for face, frame in self._host.take_outputs():
            # A full socket buffer is a full queue: the frame is lost, as on any link.
            try:
                self._sockets[face].send(frame)
            except OSError:
                continue  # so is one to a neighbour, or over an interface, that is down

    def _arm(self) -> None:
        deadline = self._host.next_deadline()
        if self._alarm is not None:
            if deadline is not None and self._alarm_at <= deadline:
                return  # an early alarm finds nothing due and sets itself again: cheaper than moving it
            self._alarm.cancel()
            self._alarm = None
        if deadline is not None:
            self._alarm_at = deadline
            delay = max(deadline - time.time_ns(), 0) / 1e9
            self._alarm = self._loop.call_later(delay, self._on_alarm)
