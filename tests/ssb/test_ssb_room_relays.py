"""A room alone: whatever guests do, each byte goes to the other end of its tunnel, and nothing is kept."""

from collections import defaultdict
from random import Random
from typing import Any

import pytest
from fresh_seeds import first_fresh_seed

from base.units import SECOND
from ssb.canonical import parse
from ssb.keys import Identity
from ssb.rooms.alias import sign
from ssb.rooms.line import Line
from ssb.rooms.room import ATTENDANTS, CONNECT, ENDPOINTS, MOST_ALIASES, STALLED, Room, RoomOptions
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Answered, Called, Calls, Finished
from ssb.transport.muxrpc import BodyType, Packet, encode

ROOM = Identity.from_seed(b"r" * 32).ref
PEERS = [Identity.from_seed(bytes([number]) * 32).ref for number in range(5)]


class Guest:
    """A peer in the room: its side of the connection, and what came."""

    def __init__(self, room: Room, number: int, peer: str) -> None:
        self.room, self.number, self.peer = room, number, peer
        self.here, self.there = Calls(), Calls()
        self.came: defaultdict[int, bytes] = defaultdict(bytes)  # bytes by call
        self.last: dict[int, Any] = {}
        self.over: dict[int, str] = {}
        self.opened: list[tuple[int, dict[str, Any]]] = []
        self.is_paused = False
        room.open(Line(number, peer, self.there, is_called=False), 0)

    def pump(self) -> None:
        """Pass bytes in both directions."""
        if not self.is_paused:
            for event in self.there.receive(self.here.take_output()):
                if isinstance(event, Called):
                    assert self.room.serve(self.number, event)
                elif isinstance(event, Answered):
                    self.room.receive(self.number, event)
                else:
                    self.there.end(event.call)
                    self.room.finish(self.number, event)
        for event in self.here.receive(self.there.take_output()):
            if isinstance(event, Called):
                assert (event.name, event.form) == (CONNECT, "duplex")
                assert isinstance(event.arguments[0], dict)
                self.opened.append((event.call, event.arguments[0]))
            elif isinstance(event, Answered):
                self.came[event.call] += event.body
                self.last[event.call] = event.body
            elif isinstance(event, Finished):
                self.over[event.call] = event.error
                self.here.end(event.call)


class World:
    def __init__(self, members: set[str] | None = None) -> None:
        options = RoomOptions("room", members is None, PeerAddress("room.example", 8008, ROOM))
        self.stored: list[Any] = []
        self.room = Room(
            options,
            lambda peer: peer in (members or set()),
            lambda peer: False,
            {},
            self.stored.append,
            lambda: 7,
        )
        self.guests: dict[str, Guest] = {}
        self.numbers = 0

    def enter(self, peer: str) -> Guest:
        self.numbers += 1
        self.guests[peer] = guest = Guest(self.room, self.numbers, peer)
        return guest

    def drop(self, peer: str) -> None:
        self.room.close(self.guests.pop(peer).number)

    def settle(self) -> None:
        for _ in range(6):
            for guest in self.guests.values():
                guest.pump()
            self.pause()

    def pause(self) -> None:
        by_number = {guest.number: guest for guest in self.guests.values()}
        for number, paused in self.room.take_pauses():
            if number in by_number:
                by_number[number].is_paused = paused

    def call(self, peer: str, name: tuple[str, ...], *arguments: Any, form: str = "async") -> tuple[Any, Any]:
        """Return the last answer and the error of a call."""
        guest = self.guests[peer]
        call = guest.here.call(name, arguments, form)
        self.settle()
        last = guest.last.get(call)
        return None if last is None else parse(last.decode()), guest.over.get(call)


