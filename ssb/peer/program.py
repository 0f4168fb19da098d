"""The interface of a peer as a program of a node, and the base class of programs that wrap a peer."""

from typing import NamedTuple, Protocol

from base.endpoint import Address, StreamAction, StreamEndpoint, StreamEvent
from ssb.message import Message
from ssb.peer.services import Answer


class PeerEvent(NamedTuple):
    """An event of a peer.

    Attributes:
        time: ns.
        event: "connected"; "closed"; "refused", the connection was closed for a fault; "not reached", a call
            failed; "stored", a message was received or appended; "answered", a peer has answered a query
            of a feed; "dropped", a blob for lack of room; or "failed", a step that needs no command has
            failed.
        remote: the other peer's reference, or the dropped blob's; "" if it is unknown, or there is none.
        detail: the reason, for people.
        message: the stored message.
        answer: the answer.
    """

    time: int
    event: str
    remote: str = ""
    detail: str = ""
    message: Message | None = None
    answer: Answer | None = None


class PeerProgram(StreamEndpoint, Protocol):
    """A peer, or a program that wraps one."""

    def take_events(self) -> list[PeerEvent]:
        """Return the events since the last call."""
        ...


class PeerWrapper:
    """A StreamEndpoint that passes everything on to another one, and acts on its events.

    Args:
        program: the peer, or a program that wraps one.
    """

    def __init__(self, program: PeerProgram) -> None:
        self._program = program
        self._events: list[PeerEvent] = []

    def take_events(self) -> list[PeerEvent]:
        """Return the events of the peer since the last call."""
        events, self._events = self._events, []
        return events

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self._program.receive(port, payload, sender, now)
        self._follow_up(now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        self._program.set_link(port, up, now)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        return list(self._program.take_outputs())

    def next_deadline(self) -> int | None:
        return self._program.next_deadline()

    def wake(self, now: int) -> None:
        self._program.wake(now)
        self._follow_up(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._program.on_stream(event, now)
        self._follow_up(now)

    def take_actions(self) -> list[StreamAction]:
        return self._program.take_actions()

    def _follow_up(self, now: int) -> None:
        """Act on the peer's new events."""
        raise NotImplementedError
