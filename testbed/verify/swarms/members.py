"""The peers of a swarm as programs: observed honest ones, and hostile ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Final

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    Opened,
    Pause,
    Received,
    Send,
    StreamAction,
    StreamEvent,
)
from base.passive import PassiveEndpoint
from base.timers import earliest
from base.units import SECOND
from ssb.canonical import Value, object_in, parse, stringify
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.peer.peer import Peer
from ssb.peer.program import PeerEvent, PeerWrapper
from ssb.replication.loose import Loose
from ssb.rooms.visits import DENIED, Visits
from ssb.store.blobs import MemoryBlobs
from ssb.store.feeds import Appended, Stored
from ssb.store.memory import MemoryFeeds
from testbed.verify.kit.outcome import Violation
from testbed.verify.swarms.story import Hostility

CLEAR: Final = b".ed25519"
"""The end of each reference of a feed: it is in each message, note and call about feeds."""


class Member(PeerWrapper):
    """A peer, which may visit rooms. It counts sent bytes; `watch` checks it after each event.

    Attributes:
        peer: the peer.
        sent: bytes sent.
        is_sealed: links must not carry references in clear.
    """

    is_sealed = False

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.peer = peer
        self.sent = 0
        self._visits = [each for each in peer.services.rooms if isinstance(each, Visits)]

    def next_deadline(self) -> int | None:
        has_news = any(each.has_news for each in self._visits)
        return earliest(0 if has_news else None, super().next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        for visits in self._visits:
            for event in visits.take_events():
                self.on_stream(event, now)
            for kind, peer, room in visits.take_news():
                if kind != DENIED:
                    self.peer.heed(peer, now, room)

    def watch(self, now: int) -> None:
        """Check the peer; hostile ones are not checked."""
        self.peer.take_events()

    def news(self) -> list[PeerEvent]:
        """Return the events since the last call."""
        return self.peer.take_events()

    def take_actions(self) -> list[StreamAction]:
        actions = super().take_actions()
        for action in actions:
            if isinstance(action, Send):
                self.sent += len(action.data)
                if self.is_sealed and CLEAR in action.data:
                    raise Violation("sealed", "a link", "carries a reference in clear")
        return actions

    def _follow_up(self, now: int) -> None:
        self.watch(now)


class Liar(Member):
    """A peer that overstates its feeds in its notes, and leaves those who ask for a blob waiting."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        peer.services._stream = lambda *_: None  # type: ignore[method-assign]
        honest = peer.replication.take_output
        peer.replication.take_output = lambda *where: [_more(body) for body in honest(*where)]  # type: ignore[method-assign]


def _more(body: bytes) -> bytes:
    """Return a body, with its notes increased by seven messages."""
    value = parse(body.decode())
    if not isinstance(value, dict) or "signature" in value:
        return body
    told: dict[str, Value] = {
        feed: note + (7 << 1) if isinstance(note, int) and note >= 0 else note for feed, note in value.items()
    }
    return stringify(told, indent=0).encode()


class Deaf(Member):
    """A peer that stops reading after a stream is open, so that others' data queue up."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._paused: set[int] = set()

    def take_actions(self) -> list[StreamAction]:
        opened = self.peer.connections.items()
        new = {number for number, connection in opened if connection.remote and not connection.room}
        new -= self._paused
        self._paused |= new
        return [*super().take_actions(), *(Pause(number) for number in sorted(new))]


class Replayer(Member):
    """A peer that replays the first stream's bytes at the opening of each later stream."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self._first: int | None = None
        self._said: list[bytes] = []

    def take_actions(self) -> list[StreamAction]:
        actions: list[StreamAction] = []
        for action in super().take_actions():
            if not isinstance(action, Send) or action.stream < 0:
                actions.append(action)
            elif self._first in (None, action.stream):
                self._first = action.stream
                self._said.append(action.data)
                actions.append(action)
            elif self._said:
                actions += [Send(action.stream, data) for data in self._said[:20]]
                self._said.clear()
        return actions