@pytest.mark.parametrize("seed", [*range(30), first_fresh_seed()])
def test_bytes_go_where_they_should_and_the_list_is_right(seed: int) -> None:
    random = Random(seed)
    world = World()
    tunnels: list[tuple[str, int, str, int]] = []  # peer and call of both ends
    sent: defaultdict[tuple[int, int], bytes] = defaultdict(bytes)  # by connection and call
    for _ in range(120):
        peer = random.choice(PEERS)
        match random.choice(["enter", "enter", "drop", "leave", "open", "send", "send", "send", "end"]):
            case "enter" if peer not in world.guests:
                guest = world.enter(peer)
                guest.here.call(random.choice([ATTENDANTS, ENDPOINTS]), [], "source")
            case "drop" if peer in world.guests and random.random() < 0.5:
                world.drop(peer)
                tunnels = [each for each in tunnels if peer not in (each[0], each[2])]
            case "leave" if peer in world.guests:
                world.call(peer, ("tunnel", "leave"))
                world.call(peer, ("tunnel", "announce"))
            case "open" if peer in world.guests:
                other = random.choice(PEERS)
                call = world.guests[peer].here.call(CONNECT, [{"target": other, "portal": ROOM}], "duplex")
                before = {name: len(guest.opened) for name, guest in world.guests.items()}
                world.settle()
                if other in world.guests and other != peer:
                    [(theirs, told)] = world.guests[other].opened[before[other] :]
                    assert told == {"portal": ROOM, "target": other, "origin": peer}
                    tunnels.append((peer, call, other, theirs))
                else:
                    assert world.guests[peer].over[call] == f"could not connect to: {other}"
            case ("send" | "end") as what if tunnels:
                tunnel = random.choice(tunnels)
                name, call = random.choice([tunnel[:2], tunnel[2:]])
                if what == "send":
                    data = random.randbytes(random.randint(0, 3_000))
                    world.guests[name].here.send(call, data, BodyType.BINARY)
                    sent[world.guests[name].number, call] += data
                else:
                    world.guests[name].here.end(call)
                    tunnels.remove(tunnel)
        world.settle()
        for name, call, other, theirs in tunnels:
            one, two = world.guests[name], world.guests[other]
            assert two.came[theirs] == sent[one.number, call]
            assert one.came[call] == sent[two.number, theirs]
        assert set(world.room.attendants) == world.guests.keys()
        assert world.room.tunnels == len(tunnels)
    for peer in list(world.guests):
        world.drop(peer)
    room = world.room
    kept = room._lines, room._present, room._watching, room._ends, room._waiting, room._full, room._untold
    assert not any(kept)


@pytest.mark.parametrize("name", [ATTENDANTS, ENDPOINTS])
def test_all_hear_who_is_there(name: tuple[str, ...]) -> None:
    world = World()
    first = world.enter(PEERS[0])
    call = first.here.call(name, [], "source")
    world.settle()
    is_new = name == ATTENDANTS
    assert parse(first.last[call].decode()) == ({"type": "state", "ids": PEERS[:1]} if is_new else PEERS[:1])
    world.enter(PEERS[1])
    world.call(PEERS[1], ("tunnel", "announce"))
    joined = {"type": "joined", "id": PEERS[1]}
    assert parse(first.last[call].decode()) == (joined if is_new else PEERS[:2])
    world.drop(PEERS[1])
    world.settle()
    left = {"type": "left", "id": PEERS[1]}
    assert parse(first.last[call].decode()) == (left if is_new else PEERS[:1])


@pytest.mark.parametrize("form", ["async", "source", "duplex"])
@pytest.mark.parametrize(
    "arguments",
    [[], [None], [7], ["x"], [{}], [{"target": 7}], [{"target": PEERS[1], "portal": PEERS[2]}], [["a"]]],
    ids=repr,
)
def test_calls_that_make_no_sense_are_answered_and_change_nothing(arguments: list[Any], form: str) -> None:
    world = World()
    for peer in PEERS[:2]:
        world.enter(peer)
        world.call(peer, ATTENDANTS, form="source")
    for name in ("connect", "registerAlias", "revokeAlias"):
        space = "tunnel" if name == "connect" else "room"
        guest = world.guests[PEERS[0]]
        call = guest.here.call((space, name), arguments, form)
        [event] = guest.there.receive(guest.here.take_output())
        assert isinstance(event, Called)
        if world.room.serve(guest.number, event):
            world.settle()
            assert guest.over[call]
    assert world.room.tunnels == 0
    assert world.stored == []
    assert not world.guests[PEERS[1]].opened
    assert world.call(PEERS[0], ("tunnel", "ping")) == (7, None)


def test_members_alone_use_a_room_for_members_and_others_may_call_them() -> None:
    world = World(members={PEERS[0]})
    for peer in PEERS[:2]:
        world.enter(peer)
    assert world.call(PEERS[0], ATTENDANTS, form="source")[0] == {"type": "state", "ids": PEERS[:1]}
    for name in (
        ATTENDANTS,
        ENDPOINTS,
        ("tunnel", "announce"),
        ("tunnel", "leave"),
        ("room", "registerAlias"),
    ):
        form = "source" if name in (ATTENDANTS, ENDPOINTS) else "async"
        assert world.call(PEERS[1], name, form=form) == (None, "you are no member of this room")
    told, _ = world.call(PEERS[1], ("room", "metadata"))
    assert told == {"name": "room", "membership": False, "features": ["alias", "room2", "tunnel"]}
    world.guests[PEERS[1]].here.call(CONNECT, [{"target": PEERS[0]}], "duplex")  # as who consumes an alias
    world.settle()
    assert [told["origin"] for _, told in world.guests[PEERS[0]].opened] == [PEERS[1]]


