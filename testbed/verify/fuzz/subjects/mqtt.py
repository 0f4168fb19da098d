"""A broker of MQTT under any bytes of its clients, and a client under any bytes of a broker.

An input is a sequence of events (`events.py`). A third party is a client of the broker: it publishes and
subscribes, and must get all that it publishes. Its name is a secret, as the broker asks for nothing else.
"""

from collections.abc import Iterator, Sequence

from base.endpoint import Close, Closed, Connect, Opened, Received, Send, StreamAction
from base.timers import earliest
from base.units import SECOND
from ssb.mqtt import packets
from ssb.mqtt.broker import PORT, Bounds, Broker, _size
from ssb.mqtt.client import Client
from ssb.mqtt.packets import InvalidPacket, Packet, Publish, Reader, Subscribe, encode
from testbed.verify.fuzz.subjects.events import PAUSE, Event, Timed, playing, taken
from testbed.verify.fuzz.subjects.wire import expect

RAW, PACKET, REOPEN, HONEST, TO_CLIENT, PACKET_TO_CLIENT = range(6)
"""Kinds: bytes, or a packet's first byte and its content, from a client; its stream ends and another opens;
the third party publishes; bytes, or a packet, to the client.
"""

MOST_EVENTS = 40
"""Maximum number of events of an input."""

