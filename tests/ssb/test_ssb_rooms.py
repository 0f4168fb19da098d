"""Rooms: peers behind one meet over tunnels, and the room reads nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_peers import LocalPeers
from test_ssb_import import ssb

from base.endpoint import Received, StreamEvent
from ssb.canonical import stringify
from ssb.daemon.commands import CommandError
from ssb.keys import Identity
from ssb.peer.services import Services
from ssb.rooms.alias import InvalidAlias, check, parse_uri, sign
from ssb.rooms.line import Line
from ssb.rooms.room import ATTENDANTS, CONNECT, METADATA, Room
from ssb.rooms.visits import CAME, Visits
from ssb.store.feeds import StoreError
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Answered, Called, Calls, Finished
from testbed.errors import UserError

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
        ways = {one["peer"]: (one["room"], one["apart"]) for one in world.do("ann", "status")["connections"]}
        room = world.id("room")
        assert ways == {room: ("", True), world.id("ben"): (room, False)}
        assert world.do("room", "rooms")["own"] == {
            "attendants": sorted([world.id("ann"), world.id("ben")]),
            "tunnels": 1,
        }
        world.say("ben", text="live")
        world.run(1)
        assert world.tip("ann", "ben") == 2
        assert not world.accounts["room"].feeds.tips()


def test_who_is_not_followed_is_denied_and_meets_once_both_follow(tmp_path: Path) -> None:
    with meeting(tmp_path) as world:
        world.follow("ann", "ben")
        world.run(5)
        assert tunnelled(world, "ann") == set()
        assert world.do("ben", "status")["refused"] == {"called through a room, and is not followed": ANY}
        [unreached] = world.do("ann", "status")["unreached"]
        assert (unreached["peer"], unreached["address"]) == (world.id("ben"), "its rooms")
        assert "could not connect to" in unreached["reason"]
        world.follow("ben", "ann")
        world.run(5)
        assert tunnelled(world, "ann") == {world.id("ben")}
        world.follow("ben", "ann", following=False)
        world.run(5)
        assert tunnelled(world, "ann") == tunnelled(world, "ben") == set()


def test_the_room_reads_nothing_of_what_it_passes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = bytearray()
    receive = Room.receive

    def recorded(room: Room, number: int, answer: Answered) -> None:
        passed.extend(answer.body)
        receive(room, number, answer)

    called: dict[str, set[tuple[str, ...]]] = {}
    serve = Services._serve

    def listed(services: Services, connection: Any, event: Called, *when: Any) -> None:
        called.setdefault(services._reference, set()).add(event.name)
        serve(services, connection, event, *when)

    monkeypatch.setattr(Room, "receive", recorded)
    monkeypatch.setattr(Services, "_serve", listed)
    with meeting(tmp_path) as world:
        befriend(world, "ann", "ben")
        world.say("ann", text="between us " * 300)
        world.run(5)
        assert world.tip("ben", "ann") == 2
        # Nor does it hear which feeds and blobs they want.
        assert called[world.id("room")] == {METADATA, ATTENDANTS, CONNECT}
        assert ("ebt", "replicate") in called[world.id("ann")] | called[world.id("ben")]
    assert len(passed) > 3_300
    assert b"between us" not in passed
    assert not any(each.encode() in passed for each in ("ebt", "replicate", "createWants", world.id("ann")))


def test_a_room_that_lies_about_the_origin_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cyn calls Ben, and the room says that it is Ann, whom Ben follows: the handshake inside shows Cyn."""
    with meeting(tmp_path, names="ann ben cyn") as world:
        befriend(world, "ann", "ben")
        world.run(3)
        call, lied = Calls.call, []

        def lying(calls: Calls, name: Any, arguments: Any, form: str) -> int:
            for options in arguments if name == CONNECT else []:
                if options.get("origin") == world.id("cyn"):
                    options["origin"] = world.id("ann")
                    lied.append(options["target"])
            return call(calls, name, arguments, form)

        monkeypatch.setattr(Calls, "call", lying)
        world.follow("cyn", "ben")
        world.run(5)
        assert set(lied) == {world.id("ben")}
        assert tunnelled(world, "ben") == {world.id("ann")}
        assert world.do("ben", "status")["refused"]["a client that may not connect"] == len(lied)


def test_who_leaves_is_gone_and_comes_back(tmp_path: Path) -> None:
    with meeting(tmp_path) as world:
        befriend(world, "ann", "ben")
        world.run(3)
        assert attendants(world, "ann") == {world.id("ben")}
        world.peers["ben"].peer.remove(world.id("room"), world.network.now)
        world.network.settle("ben")
        world.run(3)
        assert attendants(world, "ann") == tunnelled(world, "ann") == set()
        assert world.do("ann", "status")["unreached"] == []
        assert world.do("room", "rooms")["own"]["tunnels"] == 0
        world.connect("ben", "room")
        world.run(3)
        assert tunnelled(world, "ann") == {world.id("ben")}


