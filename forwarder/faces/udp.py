"""UDP faces: one connected socket a neighbour, and a channel that makes faces for those who write first."""

import errno
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from base.event_loop import BURST
from base.sockets import udp_socket
from forwarder.faces.driver import Driver
from forwarder.faces.segmentation import receive_batch, receive_runs, send_batch
from forwarder.faces.uri import PORT, FaceUri, from_address

__all__ = ["PORT", "UdpChannel", "UdpTransport"]

_LARGEST = 65535
_WORTH_A_LOOK = 8
"""Frames in one go from which on the socket is asked how many bytes it has not sent yet."""
_UNREACHABLE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})


class UdpTransport:
    """The Transport of one face: its connected socket.

    Args:
        driver: whose host the face is of.
        face: its number.
        sock: connected, does not block.
        segmentation: frames go and come in runs (forwarder.faces.segmentation), as far as the kernel can.
        on_unreachable: called, with the reason, whenever the kernel says that nobody hears what is sent.
    """

    def __init__(
        self,
        driver: Driver,
        face: int,
        sock: socket.socket,
        *,
        segmentation: bool = False,
        on_unreachable: Callable[[str], None] | None = None,
    ) -> None:
        self._driver = driver
        self._face = face
        self._socket = sock
        self._on_unreachable = on_unreachable
        self._link = driver.host.link(face)
        self._has_queue = False
        self._in_runs = segmentation
        if segmentation:
            receive_runs(sock)
        driver.transports[face] = self
        driver.loop.add_reader(sock, driver.reader(face, self._on_readable))

    def send(self, frames: list[bytes]) -> None:
        """See Transport. A full socket buffer is a full queue: a frame is lost, as on any link."""
        if self._in_runs:
            send_batch(self._socket, frames, self._on_error)
        else:
            send = self._socket.send
            for frame in frames:
                try:
                    send(frame)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._on_error(error)
        if (self._has_queue or len(frames) >= _WORTH_A_LOOK) and self._link.face.is_marking:
            (size,) = struct.unpack("@i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))
            self._has_queue = size > 0
            self._link.set_queue(size, self._driver.clock())

    def _on_error(self, error: OSError) -> None:
        """Handle an ICMP error; a connected socket reports it once, for an earlier frame."""
        if error.errno in _UNREACHABLE and self._on_unreachable is not None:
            self._on_unreachable(error.strerror or str(error))

    def close(self) -> None:
        self._driver.loop.remove_reader(self._socket)
        self._socket.close()

    def _on_readable(self) -> None:
        self._driver.receive(self._face, self._take())

    def _take(self) -> Iterator[bytes]:
        """Yield frames until there are none, or BURST of them, or the turn ends: a run is taken whole."""
        taken = 0
        receive = receive_batch if self._in_runs else _receive_one
        clock, ends = self._driver.clock, self._driver.turn_ends
        while taken < BURST and clock() < ends:
            try:
                frames = receive(self._socket)
            except BlockingIOError:
                return
            except OSError as error:
                self._on_error(error)
                taken += 1
                continue
            taken += len(frames)
            yield from frames


def _share_port(sock: socket.socket) -> None:
    """Let the sockets of a channel's faces bind its port.

    A channel sets this after it is bound. If two channels set it before, the kernel would give both one port,
    even for port 0, and the later one would get all that new neighbours send. A program that sets the option
    itself, such as NFD, can still bind the port.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def _receive_one(sock: socket.socket) -> list[bytes]:
    return [sock.recv(_LARGEST)]


class UdpChannel:
    """A port that anybody may write to.

    What comes from a neighbour that has no face makes one, with a socket of its own that is connected to
    it; the kernel then tells the neighbours apart, and each has a queue of its own.

    Args:
        driver: whose host the faces are of.
        accept: called with this channel, a neighbour that has written first, and what returns a socket that
            is connected to it; returns its new face's number, None if it may not have one.
        host, port: where; port 0 lets the system choose. Raises OSError.
        mtu: largest frame that its faces send, bytes.
        idle_ns: how long faces that it makes stay without receiving anything; 0 for ever.
        limit: most faces that it makes.
        segmentation: see UdpTransport.

    Attributes:
        uri, mtu, idle_ns, limit, segmentation: see above, with the port chosen.
        family: of its addresses.
        faces: by the neighbour's FaceUri.
    """

    def __init__(
        self,
        driver: Driver,
        accept: Callable[["UdpChannel", FaceUri, Callable[[], socket.socket]], int | None],
        host: str,
        port: int,
        *,
        mtu: int,
        idle_ns: int,
        limit: int,
        segmentation: bool = False,
    ) -> None:
        self._driver = driver
        self._accept = accept
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = udp_socket(self.family)
        try:
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        _share_port(self._socket)
        self._address: Any = self._socket.getsockname()
        self.uri = from_address("udp", self._address)
        self.mtu = mtu
        self.idle_ns = idle_ns
        self.limit = limit
        self.segmentation = segmentation
        self.faces: dict[FaceUri, int] = {}
        driver.loop.add_reader(self._socket, self._on_readable)

    def connect(self, remote: FaceUri) -> socket.socket:
        """Return a socket from this channel's port to a neighbour; raise OSError."""
        sock = udp_socket(self.family)
        try:
            _share_port(sock)
            sock.bind(self._address)
            sock.connect(remote.address)
        except OSError:
            sock.close()
            raise
        # Until it was connected, datagrams of others could arrive.
        with suppress(OSError):
            for _ in range(BURST):
                frame, address = sock.recvfrom(_LARGEST)
                self._driver.loop.call_soon(self._on_frame, frame, address)
        return sock

    def close(self) -> None:
        """Stop listening; the faces stay."""
        self._driver.loop.remove_reader(self._socket)
        self._socket.close()

    def _on_readable(self) -> None:
        for _ in range(BURST):
            try:
                frame, address = self._socket.recvfrom(_LARGEST)
            except BlockingIOError:
                break
            except OSError:
                continue
            self._on_frame(frame, address)
        self._driver.flush()

    def _on_frame(self, frame: bytes, address: Any) -> None:
        remote = from_address("udp", address)
        face = self.faces.get(remote)
        if face is None:
            face = self._accept(self, remote, lambda: self.connect(remote))
        if face is not None:
            self._driver.receive(face, (frame,))
