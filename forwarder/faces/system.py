"""All faces of a daemon: FaceSystem over sockets (NFD developer guide, section 2; NFD FaceMgmt).

Faces come about in three ways: a neighbour connects to a channel or writes to it (on demand), a command
or the configuration asks for one, or an interface has a multicast group. They end by a command, with their
connection, or when they have been idle; a permanent one waits for its connection to come back.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from forwarder.face import Face, LinkType, Persistency
from forwarder.face_system import (
    CONGESTION_MARKING,
    LOCAL_FIELDS,
    RELIABILITY,
    FaceEvent,
    FaceParameters,
    Outcome,
)
from forwarder.faces import rules, tcp, unix
from forwarder.faces.driver import Driver
from forwarder.faces.ethernet import EthernetChannel, EthernetTransport, mac_of
from forwarder.faces.multicast import MulticastSockets, MulticastTransport
from forwarder.faces.netif import Interface
from forwarder.faces.stream import Listener, StreamTransport
from forwarder.faces.udp import UdpChannel, UdpTransport
from forwarder.faces.uri import FaceUri, from_address
from forwarder.host import Host

SECOND = 1_000_000_000
DEFAULT_MTU = 8800
"""Largest frame on UDP, bytes: IP cuts it where the path takes less, as NFD leaves it to do."""
_LARGEST_UDP = {socket.AF_INET: 65467, socket.AF_INET6: 65527}
_ANY = frozenset(Persistency)
_ON_DEMAND = frozenset({Persistency.ON_DEMAND})
_PERMANENT = frozenset({Persistency.PERMANENT})

log = logging.getLogger("feednet")


@dataclass(slots=True)
class StreamChannel:
    """A listening stream socket and the faces that have come by it."""

    uri: FaceUri
    limit: int
    faces: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Entry:
    """A face with what only its keeper knows.

    `largest` is the frame that the transport takes, bytes; None if any. `local` tells faces with one remote
    end apart: the interface.
    """

    face: Face
    remote: FaceUri
    persistencies: frozenset[Persistency]
    local: FaceUri | None = None
    largest: int | None = None
    channel: StreamChannel | UdpChannel | None = None
    idle_ns: int = 0
    seen_bytes: int = 0
    timer: asyncio.TimerHandle | None = None
    reconnecting: "asyncio.Task[None] | None" = None

    @property
    def ends(self) -> tuple[FaceUri, FaceUri | None]:
        """What no two faces have in common."""
        return self.remote, self.local


class Faces:
    """The faces of a host that its daemon runs; a forwarder.face_system.FaceSystem.

    Args:
        host: numbers its faces from forwarder.face.FIRST_FACE.
        loop: the event loop.
        is_marking: whether faces mark congestion unless told otherwise.

    Attributes:
        driver: runs the host.
    """

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop, *, is_marking: bool = True) -> None:
        self.driver = Driver(host, loop)
        self._host = host
        self._loop = loop
        self._is_marking = is_marking
        self._entries: dict[int, _Entry] = {}
        self._by_ends: dict[tuple[FaceUri, FaceUri | None], int] = {}
        self._udp: dict[socket.AddressFamily, UdpChannel] = {}
        self._ethernet: dict[FaceUri, EthernetChannel] = {}
        self._stream_channels: list[StreamChannel] = []
        self._closers: list[Callable[[], None]] = []
        self._listeners: list[Callable[[FaceEvent, Face, int], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # --- channels ---

    def listen_unix(self, path: Path, *, limit: int) -> FaceUri:
        """Take connections at a path, `limit` at a time; raise OSError with a line for the user."""
        sock = unix.bind(path)
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
        self, host: str, port: int, *, limit: int, mtu: int = DEFAULT_MTU, idle_ns: int = 600 * SECOND
    ) -> FaceUri:
        """Take frames at an address; raise OSError."""
        channel = UdpChannel(self.driver, self, host, port, mtu=mtu, idle_ns=idle_ns, limit=limit)
        self._udp[channel.family] = channel
        self._closers.append(channel.close)
        return channel.uri

    def open_ethernet(
        self, interface: Interface, *, listen: bool, limit: int, idle_ns: int = 600 * SECOND
    ) -> FaceUri:
        """Allow Ethernet faces on an interface, and neighbours to make them if `listen`; raise OSError."""
        channel = EthernetChannel(self.driver, self, interface, listen=listen, idle_ns=idle_ns, limit=limit)
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
        """See FaceSystem."""
        uris = [channel.uri for channel in self._stream_channels]
        uris += [channel.uri for channel in self._udp.values()]
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

    def accept_udp(
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
        return self._add_udp(channel, remote, sock, FaceParameters(persistency=Persistency.ON_DEMAND)).number

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
        UdpTransport(self.driver, entry.face.number, sock)
        self._watch(entry)
        self._announce(entry)
        return entry.face

    def accept_ethernet(self, channel: EthernetChannel, remote: FaceUri) -> int | None:
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

    def _add(
        self,
        remote: FaceUri,
        local: FaceUri,
        allowed: frozenset[Persistency],
        wanted: FaceParameters,
        *,
        is_local: bool = False,
        mtu: int | None = None,
        link_type: LinkType = LinkType.POINT_TO_POINT,
        is_of_interface: bool = False,
    ) -> _Entry:
        face = self._host.add_face(mtu=mtu, local=is_local, link_type=link_type)
        face.uri, face.local_uri = str(remote), str(local)
        face.persistency = Persistency.PERSISTENT
        face.is_marking = self._is_marking
        entry = _Entry(face, remote, allowed, local if is_of_interface else None)
        self._entries[face.number] = entry
        self._by_ends[entry.ends] = face.number
        self._apply(face, wanted)
        return entry

    def _announce(self, entry: _Entry) -> None:
        face = entry.face
        log.info("face %d: %s from %s, %s", face.number, face.uri, face.local_uri, face.persistency.name)
        self._tell(FaceEvent.CREATED, face)

    def _tell(self, event: FaceEvent, face: Face) -> None:
        now = self.driver.clock()
        for listener in self._listeners:
            listener(event, face, now)
        self.driver.poke()

    def _connect_stream(self, entry: _Entry, sock: socket.socket) -> None:
        number = entry.face.number
        StreamTransport(self.driver, number, sock, lambda why: self._on_end(number, why))

    def _on_end(self, number: int, why: str) -> None:
        """Take note that a connection has ended."""
        entry = self._entries.get(number)
        if entry is None:
            return
        if entry.face.persistency is not Persistency.PERMANENT:
            self.remove(number, why)
            return
        log.info("face %d: down: %s", number, why)
        self.driver.transports.pop(number).close()
        self._set_up(entry, False)
        entry.reconnecting = self._loop.create_task(self._reconnect(entry))

    def _set_up(self, entry: _Entry, is_up: bool) -> None:
        self._host.set_link(entry.face.number, is_up, self.driver.clock())
        self._tell(FaceEvent.UP if is_up else FaceEvent.DOWN, entry.face)

    async def _reconnect(self, entry: _Entry) -> None:
        sock = await tcp.reconnect(entry.remote)
        entry.reconnecting = None
        entry.face.local_uri = str(from_address("tcp", sock.getsockname()))
        self._connect_stream(entry, sock)
        log.info("face %d: up", entry.face.number)
        self._set_up(entry, True)

    def remove(self, number: int, why: str) -> None:
        """Close a face; no effect if there is none of that number."""
        entry = self._entries.pop(number, None)
        if entry is None:
            return
        self._stop(entry)
        if self._by_ends.get(entry.ends) == number:
            del self._by_ends[entry.ends]
        if isinstance(entry.channel, UdpChannel):
            entry.channel.faces.pop(entry.remote, None)
        elif isinstance(entry.channel, StreamChannel):
            entry.channel.faces.discard(number)
        transport = self.driver.transports.pop(number, None)
        if transport is not None:
            transport.close()
        entry.face.is_up = False
        self._host.remove_face(number, self.driver.clock())
        log.info("face %d: closed: %s", number, why)
        self._tell(FaceEvent.DESTROYED, entry.face)

    def _stop(self, entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        if entry.reconnecting is not None:
            entry.reconnecting.cancel()

    def _watch(self, entry: _Entry) -> None:
        """Close an on-demand face once it has received nothing for a while, up to twice that."""
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        face = entry.face
        face.expiry = None
        if face.persistency is Persistency.ON_DEMAND and entry.idle_ns:
            entry.seen_bytes = face.in_bytes
            face.expiry = self.driver.clock() + entry.idle_ns
            entry.timer = self._loop.call_later(entry.idle_ns / SECOND, self._on_idle, entry)

    def _on_idle(self, entry: _Entry) -> None:
        entry.timer = None
        if entry.face.in_bytes == entry.seen_bytes:
            self.remove(entry.face.number, "idle")
        else:
            self._watch(entry)

    # --- FaceSystem ---

    def create(self, wanted: FaceParameters, now: int, reply: Callable[[Outcome], None]) -> None:
        """See FaceSystem."""
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
        channel = self._udp.get(remote.family)
        if channel is None:
            return Outcome(504, f"there is no {remote.scheme} channel to connect from")
        try:
            sock = channel.connect(remote)
        except OSError as error:
            return Outcome(504, f"{remote}: {error.strerror or error}")
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
        except OSError as error:
            reply(Outcome(504, f"{remote}: {error.strerror or error}"))
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
        self.driver.poke()

    def update(self, face: int, wanted: FaceParameters, now: int) -> Outcome:
        """See FaceSystem."""
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

    def _apply(self, face: Face, wanted: FaceParameters) -> None:
        """Set on a face what is asked for and has been found possible."""
        if wanted.persistency is not None:
            face.persistency = wanted.persistency
        if wanted.marking_interval is not None:
            face.marking_interval = wanted.marking_interval
        if wanted.marking_threshold is not None:
            face.marking_threshold = wanted.marking_threshold
        flags, mask = wanted.flags or 0, wanted.mask or 0
        if mask & LOCAL_FIELDS:
            face.local_fields = bool(flags & LOCAL_FIELDS)
        if mask & RELIABILITY:
            face.is_reliable = bool(flags & RELIABILITY)
        if mask & CONGESTION_MARKING:
            face.is_marking = bool(flags & CONGESTION_MARKING)
        self._host.configure(face.number)

    def destroy(self, face: int, now: int) -> None:
        """See FaceSystem. What has been put out for it by now still leaves."""
        self._loop.call_soon(self.remove, face, "by command")

    def listen(self, listener: Callable[[FaceEvent, Face, int], None]) -> None:
        """See FaceSystem."""
        self._listeners.append(listener)