def test_quiet_connections_last(tmp_path: Path) -> None:
    """A side that hears nothing for ten minutes closes; EBT alone is quiet for longer."""
    with meeting(tmp_path) as world:
        world.run(2_000)
        [connection] = world.do("ann", "status")["connections"]
        assert connection["seconds"] > 1_990


def test_only_members_are_met_in_a_room_for_members(tmp_path: Path) -> None:
    with meeting(tmp_path, is_open=False) as world:
        befriend(world, "ann", "ben")
        world.run(3)
        [room] = world.do("ann", "rooms")["visited"]
        assert (room["member"], room["features"]) == (False, ["alias", "room2", "tunnel"])
        assert world.do("room", "rooms")["own"]["attendants"] == []
        for name in ("ann", "ben"):
            world.follow("room", name)
            world.peers[name].peer.remove(world.id("room"), world.network.now)
            world.network.settle(name)
            world.connect(name, "room")
        world.run(5)
        assert tunnelled(world, "ann") == {world.id("ben")}


def test_a_peer_that_its_address_does_not_lead_to_is_met_in_the_room(tmp_path: Path) -> None:
    with meeting(tmp_path, names="ann") as world:
        befriend(world, "ann", "ben")
        for name, other in [("ann", "ben"), ("ben", "ann")]:
            world.do(name, "connect", arguments=[str(world.address("cyn", of=other))])
        world.run(3)
        assert world.do("ann", "status")["unreached"]
        world.connect("ben", "room")
        world.run(10)
        assert tunnelled(world, "ann") == {world.id("ben")}


def test_an_alias_is_signed_registered_given_up_and_kept(tmp_path: Path) -> None:
    with meeting(tmp_path) as world:
        uri = answered(world, "ann", "registerAlias", "Ann")
        room, alias = parse_uri(uri)
        assert (room, alias.name, alias.owner) == (world.address("room"), "Ann", world.id("ann"))
        for name, reason in [("ann", "is taken"), ("a b", "is no alias"), ("-", "is no alias")]:
            with pytest.raises(CommandError, match=reason):
                answered(world, "ben", "registerAlias", name)
        with pytest.raises(CommandError, match="the alias ann is not yours"):
            answered(world, "ben", "revokeAlias", "ann")
        with pytest.raises(CommandError, match="there is no connection with a room"):
            world.do("ben", "room", "registerAlias", arguments=[world.id("cyn"), "ben"])
    with meeting(tmp_path) as world:
        with pytest.raises(CommandError, match="is taken"):
            answered(world, "ben", "registerAlias", "ann")
        assert answered(world, "ann", "revokeAlias", "aNN") is True
        assert answered(world, "ben", "registerAlias", "ann").startswith("ssb:experimental?")


def answered(world: LocalPeers, name: str, call: str, alias: str) -> Any:
    for _ in range(10):
        answer = world.do(name, "room", call, arguments=[world.id("room"), alias])
        if answer is not None:
            return answer
        world.run(1)
    raise AssertionError("no answer")


@given(st.sampled_from("abc"), st.sampled_from("abc"), st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True))
def test_an_alias_holds_for_its_room_owner_and_name_alone(room: str, other: str, name: str) -> None:
    identity = Identity.from_seed(sha256(name.encode()).digest())
    rooms = {letter: Identity.from_seed(letter.encode() * 32).ref for letter in "abc"}
    alias = sign(identity, rooms[room], name)
    address = PeerAddress("room.example", 8008, rooms[room])
    assert parse_uri(alias.uri(address)) == (address, alias)
    for wrong, place in [
        (alias, rooms[other]),
        (alias._replace(name=f"{name}x"), rooms[room]),
        (alias._replace(owner=rooms[other]), rooms[room]),
        (alias._replace(signature="AAAA.sig.ed25519"), rooms[room]),
    ]:
        if wrong != alias or place != rooms[room]:
            with pytest.raises(InvalidAlias):
                check(wrong, place)


_FEEDS = [Identity.from_seed(bytes([number]) * 32).ref for number in range(3)]
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5) | st.sampled_from(_FEEDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "ids", "id", "name", "features", "membership"]), inner)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["state", "joined", "left"]), "ids": inner, "id": inner}
        )
    ),
    max_leaves=12,
)


