"""UDP multicast: a face for everybody in a group on one interface (NFD developer guide, section 2.2)."""

import socket
import struct
from typing import Any

from base.event_loop import BURST
from base.netif import Interface
from forwarder.faces.driver import BATCH, Driver
from forwarder.faces.uri import FaceUri, from_address

GROUP_IPV4 = "224.0.23.170"
GROUP_IPV6 = "ff02::1234"
GROUP_PORT = 56363
"""Multicast group of NDN over UDP."""

_LARGEST = 65535


class MulticastSockets:
    """The two sockets of a group on an interface: one hears the group, the other has an address to send from.

    Args:
        interface: the interface; it has an address of the group's family.
        group: an IP address.
        port: the group's.

    Raises OSError.

    Attributes:
        receiving, sending: the sockets; they do not block.
        group: the address to send to.
        remote, local: the FaceUris of the group and of this end.
    """

    def __init__(self, interface: Interface, group: str, port: int) -> None:
        is_v6 = ":" in group
        family = socket.AF_INET6 if is_v6 else socket.AF_INET
        self.receiving = socket.socket(family, socket.SOCK_DGRAM)
        self.sending = socket.socket(family, socket.SOCK_DGRAM)
        try:
            for sock in (self.receiving, self.sending):
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Otherwise it would receive the group's datagrams of other interfaces.
            self.receiving.setsockopt(
                socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.name.encode() + b"\0"
            )
            local = self._open_v6(interface, group, port) if is_v6 else self._open_v4(interface, group, port)
        except OSError:
            self.close()
            raise
        self.remote = FaceUri(
            "udp6" if is_v6 else "udp4", f"{group}%{interface.name}" if is_v6 else group, port
        )
        self.local = from_address("udp", local)

    def _open_v4(self, interface: Interface, group: str, port: int) -> Any:
        self.receiving.bind((group, port))
        # struct ip_mreqn
        membership = struct.pack("@4s4xi", socket.inet_aton(group), interface.index)
        self.receiving.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        self.sending.bind((interface.ipv4 or "", port))
        self.sending.setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@8xi", interface.index)
        )
        self.sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        self.group: Any = (group, port)
        return self.sending.getsockname()

    def _open_v6(self, interface: Interface, group: str, port: int) -> Any:
        for sock in (self.receiving, self.sending):
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.receiving.bind((group, port, 0, interface.index))
        membership = struct.pack("@16sI", socket.inet_pton(socket.AF_INET6, group), interface.index)
        self.receiving.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
        # Not to the interface's address: right after boot that is still being checked for duplicates.
        self.sending.bind(("::", port))
        self.sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
        self.sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
        self.group = (group, port, 0, interface.index)
        return (f"{interface.ipv6}%{interface.name}", port)

    def close(self) -> None:
        """Leave the group."""
        self.receiving.close()
        self.sending.close()


class MulticastTransport:
    """The Transport of a group's face.

    Args:
        driver: whose host the face is of.
        face: its number.
        sockets: the group's.
    """

    def __init__(self, driver: Driver, face: int, sockets: MulticastSockets) -> None:
        self._driver = driver
        self._face = face
        self._sockets = sockets
        driver.transports[face] = self
        driver.loop.add_reader(sockets.receiving, self._on_readable)

    def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                self._sockets.sending.sendto(frame, self._sockets.group)
            except OSError:
                continue  # lost, as on any link

    def close(self) -> None:
        self._driver.loop.remove_reader(self._sockets.receiving)
        self._sockets.close()

    def _on_readable(self) -> None:
        driver, face, recvfrom = self._driver, self._face, self._sockets.receiving.recvfrom
        for _ in range(BURST // BATCH):
            received: list[tuple[bytes, Any]] = []
            try:
                while len(received) < BATCH:
                    received.append(recvfrom(_LARGEST))
            except OSError:
                pass
            for frame, sender in received:
                if face in driver.transports:
                    driver.host.receive(face, frame, sender, driver.clock())
            driver.flush()
            if len(received) < BATCH:
                break
