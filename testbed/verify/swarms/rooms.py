"""The rooms of a swarm: those that work, those that fail for a while, and hostile ones; and what must hold.

A room reads the calls that attendants make to it, and bytes of their tunnels. The world knows whom a room has
truly joined, so a peer that believes the room in place of the handshake inside is found out.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import permutations
from random import Random
from typing import Any, Final

from base.timers import earliest
from base.units import MS
from ssb.keys import Identity, parse_feed
from ssb.peer.access import OpenAccess
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.rooms.line import Line
from ssb.rooms.room import CONNECT, Room, RoomOptions
from ssb.rooms.visits import Visits
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Answered, Called, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.muxrpc import BodyType
from ssb.transport.secure_stream import ChannelError, SecureStream
from testbed.verify.kit.outcome import Violation
from testbed.verify.swarms.members import CLEAR, Member
from testbed.verify.swarms.story import Swarm

ROOM_STEPS: Final = frozenset({"enter", "exit"})
TRUSTY: Final = ("works", "drops", "delays")
"""Rooms through which friends get everything in the end; those that drop or delay stop after the story."""


class WatchedRoom(Room):
    """A room that works.

    Args:
        options: see RoomOptions.
        coverage: counts what has happened.

    Attributes:
        joined: both ends of each tunnel so far, in both orders.
    """

    def __init__(self, options: RoomOptions, coverage: Counter[str]) -> None:
        super().__init__(options, lambda _: True, lambda _: False, {}, lambda _: None, lambda: 0)
        self.joined: set[tuple[str, str]] = set()
        self._coverage = coverage

    def receive(self, number: int, answer: Answered) -> None:
        if (number, answer.call) in self._ends and CLEAR in answer.body:
            raise Violation("sealed", self._options.name, "reads what passes through a tunnel")
        super().receive(number, answer)

    def check(self) -> None:
        """Check that the state is that of open connections; raise Violation."""
        lines, name = self._lines, self._options.name
        ends = {number for end in self._ends for number, _ in (end,)}
        known = {*self._present.values(), *self._waiting, *self._full, *ends}
        known.update(number for number, _ in (*self._watching, *self._untold))
        if not known <= lines.keys():
            raise Violation("rooms", name, f"keeps state of the closed connections {known - lines.keys()}")
        if any(self._ends.get(other) != end for end, other in self._ends.items()):
            raise Violation("rooms", name, "has a tunnel with one end")
        if any(lines[number].remote != peer for peer, number in self._present.items()):
            raise Violation("rooms", name, "takes a peer for another one")

    def left(self) -> str:
        """Return the state that there is; "" if there is none."""
        kept: dict[str, Sized] = {
            "connections": self._lines,
            "attendants": self._present,
            "subscriptions": [*self._watching, *self._untold],
            "tunnels": self._ends,
            "full connections": [*self._waiting, *self._full],
            "deadlines": [] if self._stalled.next_deadline() is None else [0],
        }
        return ", ".join(f"{len(each)} {what}" for what, each in kept.items() if each)

    def _connect(self, line: Line, call: Called) -> None:
        super()._connect(line, call)
        self._note((line.number, call.call))

    def _note(self, end: tuple[int, int]) -> None:
        other = self._ends.get(end)
        if other is not None:
            self._coverage["tunnel"] += 1
            one, two = self._lines[end[0]].remote, self._lines[other[0]].remote
            self.joined |= {(one, two), (two, one)}


class DroppingRoom(WatchedRoom):
    """A room that breaks off tunnels, until a time.

    Args:
        options, coverage: see WatchedRoom.
        random: for its draws.
        clock: returns the time, ns.
        calm: the time, ns.
    """

    def __init__(
        self,
        options: RoomOptions,
        coverage: Counter[str],
        random: Random,
        clock: Callable[[], int],
        calm: int,
    ) -> None:
        super().__init__(options, coverage)
        self._random = random
        self._clock = clock
        self._calm = calm

    def receive(self, number: int, answer: Answered) -> None:
        end = number, answer.call
        if end not in self._ends or self._clock() > self._calm or self._random.random() > 0.1:
            super().receive(number, answer)
            return
        self._coverage["tunnel dropped"] += 1
        self._lines[number].calls.end(answer.call, "dropped")
        self._changed[number] = None
        self._end(end, "dropped")


class DelayingRoom(DroppingRoom):
    """A room that passes on late, until a time; see DroppingRoom. Order is kept."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._late: deque[tuple[int, int, Answered | Finished]] = deque()

    def receive(self, number: int, answer: Answered) -> None:
        if not self._is_late(number, answer):
            WatchedRoom.receive(self, number, answer)

    def finish(self, number: int, end: Finished) -> None:
        if not self._is_late(number, end):
            super().finish(number, end)

    def next_deadline(self) -> int | None:
        return earliest(super().next_deadline(), self._late[0][0] if self._late else None)

    def wake(self, now: int) -> list[tuple[int, str]]:
        while self._late and self._late[0][0] <= now:
            _, number, event = self._late.popleft()
            if isinstance(event, Answered):
                WatchedRoom.receive(self, number, event)
            else:
                super().finish(number, event)
        return super().wake(now)

    def _is_late(self, number: int, event: Answered | Finished) -> bool:
        is_late = (number, event.call) in self._ends and (self._late or self._clock() < self._calm)
        if is_late:
            self._coverage["tunnel delayed"] += 1
            due = now = self._clock()
            if now < self._calm:
                due += self._random.randint(100, 3000) * MS
            self._late.append((max(due, self._late[-1][0] if self._late else 0), number, event))
        return bool(is_late)