@given(st.lists(_values | st.binary(max_size=20), min_size=1, max_size=8), st.booleans())
def test_whatever_a_room_says_its_attendants_are_feeds_and_each_change_is_told(
    said: list[Any], is_old: bool
) -> None:
    visits = Visits(_FEEDS[0], lambda _: True, lambda _: False)
    calls, there = Calls(), Calls()
    visits.open(Line(1, _FEEDS[1], calls, is_called=True), 0)
    present: set[str] = set()
    stream = None
    for value in [{"name": "room"}, *said]:
        body = value if isinstance(value, bytes) else stringify(value, indent=0).encode()
        for event in there.receive(calls.take_output()):
            assert isinstance(event, Called)
            if is_old and event.name[0] == "room":
                there.end(event.call, "not in list of allowed methods")
            elif event.form == "async":
                there.send(event.call, body)
            else:
                stream = event.call
        if stream is not None:
            there.send(stream, body)
        for answer in calls.receive(there.take_output()):
            (visits.finish if isinstance(answer, Finished) else visits.receive)(1, answer)
        for kind, peer, _ in visits.take_news():
            assert (kind == CAME) == (peer not in present)
            present ^= {peer}
        assert present <= {_FEEDS[2]}  # neither the visitor nor the room
        assert {peer for visit in visits.rooms for peer in visit.attendants} == present
    visits.close(1)
    assert {peer for _, peer, _ in visits.take_news()} == present
    assert not visits.take_events()


VALID = sign(Identity.from_seed(bytes(32)), Identity.from_seed(b"r" * 32).ref, "ann").uri(
    PeerAddress("room.example", 8008, Identity.from_seed(b"r" * 32).ref)
)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        (VALID.replace("userId", "user"), "the URI of an alias has no userId"),
        (VALID.replace("alias=ann", "alias=eve"), "the alias eve is not signed by .* for this room"),
        (VALID.replace("room.example%3A8008", "room.example"), "no host and port"),
        (VALID.replace("roomId=%40", "roomId=%40x"), "the URI of an alias names two rooms"),
        ("ssb:experimental?action=consume-alias", "the URI of an alias has no alias"),
    ],
)
def test_a_wrong_uri_is_one_line(tmp_path: Path, uri: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        ssb(tmp_path / "ann", "connect", uri)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "ann").exists()


def test_commands_say_what_they_need(tmp_path: Path) -> None:
    ssb(tmp_path / "ann", "publish", "hello")
    for words in (["rooms"], ["alias", "ann"]):
        with pytest.raises(UserError, match="the peer is not running"):
            ssb(tmp_path / "ann", *words)
    with pytest.raises(AssertionError, match="--members-only needs --room"):
        ssb(tmp_path / "ann", "peer", "--members-only")


def test_a_pub_that_is_a_room_replicates_with_those_whom_it_follows(tmp_path: Path) -> None:
    with meeting(tmp_path, names="") as world:
        befriend(world, "ann", "room")
        world.say("ann", text="for the pub")
        for name in ("ann", "ben"):
            world.connect(name, "room")
        world.run(5)
        assert (world.tip("room", "ann"), world.tip("ann", "room")) == (2, 1)
        assert attendants(world, "ann") == {world.id("ben")}


def test_a_restored_identity_gets_its_feed_back_from_a_pub_that_is_a_room(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "pub")], rooms={"pub": True}) as world:
        befriend(world, "ann", "pub")
        world.say("ann", text="one")
        world.connect("ann", "pub")
        world.run(5)
        assert world.tip("pub", "ann") == 2
    for file in (tmp_path / "ann").iterdir():
        if file.name != "secret":
            file.unlink() if file.is_file() else rmtree(file)
    with LocalPeers(tmp_path, [("ann", "pub")], rooms={"pub": True}) as world:
        assert world.do("ann", "status")["doubt"]
        world.connect("ann", "pub")
        world.run(60)
        status = world.do("ann", "status")
        assert (world.tip("ann", "ann"), status["doubt"]) == (2, "")
        assert [(each["apart"], each["ebt"]) for each in status["connections"]] == [(False, True)]


@pytest.mark.parametrize("order", [("ann", "pub"), ("pub", "ann")])
@pytest.mark.parametrize("pause", [0, 10])
def test_a_room_and_a_visitor_that_follow_each_other_replicate_at_once(
    tmp_path: Path, order: tuple[str, str], pause: int
) -> None:
    with LocalPeers(tmp_path, [("ann", "pub")], rooms={"pub": True}) as world:
        world.say("pub", text="x")
        world.connect("ann", "pub")
        world.run(5)
        world.follow(*order)
        world.run(pause)
        world.follow(*reversed(order))
        world.run(10)
        assert (world.tip("ann", "pub"), world.tip("pub", "ann")) == (2, 1)
        [connection] = world.do("ann", "status")["connections"]
        assert (connection["apart"], connection["ebt"]) == (False, True)
        world.say("ann", text="live")
        world.run(2)
        assert world.tip("pub", "ann") == 2
        blobs = {name: world.accounts[name].blobs.add(f"of {name}".encode()) for name in order}
        for name, other in (order, order[::-1]):
            world.do(other, "blobs", "want", arguments=[blobs[name]])
        world.run(10)
        for name in order:
            assert None not in [world.accounts[name].blobs.size(blob) for blob in blobs.values()]


