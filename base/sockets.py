"""Programs on real sockets: the same endpoints as in the emulator, with the machine's clock.

For measurements, the outputs of a datagram are sent before the next one is received. An exception of a
program goes to the event loop's handler; the program's outputs are still sent, and it is woken again.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import sample

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    DatagramPort,
    Ended,
    Endpoint,
    Full,
    GroupPort,
    LinkPort,
    Opened,
    Pause,
    Port,
    Program,
    Received,
    Send,
    StreamAction,
    StreamEndpoint,
    StreamEvent,
    StreamPort,
    Writable,
)
from base.event_loop import BURST, Alarm
from base.timers import earliest

BROADCAST = "255.255.255.255"
"""The broadcast group."""

_LARGEST = 65535
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_BUFFER = 4 << 20
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_DONT = 0
_AFTER_A_MISTAKE = 1_000_000_000  # ns
_RESET = struct.pack("@ii", 1, 0)
"""SO_LINGER value with which close() sends a reset."""


class Sockets:
    """The programs of a node.

    Args:
        programs: the node's.
        address: the node's own, for its programs.
        clock: the time, ns.
        within: creates the context in which each socket is opened, such as a network namespace. A socket
            stays there, so one process may run the programs of many nodes.
    """

    def __init__(
        self,
        programs: Iterable[Program],
        address: str,
        clock: Callable[[], int],
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._programs = list(programs)
        self._within = within
        self._with_streams = [
            (number, endpoint)
            for number, (endpoint, _) in enumerate(self._programs)
            if isinstance(endpoint, StreamEndpoint)
        ]
        self._address = address
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[tuple[int, int], socket.socket] = {}  # by a program's and its port's number
        self._groups: dict[tuple[int, int], Address] = {}  # likewise, destinations of GroupPorts
        self._sending: dict[tuple[int, int], socket.socket] = {}  # and the sending sockets of shared ones
        self._elsewhere: dict[int, Callable[[int, bytes], None]] = {}  # by a program's number
        self._own: set[Address] = set()  # their source addresses
        self._servers: list[asyncio.Server] = []
        self._streams: dict[tuple[int, int], _Stream] = {}  # by a program's and its stream's number
        self._is_closed = False
        self._accepted = count(-1, -1)
        self._alarm = Alarm(self._loop, clock, self._wake)

    async def start(self) -> None:
        """Open all ports, and start the programs. Raises OSError."""
        for number, (endpoint, ports) in enumerate(self._programs):
            for port_number, port in ports.items():
                if isinstance(port, LinkPort):
                    here, there = port.interface.ipv4, port.interface.peer_ipv4
                    sock = self._open(number, port_number, (here, port.number), is_open=False)
                    sock.connect((there, port.number))
                elif isinstance(port, DatagramPort):
                    self._open(number, port_number, (self._address, port.number), is_open=True)
                elif isinstance(port, GroupPort):
                    group = port.group, port.number
                    # There is a socket an interface, and other programs have theirs: each gets all datagrams.
                    options = [socket.SO_REUSEADDR, *[socket.SO_REUSEPORT] * port.is_shared]
                    sock = self._open(number, port_number, group, is_open=True, options=options)
                    _join(sock, port)
                    self._groups[number, port_number] = group
                    if port.is_shared:
                        self._sending[number, port_number] = sock = self._sending_socket(port)
                        self._own.add(sock.getsockname())
                    else:
                        self._own.add((port.interface.ipv4, port.number))
                elif isinstance(port, StreamPort) and isinstance(endpoint, StreamEndpoint):
                    make = partial(self._accept, number, endpoint, port.number)
                    listening = self._stream_socket(port.number)
                    self._servers.append(await self._loop.create_server(make, sock=listening, backlog=128))
        self._wake()

    def set_link(self, peer: str, up: bool) -> None:
        """Notify the programs that the link to a neighbour is down, or up again."""
        for endpoint, ports in self._programs:
            for number, port in ports.items():
                if isinstance(port, LinkPort) and port.interface.peer == peer:
                    endpoint.set_link(number, up, self._clock())
        self.settle()

    def redirect(self, endpoint: Endpoint, to: Callable[[int, bytes], None]) -> None:
        """Redirect a program's output at ports without a socket here, as (port, datagram)."""
        (program,) = (number for number, each in enumerate(self._programs) if each.endpoint is endpoint)
        self._elsewhere[program] = to

    def ports(self, endpoint: Endpoint) -> Mapping[int, Port]:
        """Return the ports of a program by number."""
        return next(each.ports for each in self._programs if each.endpoint is endpoint)

    def send(self, endpoint: Endpoint, port: int, payload: bytes) -> None:
        """Send a program's datagram, taken from it elsewhere, at a LinkPort."""
        (program,) = (number for number, each in enumerate(self._programs) if each.endpoint is endpoint)
        self._send(program, port, payload, None)

    def close(self) -> None:
        """Close everything; the kernel notifies the other ends, and programs get no more events."""
        self._is_closed = True
        self._alarm.cancel()
        for sock in self._sockets.values():
            self._loop.remove_reader(sock)
            sock.close()
        for sock in self._sending.values():
            sock.close()
        for server in self._servers:
            server.close()
        for stream in list(self._streams.values()):
            stream.end()

    def notify(self, endpoint: StreamEndpoint, event: StreamEvent) -> None:
        """Deliver a stream's event to a program, and send its outputs."""
        if self._is_closed:
            return
        try:
            endpoint.on_stream(event, self._clock())
        finally:
            self.settle()

    def remove(self, program: int, stream: int) -> None:
        """Remove a stream that has ended."""
        self._streams.pop((program, stream), None)

    # Datagrams.

    def _open(
        self, program: int, port: int, local: Address, *, is_open: bool, options: Iterable[int] = ()
    ) -> socket.socket:
        """Open a socket with options that are turned on; `is_open` for several senders."""
        with self._within():
            sock = udp_socket(socket.AF_INET)
        self._sockets[program, port] = sock
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind(local)
        endpoint = self._programs[program].endpoint
        self._loop.add_reader(sock, self._on_readable, sock, endpoint, port, is_open)
        return sock

    def _on_readable(self, sock: socket.socket, endpoint: Endpoint, port: int, is_open: bool) -> None:
        for _ in range(BURST):
            try:
                payload, sender = sock.recvfrom(_LARGEST)
            except BlockingIOError:
                break
            except OSError:
                continue  # an earlier datagram was refused
            if sender in self._own:
                continue  # the kernel returns a broadcast to its sender, too
            try:
                endpoint.receive(port, payload, sender if is_open else None, self._clock())
            except BaseException:
                self.settle()
                raise
            self._send_outputs()
        self.settle()

    def _sending_socket(self, port: GroupPort) -> socket.socket:
        """Return the sending socket of a shared GroupPort: it has a port of its own. Raises OSError."""
        with self._within():
            sock = udp_socket(socket.AF_INET)
        try:
            sock.bind((port.interface.ipv4, 0))
            _send_to(sock, port)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        except BaseException:
            sock.close()
            raise
        return sock

    def _send(self, program: int, port: int, payload: bytes, to: Address | None) -> None:
        sock = self._sending.get((program, port)) or self._sockets.get((program, port))
        if sock is None:
            self._elsewhere[program](port, payload)
            return
        to = self._groups.get((program, port), to)
        try:
            if to is None:
                sock.send(payload)
            else:
                sock.sendto(payload, to)
        except OSError:
            pass  # a full queue, or no receiver: lost, as on any link

    # Streams.

    def _accept(self, program: int, endpoint: StreamEndpoint, port: int) -> "_Stream":
        return self._new_stream(program, endpoint, next(self._accepted), port)

    def _new_stream(self, program: int, endpoint: StreamEndpoint, number: int, port: int | None) -> "_Stream":
        stream = _Stream(self, program, endpoint, number, port)
        self._streams[program, number] = stream
        return stream

    def _act(self, program: int, endpoint: StreamEndpoint, action: StreamAction) -> None:
        if isinstance(action, Connect):
            stream = self._new_stream(program, endpoint, action.stream, None)
            stream.opening = self._loop.create_task(self._connect(stream, action.to))
            return
        found = self._streams.get((program, action.stream))
        if found is not None:
            found.act(action)

    async def _connect(self, stream: "_Stream", to: Address) -> None:
        sock = None
        try:
            sock = self._stream_socket(0)
            await self._loop.sock_connect(sock, to)
            await self._loop.create_connection(lambda: stream, sock=sock)
        except (OSError, OverflowError) as error:  # the latter for an invalid port
            stream.fail(_reason(error))
        finally:
            if sock is not None and not stream.is_open:
                sock.close()

    def _stream_socket(self, port: int) -> socket.socket:
        """Return a TCP socket at the node's address. Raises OSError."""
        with self._within():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # asyncio would do so, but not where a socket's protocol is 0. Accepted sockets inherit it.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self._address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    # The clock.

    def settle(self) -> None:
        """Process the programs' outputs, and set the alarm; for a caller that has called one of them."""
        self._send_outputs()
        self._alarm.set(earliest(*(endpoint.next_deadline() for endpoint, _ in self._programs)))

    def _send_outputs(self) -> None:
        """Process the programs' outputs."""
        is_busy = True
        while is_busy:
            is_busy = False
            for number, (endpoint, _) in enumerate(self._programs):
                for port, payload, to in endpoint.take_outputs():
                    self._send(number, port, payload, to)
            for number, program in self._with_streams:
                for action in program.take_actions():
                    is_busy = True
                    self._act(number, program, action)

    def _wake(self) -> None:
        try:
            for endpoint, _ in self._programs:
                endpoint.wake(self._clock())
        except BaseException:
            self._send_outputs()
            self._alarm.set(self._clock() + _AFTER_A_MISTAKE)  # not at once, for the same deadline again
            raise
        self.settle()


