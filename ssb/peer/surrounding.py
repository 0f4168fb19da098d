"""A program in the place of a peer's: it passes everything on to the peer, and acts on what has happened."""

from base.endpoint import Address, StreamAction, StreamEvent
from ssb.peer.peer import PeerEvent, PeerProgram


class Surrounding:
    """A StreamEndpoint around another one.

    Args:
        program: the peer, or a program around it.
    """

    def __init__(self, program: PeerProgram) -> None:
        self._program = program
        self._events: list[PeerEvent] = []

    def take_events(self) -> list[PeerEvent]:
        """Return what has happened on the Scuttlebutt side since the last call."""
        events, self._events = self._events, []
        return events

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint."""
        self._program.receive(port, payload, sender, now)
        self._follow_up(now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint."""
        self._program.set_link(port, up, now)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint."""
        return list(self._program.take_outputs())

    def next_deadline(self) -> int | None:
        """See Endpoint."""
        return self._program.next_deadline()

    def wake(self, now: int) -> None:
        """See Endpoint."""
        self._program.wake(now)
        self._follow_up(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """See StreamEndpoint."""
        self._program.on_stream(event, now)
        self._follow_up(now)

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        return self._program.take_actions()

    def _follow_up(self, now: int) -> None:
        """Act on what has happened."""
        raise NotImplementedError