class HostileRoom(DroppingRoom):
    """A room that alters bytes, swallows them, misleads, or says that others are here who are not; see
    DroppingRoom.

    Args:
        kind: what it does.
        peers: references of all.
    """

    def __init__(self, kind: str, peers: Iterable[str], *given: Any) -> None:
        super().__init__(*given)
        self._kind = kind
        self._peers = [*peers]
        self._passes: dict[tuple[int, int], int] = {}

    def receive(self, number: int, answer: Answered) -> None:
        end = number, answer.call
        if self._kind == "swallows" and end in self._ends:
            left = self._passes.setdefault(end, self._random.randrange(8))
            self._passes[end] -= 1
            if left <= 0:
                self._coverage["tunnel swallowed"] += 1
                return
        if self._kind == "alters" and end in self._ends and self._random.random() < 0.5:
            self._coverage["tunnel altered"] += 1
            at, body = self._random.randrange(len(answer.body)), bytearray(answer.body)
            body[at] ^= 1 << self._random.randrange(8)
            answer = answer._replace(body=bytes(body))
        WatchedRoom.receive(self, number, answer)

    def _connect(self, line: Line, call: Called) -> None:
        said = line
        if self._kind == "misleads":
            self._coverage["misled"] += 1
            if self._random.random() < 0.5:
                call = call._replace(arguments=[{"target": self._random.choice([*self._present])}])
            else:
                said = line._replace(remote=self._random.choice(self._peers))
        super()._connect(said, call)

    def _tell_state(self, end: tuple[int, int]) -> None:
        present = self._present
        if self._kind == "invents":
            self._coverage["invented"] += 1
            told = [each for each in self._peers if self._random.random() < 0.8]
            self._present = dict.fromkeys(told, 0)
        super()._tell_state(end)
        self._present = present


class ImpersonatingRoom(DroppingRoom):
    """A room that calls attendants in the name of others, until a time; else it works. See DroppingRoom.

    Args:
        identity: its own, the only one whose key it has.
        peers: references of all.
    """

    def __init__(self, identity: Identity, peers: Iterable[str], *given: Any) -> None:
        super().__init__(*given)
        self._identity = identity
        self._peers = [*peers]
        self._calls_at = 0
        self._channels: dict[tuple[int, int], SecureStream] = {}

    def receive(self, number: int, answer: Answered) -> None:
        channel = self._channels.get((number, answer.call))
        if channel is None:
            WatchedRoom.receive(self, number, answer)
            return
        try:
            channel.receive(answer.body)
            self._say(number, answer.call, channel)
        except ChannelError:
            self._lines[number].calls.end(answer.call, "no")
            self._changed[number] = None

    def next_deadline(self) -> int | None:
        return earliest(super().next_deadline(), self._calls_at if self._calls_at <= self._calm else None)

    def wake(self, now: int) -> list[tuple[int, str]]:
        if self._calls_at <= min(now, self._calm):
            self._calls_at = now + self._random.randint(200, 2000) * MS
            if self._present:
                self._pretend(self._random.choice([*self._present]))
        return super().wake(now)

    def _pretend(self, victim: str) -> None:
        self._coverage["impersonated"] += 1
        number = self._present[victim]
        origin = self._random.choice([each for each in self._peers if each != victim])
        arguments: list[Any] = [{"portal": self._options.address.peer, "target": victim, "origin": origin}]
        call = self._lines[number].calls.call(CONNECT, arguments, "duplex")
        seed = self._random.randbytes(32)
        handshake = ClientHandshake(self._identity, parse_feed(victim), MAIN_NETWORK, seed)
        self._channels[number, call] = channel = SecureStream(handshake)
        self._say(number, call, channel)

    def _say(self, number: int, call: int, channel: SecureStream) -> None:
        calls, output = self._lines[number].calls, channel.take_output()
        if output and calls.is_open(call):
            calls.send(call, output, BodyType.BINARY)
        self._changed[number] = None


