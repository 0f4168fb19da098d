"""A broker of MQTT 3.1.1: sessions that last, retained messages, quality of service 0 and 1."""

from collections import Counter, deque
from typing import Final, NamedTuple

from base.endpoint import Close, Closed, Ended, Opened, Received, Send, StreamAction, StreamEvent
from base.timers import Timers
from base.units import SECOND
from ssb.mqtt.packets import (
    IDENTIFIERS,
    REJECTED,
    UNAVAILABLE,
    Connect,
    Connected,
    Disconnect,
    InvalidPacket,
    Packet,
    Ping,
    Pong,
    Publish,
    Published,
    Reader,
    Subscribe,
    Subscribed,
    encode,
    next_identifier,
)

PORT: Final = 1883
_FIRST_WITHIN: Final = 10 * SECOND  # a client's first packet (3.1.4)
_ENTRY_BYTES: Final = 64  # of a filter or a message, besides its text
_TOO_MUCH: Final = "more state than a session may have"


class Bounds(NamedTuple):
    """What a broker keeps at most.

    Attributes:
        sessions: of them, and of streams on which none has begun. Another client is told that the server is
            unavailable (3.2.2.3), another stream is closed.
        session_bytes: of a session's filters and waiting messages, with 64 for each. A session that would
            have more ends (4.1), and its stream is closed.
        retained_bytes: of all retained messages, with their topics and 64 for each. The stream of a client
            that would add to them is closed (3.3.5).
    """

    sessions: int = 10_000
    session_bytes: int = 256 << 20
    retained_bytes: int = 1 << 30


BOUNDS: Final = Bounds()


class _Session:
    """What a broker keeps for a client, connected or not.

    Attributes:
        stream: the client's, None while it has none.
        is_clean: it ends with the stream.
        filters: of the topics that it subscribes to, with the quality of service granted.
        queue: messages that wait until others are acknowledged.
        sent: messages that are not acknowledged, by their numbers.
        size: bytes of filters and messages, see Bounds.
    """

    def __init__(self, *, is_clean: bool) -> None:
        self.stream: int | None = None
        self.is_clean = is_clean
        self.filters: dict[str, int] = {}
        self.queue: deque[Publish] = deque()
        self.sent: dict[int, Publish] = {}
        self.number = self.size = 0


