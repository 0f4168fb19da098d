"""A relay's sessions with others: who has opened them, what they say, and when they are to be woken."""

from collections import Counter
from typing import Final, NamedTuple

from base.endpoint import Address, Close, Connect, Send, StreamAction
from base.timers import Timers
from ssb.moq.followed import Reader
from ssb.moq.messages import Code, Location
from ssb.moq.session import Session

PORT: Final = 4443
"""TCP port of relays; MOQT has none of its own."""


class Bounds(NamedTuple):
    """What a relay keeps at most, besides its cache.

    Attributes:
        sessions: that others have opened. Another one is closed.
        requests: subscriptions and fetches that the other side of a session may have open (9.5).
        queued: bytes that wait for a session's connection while it takes no more. A session with more ends.
            A session that is to send so many gets no further object before its next turn.
    """

    sessions: int = 10_000
    requests: int = 10_000
    queued: int = 1 << 20


BOUNDS: Final = Bounds()


class Hops:
    """The sessions of a relay.

    Args:
        idle: ns of silence after which a session is given up.
        bounds: see Bounds.

    Attributes:
        actions: on streams, to be taken.
        sessions: by stream.
        queued: bytes that wait for each full connection.
        ends: when each session is to be woken.
    """

    def __init__(self, idle: int, bounds: Bounds) -> None:
        self.actions: list[StreamAction] = []
        self.sessions: dict[int, Session] = {}
        self.queued: Counter[int] = Counter()
        self.ends: Timers[int] = Timers()
        self._idle = idle
        self._bounds = bounds
        self._addresses: dict[int, Address] = {}
        self._accepted = self._last = 0
        self._touched: dict[int, None] = {}
        self._more: dict[int, None] = {}

    @property
    def has_more(self) -> bool:
        """Whether sessions wait for another turn."""
        return bool(self._more)

    @property
    def streams(self) -> int:
        """Sessions that are open, or being opened."""
        return len(self.sessions)

    def session(self, stream: int) -> Session:
        """Return a session; flush() sends what it then says."""
        self._touched[stream] = None
        return self.sessions[stream]

    def accept(self, stream: int, peer: Address, now: int) -> bool:
        """Begin a session that another relay has opened; return False if there are too many."""
        if self._accepted >= self._bounds.sessions:
            self.actions.append(Close(stream, abort=True))
            return False
        self._accepted += 1
        self._add(stream, (peer[0], PORT), is_client=False)
        self.session(stream).begin(now)
        return True

    def to(self, address: Address, now: int) -> int:
        """Return the stream of the newest session with a relay, whoever has opened it, or of a new one."""
        for stream, known in reversed(self._addresses.items()):
            if known == address:
                return stream
        self._last += 1
        self._add(self._last, address, is_client=True)
        self.actions.append(Connect(self._last, address))
        self.session(self._last).expect(now)
        return self._last

    def forget(self, stream: int) -> Session:
        """Remove a session, and return it."""
        del self._addresses[stream]
        self._accepted -= stream < 0
        self.ends.set(stream, None)
        self.queued.pop(stream, None)
        self._more.pop(stream, None)
        return self.sessions.pop(stream)

    def flush(self, now: int) -> list[int]:
        """Send what sessions have to say; return the streams of those for which too much waits."""
        touched, self._touched = self._touched, {}
        overfull = []
        for stream in touched:
            session = self.sessions.get(stream)
            if session is None:
                continue
            if session.out:
                self.actions.append(Send(stream, bytes(session.out)))
                self.queued[stream] += len(session.out) * session.is_full
                session.out.clear()
            self.ends.set(stream, session.next_deadline())
            if self.queued[stream] > self._bounds.queued:
                overfull.append(stream)
        return overfull

    def readers(self, stream: int) -> list[Reader]:
        """Return the readers behind a session."""
        return [reader for reader in self.sessions[stream].asked.values() if isinstance(reader, Reader)]

    def grant(self, reader: Reader, now: int) -> bool:
        """Grant a subscription, from the next object on, or a fetch; return False for a fetch of nothing."""
        assert reader.stream is not None
        largest, session = reader.track.largest, self.session(reader.stream)
        if reader.end is None:
            reader.next = largest + 1
            told = Location(0, largest) if largest >= 0 else None
            reader.out = session.grant(reader.number, told, now)
            return True
        reader.end = min(reader.end, largest + 1)
        if reader.next < reader.end:
            reader.out = session.grant_fetch(reader.number, Location(0, reader.end), now)
            return True
        session.refuse(reader.number, Code.INVALID_RANGE, now, is_fetch=True)
        return False

    def turn_away(self, reader: Reader, now: int) -> None:
        """End a request that gets no objects, so that its subscriber may look for another relay."""
        assert reader.stream is not None
        session = self.session(reader.stream)
        if reader.out is None:
            session.refuse(reader.number, Code.TIMEOUT, now, is_fetch=reader.end is not None)
        elif reader.end is None:
            session.end(reader.number, reader.out, Code.INTERNAL_ERROR, now)
        else:
            session.break_off(reader.number, reader.out, now)

    def stop(self, reader: Reader, now: int) -> None:
        """End a request that was taken back."""
        assert reader.stream is not None
        session = self.session(reader.stream)
        if reader.out is not None:
            session.reset(reader.out, now)
        session.finish(reader.number, now)

    def is_open(self, reader: Reader) -> bool:
        """Whether a reader can be given an object now.

        A connection says that it is full only after bytes were sent to it. So a session is given a limited
        share at once, and notes here that it needs another turn.
        """
        if reader.stream is None:
            return True
        session = self.sessions[reader.stream]
        if reader.out is None or session.is_full:
            return False
        if len(session.out) < self._bounds.queued:
            return True
        self._more[reader.stream] = None
        return False

    def take_more(self) -> list[int]:
        """Return the streams of sessions that have another turn now."""
        more, self._more = self._more, {}
        return [*more]

    def _add(self, stream: int, address: Address, *, is_client: bool) -> None:
        self.sessions[stream] = Session(is_client=is_client, idle=self._idle, most=self._bounds.requests)
        self._addresses[stream] = address