class Babbler(PassiveEndpoint):
    """A StreamEndpoint that opens streams and sends noise, or nothing at all.

    Args:
        others: addresses of the others.
        is_silent: whether it sends nothing.
    """

    peer = None

    def __init__(self, others: Sequence[Address], random: Random, *, is_silent: bool) -> None:
        super().__init__()
        self._others = others
        self._random = random
        self._is_silent = is_silent
        self._numbers = count(1)
        self._calls_at = 0
        self._actions: list[StreamAction] = []

    def watch(self, now: int) -> None:
        """Do nothing."""

    def next_deadline(self) -> int | None:
        return self._calls_at

    def wake(self, now: int) -> None:
        """Call somebody."""
        if now >= self._calls_at:
            self._calls_at = now + self._random.randint(SECOND // 2, 4 * SECOND)
            self._actions.append(Connect(next(self._numbers), self._random.choice(self._others)))

    def on_stream(self, event: StreamEvent, now: int) -> None:
        if isinstance(event, Opened | Received) and not self._is_silent:
            data = self._random.randbytes(self._random.choice([1, 34, 64, 112, 5000]))
            self._actions.append(Send(event.stream, data))
            if self._random.random() < 0.2:
                self._actions.append(Close(event.stream, abort=self._random.random() < 0.5))
        elif isinstance(event, Closed):
            self._calls_at = min(self._calls_at, now + SECOND)

    def take_actions(self) -> list[StreamAction]:
        actions, self._actions = self._actions, []
        return actions


class OldFeeds(MemoryFeeds):
    """A store that knows of no ends."""

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        stored = held = 0
        refused: dict[str, InvalidMessage | ForkedFeed] = {}
        for message in messages:
            one = super().append([message], received)
            self._ends.clear()
            stored, held = stored + one.stored, held + one.held
            refused |= one.refused
        return Appended(stored, held, refused)


class CountedLoose(Loose):
    """Single messages of an honest peer.

    Attributes:
        heard: how often each connection's peer has spoken of each message.
    """

    def __init__(self, feeds: MemoryFeeds) -> None:
        super().__init__(feeds)
        self.heard: Counter[tuple[int, str]] = Counter()

    def receive(self, number: int, body: bytes, received: float) -> None:
        self.heard.update((number, id_) for id_ in object_in(body) or ())
        super().receive(number, body, received)


class FalseLoose(Loose):
    """Answers wants with other messages, whether it has what is wanted or not."""

    def __init__(self, feeds: MemoryFeeds, answers: Sequence[Message], random: Random) -> None:
        super().__init__(feeds)
        self._false = answers
        self._random = random
        self._asked: dict[int, list[str]] = {}

    def receive(self, number: int, body: bytes, received: float) -> None:
        self._asked.setdefault(number, []).extend(object_in(body) or {})
        super().receive(number, body, received)

    def has_output(self, number: int) -> bool:
        return bool(self._asked.get(number)) or super().has_output(number)

    def take_output(self, number: int, room: int) -> list[bytes]:
        wants = [body for body in super().take_output(number, room) if b'"content"' not in body]
        false = {id_: parse(self._random.choice(self._false).text) for id_ in self._asked.pop(number, ())}
        return wants + [stringify({id_: value}, indent=0).encode() for id_, value in false.items()]


class FalseBlobs(MemoryBlobs):
    """A store that pretends to hold blobs; those that it sends are too short, too long, or others.

    Args:
        sizes: of the blobs.
        kind: its peer's behaviour; only some send false ones.
    """

    def __init__(self, sizes: Mapping[str, int], kind: Hostility, random: Random) -> None:
        super().__init__()
        self._sizes = sizes if kind in ("forges", "skips", "lies") else {}
        self._kind = kind
        self._random = random

    def size(self, blob: str) -> int | None:
        return super().size(blob) or self._sizes.get(blob)

    def read(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        if super().size(blob) is not None:
            return super().read(blob, start, size)
        if self._kind == "skips":
            raise KeyError(blob)
        return self._random.randbytes(self._sizes[blob] + self._random.choice([0, 0, 1, 100_000]))


class FalseFeeds(MemoryFeeds):
    """A store that returns altered messages."""

    def __init__(self, kind: Hostility, random: Random) -> None:
        super().__init__()
        self._kind = kind
        self._random = random

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        held = super().after(feed, sequence, limit)
        if self._kind == "skips" and len(held) > 1 and self._random.random() < 0.5:
            return held[1:]
        if self._kind == "forges" and held and self._random.random() < 0.5:
            at = self._random.randrange(len(held))
            held[at] = self._forged(held[at])
        return held

    def _forged(self, stored: Stored) -> Stored:
        """Return a message with another text, signature, or author."""
        message: Message = stored.message
        what = self._random.randrange(4)
        text = message.text
        if what == 0:
            text = text.replace('"type": "post"', '"type": "pest"')
        elif what == 1:
            signature = text.index('"signature": "') + len('"signature": "')
            text = text[:signature] + ("A" if text[signature] != "A" else "B") + text[signature + 1 :]
        elif what == 2:
            text = text.replace(f'"sequence": {message.sequence}', f'"sequence": {message.sequence + 1}')
        else:
            text = text.replace(message.previous or "null", stringify(None) if message.previous else "1", 1)
        return stored._replace(text=text.encode())