class _Stream(asyncio.Protocol):
    """A TCP connection of a program."""

    def __init__(
        self, sockets: Sockets, program: int, endpoint: StreamEndpoint, number: int, port: int | None
    ) -> None:
        self._sockets = sockets
        self._program = program
        self._endpoint = endpoint
        self._number = number
        self._port = port
        self.opening: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()  # sent before it was open
        self._is_paused = False
        self._has_closed = False
        self._has_ended = False
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._transport is not None

    def act(self, action: StreamAction) -> None:
        """Perform an action of the program."""
        transport = self._transport
        if isinstance(action, Send):
            if self._has_closed:
                return
            if transport is None:
                self._early += action.data
            else:
                transport.write(action.data)
        elif isinstance(action, Pause):
            self._is_paused = action.paused
            self._apply_pause()
        elif isinstance(action, Close):
            self._has_closed = True
            if action.abort:
                self._abort()
            elif transport is not None:
                self._close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Linux would acknowledge the first segments one by one; the emulator's TCP delays what may wait.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        transport.set_write_buffer_limits(0)  # Full when data are queued, Writable when none are
        if self._early:
            transport.write(bytes(self._early))
            self._early.clear()
        self._apply_pause()
        if self._has_closed:
            self._close()
        peer = transport.get_extra_info("peername")
        self._sockets.notify(self._endpoint, Opened(self._number, (peer[0], peer[1]), self._port))

    def data_received(self, data: bytes) -> None:
        self._sockets.notify(self._endpoint, Received(self._number, data))

    def pause_writing(self) -> None:
        # asyncio calls this from within write(), while the program's actions are processed.
        asyncio.get_running_loop().call_soon(self._sockets.notify, self._endpoint, Full(self._number))

    def resume_writing(self) -> None:
        asyncio.get_running_loop().call_soon(self._sockets.notify, self._endpoint, Writable(self._number))

    def eof_received(self) -> bool:
        """See asyncio.Protocol: this end may continue."""
        self._has_ended = True
        self._sockets.notify(self._endpoint, Ended(self._number))
        return not self._has_closed

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(self._reason if error is None else _reason(error))

    def fail(self, reason: str) -> None:
        """Notify the program that the stream has ended, or was not opened."""
        self._sockets.remove(self._program, self._number)
        self._sockets.notify(self._endpoint, Closed(self._number, reason))

    def end(self) -> None:
        """Close it in the kernel."""
        if self._transport is not None:
            self._transport.close()
        elif self.opening is not None:
            self.opening.cancel()

    def _close(self) -> None:
        assert self._transport is not None
        if self._has_ended:
            self._transport.close()
        elif not self._transport.is_closing():
            with suppress(OSError):  # reset meanwhile: connection_lost() follows
                self._transport.write_eof()

    def _abort(self) -> None:
        self._reason = "broken off here"
        if self._transport is None:
            self.end()
            asyncio.get_running_loop().call_soon(self.fail, self._reason)
            return
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _apply_pause(self) -> None:
        if self._transport is None or self._has_ended or self._transport.is_closing():
            return
        if self._is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _join(sock: socket.socket, port: GroupPort) -> None:
    """Join a socket to a group on an interface, for sending and receiving. Raises OSError."""
    _send_to(sock, port)
    if port.group != BROADCAST:
        membership = socket.inet_aton(port.group) + socket.inet_aton(port.interface.ipv4)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)


def _send_to(sock: socket.socket, port: GroupPort) -> None:
    """Set a socket to send to a group on an interface. Raises OSError."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.interface.name.encode())
    if port.group == BROADCAST:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        return
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(port.interface.ipv4))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a free port of 127.0.0.1, for a program that has to be given one.

    It is below the range that the kernel chooses from, unless all those are in use; so the kernel gives it to
    no other socket meanwhile.
    """
    lowest = int(_EPHEMERAL_PORTS.read_text(encoding="ascii").split()[0])
    below = range(10_000, lowest)
    drawn = [0, *sample(below, min(len(below), 100))]
    while True:
        with socket.socket(socket.AF_INET, kind) as sock:
            try:
                sock.bind(("127.0.0.1", drawn.pop()))
            except OSError:
                if not drawn:
                    raise
            else:
                return int(sock.getsockname()[1])


def udp_socket(family: socket.AddressFamily) -> socket.socket:
    """Return a non-blocking socket with room for bursts, whose frames may be fragmented by IP."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    else:
        # Frames may exceed the path's MTU: routers are to fragment them, not to drop them.
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DONT)
    return sock