def test_no_more_is_read_for_one_that_takes_nothing_and_in_the_end_it_is_closed() -> None:
    world = World()
    for peer in PEERS[:3]:
        world.enter(peer)
        world.call(peer, ATTENDANTS, form="source")
    slow, busy, idle = (world.guests[peer] for peer in PEERS[:3])
    call = busy.here.call(CONNECT, [{"target": slow.peer}], "duplex")
    world.settle()
    world.room.set_full(slow.number, True, 5 * SECOND)
    for _ in range(50):
        busy.here.send(call, bytes(1_000), BodyType.BINARY)
        world.settle()
    [(theirs, _)] = slow.opened
    assert len(slow.came[theirs]) == 1_000  # what was read before the pause
    assert (busy.is_paused, idle.is_paused) == (True, False)
    assert world.room.wake(5 * SECOND + STALLED - 1) == []
    world.room.set_full(slow.number, False, 6 * SECOND)
    world.pause()
    world.settle()
    assert len(slow.came[theirs]) == 50_000
    assert not busy.is_paused
    world.room.set_full(slow.number, True, 10 * SECOND)
    assert world.room.next_deadline() == 10 * SECOND + STALLED
    busy.here.send(call, bytes(1_000), BodyType.BINARY)
    world.settle()
    [(number, _)] = world.room.wake(10 * SECOND + STALLED)
    assert number == slow.number
    world.drop(slow.peer)
    world.pause()
    world.settle()
    assert not busy.is_paused
    assert busy.over[call] == "the other peer has left the room"


def test_one_that_was_full_for_long_before_others_wait_is_closed_too() -> None:
    world = World()
    for peer in PEERS[:2]:
        world.enter(peer)
        world.call(peer, ATTENDANTS, form="source")
    slow, busy = (world.guests[peer] for peer in PEERS[:2])
    world.room.set_full(slow.number, True, 0)
    assert world.room.wake(STALLED) == []
    call = busy.here.call(CONNECT, [{"target": slow.peer}], "duplex")
    busy.here.send(call, bytes(10), BodyType.BINARY)
    world.settle()
    due = world.room.next_deadline()
    assert due is not None
    assert due <= 2 * STALLED
    assert [number for number, _ in world.room.wake(due)] == [slow.number]


def test_one_that_reads_nothing_costs_no_memory_and_hears_in_the_end_who_is_there() -> None:
    world = World()
    first = world.enter(PEERS[0])
    calls = [first.here.call(name, [], "source") for name in (ATTENDANTS, ENDPOINTS) * 20]
    world.settle()
    assert len(world.room._watching) == 2
    assert set(first.over) == set(calls[:-2])  # the older ones
    world.room.set_full(first.number, True, 0)
    for _ in range(20):
        for peer in PEERS[1:]:
            world.enter(peer)
            world.call(peer, ("tunnel", "announce"))
        for peer in PEERS[2:]:
            world.drop(peer)
    assert not first.there.take_output()
    world.room.set_full(first.number, False, SECOND)
    assert first.number in world.room.take_changed()
    world.settle()
    new, old = (parse(first.last[call].decode()) for call in calls[-2:])
    assert (new, old) == ({"type": "state", "ids": PEERS[:2]}, PEERS[:2])


@pytest.mark.parametrize("name", [ATTENDANTS, ENDPOINTS, ("tunnel", "announce"), ("tunnel", "leave")])
def test_a_call_and_its_end_may_come_at_once(name: tuple[str, ...]) -> None:
    world = World()
    watcher = world.enter(PEERS[0])
    guest = world.enter(PEERS[1])
    subscription = guest.here.call(ATTENDANTS, [], "source")
    world.settle()
    told = watcher.here.call(ATTENDANTS, [], "source")
    world.settle()
    if name[0] == "room" or name == ENDPOINTS:
        guest.here.end(guest.here.call(name, [], "source"))
    else:
        call = guest.here.call(name, [], "async")
        guest.here._output.append(encode(Packet(call, b"true", BodyType.JSON, False, is_end=True)))
    guest.here.call(("tunnel", "leave"), [], "async")
    guest.here.end(subscription)
    world.settle()
    assert parse(watcher.last[told].decode()) == {"type": "left", "id": PEERS[1]}


def test_an_owner_has_few_aliases_and_those_refused_are_not_stored() -> None:
    world = World()
    owner = Identity.from_seed(bytes([0]) * 32)
    world.enter(owner.ref)

    def register(number: int) -> tuple[Any, Any]:
        alias = sign(owner, ROOM, f"a{number}")
        return world.call(owner.ref, ("room", "registerAlias"), alias.name, alias.signature)

    answers = [register(number) for number in range(20)]
    assert [error is None for _, error in answers] == [number < MOST_ALIASES for number in range(20)]
    assert len(world.stored) == MOST_ALIASES
    assert world.call(owner.ref, ("room", "revokeAlias"), "a0") == (True, None)
    assert register(9)[1] is None