class Broker:
    """A broker. It asks nobody for a password: who gives another's name takes over its session.

    Args:
        inflight: messages that may be sent to a client and not acknowledged; 0: any number.
        bounds: of what it keeps.

    Attributes:
        actions: on streams, to be taken.
        retained: the last message of each topic, and its quality of service.
        retained_bytes: of their payloads.
        counters: errors, by a word each.
    """

    def __init__(self, inflight: int, bounds: Bounds = BOUNDS) -> None:
        self.actions: list[StreamAction] = []
        self.retained: dict[str, tuple[bytes, int]] = {}
        self.retained_bytes = 0
        self.counters: Counter[str] = Counter()
        self._most = min(inflight or IDENTIFIERS, IDENTIFIERS - 1)
        self._bounds = bounds
        self._retained_size = 0  # with topics, see Bounds
        self._sessions: dict[str, _Session] = {}
        self._readers: dict[int, Reader] = {}
        self._clients: dict[int, str] = {}
        self._subscribers: dict[str, dict[str, None]] = {}  # filter -> clients
        self._silence: dict[int, int] = {}  # stream -> how long it may be silent, ns
        self._ends: Timers[int] = Timers()

    @property
    def streams(self) -> int:
        """Streams that are open."""
        return len(self._readers)

    def state(self) -> tuple[int, int]:
        """Return subscriptions and unacknowledged messages, and their bytes: filters, and 2 for a number."""
        entries = size = 0
        for session in self._sessions.values():
            waiting = len(session.sent) + len(session.queue)
            entries += len(session.filters) + waiting
            size += sum(map(len, session.filters)) + len(session.filters) + 2 * waiting
        return entries, size

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._ends.next_deadline()

    def wake(self, now: int) -> None:
        """End streams of clients that have been silent for too long (3.1.2.10)."""
        for stream in self._ends.expire(now):
            self._refuse(stream, "silence")

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Handle an event of a client's stream."""
        stream = event.stream
        match event:
            case Opened() if len(self._readers) - len(self._clients) >= self._bounds.sessions:
                self._refuse(stream, "too many streams")
            case Opened():
                self._readers[stream] = Reader()
                self._ends.set(stream, now + _FIRST_WITHIN)
            case Received(_, data) if stream in self._readers:
                try:
                    for packet, _ in self._readers[stream].receive(data):
                        self._take(stream, packet)
                        if stream not in self._readers:
                            break  # its client has left
                except InvalidPacket as error:
                    self._refuse(stream, str(error))
                if stream in self._silence:
                    self._ends.set(stream, now + self._silence[stream])
            case Ended():
                self.actions.append(Close(stream))
            case Closed():
                self._forget(stream)

    def _take(self, stream: int, packet: Packet) -> None:
        name = self._clients.get(stream)
        if isinstance(packet, Connect) != (name is None):
            raise InvalidPacket("CONNECT is a client's first packet, and comes once")
        match packet:
            case Connect():
                self._connect(stream, packet)
            case Publish(topic, payload, number, is_retained):
                if is_retained:
                    self._retain(topic, payload, quality=int(number is not None))
                if number is not None:
                    self._send(stream, Published(number))
                self._publish(topic, payload, quality=int(number is not None))
            case Published(number) if name is not None:
                session = self._sessions[name]
                message = session.sent.pop(number, None)
                session.size -= 0 if message is None else _size(message.topic, message.payload)
                self._send_queued(session)
            case Subscribe() if name is not None:
                self._subscribe(stream, name, packet)
            case Ping():
                self._send(stream, Pong())
            case Disconnect():
                self.actions.append(Close(stream))
                self._forget(stream)
            case _:
                raise InvalidPacket("a packet that brokers send")

    def _connect(self, stream: int, packet: Connect) -> None:
        if not packet.client and not packet.is_clean:  # there is no name to remember it by (3.1.3.1)
            self._send(stream, Connected(False, REJECTED))
            self._refuse(stream, "a session to be kept without a client's id", abort=False)
            return
        if not packet.client:
            packet = packet._replace(client=f"\0{stream}")  # no client can send such an id
        if packet.is_clean:
            self._drop(packet.client)
        before = self._sessions.get(packet.client)
        if before is not None and before.stream is not None:  # it has opened another (3.1.4)
            self._refuse(before.stream, "taken over")
        is_known = packet.client in self._sessions
        if not is_known and len(self._sessions) >= self._bounds.sessions:
            self._send(stream, Connected(False, UNAVAILABLE))
            self._refuse(stream, "too many sessions", abort=False)
            return
        session = self._sessions.setdefault(packet.client, _Session(is_clean=packet.is_clean))
        session.stream = stream
        self._clients[stream] = packet.client
        self._ends.set(stream, None)
        if packet.keep_alive:
            self._silence[stream] = packet.keep_alive * SECOND * 3 // 2
        self._send(stream, Connected(is_known))
        for number, message in session.sent.items():
            self._send(stream, message._replace(number=number, is_again=True))
        self._send_queued(session)

    def _retain(self, topic: str, payload: bytes, quality: int) -> None:
        """Keep a topic's last message; an empty one takes it back (3.3.1.3). Raises InvalidPacket."""
        before = self.retained.get(topic)
        freed = 0 if before is None else _size(topic, before[0])
        added = _size(topic, payload) if payload else 0
        if added > freed and self._retained_size + added - freed > self._bounds.retained_bytes:
            raise InvalidPacket("more than may be retained")
        self._retained_size += added - freed
        self.retained_bytes += len(payload) - (0 if before is None else len(before[0]))
        self.retained.pop(topic, None)
        if payload:
            self.retained[topic] = payload, quality

    def _publish(self, topic: str, payload: bytes, quality: int) -> None:
        found = (clients for each, clients in self._subscribers.items() if matches(each, topic))
        for name in dict.fromkeys(name for clients in found for name in clients):
            self._deliver(name, Publish(topic, payload), quality)

    def _deliver(self, name: str, message: Publish, quality: int) -> None:
        """Send a message with the lower of its quality of service and the one granted (3.8.4)."""
        session = self._sessions[name]
        granted = max(level for each, level in session.filters.items() if matches(each, message.topic))
        if min(quality, granted):
            if self._grow(name, _size(message.topic, message.payload)):
                session.queue.append(message)
                self._send_queued(session)
        elif session.stream is not None:
            self._send(session.stream, message)

    def _subscribe(self, stream: int, name: str, packet: Subscribe) -> None:
        session, new = self._sessions[name], dict(packet.filters)
        if not self._grow(name, sum(_size(each) for each in new.keys() - session.filters.keys())):
            return
        for each, level in new.items():
            session.filters[each] = level
            self._subscribers.setdefault(each, {})[name] = None
        self._send(stream, Subscribed(packet.number, tuple(quality for _, quality in packet.filters)))
        for topic, (payload, quality) in self.retained.items():
            if stream in self._clients and any(matches(each, topic) for each in new):
                self._deliver(name, Publish(topic, payload, is_retained=True), quality)

    def _grow(self, name: str, size: int) -> bool:
        """Let a session have more state, bytes; return False if that ends it."""
        session = self._sessions[name]
        session.size += size
        if session.size <= self._bounds.session_bytes:
            return True
        if session.stream is None:
            self.counters[_TOO_MUCH] += 1
        self._drop(name, _TOO_MUCH)
        return False

    def _send_queued(self, session: _Session) -> None:
        while session.stream is not None and session.queue and len(session.sent) < self._most:
            session.number = next_identifier(session.number, session.sent)
            message = session.queue.popleft()._replace(number=session.number)
            session.sent[session.number] = message
            self._send(session.stream, message)

    def _send(self, stream: int, packet: Packet) -> None:
        self.actions.append(Send(stream, encode(packet)))

    def _refuse(self, stream: int, why: str, *, abort: bool = True) -> None:
        self.counters[why] += 1
        self.actions.append(Close(stream, abort))
        self._forget(stream)

    def _forget(self, stream: int) -> None:
        """Forget a stream; the client's session stays, unless it is a clean one."""
        self._readers.pop(stream, None)
        self._silence.pop(stream, None)
        self._ends.set(stream, None)
        name = self._clients.pop(stream, None)
        if name is not None:
            self._sessions[name].stream = None
            if self._sessions[name].is_clean:
                self._drop(name)

    def _drop(self, name: str, why: str = "taken over") -> None:
        """Forget a session."""
        session = self._sessions.pop(name, None)
        if session is not None:
            if session.stream is not None:
                self._clients.pop(session.stream, None)
                self._refuse(session.stream, why)
            for each in session.filters:
                del self._subscribers[each][name]
                if not self._subscribers[each]:
                    del self._subscribers[each]


def _size(text: str, payload: bytes = b"") -> int:
    return len(text.encode()) + len(payload) + _ENTRY_BYTES


def matches(wanted: str, topic: str) -> bool:
    """Whether a filter covers a topic (4.7): `+` is one level, `#` all that follow."""
    levels = topic.split("/")
    for place, level in enumerate(wanted.split("/")):
        if level == "#":
            return True
        if place >= len(levels) or level not in ("+", levels[place]):
            return False
    return wanted.count("/") == topic.count("/")
