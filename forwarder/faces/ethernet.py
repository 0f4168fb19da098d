"""Ethernet faces: frames of Ethertype 0x8624 on one interface, to a group or to one neighbour.

One packet socket an interface serves all of its faces: they differ in addresses only.
"""

import socket
import struct
from collections.abc import Callable

from base.event_loop import BURST
from base.netif import Interface
from forwarder.faces.driver import BATCH, Driver
from forwarder.faces.uri import FaceUri
from forwarder.wire.tlv import MalformedPacket, read_number

ETHERTYPE = 0x8624
GROUP = "01:00:5e:00:17:aa"
"""Multicast address of NDN over Ethernet."""

_HEADER = 14
_LEAST = 60  # without the check sequence: Ethernet's smallest frame
_LARGEST = 65535
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_MR_MULTICAST = 0
_TO_ANOTHER_HOST = 3
_OUTGOING = 4


def mac_of(uri: FaceUri) -> bytes:
    """Return the 6 bytes of an ether:// URI."""
    return bytes.fromhex(uri.host.replace(":", ""))


def uri_of(mac: bytes) -> FaceUri:
    """Return the ether:// URI of 6 bytes."""
    return FaceUri("ether", mac.hex(":"))


class EthernetChannel:
    """The faces of one interface.

    Args:
        driver: whose host the faces are of.
        accept: called with this channel and a neighbour that has written first; returns its new face's
            number, None if it may not have one.
        interface: which one; it has a MAC address.
        listen: whether neighbours who write first get faces.
        idle_ns: how long such a face stays without receiving anything; 0 for ever.
        limit: most of them.

    Raises OSError: a packet socket is for the privileged.

    Attributes:
        uri: dev://<name>.
        interface, idle_ns, limit: see above.
        faces: by MAC address, the group's too.
    """

    def __init__(
        self,
        driver: Driver,
        accept: Callable[["EthernetChannel", FaceUri], int | None],
        interface: Interface,
        *,
        listen: bool,
        idle_ns: int,
        limit: int,
    ) -> None:
        self._driver = driver
        self._accept = accept
        self._listen = listen
        self.interface = interface
        self.uri = FaceUri("dev", interface.name)
        self.idle_ns = idle_ns
        self.limit = limit
        self.faces: dict[bytes, int] = {}
        self._mac = interface.mac or bytes(6)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # deaf until it is bound
        try:
            self._socket.setblocking(False)
            self._socket.bind((interface.name, ETHERTYPE))
        except OSError:
            self._socket.close()
            raise
        driver.loop.add_reader(self._socket, self._on_readable)

    def join(self, group: bytes) -> None:
        """Hear a group too; raise OSError."""
        # struct packet_mreq
        request = struct.pack("@iHH8s", self.interface.index, _PACKET_MR_MULTICAST, len(group), group)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)

    def send(self, destination: bytes, frames: list[bytes]) -> None:
        """Send frames to an address."""
        header = destination + self._mac + ETHERTYPE.to_bytes(2, "big")
        for frame in frames:
            try:
                self._socket.send((header + frame).ljust(_LEAST, b"\0"))
            except OSError:
                continue  # lost, as on any link

    def close(self) -> None:
        """Stop receiving and sending."""
        self._driver.loop.remove_reader(self._socket)
        self._socket.close()

    def _on_readable(self) -> None:
        for number in range(BURST):
            try:
                frame, about = self._socket.recvfrom(_LARGEST)
            except OSError:
                break
            if about[2] in (_TO_ANOTHER_HOST, _OUTGOING) or len(frame) <= _HEADER:
                continue
            self._on_frame(frame[:6], frame[6:12], frame[_HEADER:])
            if number % BATCH == BATCH - 1 and not self._driver.host.is_deferring:
                self._driver.send()
        self._driver.flush()

    def _on_frame(self, destination: bytes, source: bytes, payload: bytes) -> None:
        is_ours = destination == self._mac
        face = self.faces.get(source if is_ours else destination)
        if face is None and is_ours and self._listen and not source[0] & 1:
            face = self._accept(self, uri_of(source))
        if face is not None and face in self._driver.transports:
            packet = without_padding(payload)
            self._driver.host.receive(face, packet, None if is_ours else source, self._driver.clock())


def without_padding(payload: bytes) -> bytes:
    """Remove the padding behind the packet in a frame; other frames are returned unchanged."""
    try:
        _, at = read_number(payload, 0)
        length, at = read_number(payload, at)
    except MalformedPacket:
        return payload
    return payload[: at + length]


class EthernetTransport:
    """The Transport of one face: an address on an interface.

    Args:
        driver: whose host the face is of.
        face: its number.
        channel: of the interface.
        mac: the neighbour's address, or a group's.
    """

    def __init__(self, driver: Driver, face: int, channel: EthernetChannel, mac: bytes) -> None:
        self._channel = channel
        self._mac = mac
        channel.faces[mac] = face
        driver.transports[face] = self

    def send(self, frames: list[bytes]) -> None:
        self._channel.send(self._mac, frames)

    def close(self) -> None:
        self._channel.faces.pop(self._mac, None)
