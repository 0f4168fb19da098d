"""A relay of Media over QUIC under any bytes of those who connect to it, and of the relay that it asks.

An input is a sequence of events (`events.py`). A third party reads the track that is published at the relay,
and must get each object once and in order. The relay subscribes to another track at a relay that is hostile.
"""

from base.endpoint import Close, Closed, Connect, Full, Opened, Received, Send, StreamAction, Writable
from base.timers import earliest
from base.units import SECOND
from ssb.moq import frames
from ssb.moq.fields import ProtocolViolation
from ssb.moq.followed import Reader
from ssb.moq.frames import Parameters, StreamData
from ssb.moq.hops import PORT, Bounds
from ssb.moq.incoming import Incoming
from ssb.moq.messages import (
    CONTROL,
    VERSION,
    Setup,
    Track,
    encode,
)
from ssb.moq.relay import Relay
from testbed.verify.fuzz.subjects.events import PAUSE, Event, Timed, playing, taken
from testbed.verify.fuzz.subjects.wire import expect

RAW, CONTROLLED, DATA, REOPEN, PUBLISH, FILL = range(6)
"""Kinds: bytes; a frame with bytes of the control stream, or of a data stream (a first byte above 127 lets
another begin); a session ends and another opens; the relay publishes; a connection is full, or no longer.
"""

MOST_EVENTS = 40
"""Maximum number of events of an input."""

