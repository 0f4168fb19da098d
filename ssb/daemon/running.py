"""Access to a running peer for its user's commands."""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from ssb.canonical import Value, parse
from ssb.daemon.commands import CommandError
from ssb.transport.calls import Answered, CallEvent, Calls, Finished
from ssb.transport.muxrpc import ProtocolError


class RunningPeer:
    """A connection to a running peer, with the commands of Commands.

    Args:
        path: of its directory. Raises ConnectionError if it is not running.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path / "socket"))
        except OSError as error:
            self._socket.close()
            raise ConnectionError(f"{path}: no peer is running: {error.strerror}") from None
        self._calls = Calls()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def answer(self, name: Sequence[str], arguments: Sequence[Value]) -> Value:
        """Make a call of form async and wait for its answer; raise CommandError and OSError."""
        call = self._calls.call(name, arguments, "async")
        for event in self._events():
            if isinstance(event, Answered) and event.call == call:
                return parse(event.body.decode())
            if isinstance(event, Finished) and event.call == call:
                raise CommandError(event.error)
        raise AssertionError("_events() does not end")

    def stream(self, name: Sequence[str], arguments: Sequence[Value]) -> Iterator[Value]:
        """Make a call of form source and yield its answers; raise CommandError and OSError."""
        call = self._calls.call(name, arguments, "source")
        for event in self._events():
            if isinstance(event, Answered) and event.call == call:
                yield parse(event.body.decode())
            elif isinstance(event, Finished) and event.call == call:
                if event.error:
                    raise CommandError(event.error)
                return

    def _events(self) -> Iterator[CallEvent]:
        """Yield events, sending all output before waiting; raise CommandError at the end."""
        while True:
            self._socket.sendall(self._calls.take_output())
            data = self._socket.recv(1 << 16)
            if not data:
                raise CommandError("the peer has ended")
            try:
                yield from self._calls.receive(data)
            except ProtocolError as error:
                raise CommandError(f"the peer does not speak muxrpc: {error}") from None
