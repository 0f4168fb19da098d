"""The side of those who meet: the rooms that a peer visits, and streams through them.

A peer asks each peer that it has called whether it is a room: `room.metadata`, or `tunnel.isRoom` of room 1.
A room does not learn which feeds its visitors want, unless they want the room's own: EBT and the other calls
wait for the answer. The peer subscribes to who is there. A tunnel is a call of `tunnel.connect`; here it is a
stream like those of TCP, with a number, actions and events, so all protocols of peers work over it unchanged,
beginning with the secret handshake.

Others may open tunnels to this peer if it wants to meet them ("Tunneled authentication").
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from base.endpoint import Close, Closed, Full, Opened, Received, Send, StreamEvent, Writable
from base.timers import Timers
from base.units import SECOND
from ssb.canonical import InvalidJson, Value, parse_bytes
from ssb.keys import is_feed
from ssb.rooms.line import Line
from ssb.rooms.room import ATTENDANTS, CONNECT, ENDPOINTS, IS_ROOM, METADATA, PING
from ssb.transport.calls import Answered, Called, Finished
from ssb.transport.muxrpc import BodyType

PING_EVERY: Final = 120 * SECOND
"""A quiet connection would be closed by either side."""
MOST_ATTENDANTS: Final = 10_000
"""Of one room; further ones do not count."""
LONGEST_NAME: Final = 100

_FIRST_STREAM = 1 << 32  # streams of TCP that a peer opens have lower numbers


CAME, LEFT, DENIED = "came", "left", "denied"


class News(NamedTuple):
    """A peer came into a room or left it, or was denied a tunnel through it to this peer."""

    kind: str
    peer: str
    room: str


@dataclass
class Visit:
    """A connection that may lead to a room.

    Attributes:
        line: the connection.
        since: when it was opened, ns.
        is_room: whether it does.
        name: the room's.
        is_member: whether this peer may be met there.
        features: those that the room announces.
        attendants: who is there, without this peer.
        tunnels: calls of `tunnel.connect`, and their streams.
    """

    line: Line
    since: int
    is_room: bool = False
    name: str = ""
    is_member: bool = True
    features: tuple[str, ...] = ()
    attendants: set[str] = field(default_factory=set)
    tunnels: dict[int, int] = field(default_factory=dict)
    calls: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Open calls for the visit's own purposes, and their names."""