_LIMITS = Bounds(sessions=3, session_bytes=20_000, retained_bytes=1 << 20)
_INFLIGHT = 3
_PAUSES = (SECOND // 2, SECOND, 9 * SECOND, 100 * SECOND)
_MOST_WAKES = 300
_LONGEST = 2_000  # of an event; the third party's session has room for all messages that fit
_MOST_SENT = 1 << 20
_STREAMS = 3
_HONEST, _SECRET = -100, "6b1f0c9e54d27a83"
_ADDRESS = ("192.0.2.1", PORT)


class _World(Timed):
    def __init__(self) -> None:
        self.broker = Broker(_INFLIGHT, _LIMITS)
        self._number = 0
        self._streams = dict.fromkeys(range(_STREAMS), 0)
        self._open: set[int] = set()
        self._published: list[tuple[str, bytes]] = []
        self._honest = Client(_SECRET, _ADDRESS, _INFLIGHT)
        self._honest.open(0)
        self._victim = Client("victim", _ADDRESS, _INFLIGHT)
        self._victim.open(0)
        for number in range(5):
            self._victim.publish(f"v/{number}", b"x", 0)
        self._honest.subscribe([f"{_SECRET}/+"], 0)
        self._settle()
        for place in range(_STREAMS):
            self._reopen(place)

    def play(self, event: Event) -> None:
        """Perform an event, and check the invariants."""
        kind, which, content = event.kind, event.which, event.content[:_LONGEST]
        framed = packets._packet(content[0] >> 4, content[0] & 15, content[1:]) if content else b""
        is_raw = kind in (RAW, TO_CLIENT)
        data = content if is_raw else framed
        if kind in (RAW, PACKET) and _SECRET.encode() not in data:
            _check_packets(data)
            self._to_broker(self._streams[which % _STREAMS], data)
        elif kind == REOPEN:
            self._reopen(which % _STREAMS)
        elif kind == HONEST:
            message = f"{_SECRET}/{which}", content or b"x"
            self._published.append(message)
            self._honest.publish(*message, self.now)
        elif kind in (TO_CLIENT, PACKET_TO_CLIENT):
            self._victim.on_stream(Received(self._victim._stream, data), self.now)
        elif kind == PAUSE:
            self.pass_time(self, _PAUSES[which % len(_PAUSES)], _MOST_WAKES, self._settle)
        self._settle()
        self._check()

    def next_deadline(self) -> int | None:
        """Return when one of them is due, ns."""
        return earliest(*(each.next_deadline() for each in (self.broker, self._honest, self._victim)))

    def wake(self, now: int) -> None:
        """Wake all."""
        for each in (self.broker, self._honest, self._victim):
            each.wake(now)

    def _reopen(self, place: int) -> None:
        before = self._streams[place]
        if before in self._open:
            self._open.remove(before)
            self.broker.on_stream(Closed(before, "reset"), self.now)
        self._number -= 1
        self._streams[place] = self._number
        self._open_at_broker(self._number)

    def _open_at_broker(self, stream: int) -> None:
        self._open.add(stream)
        self.broker.on_stream(Opened(stream, _ADDRESS, PORT), self.now)

    def _to_broker(self, stream: int, data: bytes) -> None:
        if stream in self._open:
            self.broker.on_stream(Received(stream, data), self.now)

    def _settle(self) -> None:
        """Pass on what is sent, until there is no more."""
        sent = 0
        while self.broker.actions or self._honest.actions or self._victim.actions:
            for action in taken(self._honest.actions):
                if isinstance(action, Connect):
                    self._open_at_broker(_HONEST)
                    self._honest.on_stream(Opened(action.stream, _ADDRESS), self.now)
                elif isinstance(action, Send):
                    self._to_broker(_HONEST, action.data)
            for action in taken(self._victim.actions):
                self._of_victim(action)
            for action in taken(self.broker.actions):
                sent += self._of_broker(action)
        expect(f"{sent} bytes are sent at once", holds=sent <= _MOST_SENT)

    def _of_victim(self, action: StreamAction) -> None:
        if isinstance(action, Connect):
            self._victim.on_stream(Opened(action.stream, _ADDRESS), self.now)
        elif isinstance(action, Close):
            self._victim.on_stream(Closed(action.stream, "ended"), self.now)
        elif isinstance(action, Send):
            list(Reader().receive(action.data))

    def _of_broker(self, action: StreamAction) -> int:
        if isinstance(action, Close):
            expect("the third party is closed", holds=action.stream != _HONEST)
            if action.stream in self._open:
                self._open.remove(action.stream)
                self.broker.on_stream(Closed(action.stream, ""), self.now)
            return 0
        assert isinstance(action, Send)
        expect("something is sent on a stream that is closed", holds=action.stream in self._open)
        expect("what is sent is no packet", holds=len([*Reader().receive(action.data)]) == 1)
        if action.stream == _HONEST:
            self._honest.on_stream(Received(1, action.data), self.now)
        return len(action.data)

    def _check(self) -> None:
        broker, victim = self.broker, self._victim
        expect("the third party lacks a message", holds=self._honest.received == self._published)
        expect("the third party's messages wait", holds=self._honest.waiting == 0)
        expect("the client has messages that it has not published", holds=victim.waiting <= 5)
        expect("more is under way than allowed", holds=len(victim._sent) <= _INFLIGHT)
        expect("more sessions than there may be", holds=len(broker._sessions) <= _LIMITS.sessions)
        subscribers = {(each, name) for each, names in broker._subscribers.items() for name in names}
        filters = {(each, name) for name, one in broker._sessions.items() for each in one.filters}
        expect("subscriptions are not those of sessions", holds=subscribers == filters)
        for session in broker._sessions.values():
            waiting = (*session.queue, *session.sent.values())
            size = sum(map(_size, session.filters)) + sum(_size(each[0], each[1]) for each in waiting)
            expect("a session's size is another", holds=session.size == size)
            expect("a session has too much state", holds=size <= _LIMITS.session_bytes)
            expect("more is under way than allowed", holds=len(session.sent) <= _INFLIGHT)
        sizes = [_size(topic, payload) for topic, (payload, _) in broker.retained.items()]
        expect("the size of what is retained is another", holds=broker._retained_size == sum(sizes))


def _check_packets(data: bytes) -> None:
    """Read packets, at once and octet by octet: the same, and each the same when it is written."""
    whole = list(_read([data]))
    expect("pieces make other packets", holds=list(_read([bytes((each,)) for each in data])) == whole)
    for packet in whole:
        expect("a packet is another when it is written", holds=list(_read([encode(packet)])) == [packet])
        texts = [packet.topic] if isinstance(packet, Publish) else []
        texts += [each for each, _ in packet.filters] if isinstance(packet, Subscribe) else []
        texts += [packet.client] if isinstance(packet, packets.Connect) else []
        expect("a text has U+0000", holds=not any("\0" in text for text in texts))


def _read(pieces: Sequence[bytes]) -> Iterator[Packet]:
    reader = Reader()
    try:
        for piece in pieces:
            for packet, _ in reader.receive(piece):
                yield packet
    except InvalidPacket:
        return


check = playing(_World, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""
