"""A connection as rooms see it, and what a protocol of rooms does on connections."""

from typing import NamedTuple, Protocol

from ssb.transport.calls import Answered, Called, Calls, Finished


class Line(NamedTuple):
    """An authenticated connection.

    Attributes:
        number: of the connection.
        remote: the other peer's reference.
        calls: on it.
        is_called: this peer has opened it.
    """

    number: int
    remote: str
    calls: Calls
    is_called: bool


class LineService(Protocol):
    """Calls on connections that their other services do not know; connections go by their numbers."""

    def open(self, line: Line, now: int) -> None:
        """Begin on a connection."""
        ...

    def close(self, number: int) -> None:
        """End on a connection that has closed; no effect if it was not open here."""
        ...

    def is_apart(self, number: int) -> bool | None:
        """Whether no other services are for this connection: it joins a room and a visitor, of whom neither
        replicates the other's feed. None while that is not known.
        """
        ...

    def serve(self, number: int, call: Called) -> bool:
        """Serve a call of the other peer; return False, without effect, if it is none of these."""
        ...

    def receive(self, number: int, answer: Answered) -> None:
        """Process a part of a stream, or an answer; no effect on calls of others."""
        ...

    def finish(self, number: int, end: Finished) -> None:
        """Process the end of a call, which is over on this side, too; no effect on calls of others."""
        ...

    def set_full(self, number: int, is_full: bool, now: int) -> None:
        """Process that a connection takes no more for now, or takes more again."""
        ...

    def take_changed(self) -> dict[int, None]:
        """Return the connections with new output since the last call."""
        ...

    def take_pauses(self) -> list[tuple[int, bool]]:
        """Return the connections to stop reading from, or (False) to read from again, in order."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> list[tuple[int, str]]:
        """Act on deadlines; return connections to close for a fault of the other peer, and the faults."""
        ...
