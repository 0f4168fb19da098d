"""A client of a broker: it publishes and subscribes over one stream, which it opens again when it ends."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from base.endpoint import Address, Close, Closed, Ended, Opened, Received, Send, StreamAction, StreamEvent
from base.endpoint import Connect as Open
from base.timers import earliest
from base.units import SECOND
from ssb.mqtt.packets import (
    IDENTIFIERS,
    Connect,
    Connected,
    Disconnect,
    InvalidPacket,
    Packet,
    Ping,
    Publish,
    Published,
    Reader,
    Subscribe,
    Subscribed,
    encode,
    next_identifier,
)

KEEP_ALIVE_S: Final = 60
_AGAIN: Final = SECOND  # before a stream is opened again


class Client:
    """A session with a broker, which outlasts its streams: what is not acknowledged is sent again.

    Args:
        name: the session's, of its own at the broker.
        broker: its address.
        inflight: messages that may be sent and not acknowledged; 0: any number.

    Attributes:
        actions: on streams, to be taken.
        received: messages from the broker, as (topic, payload), to be taken.
        waiting: messages that are not acknowledged yet, or not sent.
    """

    def __init__(self, name: str, broker: Address, inflight: int) -> None:
        self.actions: list[StreamAction] = []
        self.received: list[tuple[str, bytes]] = []
        self._name = name
        self._broker = broker
        self._most = min(inflight or IDENTIFIERS, IDENTIFIERS - 1)
        self._stream = 0
        self._reader = Reader()
        self._is_ready = self._is_over = False
        self._open_at: int | None = None
        self._ping_at: int | None = None
        self._number = 0
        self._filters: dict[str, bool] = {}  # with whether the broker has acknowledged them
        self._asked: dict[int, tuple[str, ...]] = {}  # by packet identifier
        self._queue: deque[tuple[str, bytes]] = deque()
        self._sent: dict[int, Publish] = {}

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged yet, or not sent."""
        return len(self._queue) + len(self._sent)

    def open(self, now: int) -> None:
        """Connect."""
        self._open_at = now
        self.wake(now)

    def close(self) -> None:
        """Disconnect for good."""
        self._is_over = True
        if self._is_ready:
            self._send(Disconnect())
        if self._stream:
            self.actions.append(Close(self._stream))
        self._open_at = self._ping_at = None
        self._is_ready = False

    def publish(self, topic: str, payload: bytes, now: int) -> None:
        """Publish a message, to be retained, with quality of service 1."""
        self._queue.append((topic, payload))
        self._send_queued(now)

    def subscribe(self, filters: Iterable[str], now: int) -> None:
        """Subscribe to topics, in this and later streams."""
        new = [each for each in filters if each not in self._filters]
        self._filters.update(dict.fromkeys(new, False))
        if self._is_ready:
            self._ask(new, now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._open_at, self._ping_at)

    def wake(self, now: int) -> None:
        """Open a stream, or tell the broker that the client is there."""
        if self._open_at is not None and now >= self._open_at:
            self._open_at, self._reader = None, Reader()
            self._stream += 1
            self.actions.append(Open(self._stream, self._broker))
        if self._ping_at is not None and now >= self._ping_at:
            self._send(Ping(), now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Handle an event of the client's streams."""
        if event.stream != self._stream:
            return
        match event:
            case Opened():
                self._send(Connect(self._name, False, KEEP_ALIVE_S), now)
            case Received(_, data):
                try:
                    for packet, _ in self._reader.receive(data):
                        self._take(packet, now)
                except InvalidPacket:
                    self.actions.append(Close(self._stream, abort=True))
            case Ended():
                self.actions.append(Close(self._stream))
            case Closed():
                self._is_ready, self._ping_at = False, None
                self._open_at = None if self._is_over else now + _AGAIN

    def _take(self, packet: Packet, now: int) -> None:
        match packet:
            case Connected(is_known, 0):
                self._is_ready = True
                for number, message in self._sent.items():
                    self._send(message._replace(number=number, is_again=True), now)
                if not is_known:
                    self._filters = dict.fromkeys(self._filters, False)
                self._asked.clear()
                self._ask([each for each, is_granted in self._filters.items() if not is_granted], now)
                self._send_queued(now)
            case Publish(topic, payload, number):
                self.received.append((topic, payload))
                if number is not None:
                    self._send(Published(number), now)
            case Subscribed(number):
                self._filters.update(dict.fromkeys(self._asked.pop(number, ()), True))
            case Published(number):
                self._sent.pop(number, None)
                self._send_queued(now)

    def _ask(self, filters: Iterable[str], now: int) -> None:
        wanted = tuple((each, 1) for each in filters)
        if wanted:
            number = self._next_number()
            self._asked[number] = tuple(each for each, _ in wanted)
            self._send(Subscribe(number, wanted), now)

    def _send_queued(self, now: int) -> None:
        while self._is_ready and self._queue and len(self._sent) < self._most:
            topic, payload = self._queue.popleft()
            number = self._next_number()
            self._sent[number] = message = Publish(topic, payload, number, is_retained=True)
            self._send(message, now)

    def _next_number(self) -> int:
        self._number = next_identifier(self._number, self._sent, self._asked)
        return self._number

    def _send(self, packet: Packet, now: int | None = None) -> None:
        self.actions.append(Send(self._stream, encode(packet)))
        if now is not None:
            self._ping_at = now + KEEP_ALIVE_S * SECOND
