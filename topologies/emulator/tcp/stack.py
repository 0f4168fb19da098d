"""All connections of a node: dispatching segments, collecting output, timers.

    stack.listen(port)                              accept connections
    number = stack.connect(address, port, now)      open a connection
    stack.send(number, data, now)                   buffer bytes
    stack.read(number, limit, now)                  take received bytes
    stack.close(number, now)                        finish sending
    stack.receive(octets, source, destination, now) a segment has arrived
    stack.wake(now)                                 at next_deadline()
    stack.take_segments()                           the output, after any of these
    stack.take_events()                             events for applications

Segments are built when they are taken: data sent until then share segments as full as possible, which carry
the pending acknowledgement. Only acknowledgements whose number counts (of duplicate or out-of-order data) are
built at once. There is no clock and no socket here: equal calls give equal bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from random import Random
from typing import Final

from base.timers import Timers
from base.units import NEVER
from topologies.emulator.tcp.connection import Connection
from topologies.emulator.tcp.events import Event
from topologies.emulator.tcp.segment import (
    ACK,
    RST,
    SYN,
    MalformedSegment,
    Segment,
    decode,
    encode,
    pseudo_header,
)
from topologies.emulator.tcp.settings import Ends, Settings
from topologies.emulator.tcp.states import State

BACKLOG: Final = 128
"""Default backlog: half-open connections of a listener at most."""
_EPHEMERAL: Final = range(49_152, 65_536)  # RFC 6335, section 6
_NOWHERE: Final = "255.255.255.255"


class StackError(ValueError):
    """An invalid request to a stack; the message is one line."""


class UnknownConnection(LookupError):
    """There is no connection with that number, or it has ended and was read completely."""


@dataclass(slots=True)
class Counters:
    """Counters of segments and SYNs.

    received: all. malformed: no segments, or with a wrong checksum. strange: to other addresses, or from an
    invalid one. unknown: of no connection; all but resets were answered by a reset. refused: SYNs dropped
    because of a full backlog. sent: all. repeated: retransmissions of closed connections.
    """

    received: int = 0
    malformed: int = 0
    strange: int = 0
    unknown: int = 0
    refused: int = 0
    sent: int = 0
    repeated: int = 0


class _Listener:
    """A listening port; `half_open`: connections that are not accepted yet."""

    def __init__(self, backlog: int) -> None:
        self.backlog = backlog
        self.half_open: set[int] = set()


class Stack:
    """The TCP of a node.

    Args:
        addresses: the node's IPv4 addresses; the first one is the default source of connections.
        rng: of initial sequence numbers and ports (RFC 6528 and 6056 require both to be hard to guess).
        settings: of all its connections.

    Attributes:
        counters: see Counters.

    Raises StackError if there is no address, or an invalid one.
    """

    def __init__(self, addresses: Sequence[str], rng: Random, settings: Settings | None = None) -> None:
        self.counters = Counters()
        self._addresses = tuple(addresses)
        self._rng = rng
        self._settings = settings or Settings()
        self._listeners: dict[int, _Listener] = {}
        self._connections: dict[Ends, Connection] = {}
        self._numbers: dict[int, Connection] = {}
        self._last_number = 0
        self._timers: Timers[Connection] = Timers()
        self._touched: dict[Connection, None] = {}
        self._out: list[tuple[str, str, bytes]] = []
        self._events: list[Event] = []
        self._now = 0
        if not self._addresses:
            raise StackError("a stack needs an address")
        for address in self._addresses:
            self._check(address)

    # --- Calls of applications ---

    def listen(self, port: int, backlog: int = BACKLOG) -> None:
        """Accept connections to a port, each reported by ACCEPTED. Raises StackError if it is taken or
        invalid.

        backlog: half-open connections at a time; SYNs beyond it are dropped, and retransmitted.
        """
        self._check_port(port)
        if port in self._listeners:
            raise StackError(f"port {port} is listened to already")
        self._listeners[port] = _Listener(backlog)

    def unlisten(self, port: int) -> None:
        """Close a listener and abort its half-open connections; no effect without one."""
        listener = self._listeners.pop(port, None)
        for number in sorted(listener.half_open) if listener else ():
            connection = self._numbers[number]
            connection.abort()
            self._touch(connection)

    def connect(self, address: str, port: int, now: int, source: str | None = None) -> int:
        """Open a connection; return its number. CONNECTED or FAILED follows.

        Data sent before are buffered. `source` is one of the stack's addresses. Raises StackError for an
        invalid address or port, and if all ports of this node are in use.
        """
        self._check(address)
        self._check_port(port)
        source = self._addresses[0] if source is None else source
        if source not in self._addresses:
            raise StackError(f"{source} is no address of this stack")
        self._now = now
        ends = Ends(source, self._free_port(source, address, port), address, port)
        connection = self._make(ends)
        connection.connect(now)
        self._touch(connection)
        return connection.number

    def send(self, connection: int, data: bytes | bytearray | memoryview, now: int) -> int:
        """Buffer data to send; return the number of bytes taken.

        All of them, or as many as the buffer has room for (WRITABLE follows when it has room again), or 0
        after close(). Raises UnknownConnection.
        """
        found = self._known(connection, now)
        taken = found.write(data)
        self._touch(found)
        return taken

    def read(self, connection: int, limit: int, now: int) -> bytes:
        """Return up to `limit` received bytes, b"" if there are none. Raises UnknownConnection.

        Unread bytes, up to settings.receive_buffer, reduce the window offered.
        """
        found = self._known(connection, now)
        data = found.read(limit, now)
        if found.state is State.CLOSED and not found.receiver.unread:
            del self._numbers[connection]
        else:
            self._touch(found)
        return data

    def close(self, connection: int, now: int) -> None:
        """Close for sending, after the buffer; reading continues. Raises UnknownConnection."""
        found = self._known(connection, now)
        found.close()
        self._touch(found)

    def abort(self, connection: int, now: int) -> None:
        """Abort a connection: the peer gets a reset; no more events follow. Raises UnknownConnection."""
        found = self._known(connection, now)
        found.abort()
        self._touch(found)

    def state(self, connection: int) -> State:
        """Return the state of a connection. Raises UnknownConnection."""
        return self._known(connection, self._now).state

    def ends(self, connection: int) -> Ends:
        """Return the addresses and ports of a connection. Raises UnknownConnection."""
        return self._known(connection, self._now).ends

    def is_idle(self) -> bool:
        """Return whether the stack has no connections."""
        return not (self._connections or self._numbers or self._touched or self._out or self._events)

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events = self._events[:]
        self._events.clear()
        return events

    # --- Calls of the network ---

    def receive(self, octets: bytes, source_ip: str, destination_ip: str, now: int) -> None:
        """Receive the content of an IPv4 datagram of protocol 6.

        Malformed segments are counted and dropped. Raises ValueError for invalid addresses.
        """
        self._now = now
        self.counters.received += 1
        if destination_ip not in self._addresses:
            self.counters.strange += 1
            return
        try:
            segment = decode(octets, pseudo_header(source_ip, destination_ip))
        except MalformedSegment:
            self.counters.malformed += 1
            return
        ends = Ends(destination_ip, segment.destination_port, source_ip, segment.source_port)
        connection = self._connections.get(ends)
        if connection is not None:
            connection.receive(segment, now)
            self._touch(connection)
        elif segment.flags & (SYN | ACK | RST) == SYN and segment.destination_port in self._listeners:
            self._accept(ends, segment, now)
        else:
            self._refuse(ends, segment)

    def wake(self, now: int) -> None:
        """Process deadlines."""
        self._now = now
        for connection in self._timers.expire(now):
            connection.deadline = NEVER
            connection.wake(now)
            self._touch(connection)

    def next_deadline(self) -> int | None:
        """Return when to call wake(), ns; now if there is output to take; None if nothing is pending."""
        if self._touched or self._out:
            return self._now
        return self._timers.next_deadline()

    def take_segments(self) -> list[tuple[str, str, bytes]]:
        """Return the segments to send: source and destination address, and the datagram's content.

        Now is the time of the last call that had one.
        """
        if not self._touched and not self._out:
            return []
        for connection in self._touched:
            connection.output(self._now)
            self._update_timer(connection)
        self._touched.clear()
        taken = self._out[:]
        self._out.clear()
        self.counters.sent += len(taken)
        return taken

    # --- connections ---

    def _make(self, ends: Ends) -> Connection:
        self._last_number += 1
        first = self._rng.getrandbits(32)
        connection = Connection(self._last_number, ends, self._settings, first, self._out, self._events)
        self._connections[ends] = self._numbers[connection.number] = connection
        return connection

    def _accept(self, ends: Ends, syn: Segment, now: int) -> None:
        source = IPv4Address(ends.remote_ip)
        if source.is_multicast or ends.remote_ip == _NOWHERE:  # RFC 9293, section 3.9.2.3
            self.counters.strange += 1
            return
        listener = self._listeners[ends.local_port]
        if len(listener.half_open) >= listener.backlog:
            self.counters.refused += 1
            return
        connection = self._make(ends)
        listener.half_open.add(connection.number)
        connection.accept(syn, ends.local_port, now)
        self._touch(connection)

    def _refuse(self, ends: Ends, segment: Segment) -> None:
        """Answer a segment of no connection (RFC 9293, section 3.10.7.1)."""
        self.counters.unknown += 1
        if segment.flags & RST:
            return
        if segment.flags & ACK:
            sequence, acknowledgement, flags = segment.acknowledgement, 0, RST
        else:
            sequence, acknowledgement, flags = 0, segment.sequence + segment.length, RST | ACK
        pseudo = pseudo_header(ends.local_ip, ends.remote_ip)
        octets = encode(pseudo, ends.local_port, ends.remote_port, sequence, acknowledgement, flags, 0)
        self._out.append((ends.local_ip, ends.remote_ip, octets))

    def _known(self, number: int, now: int) -> Connection:
        self._now = now
        connection = self._numbers.get(number)
        if connection is None:
            raise UnknownConnection(f"there is no connection {number}")
        return connection

    def _touch(self, connection: Connection) -> None:
        self._touched[connection] = None
        if connection.state is State.CLOSED:
            # At once: the same ends may connect again before segments are taken.
            self._release_ends(connection)

    def _release_ends(self, connection: Connection) -> None:
        if self._connections.get(connection.ends) is connection:
            del self._connections[connection.ends]

    def _update_timer(self, connection: Connection) -> None:
        """Set or clear a connection's timer."""
        state = connection.state
        if connection.port and state is not State.SYN_RECEIVED:
            listener = self._listeners.get(connection.port)
            if listener is not None:
                listener.half_open.discard(connection.number)
        if state is State.CLOSED:
            self._forget(connection)
            return
        due = connection.due()
        if due < connection.deadline:
            connection.deadline = due
            self._timers.set(connection, due)

    def _forget(self, connection: Connection) -> None:
        """Remove a closed connection once its bytes are read."""
        self.counters.repeated += connection.sender.repeated
        self._release_ends(connection)
        connection.deadline = NEVER
        self._timers.set(connection, None)
        if not connection.receiver.unread:
            self._numbers.pop(connection.number, None)

    def _free_port(self, source: str, address: str, port: int) -> int:
        start = self._rng.randrange(len(_EPHEMERAL))
        for offset in range(len(_EPHEMERAL)):
            local = _EPHEMERAL[(start + offset) % len(_EPHEMERAL)]
            if local not in self._listeners and Ends(source, local, address, port) not in self._connections:
                return local
        raise StackError(f"all ports from {source} to {address} port {port} are taken")

    @staticmethod
    def _check(address: str) -> None:
        try:
            pseudo_header(address, address)
        except ValueError:
            raise StackError(f"no IPv4 address: {address!r}") from None

    @staticmethod
    def _check_port(port: int) -> None:
        if not 1 <= port <= 0xFFFF:
            raise StackError(f"a port is from 1 to 65535, not {port}")
