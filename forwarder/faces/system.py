"""All faces of a daemon: FaceSystem over sockets (NFD developer guide, section 2; NFD FaceMgmt).

Faces come about in three ways: a neighbour connects to a channel or writes to it (on demand), a command
or the configuration asks for one, or an interface has a multicast group. How they end: forwarder.faces.table.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from base.netif import Interface
from base.units import SECOND
from forwarder.faces import rules, tcp, unix
from forwarder.faces.ethernet import EthernetChannel, EthernetTransport, mac_of
from forwarder.faces.multicast import MulticastSockets, MulticastTransport
from forwarder.faces.stream import Listener
from forwarder.faces.table import FaceTable, StreamChannel
from forwarder.faces.udp import UdpChannel, UdpTransport
from forwarder.faces.uri import FaceUri, from_address
from forwarder.host import Host
from forwarder.tables.face import Face, LinkType, Persistency
from forwarder.tables.face_system import (
    CONGESTION_MARKING,
    FaceParameters,
    Outcome,
)

DEFAULT_MTU = 8800
"""Largest frame on UDP, bytes: IP cuts it where the path takes less, as NFD leaves it to do."""
_LARGEST_UDP = {socket.AF_INET: 65467, socket.AF_INET6: 65527}
_ANY = frozenset(Persistency)
_ON_DEMAND = frozenset({Persistency.ON_DEMAND})
_PERMANENT = frozenset({Persistency.PERMANENT})

log = logging.getLogger("feednet")


class Faces(FaceTable):
    """The faces of a host that its daemon runs; a forwarder.tables.face_system.FaceSystem.

    See FaceTable for its arguments and attributes.
    """

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop, *, is_marking: bool = True) -> None:
        super().__init__(host, loop, is_marking=is_marking)
        self._udp: list[UdpChannel] = []
        self._ethernet: dict[FaceUri, EthernetChannel] = {}
        self._stream_channels: list[StreamChannel] = []
        self._closers: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # --- channels ---

    def listen_unix(self, path: Path, *, limit: int) -> FaceUri:
        """Take connections at a path, `limit` at a time; raise OSError with a line for the user."""
        return self.take_unix(unix.bind(path), path, limit=limit)

    def take_unix(self, sock: socket.socket, path: Path, *, limit: int) -> FaceUri:
        """Take connections at a socket that unix.bind() has made."""
        inode = path.lstat().st_ino
        channel = StreamChannel(FaceUri("unix", path=str(path.absolute())), limit)
        listener = Listener(self.driver, sock, lambda accepted: self._accept(channel, accepted))
        self._stream_channels.append(channel)
        self._closers += [listener.close, lambda: unix.unlink(sock, path, inode)]
        return channel.uri

    def listen_tcp(self, host: str, port: int, *, limit: int) -> FaceUri:
        """Take connections at an address; raise OSError."""
        sock = tcp.listening_socket(host, port)
        channel = StreamChannel(from_address("tcp", sock.getsockname()), limit)
        listener = Listener(self.driver, sock, lambda accepted: self._accept(channel, accepted))
        self._stream_channels.append(channel)
        self._closers.append(listener.close)
        return channel.uri

    def listen_udp(
        self,
        host: str,
        port: int,
        *,
        limit: int,
        mtu: int = DEFAULT_MTU,
        idle_ns: int = 600 * SECOND,
        segmentation: bool = False,
    ) -> FaceUri:
        """Take frames at an address; raise OSError."""
        channel = UdpChannel(
            self.driver,
            self._accept_udp,
            host,
            port,
            mtu=mtu,
            idle_ns=idle_ns,
            limit=limit,
            segmentation=segmentation,
        )
        self._udp.append(channel)
        self._closers.append(channel.close)
        return channel.uri

    def open_ethernet(
        self, interface: Interface, *, listen: bool, limit: int, idle_ns: int = 600 * SECOND
    ) -> FaceUri:
        """Allow Ethernet faces on an interface, and neighbours to make them if `listen`; raise OSError."""
        channel = EthernetChannel(
            self.driver, self._accept_ethernet, interface, listen=listen, idle_ns=idle_ns, limit=limit
        )
        self._ethernet[channel.uri] = channel
        self._closers.append(channel.close)
        return channel.uri

    def join_ethernet(self, interface: Interface, group: str) -> Face:
        """Make the face of a group on an interface that open_ethernet() has opened; raise OSError."""
        channel = self._ethernet[FaceUri("dev", interface.name)]
        remote = FaceUri("ether", group)
        channel.join(mac_of(remote))
        wanted = FaceParameters(persistency=Persistency.PERMANENT)
        return self._add_ethernet(channel, remote, wanted, LinkType.MULTI_ACCESS)

    def join_udp(self, interface: Interface, group: str, port: int, *, mtu: int = DEFAULT_MTU) -> Face:
        """Make the face of a UDP multicast group on an interface; raise OSError."""
        sockets = MulticastSockets(interface, group, port)
        largest = _LARGEST_UDP[sockets.remote.family]
        entry = self._add(
            sockets.remote,
            sockets.local,
            _PERMANENT,
            FaceParameters(persistency=Persistency.PERMANENT, flags=0, mask=CONGESTION_MARKING),
            mtu=min(mtu, largest),
            link_type=LinkType.MULTI_ACCESS,
            is_of_interface=True,
        )
        entry.largest = largest
        MulticastTransport(self.driver, entry.face.number, sockets)
        self._announce(entry)
        return entry.face

    def channels(self) -> list[str]:
        uris = [channel.uri for channel in self._stream_channels]
        uris += [channel.uri for channel in self._udp]
        return [str(uri) for uri in [*uris, *self._ethernet]]

    def close(self) -> None:
        """Close everything."""
        for entry in self._entries.values():
            self._stop(entry)
        for task in self._tasks:
            task.cancel()
        for close in self._closers:
            close()
        self.driver.close()

    # --- faces that others make ---

    def _accept(self, channel: StreamChannel, sock: socket.socket) -> None:
        if len(channel.faces) >= channel.limit:
            self.driver.drops["too many connections"] += 1
            sock.close()
            return
        if channel.uri.scheme == "unix":
            remote, local, is_local = FaceUri("fd", str(sock.fileno())), channel.uri, True
            allowed = _ON_DEMAND
        else:
            try:
                remote, local = (
                    from_address("tcp", sock.getpeername()),
                    from_address("tcp", sock.getsockname()),
                )
            except OSError:
                sock.close()  # it has gone again
                return
            is_local = remote.is_loopback and local.is_loopback
            allowed = _ANY
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wanted = FaceParameters(persistency=Persistency.ON_DEMAND)
        entry = self._add(remote, local, allowed, wanted, is_local=is_local)
        entry.channel = channel
        channel.faces.add(entry.face.number)
        self._connect_stream(entry, sock)
        self._announce(entry)

    def _accept_udp(
        self, channel: UdpChannel, remote: FaceUri, connect: Callable[[], socket.socket]
    ) -> int | None:
        """Make a face for a neighbour that has written to a channel; see UdpChannel."""
        if len(channel.faces) >= channel.limit:
            self.driver.drops["too many neighbours"] += 1
            return None
        try:
            sock = connect()
        except OSError as error:
            self.driver.drops["cannot connect"] += 1
            log.debug("%s: %s", remote, error)
            return None
        face = self._add_udp(channel, remote, sock, FaceParameters(persistency=Persistency.ON_DEMAND))
        face.is_proven = False
        return face.number

    def _add_udp(
        self, channel: UdpChannel, remote: FaceUri, sock: socket.socket, wanted: FaceParameters
    ) -> Face:
        largest = _LARGEST_UDP[channel.family]
        entry = self._add(
            remote,
            from_address("udp", sock.getsockname()),
            _ANY,
            wanted,
            mtu=min(wanted.mtu or channel.mtu, largest),
        )
        entry.largest = largest
        entry.channel = channel
        entry.idle_ns = channel.idle_ns
        channel.faces[remote] = entry.face.number
        number = entry.face.number
        UdpTransport(
            self.driver,
            number,
            sock,
            segmentation=channel.segmentation,
            on_unreachable=lambda why: self._on_unreachable(number, why),
        )
        self._watch(entry)
        self._announce(entry)
        return entry.face

    def _accept_ethernet(self, channel: EthernetChannel, remote: FaceUri) -> int | None:
        """Make a face for a neighbour that has written to an interface; see EthernetChannel."""
        if len(channel.faces) >= channel.limit:
            self.driver.drops["too many neighbours"] += 1
            return None
        wanted = FaceParameters(persistency=Persistency.ON_DEMAND)
        return self._add_ethernet(channel, remote, wanted).number

    def _add_ethernet(
        self,
        channel: EthernetChannel,
        remote: FaceUri,
        wanted: FaceParameters,
        link_type: LinkType = LinkType.POINT_TO_POINT,
    ) -> Face:
        largest = channel.interface.mtu
        entry = self._add(
            remote,
            channel.uri,
            _ANY if link_type is LinkType.POINT_TO_POINT else _PERMANENT,
            wanted,
            mtu=min(wanted.mtu or largest, largest),
            link_type=link_type,
            is_of_interface=True,
        )
        entry.largest = largest
        entry.idle_ns = channel.idle_ns
        EthernetTransport(self.driver, entry.face.number, channel, mac_of(remote))
        self._watch(entry)
        self._announce(entry)
        return entry.face

    # --- FaceSystem ---

    def create(self, wanted: FaceParameters, now: int, reply: Callable[[Outcome], None]) -> None:
        try:
            remote, local = rules.ends(wanted)
        except ValueError as error:
            reply(Outcome(400, str(error)))
            return
        refusal = rules.refusal(remote, local, wanted)
        if refusal is not None:
            reply(refusal)
        elif (known := self._by_ends.get((remote, local))) is not None:
            reply(self._exists(known))
        elif remote.scheme in ("tcp4", "tcp6"):
            task = self._loop.create_task(self._create_tcp(remote, wanted, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif remote.scheme == "ether":
            reply(self._create_ethernet(remote, local, wanted))
        else:
            reply(self._create_udp(remote, wanted))

    def _exists(self, face: int) -> Outcome:
        record = self._entries[face].face
        return Outcome(409, f"there is a face to {record.uri} already", record)

    def _create_udp(self, remote: FaceUri, wanted: FaceParameters) -> Outcome:
        channel = next((each for each in self._udp if each.family == remote.family), None)
        if channel is None:
            return Outcome(504, f"there is no {remote.scheme} channel to connect from")
        try:
            sock = channel.connect(remote)
        except (OSError, ValueError, TypeError) as error:  # of a scope that is no interface's name
            return Outcome(504, f"{remote}: {getattr(error, 'strerror', None) or error}")
        return Outcome(200, "OK", self._add_udp(channel, remote, sock, wanted))

    def _create_ethernet(self, remote: FaceUri, local: FaceUri | None, wanted: FaceParameters) -> Outcome:
        channel = None if local is None else self._ethernet.get(local)
        if channel is None:
            return Outcome(504, f"there is no Ethernet channel at {local}")
        return Outcome(200, "OK", self._add_ethernet(channel, remote, wanted))

    async def _create_tcp(
        self, remote: FaceUri, wanted: FaceParameters, reply: Callable[[Outcome], None]
    ) -> None:
        try:
            sock = await tcp.connect(remote, tcp.CONNECT_S)
        except TimeoutError:
            reply(Outcome(504, f"{remote} does not answer"))
        except (OSError, ValueError, TypeError) as error:  # of a scope that is no interface's name
            reply(Outcome(504, f"{remote}: {getattr(error, 'strerror', None) or error}"))
        else:
            known = self._by_ends.get((remote, None))
            if known is not None:  # made in the meantime
                sock.close()
                reply(self._exists(known))
            else:
                local = from_address("tcp", sock.getsockname())
                is_local = remote.is_loopback and local.is_loopback
                entry = self._add(remote, local, _ANY, wanted, is_local=is_local)
                self._connect_stream(entry, sock)
                self._announce(entry)
                reply(Outcome(200, "OK", entry.face))
        self.driver.schedule()

    def update(self, face: int, wanted: FaceParameters, now: int) -> Outcome:
        entry = self._entries.get(face)
        if entry is None:
            return Outcome(404, f"there is no face {face} that can be changed")
        record = entry.face
        rejected = rules.rejected(record, wanted, entry.persistencies, entry.largest is not None)
        if rejected is not None:
            return Outcome(409, "the face cannot be so", record, rejected)
        was_permanent = record.persistency is Persistency.PERMANENT
        if wanted.mtu is not None and entry.largest is not None:
            record.mtu = min(wanted.mtu, entry.largest)
        self._apply(record, wanted)
        if wanted.persistency is not None:
            self._watch(entry)
            if was_permanent and not record.is_up and record.persistency is not Persistency.PERMANENT:
                self._loop.call_soon(self.remove, face, "down, and not permanent any more")
        return Outcome(200, "OK", record)

    def destroy(self, face: int, now: int) -> None:
        """See FaceSystem. Outputs up to now are still sent."""
        self._loop.call_soon(self.remove, face, "by command")
