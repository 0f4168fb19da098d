"""The faces of a daemon, from the first to the last that is heard of them.

A face ends by a command, with its connection, when its neighbour cannot be reached (UDP), or when it has been
idle; a permanent one waits for its connection, or its neighbour, to come back.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from base.units import SECOND
from forwarder.faces import tcp
from forwarder.faces.driver import Driver
from forwarder.faces.stream import StreamTransport
from forwarder.faces.udp import UdpChannel
from forwarder.faces.uri import FaceUri, from_address
from forwarder.host import Host
from forwarder.tables.face import Face, LinkType, Persistency
from forwarder.tables.face_system import (
    CONGESTION_MARKING,
    LOCAL_FIELDS,
    RELIABILITY,
    FaceEvent,
    FaceParameters,
)

log = logging.getLogger("feednet")


@dataclass(slots=True)
class StreamChannel:
    """A listening stream socket and the faces that have come by it."""

    uri: FaceUri
    limit: int
    faces: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Entry:
    """A face and its transport's limits.

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
        """The key by which faces differ."""
        return self.remote, self.local


class FaceTable:
    """The FaceSystem: faces by their ends, and the listeners for their events.

    Args:
        host: numbers its faces from forwarder.tables.face.FIRST_FACE.
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
        self._entries: dict[int, Entry] = {}
        self._by_ends: dict[tuple[FaceUri, FaceUri | None], int] = {}
        self._listeners: list[Callable[[FaceEvent, Face, int], None]] = []

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
    ) -> Entry:
        face = self._host.add_face(mtu=mtu, local=is_local, link_type=link_type)
        face.uri, face.local_uri = str(remote), str(local)
        face.persistency = Persistency.PERSISTENT
        face.is_marking = self._is_marking
        entry = Entry(face, remote, allowed, local if is_of_interface else None)
        self._entries[face.number] = entry
        self._by_ends[entry.ends] = face.number
        self._apply(face, wanted)
        return entry

    def _apply(self, face: Face, wanted: FaceParameters) -> None:
        """Set validated parameters on a face."""
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

    def _announce(self, entry: Entry) -> None:
        face = entry.face
        log.info("face %d: %s from %s, %s", face.number, face.uri, face.local_uri, face.persistency.name)
        self._tell(FaceEvent.CREATED, face)

    def _tell(self, event: FaceEvent, face: Face) -> None:
        now = self.driver.clock()
        for listener in self._listeners:
            listener(event, face, now)
        self.driver.schedule()

    def listen(self, listener: Callable[[FaceEvent, Face, int], None]) -> None:
        self._listeners.append(listener)

    def _connect_stream(self, entry: Entry, sock: socket.socket) -> None:
        number = entry.face.number
        StreamTransport(self.driver, number, sock, lambda why: self._on_end(number, why))

    def _on_end(self, number: int, why: str) -> None:
        """Handle the end of a connection."""
        entry = self._entries.get(number)
        if entry is None:
            return
        if entry.face.persistency is not Persistency.PERMANENT:
            self.remove(number, why)
            return
        log.info("face %d: down: %s", number, why)
        transport = self.driver.detach(number)
        assert transport is not None
        transport.close()
        self._set_up(entry, False)
        entry.reconnecting = self._loop.create_task(self._reconnect(entry))

    def _on_unreachable(self, number: int, why: str) -> None:
        """Close a face whose neighbour cannot be reached, as NFD does; a permanent one waits for it."""
        entry = self._entries.get(number)
        if entry is not None and entry.face.persistency is not Persistency.PERMANENT:
            self._loop.call_soon(self.remove, number, why)

    def _set_up(self, entry: Entry, is_up: bool) -> None:
        self._host.set_link(entry.face.number, is_up, self.driver.clock())
        self._tell(FaceEvent.UP if is_up else FaceEvent.DOWN, entry.face)

    async def _reconnect(self, entry: Entry) -> None:
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
        transport = self.driver.detach(number)
        if transport is not None:
            transport.close()
        entry.face.is_up = False
        self._host.remove_face(number, self.driver.clock())
        log.info("face %d: closed: %s", number, why)
        self._tell(FaceEvent.DESTROYED, entry.face)

    def _stop(self, entry: Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        if entry.reconnecting is not None:
            entry.reconnecting.cancel()

    def _watch(self, entry: Entry) -> None:
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

    def _on_idle(self, entry: Entry) -> None:
        entry.timer = None
        if entry.face.in_bytes == entry.seen_bytes:
            self.remove(entry.face.number, "idle")
        else:
            self._watch(entry)