_LIMITS = Bounds(sessions=4, requests=5, queued=20_000)
_CACHE = 4
_PAUSES = (SECOND // 2, SECOND, 4 * SECOND, 11 * SECOND)
_MOST_WAKES = 200
_LONGEST = 2_000
_IDLE = 10 * SECOND
OURS, WANTED = Track((b"ours",), b""), Track((b"wanted",), b"")
_HOSTS = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
_HOSTILE, _HONEST = ("192.0.2.8", PORT), ("192.0.2.9", PORT)
_SESSIONS = 3
"""The first is with the relay that is asked, which is hostile; the others have connected to the relay."""


class _Hostile:
    """A session of a hostile side: the stream at the relay, and offsets of its own streams."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.control = self.data = 0
        self.number = 3 if stream > 0 else 2

    def frame(self, kind: int, content: bytes) -> bytes:
        if kind == CONTROLLED:
            said = frames.encode(StreamData(CONTROL, self.control, content))
            self.control += len(content)
            return said
        if content[:1] > b"\x7f" and self.data:
            self.number, self.data = self.number + 4, 0
        said = frames.encode(StreamData(self.number, self.data, content[1:]))
        self.data += len(content) - 1
        return said


class _World(Timed):
    def __init__(self) -> None:
        self.relay = Relay(
            lambda track: [_HOSTILE] if track.namespace == WANTED.namespace else [], _IDLE, _CACHE, _LIMITS
        )
        self.reader = Relay(lambda track: [_HONEST], _IDLE, 0)
        self.published, self.got = 0, 0
        self._accepted = 0
        self._honest: tuple[int, int] | None = None  # streams at the relay and at the reader
        self._hostile = [_Hostile(0) for _ in range(_SESSIONS)]
        self._said: dict[int, Incoming] = {}
        self.relay.announce(OURS)
        self.reader.follow(OURS, 0, 0)
        self.relay.follow(WANTED, 0, 0)
        self._settle()
        for place in range(1, _SESSIONS):
            self._reopen(place)

    def play(self, event: Event) -> None:
        """Perform an event, and check the invariants."""
        kind, which, content = event.kind, event.which, event.content[:_LONGEST]
        hostile = self._hostile[which % _SESSIONS]
        if kind == RAW:
            self._tell(hostile, content)
        elif kind in (CONTROLLED, DATA) and content:
            self._tell(hostile, hostile.frame(kind, content))
        elif kind == REOPEN:
            self._reopen(which % _SESSIONS)
        elif kind == PUBLISH:
            self.relay.publish(OURS, content, self.now)
            self.published += 1
        elif kind == FILL and hostile.stream in self._said:
            self.relay.on_stream((Full, Writable)[which % 2](hostile.stream), self.now)
        elif kind == PAUSE:
            self.pass_time(self, _PAUSES[which % len(_PAUSES)], _MOST_WAKES, self._settle)
        self._settle()
        self._check()

    def next_deadline(self) -> int | None:
        """Return when one of them is due, ns."""
        return earliest(self.relay.next_deadline(), self.reader.next_deadline())

    def wake(self, now: int) -> None:
        """Wake both."""
        self.relay.wake(now)
        self.reader.wake(now)

    def _tell(self, hostile: _Hostile, data: bytes) -> None:
        if hostile.stream in self._said:
            self.relay.on_stream(Received(hostile.stream, data), self.now)

    def _reopen(self, place: int) -> None:
        """End a session, and let another begin as it should; the relay itself asks the hostile one again."""
        before = self._hostile[place].stream
        if self._said.pop(before, None) is not None:
            self.relay.on_stream(Closed(before, "reset"), self.now)
        if place:
            self._hostile[place] = _Hostile(self._open(_HOSTS[place]))
            self._begin(self._hostile[place])

    def _begin(self, hostile: _Hostile) -> None:
        is_client = hostile.stream < 0
        setup = encode(Setup(is_client, (VERSION,), 100))
        self._tell(hostile, frames.encode(Parameters(10_000)))
        self._tell(hostile, hostile.frame(CONTROLLED, setup))

    def _open(self, host: str) -> int:
        self._accepted -= 1
        self._said[self._accepted] = Incoming(from_client=False, streams=100)
        self.relay.on_stream(Opened(self._accepted, (host, 50_000), PORT), self.now)
        return self._accepted

    def _settle(self) -> None:
        for _ in range(1000):
            if not self.relay.actions and not self.reader.actions:
                return
            for action in taken(self.reader.actions):
                self._of_reader(action)
            for action in taken(self.relay.actions):
                self._of_relay(action)
        expect("they talk without end", holds=False)

    def _of_reader(self, action: StreamAction) -> None:
        if isinstance(action, Connect):
            self._honest = self._open(_HONEST[0]), action.stream
            self.reader.on_stream(Opened(action.stream, _HONEST), self.now)
        elif isinstance(action, Send) and self._honest is not None:
            self.relay.on_stream(Received(self._honest[0], action.data), self.now)
        else:
            expect("the third party closes", holds=False)

    def _of_relay(self, action: StreamAction) -> None:
        if isinstance(action, Connect):
            self._hostile[0] = _Hostile(action.stream)
            self._said[action.stream] = Incoming(from_client=True, streams=100)
            self.relay.on_stream(Opened(action.stream, _HOSTILE), self.now)
            self._begin(self._hostile[0])
            return
        is_honest = self._honest is not None and action.stream == self._honest[0]
        if isinstance(action, Close):
            expect("the third party is closed", holds=not is_honest)
            if self._said.pop(action.stream, None) is not None:
                self.relay.on_stream(Closed(action.stream, ""), self.now)
        elif isinstance(action, Send) and action.stream in self._said:
            try:
                list(self._said[action.stream].receive(action.data))
            except ProtocolViolation as error:
                expect(f"what is sent is wrong: {error}", holds=False)
            if is_honest and self._honest is not None:
                self.reader.on_stream(Received(self._honest[1], action.data), self.now)

    def _check(self) -> None:
        relay = self.relay
        self.got += len(self.reader.received)
        numbers = [number for _, number, _ in self.reader.received]
        expect("an object comes out of order", holds=numbers == [*range(self.got - len(numbers), self.got)])
        self.reader.received.clear()
        expect("the third party lacks an object", holds=self.got == self.published)
        expect("more is cached than may be", holds=len(relay._cache) <= _CACHE)
        expect("more sessions than there may be", holds=relay.streams <= _LIMITS.sessions + 1)
        behind = {id(reader) for track in relay._tracks.values() for reader in track.readers if reader.stream}
        asked = [one for session in relay.sessions.values() for one in session.asked.values()]
        expect("readers are not those of sessions", holds=behind == {id(reader) for reader in asked})
        expect("a request is of another kind", holds=all(isinstance(one, Reader) for one in asked))
        for session in relay.sessions.values():
            expect("more requests than there may be", holds=len(session.asked) <= _LIMITS.requests)
        for track in relay._tracks.values():
            expect("a track that nobody wants", holds=bool(track.readers) or track.own is not None)
            streams = [each.stream for each in (*track.upstreams, *([track.fetch] if track.fetch else []))]
            expect("a request of no session", holds=all(stream in relay.sessions for stream in streams))


check = playing(_World, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""
