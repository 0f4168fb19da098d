"""The side of the room: who is there, and tunnels between them.

Attendants subscribe to `room.attendants`, or `tunnel.endpoints` as in room 1. One of them opens a tunnel to
another by `tunnel.connect`: the room makes the same call there, and passes on bytes in both directions. The
secret handshake and the boxes inside are the two peers' own, so the room reads nothing of them.

While one end of a tunnel takes no more, the room reads no more from the other, so it queues little. An end
that takes nothing for long is closed.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from base.timers import Timers
from base.units import SECOND
from ssb.canonical import Value
from ssb.rooms.alias import Alias, InvalidAlias, check
from ssb.rooms.line import Line
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Answered, Called, Finished

METADATA: Final = ("room", "metadata")
ATTENDANTS: Final = ("room", "attendants")
REGISTER: Final = ("room", "registerAlias")
REVOKE: Final = ("room", "revokeAlias")
IS_ROOM: Final = ("tunnel", "isRoom")
ENDPOINTS: Final = ("tunnel", "endpoints")
CONNECT: Final = ("tunnel", "connect")
ANNOUNCE: Final = ("tunnel", "announce")
LEAVE: Final = ("tunnel", "leave")
PING: Final = ("tunnel", "ping")

STALLED: Final = 30 * SECOND
"""An attendant that takes nothing for so long, while others wait for it, is closed."""
MOST_ALIASES: Final = 5
"""Of one owner."""

_End = tuple[int, int]  # an end of a tunnel: connection and call


class RoomOptions(NamedTuple):
    """The settings of a room.

    Attributes:
        name: of the room.
        is_open: all peers are members; else those that `is_member` accepts.
        address: of the room, for the URIs of aliases.
    """

    name: str
    is_open: bool
    address: PeerAddress


class Room:
    """A room, as a LineService.

    Args:
        options: see RoomOptions.
        is_member: whether a peer is a member of a room that is not open.
        replicates: whether the room's peer replicates a feed.
        aliases: by name in lower case.
        store: called with all aliases, to store them.
        now_ms: returns the time, ms since 1970.
    """

    def __init__(
        self,
        options: RoomOptions,
        is_member: Callable[[str], bool],
        replicates: Callable[[str], bool],
        aliases: Mapping[str, Alias],
        store: Callable[[Mapping[str, Alias]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._is_member = is_member
        self._replicates = replicates
        self._aliases = dict(aliases)
        self._store = store
        self._now_ms = now_ms
        self._lines: dict[int, Line] = {}
        self._present: dict[str, int] = {}  # attendants, and their connections
        self._watching: dict[_End, bool] = {}  # subscriptions; of room.attendants if True
        self._ends: dict[_End, _End] = {}  # each end of a tunnel, and its other one
        self._waiting: dict[int, set[int]] = {}  # connections that are full, and those not read for them
        self._full: set[int] = set()
        self._untold: set[_End] = set()  # subscriptions of the full, who hear the state afterwards
        self._stalled = Timers[int]()
        self._changed: dict[int, None] = {}
        self._pauses: list[tuple[int, bool]] = []

    @property
    def attendants(self) -> Mapping[str, int]:
        """The peers that are here, and the numbers of their connections."""
        return self._present

    @property
    def tunnels(self) -> int:
        """Number of open tunnels."""
        return len(self._ends) // 2

    @property
    def meetings(self) -> set[tuple[str, str]]:
        """The peers at both ends of each open tunnel, once in each order."""
        return {(self._lines[a].remote, self._lines[b].remote) for (a, _), (b, _) in self._ends.items()}

    # See LineService.

    def open(self, line: Line, now: int) -> None:
        self._lines[line.number] = line

    def close(self, number: int) -> None:
        line = self._lines.pop(number, None)
        if line is None:
            return
        for end in self._watching_by(number):
            self._unwatch(end)
        for end in [end for end in self._ends if end[0] == number]:
            self._end(end, "the other peer has left the room")
        self.set_full(number, False, 0)
        for waiting in self._waiting.values():
            waiting.discard(number)
        if self._present.get(line.remote) == number:
            self._leave(line.remote)

    def is_apart(self, number: int) -> bool | None:
        line = self._lines.get(number)
        return line is not None and not self._replicates(line.remote)

    def serve(self, number: int, call: Called) -> bool:
        line = self._lines.get(number)
        if line is None:
            return False
        match call.name, call.form:
            case (("room", "metadata") | ("tunnel", "isRoom")) as name, "async":
                line.calls.answer(call.call, self._metadata(line) if name == METADATA else self._about())
            case ("tunnel", "ping"), "async":
                line.calls.answer(call.call, self._now_ms())
            case ("tunnel", "connect"), "duplex":
                self._connect(line, call)
            case ("room" | "tunnel", _) as name, form if (name, form) in _MEMBERS:
                if self._admits(line.remote):
                    self._serve_member(line, call)
                else:
                    line.calls.end(call.call, "you are no member of this room")
            case _:
                return False
        self._changed[number] = None
        return True

    def receive(self, number: int, answer: Answered) -> None:
        """See LineService: pass on what comes through a tunnel."""
        other = self._ends.get((number, answer.call))
        if other is None:
            return
        there, call = other
        self._lines[there].calls.send(call, answer.body, answer.body_type)
        self._changed[there] = None
        if there in self._full:
            self._waiting.setdefault(there, set()).add(number)
            self._pauses.append((number, True))

    def finish(self, number: int, end: Finished) -> None:
        self._unwatch((number, end.call))
        if (number, end.call) in self._ends:
            self._end((number, end.call), end.error)

    def set_full(self, number: int, is_full: bool, now: int) -> None:
        if is_full and number not in self._lines:  # a guest's, or a tunnel
            return
        if is_full:
            self._full.add(number)
            self._stalled.set(number, now + STALLED)
            return
        self._full.discard(number)
        self._stalled.set(number, None)
        for end in self._watching_by(number):
            if end in self._untold:
                self._tell_state(end)
        released = self._waiting.pop(number, set())
        still = set().union(*self._waiting.values())
        self._pauses += [(each, False) for each in sorted(released - still)]

    def take_changed(self) -> dict[int, None]:
        changed, self._changed = self._changed, {}
        return changed

    def take_pauses(self) -> list[tuple[int, bool]]:
        pauses, self._pauses = self._pauses, []
        return pauses

    def next_deadline(self) -> int | None:
        return self._stalled.next_deadline()

    def wake(self, now: int) -> list[tuple[int, str]]:
        stalled = []
        for number in self._stalled.expire(now):
            if self._waiting.get(number):
                stalled.append(number)
            else:  # others may wait for it later
                self._stalled.set(number, now + STALLED)
        return [(number, "it takes nothing of what others send it in the room") for number in stalled]

    # What the room does.

    def _admits(self, remote: str) -> bool:
        return self._options.is_open or self._is_member(remote)

    def _about(self) -> Value:
        return {"name": self._options.name, "description": ""}

    def _metadata(self, line: Line) -> Value:
        features = ["tunnel", "room2", "alias", *(["room1"] if self._options.is_open else [])]
        return {
            "name": self._options.name,
            "membership": self._admits(line.remote),
            "features": sorted(features),
        }

    def _serve_member(self, line: Line, call: Called) -> None:
        calls, number = line.calls, call.call
        match call.name:
            case ("room", "attendants") | ("tunnel", "endpoints"):
                self._enter(line)
                is_new = call.name == ATTENDANTS
                for end in self._watching_by(line.number):
                    if self._watching[end] == is_new:  # one is enough
                        self._unwatch(end)
                        calls.end(end[1])
                self._watching[line.number, number] = is_new
                self._tell_state((line.number, number))
            case ("tunnel", "announce"):
                self._enter(line)
                calls.answer(number, True)
            case ("tunnel", "leave"):
                if line.remote in self._present:
                    self._leave(line.remote)
                calls.answer(number, True)
            case _:
                try:
                    given = [str(each) for each in call.arguments]
                    calls.answer(
                        number,
                        self._register(line.remote, *given[:2])
                        if call.name == REGISTER
                        else self._revoke(line.remote, *given[:1]),
                    )
                except InvalidAlias as error:
                    calls.end(number, str(error))

    def _enter(self, line: Line) -> None:
        is_new = line.remote not in self._present
        self._present[line.remote] = line.number
        if is_new:
            self._tell({"type": "joined", "id": line.remote})

    def _leave(self, remote: str) -> None:
        del self._present[remote]
        self._tell({"type": "left", "id": remote})

    def _tell(self, event: Value) -> None:
        """Tell all who have subscribed: the event, or by room 1 the whole list."""
        for end, is_new in self._watching.items():
            if is_new and end[0] not in self._full:
                self._lines[end[0]].calls.answer(end[1], event)
                self._changed[end[0]] = None
            else:
                self._tell_state(end)

    def _tell_state(self, end: _End) -> None:
        """Tell a subscriber who is there; a full one hears it afterwards, so nothing is queued for it."""
        number, call = end
        if number in self._full:
            self._untold.add(end)
            return
        self._untold.discard(end)
        ids: Value = [*self._present]
        self._lines[number].calls.answer(call, {"type": "state", "ids": ids} if self._watching[end] else ids)
        self._changed[number] = None

    def _watching_by(self, number: int) -> list[_End]:
        return [end for end in self._watching if end[0] == number]

    def _unwatch(self, end: _End) -> None:
        self._watching.pop(end, None)
        self._untold.discard(end)

    def _connect(self, line: Line, call: Called) -> None:
        """Open a tunnel: make the same call at the target, with the origin."""
        options = call.arguments[0] if call.arguments else None
        target = options.get("target") if isinstance(options, dict) else None
        portal = options.get("portal") if isinstance(options, dict) else None
        if not isinstance(target, str) or portal not in (None, self._options.address.peer):
            line.calls.end(call.call, "tunnel.connect takes the target, and this room as portal")
            return
        there = self._present.get(target)
        if there is None or target == line.remote:
            line.calls.end(call.call, f"could not connect to: {target}")
            return
        arguments: list[Value] = [
            {"portal": self._options.address.peer, "target": target, "origin": line.remote}
        ]
        end = there, self._lines[there].calls.call(CONNECT, arguments, "duplex")
        self._ends[line.number, call.call] = end
        self._ends[end] = line.number, call.call
        self._changed[there] = None

    def _end(self, end: _End, error: str) -> None:
        """End a tunnel, of which one end is over."""
        there, call = self._ends.pop(end)
        self._ends.pop((there, call), None)
        if there in self._lines:
            self._lines[there].calls.end(call, error)
            self._changed[there] = None

    def _register(self, owner: str, name: str = "", signature: str = "") -> str:
        alias = check(Alias(name, owner, signature), self._options.address.peer)
        if name.lower() in self._aliases:
            raise InvalidAlias(f"the alias {name} is taken")
        if sum(each.owner == owner for each in self._aliases.values()) >= MOST_ALIASES:
            raise InvalidAlias(f"{MOST_ALIASES} aliases are enough; revoke one first")
        self._store({**self._aliases, name.lower(): alias})
        self._aliases[name.lower()] = alias
        return alias.uri(self._options.address)

    def _revoke(self, owner: str, name: str = "") -> bool:
        alias = self._aliases.get(name.lower())
        if alias is None or alias.owner != owner:
            raise InvalidAlias(f"the alias {name} is not yours")
        self._store({key: each for key, each in self._aliases.items() if each is not alias})
        del self._aliases[name.lower()]
        return True


_MEMBERS: Final = {
    (ATTENDANTS, "source"),
    (ENDPOINTS, "source"),
    (ANNOUNCE, "async"),
    (LEAVE, "async"),
    (REGISTER, "async"),
    (REVOKE, "async"),
}
"""Calls for members only, and their forms."""
