"""The streams of an emulated node's programs, over its TCP; in Mininet, asyncio's transports do this."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import count

from base.endpoint import (
    Closed,
    Connect,
    Ended,
    Full,
    Opened,
    Pause,
    Received,
    Send,
    StreamAction,
    StreamEndpoint,
    Writable,
)
from topologies.emulator.tcp.events import Event, Kind
from topologies.emulator.tcp.stack import Stack, StackError, UnknownConnection
from topologies.emulator.tcp.states import State

_MOST_READ = 1 << 16


class _Stream:
    """A connection and its program's stream."""

    def __init__(self, endpoint: StreamEndpoint, number: int, connection: int) -> None:
        self.endpoint = endpoint
        self.number = number
        self.connection = connection
        self.waiting = bytearray()  # bytes beyond the connection's buffer
        self.is_paused = False
        self.is_closing = False  # as soon as the queue is empty
        self.has_ended = False  # the other end has closed, and the program has not been notified
        self.is_over = False  # so is the connection


class Streams:
    """The streams of all programs of a node.

    Args:
        stack: the node's TCP.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._endpoints: list[StreamEndpoint] = []
        self._listening: dict[int, StreamEndpoint] = {}
        self._streams: dict[int, _Stream] = {}  # by connection
        self._numbers: dict[tuple[int, int], _Stream] = {}  # by the endpoint's id() and its number
        self._orphans: set[int] = set()
        self._events: deque[Event] = deque()
        self._accepted = count(-1, -1)

    def add(self, endpoint: StreamEndpoint, ports: Iterable[int]) -> None:
        """Add a program, which may open streams and accepts those that others open to some ports."""
        self._endpoints.append(endpoint)
        for port in ports:
            self._stack.listen(port)
            self._listening[port] = endpoint

    def close_all(self, now: int) -> None:
        """Close all streams, as the kernel does when a program has ended, and remove the programs."""
        for port in self._listening:
            self._stack.unlisten(port)
        for connection, stream in self._streams.items():
            is_opening = not stream.is_over and self._stack.state(connection) is State.SYN_SENT
            if is_opening or self._take(connection, now):
                self._stack.abort(connection, now)
            elif not stream.is_over:
                self._stack.close(connection, now)
                self._orphans.add(connection)
        for known in (self._endpoints, self._listening, self._streams, self._numbers):
            known.clear()

    def settle(self, now: int) -> bool:
        """Execute the programs' actions and deliver the next event; return whether anything happened."""
        is_busy = False
        for endpoint in self._endpoints:
            for action in endpoint.take_actions():
                is_busy = True
                self._act(endpoint, action, now)
        self._events += self._stack.take_events()
        if self._events:
            is_busy = True
            self._handle(self._events.popleft(), now)
        return is_busy

    def _act(self, endpoint: StreamEndpoint, action: StreamAction, now: int) -> None:
        if isinstance(action, Connect):
            try:
                connection = self._stack.connect(*action.to, now)
            except StackError as error:
                endpoint.on_stream(Closed(action.stream, str(error)), now)
                return
            self._add(_Stream(endpoint, action.stream, connection))
            return
        stream = self._numbers.get((id(endpoint), action.stream))
        if stream is None:
            return  # closed in the meantime
        if isinstance(action, Send):
            if not stream.is_over and not stream.is_closing:
                was_full = bool(stream.waiting)
                stream.waiting += action.data
                if not was_full:
                    self._write(stream, now)
                    if stream.waiting:
                        endpoint.on_stream(Full(stream.number), now)
        elif isinstance(action, Pause):
            stream.is_paused = action.paused
            self._read(stream, now)
        elif action.abort:
            with suppress(UnknownConnection):
                self._stack.abort(stream.connection, now)
            self._forget(stream, "broken off here", now)
        else:
            stream.is_closing = True
            if not stream.is_over and not stream.waiting:
                self._stack.close(stream.connection, now)

    def _handle(self, event: Event, now: int) -> None:
        connection, kind = event.connection, event.kind
        if kind is Kind.ACCEPTED:
            self._add(_Stream(self._listening[event.port], next(self._accepted), connection))
        stream = self._streams.get(connection)
        if stream is None:
            self._handle_orphan(event, now)
            return
        tell = stream.endpoint.on_stream
        if kind in (Kind.ACCEPTED, Kind.CONNECTED):
            ends = self._stack.ends(connection)
            tell(Opened(stream.number, (ends.remote_ip, ends.remote_port), event.port or None), now)
        elif kind is Kind.WRITABLE:
            self._write(stream, now)
            if not stream.waiting:
                if stream.is_closing:
                    self._stack.close(connection, now)
                tell(Writable(stream.number), now)
        elif kind is Kind.FAILED:
            self._forget(stream, event.reason.value, now)
        else:
            stream.has_ended = stream.has_ended or kind is Kind.PEER_CLOSED
            stream.is_over = kind is Kind.CLOSED
            self._read(stream, now)

    def _handle_orphan(self, event: Event, now: int) -> None:
        """Reset a connection whose program has ended when bytes arrive."""
        if event.connection not in self._orphans:
            return
        if event.kind is Kind.READABLE:
            self._stack.abort(event.connection, now)
        if event.kind in (Kind.READABLE, Kind.CLOSED, Kind.FAILED):
            self._orphans.discard(event.connection)

    def _add(self, stream: _Stream) -> None:
        self._streams[stream.connection] = self._numbers[id(stream.endpoint), stream.number] = stream

    def _write(self, stream: _Stream, now: int) -> None:
        if stream.waiting:
            with memoryview(stream.waiting) as view:
                taken = self._stack.send(stream.connection, view, now)
            del stream.waiting[:taken]

    def _read(self, stream: _Stream, now: int) -> None:
        """Deliver received bytes, unless the program has paused the stream, then the end."""
        while not stream.is_paused and (data := self._take(stream.connection, now)):
            stream.endpoint.on_stream(Received(stream.number, data), now)
        if stream.is_paused:
            return
        if stream.has_ended:
            stream.has_ended = False
            stream.endpoint.on_stream(Ended(stream.number), now)
        if stream.is_over:
            self._forget(stream, "", now)

    def _take(self, connection: int, now: int) -> bytes:
        try:
            return self._stack.read(connection, _MOST_READ, now)
        except UnknownConnection:
            return b""  # it is over, and all has been read

    def _forget(self, stream: _Stream, reason: str, now: int) -> None:
        del self._streams[stream.connection]
        del self._numbers[id(stream.endpoint), stream.number]
        stream.endpoint.on_stream(Closed(stream.number, reason), now)