class Visits:
    """Visits, as a LineService.

    Args:
        reference: of this peer.
        meets: whether to let a peer in that calls through a room.
        replicates: whether this peer replicates a feed.
    """

    def __init__(
        self, reference: str, meets: Callable[[str], bool], replicates: Callable[[str], bool]
    ) -> None:
        self._reference = reference
        self._replicates = replicates
        self._meets = meets
        self._visits: dict[int, Visit] = {}
        self._numbers = count(_FIRST_STREAM)
        self._streams: dict[int, tuple[int, int]] = {}  # the connection and the call of each
        self._asked: dict[tuple[str, ...], Answered | Finished | None] = {}
        self._asking: dict[tuple[int, int], tuple[str, ...]] = {}
        self._changed: dict[int, None] = {}
        self._events: list[StreamEvent] = []
        self._news: list[News] = []
        self._pings = Timers[int]()

    @property
    def rooms(self) -> Iterable[Visit]:
        """The visits that have turned out to be of rooms."""
        return (visit for visit in self._visits.values() if visit.is_room)

    @property
    def has_news(self) -> bool:
        """Whether there is something to take."""
        return bool(self._events or self._news)

    def take_events(self) -> list[StreamEvent]:
        """Return the events of streams since the last call."""
        events, self._events = self._events, []
        return events

    def take_news(self) -> list[News]:
        """Return the news since the last call."""
        news, self._news = self._news, []
        return news

    # Streams.

    def is_stream(self, number: int) -> bool:
        """Whether this is the number of a stream through a room."""
        return number >= _FIRST_STREAM

    def room_of(self, stream: int) -> str:
        """Return the room of a stream; "" if it is none of these."""
        connection, _ = self._streams.get(stream, (0, 0))
        return self._visits[connection].line.remote if connection else ""

    def rooms_with(self, peer: str) -> dict[str, Visit]:
        """Return the visits of the rooms that a peer is in, by the rooms."""
        return {visit.line.remote: visit for visit in self.rooms if peer in visit.attendants}

    def connect(self, peer: str, visit: Visit) -> int:
        """Open a stream to a peer in a room; return its number."""
        call = visit.line.calls.call(CONNECT, [{"portal": visit.line.remote, "target": peer}], "duplex")
        return self._begin(visit, call, peer)

    def act(self, action: Send | Close) -> None:
        """Perform an action on a stream; no effect if it has ended."""
        if action.stream not in self._streams:
            return
        connection, call = self._streams[action.stream]
        calls = self._visits[connection].line.calls
        self._changed[connection] = None
        if isinstance(action, Close):
            self._forget(action.stream)
            calls.end(call, "broken off" if action.abort else "")
        else:
            calls.send(call, action.data, BodyType.BINARY)

    def _begin(self, visit: Visit, call: int, peer: str) -> int:
        stream = next(self._numbers)
        number = visit.line.number
        visit.tunnels[call] = stream
        self._streams[stream] = number, call
        self._changed[number] = None
        self._events.append(Opened(stream, (peer, 0)))
        return stream

    def _forget(self, stream: int) -> None:
        connection, call = self._streams.pop(stream)
        del self._visits[connection].tunnels[call]

    # Requests of the user to a room.

    def ask(self, room: str, name: tuple[str, ...], arguments: list[Value]) -> Value:
        """Make a call of form async to a room, at first, and return its answer; None while it has none.

        Raises ValueError with the room's error, or if it is not visited.
        """
        key = (room, *name, *map(str, arguments))
        if key not in self._asked:
            visit = next((visit for visit in self.rooms if visit.line.remote == room), None)
            if visit is None:
                raise ValueError(f"there is no connection with a room {room}")
            self._asked[key] = None
            self._asking[visit.line.number, visit.line.calls.call(name, arguments, "async")] = key
            self._changed[visit.line.number] = None
        answer = self._asked[key]
        if answer is None:
            return None
        del self._asked[key]
        if isinstance(answer, Finished):
            raise ValueError(f"the room says: {answer.error}")
        value = _read(answer)
        return True if value is None else value

    # See LineService.

    def open(self, line: Line, now: int) -> None:
        """See LineService: find out whether it leads to a room."""
        if line.is_called:
            self._visits[line.number] = visit = Visit(line, now)
            self._call(visit, METADATA, "async")

    def close(self, number: int) -> None:
        visit = self._visits.get(number)
        if visit is None:
            return
        for stream in list(visit.tunnels.values()):
            self._forget(stream)
            self._events.append(Closed(stream, "the connection with the room has ended"))
        for asked in [asked for asked in self._asking if asked[0] == number]:
            self._asked[self._asking.pop(asked)] = Finished(asked[1], "the connection has ended")
        self._pings.set(number, None)
        self._set_attendants(visit, set())
        del self._visits[number]

    def is_apart(self, number: int) -> bool | None:
        visit = self._visits.get(number)
        if visit is None:
            return False
        if not visit.is_room and {METADATA, IS_ROOM} & {*visit.calls.values()}:
            return None
        return visit.is_room and not self._replicates(visit.line.remote)

    def serve(self, number: int, call: Called) -> bool:
        """See LineService: a peer opens a tunnel to this one."""
        visit = self._visits.get(number)
        options = call.arguments[0] if call.arguments else None
        if (
            (call.name, call.form) != (CONNECT, "duplex")
            or visit is None
            or not visit.is_room
            or not isinstance(options, dict)
            or options.get("target") != self._reference
        ):
            return False
        origin = options.get("origin")
        self._changed[number] = None
        if not isinstance(origin, str) or not is_feed(origin):
            visit.line.calls.end(call.call, "tunnel.connect takes the origin from the room")
        elif not self._meets(origin):
            self._news.append(News(DENIED, origin, visit.line.remote))
            visit.line.calls.end(call.call, f"could not connect to: {self._reference}")
        else:
            self._begin(visit, call.call, origin)
        return True

    def receive(self, number: int, answer: Answered) -> None:
        visit = self._visits.get(number)
        if visit is None:
            return
        stream = visit.tunnels.get(answer.call)
        if stream is not None:
            self._events.append(Received(stream, answer.body))
        elif (number, answer.call) in self._asking:
            self._asked[self._asking.pop((number, answer.call))] = answer
        elif answer.call in visit.calls:
            self._on_answer(visit, visit.calls[answer.call], _read(answer))
            if visit.calls[answer.call] not in (ATTENDANTS, ENDPOINTS):
                del visit.calls[answer.call]

    def finish(self, number: int, end: Finished) -> None:
        visit = self._visits.get(number)
        if visit is None:
            return
        stream = visit.tunnels.get(end.call)
        if stream is not None:
            self._forget(stream)
            self._events.append(Closed(stream, end.error))
        elif (number, end.call) in self._asking:
            self._asked[self._asking.pop((number, end.call))] = end
        name = visit.calls.pop(end.call, None)
        if name == METADATA:
            self._call(visit, IS_ROOM, "async")
        elif name == ATTENDANTS and end.error:
            self._call(visit, ENDPOINTS, "source")
        elif name in (ATTENDANTS, ENDPOINTS):
            self._set_attendants(visit, set())

    def set_full(self, number: int, is_full: bool, now: int) -> None:
        """See LineService: pass it on to the streams."""
        visit = self._visits.get(number)
        if visit is not None:
            kind = Full if is_full else Writable
            self._events += [kind(stream) for stream in visit.tunnels.values()]

    def take_changed(self) -> dict[int, None]:
        changed, self._changed = self._changed, {}
        return changed

    def take_pauses(self) -> list[tuple[int, bool]]:
        """See LineService: there are none."""
        return []

    def next_deadline(self) -> int | None:
        return self._pings.next_deadline()

    def wake(self, now: int) -> list[tuple[int, str]]:
        """See LineService: show rooms that this peer is there."""
        for number in self._pings.expire(now):
            self._call(self._visits[number], PING, "async")
            self._pings.set(number, now + PING_EVERY)
        return []

    # Rooms.

    def _call(self, visit: Visit, name: tuple[str, ...], form: str) -> None:
        visit.calls[visit.line.calls.call(name, [], form)] = name
        self._changed[visit.line.number] = None

    def _on_answer(self, visit: Visit, name: tuple[str, ...], value: Any) -> None:
        if name in (METADATA, IS_ROOM):
            self._begin_visit(visit, name, value)
        elif name == ENDPOINTS and isinstance(value, list):
            self._set_attendants(visit, {each for each in value if isinstance(each, str)})
        elif name == ATTENDANTS:
            match value:
                case {"type": "state", "ids": list() as ids}:
                    self._set_attendants(visit, {each for each in ids if isinstance(each, str)})
                case {"type": "joined", "id": str() as peer}:
                    self._set_attendants(visit, visit.attendants | {peer})
                case {"type": "left", "id": str() as peer}:
                    self._set_attendants(visit, visit.attendants - {peer})

    def _begin_visit(self, visit: Visit, name: tuple[str, ...], value: Any) -> None:
        if not value:
            return
        visit.is_room = True
        about = value if isinstance(value, dict) else {}
        title, features = about.get("name"), about.get("features")
        visit.name = title[:LONGEST_NAME] if isinstance(title, str) else ""
        if name == IS_ROOM:
            visit.features = ("room1",)
            self._call(visit, ENDPOINTS, "source")
        else:
            visit.features = tuple(str(each) for each in features) if isinstance(features, list) else ()
            visit.is_member = about.get("membership") is not False
            if visit.is_member:
                self._call(visit, ATTENDANTS, "source")
        self._pings.set(visit.line.number, visit.since + PING_EVERY)

    def _set_attendants(self, visit: Visit, peers: set[str]) -> None:
        peers = peers - {self._reference, visit.line.remote}
        before, visit.attendants = visit.attendants, set()
        for peer in sorted(peers)[:MOST_ATTENDANTS]:
            if peer in before or is_feed(peer):
                visit.attendants.add(peer)
        room = visit.line.remote
        self._news += [News(CAME, peer, room) for peer in sorted(visit.attendants - before)]
        self._news += [News(LEFT, peer, room) for peer in sorted(before - visit.attendants)]


def _read(answer: Answered) -> Value:
    try:
        return parse_bytes(answer.body)
    except InvalidJson:
        return None
