"""Access of third-party programs on a node to its forwarder: faces and NFD's management at a Unix socket.

Programs find the socket by NDN_CLIENT_TRANSPORT, or by the client.conf in their HOME. Nothing of it exists
before the first program connects, so a run without such programs equals the emulator's.
"""

import asyncio
import time
from pathlib import Path

from base.endpoint import LinkPort
from base.sockets import Sockets
from forwarder.daemon.daemon import attach_management
from forwarder.faces import unix
from forwarder.faces.system import Faces
from forwarder.faces.uri import FaceUri
from forwarder.host import Host
from forwarder.management.authorisation import Authorisation

FORWARDER = "nfd.sock"
"""The socket, in a node's home."""

_MOST_FACES = 1024


class LocalFaces:
    """The socket of a running host.

    Args:
        host: numbers its faces from forwarder.tables.face.FIRST_FACE on.
        sockets: its driver.
        path: of the socket; the directory is made.

    Raises OSError if the socket cannot be made.
    """

    def __init__(self, host: Host, sockets: Sockets, path: Path) -> None:
        self._host, self._sockets, self._path = host, sockets, path
        self._faces: Faces | None = None
        self._loop = asyncio.get_running_loop()
        self._socket = unix.bind(path)
        self._socket.listen()
        self._loop.add_reader(self._socket, self._begin)

    def _begin(self) -> None:
        """Set up management for the first program, and accept it."""
        self._loop.remove_reader(self._socket)
        self._faces = faces = Faces(self._host, self._loop)
        driver = faces.driver
        ports = self._sockets.ports(self._host)
        for face in self._host.links():
            driver.transports[face] = _Way(self._sockets, self._host, face)
            if isinstance(port := ports.get(face), LinkPort):
                ends, known = port.interface, self._host.forwarder.faces[face]
                known.uri = str(FaceUri("udp4", ends.peer_ipv4, port.number))
                known.local_uri = str(FaceUri("udp4", ends.ipv4, port.number))
        self._sockets.redirect(self._host, lambda face, frame: _send(faces, face, frame))
        management = attach_management(self._host, faces, Authorisation())
        management.wall_offset = time.time_ns() - driver.clock()
        faces.take_unix(self._socket, self._path, limit=_MOST_FACES)
        driver.start()

    def close(self) -> None:
        """Close all of it, and remove the socket."""
        if self._faces is None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._path.unlink(missing_ok=True)
        else:
            self._faces.close()


class _Way:
    """The transport of a face driven by Sockets."""

    def __init__(self, sockets: Sockets, host: Host, face: int) -> None:
        self._sockets, self._host, self._face = sockets, host, face

    def send(self, frames: list[bytes]) -> None:
        """See Transport."""
        for frame in frames:
            self._sockets.send(self._host, self._face, frame)

    def close(self) -> None:
        """See Transport: not closed here."""


def _send(faces: Faces, face: int, frame: bytes) -> None:
    transport = faces.driver.transports.get(face)
    if transport is not None:
        transport.send([frame])
