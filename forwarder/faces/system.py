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
from forwarder.faces import unix
from forwarder.faces.driver import Driver
from forwarder.faces.stream import Listener, StreamTransport
from forwarder.faces.udp import UdpChannel, UdpTransport
from forwarder.faces.uri import FaceUri, from_address, parse
from forwarder.host import Host
from forwarder.link import MIN_FRAME

SECOND = 1_000_000_000
DEFAULT_MTU = 8800
"""Largest frame on UDP, bytes: IP cuts it where the path takes less, as NFD leaves it to do."""
_LARGEST_UDP = {socket.AF_INET: 65467, socket.AF_INET6: 65527}
_CONNECT_S = 8.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 300.0

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

    `largest` is the frame that the transport takes, bytes; None if any.
    """

    face: Face
    remote: FaceUri
    persistencies: frozenset[Persistency]
    largest: int | None = None
    channel: StreamChannel | UdpChannel | None = None
    idle_ns: int = 0
    seen_bytes: int = 0
    timer: asyncio.TimerHandle | None = None
    reconnecting: "asyncio.Task[None] | None" = None


_ANY = frozenset(Persistency)
_ON_DEMAND = frozenset({Persistency.ON_DEMAND})


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
        self._by_remote: dict[FaceUri, int] = {}
        self._udp: dict[socket.AddressFamily, UdpChannel] = {}
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
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((host, port))
        except OSError:
            sock.close()
            raise
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

    def channels(self) -> list[str]:
        """See FaceSystem."""
        uris = [channel.uri for channel in self._stream_channels]
        return [str(uri) for uri in uris + [channel.uri for channel in self._udp.values()]]

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
        entry = self._add(remote, local, allowed, FaceParameters(persistency=Persistency.ON_DEMAND), is_local)
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
            is_local=False,
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

    def _add(
        self,
        remote: FaceUri,
        local: FaceUri,
        allowed: frozenset[Persistency],
        wanted: FaceParameters,
        is_local: bool,
        mtu: int | None = None,
        link_type: LinkType = LinkType.POINT_TO_POINT,
    ) -> _Entry:
        face = self._host.add_face(mtu=mtu, local=is_local, link_type=link_type)
        face.uri, face.local_uri = str(remote), str(local)
        face.persistency = Persistency.PERSISTENT
        face.is_marking = self._is_marking
        entry = self._entries[face.number] = _Entry(face, remote, allowed)
        self._by_remote[remote] = face.number
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
        wait = _FIRST_WAIT_S
        while True:
            begun = self._loop.time()
            try:
                sock = await self._open_tcp(entry.remote, wait)
            except OSError as error:
                log.debug("face %d: still down: %s", entry.face.number, error)
            else:
                break
            await asyncio.sleep(max(begun + wait - self._loop.time(), 0))
            wait = min(2 * wait, _LONGEST_WAIT_S)
        entry.reconnecting = None
        entry.face.local_uri = str(from_address("tcp", sock.getsockname()))
        self._connect_stream(entry, sock)
        log.info("face %d: up", entry.face.number)
        self._set_up(entry, True)

    async def _open_tcp(self, remote: FaceUri, seconds: float) -> socket.socket:
        """Return a connected socket; raise OSError."""
        sock = socket.socket(remote.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.wait_for(self._loop.sock_connect(sock, remote.address), seconds)
        except BaseException:
            sock.close()
            raise
        return sock

    def remove(self, number: int, why: str) -> None:
        """Close a face; no effect if there is none of that number."""
        entry = self._entries.pop(number, None)
        if entry is None:
            return
        self._stop(entry)
        if self._by_remote.get(entry.remote) == number:
            del self._by_remote[entry.remote]
        if isinstance(entry.channel, UdpChannel):
            entry.channel.faces.pop(entry.remote, None)
        elif entry.channel is not None:
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
            remote = parse(wanted.uri or "")
            local = None if wanted.local_uri is None else parse(wanted.local_uri)
        except ValueError as error:
            reply(Outcome(400, str(error)))
            return
        for uri in (remote, local):
            if uri is not None and not uri.is_canonical:
                reply(Outcome(400, f"{uri} is not in canonical form"))
                return
        refusal = self._refusal(remote, local, wanted)
        if refusal is not None:
            reply(refusal)
            return
        known = self._by_remote.get(remote)
        if known is not None:
            reply(Outcome(409, f"there is a face to {remote} already", self._entries[known].face))
        elif remote.scheme in ("udp4", "udp6"):
            channel = self._udp[remote.family]
            try:
                sock = channel.connect(remote)
            except OSError as error:
                reply(Outcome(504, f"{remote}: {error.strerror or error}"))
                return
            reply(Outcome(200, "OK", self._add_udp(channel, remote, sock, wanted)))
        else:
            task = self._loop.create_task(self._create_tcp(remote, wanted, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _refusal(self, remote: FaceUri, local: FaceUri | None, wanted: FaceParameters) -> Outcome | None:
        """Say why there cannot be such a face; None if there can."""
        scheme = remote.scheme
        bits = (wanted.flags or 0) & (wanted.mask or 0)
        if scheme not in ("udp4", "udp6", "tcp4", "tcp6"):
            return Outcome(406, f"no face can be made to {scheme}://")
        if local is not None:
            return Outcome(406, f"a LocalUri cannot be chosen for {scheme}")
        if remote.is_multicast:
            return Outcome(406, "multicast faces are made by the configuration")
        if wanted.persistency is Persistency.ON_DEMAND:
            return Outcome(406, "a face that is asked for is persistent or permanent, not on demand")
        is_local = scheme.startswith("tcp") and remote.is_loopback
        if bits & LOCAL_FIELDS and not is_local:
            return Outcome(406, "local fields are for faces of local scope")
        if bits & RELIABILITY and is_local:
            return Outcome(406, "link reliability is for faces of non-local scope")
        if scheme.startswith("tcp"):
            return None if wanted.mtu is None else Outcome(406, "a TCP face has no MTU")
        if wanted.mtu is not None and wanted.mtu < MIN_FRAME:
            return Outcome(406, f"an MTU is at least {MIN_FRAME}")
        if remote.family not in self._udp:
            return Outcome(504, f"there is no {scheme} channel to connect from")
        return None

    async def _create_tcp(
        self, remote: FaceUri, wanted: FaceParameters, reply: Callable[[Outcome], None]
    ) -> None:
        try:
            sock = await self._open_tcp(remote, _CONNECT_S)
        except TimeoutError:
            reply(Outcome(504, f"{remote} does not answer"))
        except OSError as error:
            reply(Outcome(504, f"{remote}: {error.strerror or error}"))
        else:
            known = self._by_remote.get(remote)
            if known is not None:  # made in the meantime
                sock.close()
                reply(Outcome(409, f"there is a face to {remote} already", self._entries[known].face))
            else:
                local = from_address("tcp", sock.getsockname())
                is_local = remote.is_loopback and local.is_loopback
                entry = self._add(remote, local, _ANY, wanted, is_local)
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
        bits = (wanted.flags or 0) & (wanted.mask or 0)
        bad_bits = 0
        if bits & LOCAL_FIELDS and not record.is_local:
            bad_bits |= LOCAL_FIELDS
        if bits & RELIABILITY and record.is_local:
            bad_bits |= RELIABILITY
        bad_persistency = (
            wanted.persistency
            if wanted.persistency is not None and wanted.persistency not in entry.persistencies
            else None
        )
        bad_mtu = (
            wanted.mtu
            if wanted.mtu is not None and (entry.largest is None or wanted.mtu < MIN_FRAME)
            else None
        )
        if bad_bits or bad_persistency is not None or bad_mtu is not None:
            rejected = FaceParameters(
                persistency=bad_persistency,
                mtu=bad_mtu,
                flags=bad_bits or None,
                mask=bad_bits or None,
            )
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