class Rooms:
    """The rooms of a story, and who visits them.

    Args:
        swarm: the story.
        refs: those of all peers.
        host: returns the host of a node.
        clock: returns the time, ns.
        follows: whether a user follows a feed, and so meets its peer.
        coverage: counts what has happened.

    Attributes:
        visited: peer -> the rooms that it visits now.
        rooms: those that run.
    """

    def __init__(
        self,
        swarm: Swarm,
        refs: Mapping[str, str],
        host: Callable[[str], str],
        clock: Callable[[], int],
        follows: Callable[[str, str], bool],
        coverage: Counter[str],
    ) -> None:
        self.visited = {peer: {room for who, room in swarm.visits if who == peer} for peer in swarm.peers}
        self.rooms: dict[str, WatchedRoom] = {}
        self._swarm = swarm
        self._refs = refs
        self._host = host
        self._clock = clock
        self._follows = follows
        self._coverage = coverage
        self._friends = {
            peer: {refs[other] for pair in swarm.friends if peer in pair for other in pair if other != peer}
            for peer in swarm.peers
        }
        self._identities = {
            room: Identity.from_seed(Random(f"{swarm.seed} {room}").randbytes(32)) for room in swarm.rooms
        }
        self._joined: dict[str, set[tuple[str, str]]] = {room: set() for room in swarm.rooms}

    @property
    def patience(self) -> int:
        """How long peers wait for hostile rooms, ns: each may swallow all after the handshake inside, until
        peers have asked in vain for a sign of life.
        """
        return (len(self._swarm.rooms) - len(self._trusty())) * 2 * PeerOptions().quiet

    def start(self, room: str, options: PeerOptions, now: int) -> Member:
        """Return the program of a room that starts, or starts anew."""
        self.rooms[room] = each = self._room(room, now)
        each.joined = self._joined[room]
        random = Random(f"{self._swarm.seed} {room} {now}")
        peer = Peer(self._identities[room], MemoryFeeds(), MemoryClocks({}), [], options, random, room=each)
        return _RoomMember(peer, each)

    def _room(self, name: str, now: int) -> WatchedRoom:
        kind, refs = self._swarm.rooms[name], [*self._refs.values()]
        options = RoomOptions(name, True, self.address(name))
        random = Random(f"{self._swarm.seed} {name} room {now}")
        given = (options, self._coverage, random, self._clock, self._swarm.last)
        match kind:
            case "works":
                return WatchedRoom(options, self._coverage)
            case "drops":
                return DroppingRoom(*given)
            case "delays":
                return DelayingRoom(*given)
            case "impersonates":
                return ImpersonatingRoom(self._identities[name], refs, *given)
        return HostileRoom(kind, refs, *given)

    def address(self, room: str) -> PeerAddress:
        """Return where a room listens."""
        return PeerAddress(self._host(room), PORT, self._identities[room].ref)

    def arguments(self, peer: str) -> dict[str, Any]:
        """Return the arguments of a Peer that visits rooms; it meets its friends there."""
        if not self._swarm.rooms:
            return {}
        meets = self._friends[peer].__contains__
        return {
            "visits": Visits(self._refs[peer], meets, lambda _: False),
            "access": OpenAccess(meets),
        }

    # Steps

    def enter_all(self, name: str, member: Any, now: int) -> None:
        """Let a peer that starts call the rooms that it visits, and no others."""
        member.is_sealed = bool(self._swarm.rooms)
        for room in self._swarm.rooms:
            self.do("enter" if room in self.visited[name] else "exit", name, room, member, now)

    def do(self, do: str, name: str, room: str, member: Any, now: int) -> None:
        """Let a peer enter a room, or leave it."""
        address = self.address(room)
        if do == "exit":
            self.visited[name].discard(room)
            member.peer.remove(address.peer, now)
            return
        self.visited[name].add(room)
        if name in self._swarm.users:
            member.local.connect(address, now)
        else:
            member.peer.add(address.peer, (address.host, address.port), now, is_kept=True)

    # Invariants

    def check(self, name: str, peer: Peer) -> None:
        """Check the tunnels of an honest peer."""
        me = self._refs[name]
        for each in peer.connections.values():
            if not each.room or not each.remote:
                continue
            if not self._meets(name, each.remote):
                raise Violation("friends", name, f"has a tunnel to {each.remote[:5]}, who is no friend")
            room = next(room for room, own in self._identities.items() if own.ref == each.room)
            if (me, each.remote) not in self._joined[room]:
                raise Violation("the true peer", name, f"takes somebody in {room} for {each.remote[:5]}")

    def pairs(self) -> set[tuple[str, str]]:
        """Return the pairs that meet in a room that works in the end."""
        wishes = self._wishes()
        return {pair for pair in wishes if pair[::-1] in wishes}

    def are_calm(self) -> bool:
        """Whether all rooms work in the end, and nobody calls another one there in vain."""
        return self._trusty() == [*self._swarm.rooms] and len(self._wishes()) == len(self.pairs())

    def _wishes(self) -> set[tuple[str, str]]:
        """Return who wants to meet whom in a room that works in the end."""
        return {
            (one, other)
            for room in self._trusty()
            for one, other in permutations([each for each in self.visited if room in self.visited[each]], 2)
            if self._meets(one, self._refs[other])
        }

    def missing(self, members: Mapping[str, Any]) -> Violation | None:
        """Return a peer that is not in its room, sees others than there are, has not met a friend, or is
        connected with one in two ways; None if there is none."""
        honest = [name for name in self._swarm.honest if self._swarm.rooms]
        connections = {name: members[name].peer.connections.values() for name in honest}
        connected = {name: Counter(each.remote for each in of) for name, of in connections.items()}
        for name, remotes in connected.items():
            for other in honest:
                if remotes[self._refs[other]] > 1:
                    return Violation("one way", name, f"is connected with {other} in two ways")
        for one, other in sorted(self.pairs()):
            if one in connected and other in connected and not connected[one][self._refs[other]]:
                return Violation("met", one, f"has not met {other}")
        for room in self._trusty():
            there, address = {*self.rooms[room].attendants}, self.address(room)
            for name in honest if room in self._swarm.rooms else ():
                if room not in self.visited[name]:
                    continue
                rooms = _visits(members[name].peer).rooms
                seen = next((each.attendants for each in rooms if each.line.remote == address.peer), None)
                if seen is None or self._refs[name] not in there:
                    return Violation("present", name, f"is not in {room}")
                if seen != there - {self._refs[name]}:
                    return Violation("present", name, f"sees {len(seen)} of {len(there) - 1} in {room}")
        return None

    def remaining(self, members: Mapping[str, Any]) -> Violation | None:
        """Return what is kept of visits after all have left; None if nothing is."""
        for name, room in self.rooms.items():
            if left := room.left():
                return Violation("nothing left", name, f"keeps {left}")
        for name in self._swarm.honest:
            peer = members[name].peer
            if any(each.room for each in peer.connections.values()) or [*_visits(peer).rooms]:
                return Violation("nothing left", name, "keeps a tunnel or a visit")
        return None

    def _trusty(self) -> list[str]:
        return [room for room, kind in self._swarm.rooms.items() if kind in TRUSTY]

    def _meets(self, name: str, ref: str) -> bool:
        return self._follows(name, ref) if name in self._swarm.users else ref in self._friends[name]


class _RoomMember(Member):
    """The peer of a room."""

    def __init__(self, peer: Peer, room: WatchedRoom) -> None:
        super().__init__(peer)
        self._room = room
        self.is_sealed = True

    def watch(self, now: int) -> None:
        super().watch(now)
        self._room.check()


def _visits(peer: Peer) -> Visits:
    [visits] = (each for each in peer.services.rooms if isinstance(each, Visits))
    return visits