def test_a_failure_on_one_tunnel_loses_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with meeting(tmp_path, names="ann") as world:
        peer, now = world.peers["ann"], world.network.now
        came: list[StreamEvent] = []

        def full_disk(event: StreamEvent, now: int) -> None:
            came.append(event)
            if len(came) == 1:
                raise StoreError("disk full")

        events = [Received(1 << 33, b"a"), Received(1 << 34, b"b")]
        monkeypatch.setattr(peer, "on_stream", full_disk)
        monkeypatch.setattr(peer.visits, "_events", events.copy())
        with pytest.raises(StoreError):
            peer.wake(now)
        assert peer.next_deadline() == 0
        peer.wake(now)
        assert came == events


@pytest.mark.parametrize("caller", ["ann", "ben"])
def test_a_connection_without_a_room_stays_when_both_come_to_a_room_and_leave(
    tmp_path: Path, caller: str
) -> None:
    links = [("room", "ann"), ("room", "ben"), ("ann", "ben")]
    with LocalPeers(tmp_path, links, rooms={"room": True}) as world:
        befriend(world, "ann", "ben")
        world.connect(caller, "ben" if caller == "ann" else "ann")
        world.run(3)

        def ways(name: str) -> list[tuple[str, bool]]:
            rows = world.do(name, "status")["connections"]
            return [(row["room"], row["seconds"] >= 3) for row in rows if row["peer"] != world.id("room")]

        for name in ("ann", "ben"):
            world.connect(name, "room")
            world.run(3)
            assert ways("ann") == ways("ben") == [("", True)]
        world.peers["ben"].peer.remove(world.id("room"), world.network.now)
        world.network.settle("ben")
        world.run(3)
        assert ways("ann") == ways("ben") == [("", True)]


ROOMS = ("hall", "inn")
BOTH = [(room, name) for room in ROOMS for name in ("ann", "ben")]


@pytest.mark.parametrize("fault", ["swallows", "alters"])
@pytest.mark.parametrize("bad", ROOMS)
@pytest.mark.parametrize("passes", [0, 3])
def test_a_bad_room_keeps_no_friends_apart_who_are_in_a_good_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, bad: str, passes: int
) -> None:
    """It may do so before or after the handshake inside; silent tunnels are left after ten minutes."""
    with LocalPeers(tmp_path, BOTH, rooms=dict.fromkeys(ROOMS, True)) as world:
        receive, passed = Room.receive, Counter[tuple[int, int]]()

        def spoilt(room: Room, number: int, answer: Answered) -> None:
            end = number, answer.call
            if room is not world.peers[bad].room or end not in room._ends:
                receive(room, number, answer)
                return
            passed[end] += 1
            if passed[end] <= passes:
                receive(room, number, answer)
            elif fault == "alters":
                receive(room, number, answer._replace(body=bytes(len(answer.body))))

        monkeypatch.setattr(Room, "receive", spoilt)
        befriend(world, "ann", "ben")
        for room in (bad, *({*ROOMS} - {bad})):
            for name in ("ann", "ben"):
                world.connect(name, room)
            world.run(3)
        for number in range(20):
            world.say("ann", text=f"{number}")
            world.run(0.5)
        world.run(700 if (fault, passes) == ("swallows", 3) else 10)
        assert world.tip("ben", "ann") == world.tip("ann", "ann") == 21


def test_a_peer_that_is_blocked_during_the_handshake_is_not_connected_with(tmp_path: Path) -> None:
    """A link of 5 ms: after 12 ms the stream is open, after 30 ms the handshake is over."""
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        for moment in range(0, 60, 4):
            world.connect("ann", "ben")
            world.run(moment / 1_000)
            world.follow("ann", "ben", following=False, blocking=True)
            world.run(2)
            assert world.do("ann", "status")["connections"] == [], moment
            world.follow("ann", "ben", following=False)
            world.run(5)


def test_a_call_that_fails_is_not_repeated_if_the_peer_has_called_meanwhile(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("hub", name) for name in ("ann", "ben", "cyn")]) as world:
        world.do("ann", "connect", arguments=[str(world.address("cyn", of="ben"))])
        world.connect("ben", "ann")
        world.run(10)
        status = world.do("ann", "status")
        assert [each["peer"] for each in status["connections"]] == [world.id("ben")]
        assert status["unreached"] == []
        assert sum(world.do("cyn", "status")["refused"].values()) == 1
