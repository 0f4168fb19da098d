"""Rooms: peers behind one meet over tunnels, and the room reads nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_peers import LocalPeers

STAR = [("room", name) for name in ("ann", "ben", "cyn")]


@contextmanager
def meeting(directory: Path, *, is_open: bool = True, names: str = "ann ben") -> Iterator[LocalPeers]:
    with LocalPeers(directory, STAR, rooms={"room": is_open}) as world:
        for name in names.split():
            world.connect(name, "room")
        world.run(3)
        yield world


def attendants(world: LocalPeers, name: str) -> set[str]:
    return {one["peer"] for room in world.do(name, "rooms")["visited"] for one in room["attendants"]}


def tunnelled(world: LocalPeers, name: str) -> set[str]:
    rooms = world.do(name, "rooms")["visited"]
    return {one["peer"] for room in rooms for one in room["attendants"] if one["tunnelled"]}


def befriend(world: LocalPeers, name: str, other: str) -> None:
    world.follow(name, other)
    world.follow(other, name)


def test_two_who_follow_each_other_meet_and_the_room_holds_nothing_of_theirs(tmp_path: Path) -> None:
    with meeting(tmp_path) as world:
        befriend(world, "ann", "ben")
        for number in range(300):
            world.say("ann", text=f"{number}".ljust(2_000))
        world.run(10)
        assert world.tip("ben", "ann") == world.tip("ann", "ann") == 301
        assert tunnelled(world, "ann") == {world.id("ben")}
        assert world.do("room", "rooms")["own"] == {
            "attendants": sorted([world.id("ann"), world.id("ben")]),
            "tunnels": 1,
        }
        world.say("ben", text="live")
        world.run(1)
        assert world.tip("ann", "ben") == 2
        assert not world.accounts["room"].feeds.tips()
