"""Programs with streams and datagrams for the tests: they run in the emulator and on Mininet's nodes."""

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    Ended,
    Full,
    Opened,
    Pause,
    Received,
    Send,
    StreamAction,
    StreamEvent,
    Writable,
)

PORT = 4000
_PIECE = 1 << 15


class Quiet:
    """An endpoint that does nothing by itself."""

    def __init__(self) -> None:
        self.actions: list[StreamAction] = []
        self.outputs: list[tuple[int, bytes, Address | None]] = []
        self.events: list[tuple[int, StreamEvent]] = []
        self.datagrams: list[tuple[int, bytes, Address | None]] = []

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self.datagrams.append((now, payload, sender))

    def set_link(self, port: int, up: bool, now: int) -> None:
        pass

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        outputs, self.outputs = self.outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        return None

    def wake(self, now: int) -> None:
        pass

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self.events.append((now, event))

    def take_actions(self) -> list[StreamAction]:
        actions, self.actions = self.actions, []
        return actions

    def received(self, stream: int) -> bytes:
        """All that has come on a stream."""
        return b"".join(e.data for _, e in self.events if isinstance(e, Received) and e.stream == stream)

    def kinds(self, stream: int) -> list[type]:
        """What has happened to a stream, in order; the same again and again counts once."""
        found: list[type] = []
        for _, event in self.events:
            if event.stream == stream and type(event) not in found[-1:]:
                found.append(type(event))
        return found


class Echo(Quiet):
    """Sends back what comes, heeds Full, and closes its side when the other end has."""

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        super().receive(port, payload, sender, now)
        self.outputs.append((port, payload, sender))

    def on_stream(self, event: StreamEvent, now: int) -> None:
        super().on_stream(event, now)
        if isinstance(event, Received):
            self.actions.append(Send(event.stream, event.data))
        elif isinstance(event, Full):
            self.actions.append(Pause(event.stream))
        elif isinstance(event, Writable):
            self.actions.append(Pause(event.stream, paused=False))
        elif isinstance(event, Ended):
            self.actions.append(Close(event.stream))


class Busy(Quiet):
    """Takes nothing until it is told to."""

    def on_stream(self, event: StreamEvent, now: int) -> None:
        super().on_stream(event, now)
        if isinstance(event, Opened):
            self.actions.append(Pause(event.stream))


class Source(Quiet):
    """Opens a stream at a time, sends bytes as they are taken, closes its side."""

    def __init__(self, to: Address, content: bytes, at: int = 0) -> None:
        super().__init__()
        self.to = to
        self.at: int | None = at
        self.content = content
        self.sent = 0
        self.is_full = False

    def next_deadline(self) -> int | None:
        return self.at

    def wake(self, now: int) -> None:
        if self.at is not None and now >= self.at:
            self.at = None
            self.actions.append(Connect(1, self.to))

    def on_stream(self, event: StreamEvent, now: int) -> None:
        super().on_stream(event, now)
        if isinstance(event, Full):
            self.is_full = True
        elif isinstance(event, Writable):
            self.is_full = False
        elif isinstance(event, Closed):
            return
        if isinstance(event, Opened | Writable | Received):
            self.fill()

    def take_actions(self) -> list[StreamAction]:
        actions = super().take_actions()
        if any(isinstance(action, Send) for action in actions):
            self.fill()  # the next piece, unless this one was too much
        return actions

    def fill(self) -> None:
        if not self.is_full and self.sent < len(self.content):
            piece = self.content[self.sent : self.sent + _PIECE]
            self.sent += len(piece)
            self.actions.append(Send(1, piece))
            if self.sent == len(self.content):
                self.actions.append(Close(1))
