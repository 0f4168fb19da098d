"""Messages by their ids, out of order, through peers: as far as wants go, and nothing that is not signed."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_peers import LocalPeers
from stock_peer import OurPeer
from test_ssb_import import ssb

from ssb.canonical import parse, stringify
from ssb.generate import generate_feed
from ssb.keys import message_ref
from ssb.message import Message
from ssb.replication.loose import MOST_WANTS, Loose
from ssb.replication.replication import InvalidRequest
from ssb.store.memory import MemoryFeeds
from testbed.errors import UserError

FEED = generate_feed(Random(3), 5)
OTHERS = generate_feed(Random(4), 2)
LATER = FEED[3]
NOWHERE = message_ref(bytes(32))
ROOM = 1 << 16


class Peers:
    """Peers in a line, and what they say to each other, which arrives at once."""

    def __init__(self, count: int) -> None:
        self.stores = [MemoryFeeds() for _ in range(count)]
        self.loose = [Loose(store) for store in self.stores]
        self.pairs: set[tuple[int, int]] = set()
        for one, other in pairwise(range(count)):
            self.join(one, other)

    def join(self, one: int, other: int) -> None:
        if one != other and (one, other) not in self.pairs:
            self.pairs |= {(one, other), (other, one)}
            self.loose[one].open(other, str(other))
            self.loose[other].open(one, str(one))

    def part(self, one: int, other: int) -> None:
        self.pairs -= {(one, other), (other, one)}
        self.loose[one].close(other)
        self.loose[other].close(one)

    def settle(self) -> int:
        said, is_busy = 0, True
        while is_busy:
            is_busy = False
            for one, other in sorted(self.pairs):
                for body in self.loose[one].take_output(other, ROOM):
                    said, is_busy = said + 1, True
                    self.loose[other].receive(one, body, 1.0)
        return said


@pytest.mark.parametrize("hops", range(1, 6))
def test_a_message_crosses_two_peers_that_have_not_asked_and_no_third(hops: int) -> None:
    peers = Peers(hops + 1)
    peers.stores[hops].append(FEED, 1.0)
    assert peers.loose[0].want(LATER.id) is None
    peers.settle()
    assert (peers.stores[0].get(LATER.id) == LATER) == (hops <= 3)
    assert peers.stores[0].tips() == {}  # it is no part of a feed
    if hops <= 3:
        assert all(not loose.wanted for loose in peers.loose)
    assert peers.settle() == 0


def test_a_want_waits_for_a_peer_that_comes_and_ends_with_who_has_it() -> None:
    peers = Peers(3)
    peers.loose[0].want(LATER.id)
    peers.settle()
    assert [loose.wanted.get(LATER.id) for loose in peers.loose] == [-1, -2, -3]
    peers.loose[1].close(0)
    assert peers.loose[1].wanted == {}
    late = MemoryFeeds()
    late.append(FEED, 1.0)
    holder = Loose(late)
    holder.open(0, "0")
    peers.loose[0].open(9, "9")
    for body in peers.loose[0].take_output(9, ROOM):
        holder.receive(0, body, 1.0)
    for body in holder.take_output(0, ROOM):
        peers.loose[0].receive(9, body, 1.0)
    assert peers.stores[0].get(LATER.id) == LATER


def test_a_want_is_not_told_to_the_only_peer_that_has_it() -> None:
    peers = Peers(2)
    peers.loose[0].want(LATER.id)
    assert peers.settle() == 1
    assert peers.loose[0].wanted == {LATER.id: -1}
    assert peers.loose[1].wanted == {LATER.id: -2}


def test_of_too_many_wants_of_a_user_the_newest_are_those_that_others_look_for() -> None:
    peers = Peers(3)
    ids = [message_ref(number.to_bytes(32, "big")) for number in range(3 * MOST_WANTS)]
    for at in range(0, len(ids), 30):
        for id_ in ids[at : at + 30]:
            peers.loose[0].want(id_)
        peers.settle()
    for number, loose in enumerate(peers.loose):
        assert loose.wanted == dict.fromkeys(ids[-MOST_WANTS:], -1 - number)


@settings(deadline=None)
@given(st.data())
def test_who_wants_a_message_gets_it_from_whoever_of_the_near_has_it(data: st.DataObject) -> None:
    """Peers in a line or a ring want, get messages in their feeds, meet and part, in any order."""
    count = data.draw(st.integers(2, 6))
    peers = Peers(count)
    if count > 2 and data.draw(st.booleans()):
        peers.join(0, count - 1)
    wanted: set[tuple[int, str]] = set()
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, count - 1))
        match data.draw(st.sampled_from(["want", "want", "get", "part", "meet", "settle"])):
            case "want":
                id_ = data.draw(st.sampled_from([FEED[1].id, LATER.id]))
                peers.loose[at].want(id_)
                wanted.add((at, id_))
            case "get":
                length = data.draw(st.integers(1, len(FEED)))
                peers.stores[at].append(FEED[:length], 1.0)
                peers.loose[at].came(FEED[:length])
            case "part":
                peers.part(at, (at + 1) % count)
            case "meet":
                peers.join(at, (at + 1) % count)
            case _:
                peers.settle()
    peers.settle()
    for at, id_ in wanted:
        near = {at}
        for _ in range(3):
            near |= {other for one, other in peers.pairs if one in near}
        if any(peers.stores[each].get(id_) is not None for each in near):
            assert peers.stores[at].get(id_) is not None
    sought = {id_ for _, id_ in wanted}
    assert all(message.id in sought for store in peers.stores for message in store.out_of_order)
    assert peers.settle() == 0


def test_a_message_is_hidden_from_whom_its_author_blocks() -> None:
    peers = Peers(2)
    peers.stores[1].append(FEED, 1.0)
    peers.loose[1].hides = lambda feed, remote: (feed, remote) == (LATER.author, "0")
    peers.loose[0].want(LATER.id)
    peers.settle()
    assert peers.stores[0].get(LATER.id) is None


def answered(id_: str, value: Any) -> MemoryFeeds:
    """The store of a peer that wants LATER, and hears this."""
    store = MemoryFeeds()
    loose = Loose(store)
    loose.want(LATER.id)
    loose.open(1, "1")
    loose.receive(1, stringify({id_: value}, indent=0).encode(), 1.0)
    return store


def forged() -> tuple[str, Any]:
    """A message that nobody has signed, under the id that its text has."""
    value: Any = parse(LATER.text)
    value["content"]["text"] = "altered"
    return Message.from_value(value).id, value


def test_only_what_is_wanted_and_signed_is_kept_and_the_next_peer_may_have_it() -> None:
    assert answered(LATER.id, parse(LATER.text)).get(LATER.id) == LATER
    assert answered(OTHERS[0].id, parse(OTHERS[0].text)).get(OTHERS[0].id) is None
    wrong = answered(LATER.id, parse(FEED[1].text))
    assert wrong.get(LATER.id) is None
    assert wrong.get(FEED[1].id) is None
    id_, value = forged()
    store = MemoryFeeds()
    loose = Loose(store)
    loose.want(id_)
    loose.open(1, "1")
    loose.receive(1, json.dumps({id_: value}).encode(), 1.0)
    assert store.get(id_) is None
    assert loose.wanted == {id_: -1}


def test_a_want_ends_with_a_message_that_comes_in_its_feed_and_those_behind_have_it() -> None:
    peers = Peers(3)
    peers.loose[0].want(LATER.id)
    peers.settle()
    peers.stores[1].append(FEED, 1.0)
    peers.loose[1].came(FEED)
    peers.settle()
    assert peers.stores[0].get(LATER.id) == LATER
    assert peers.loose[0].wanted == peers.loose[1].wanted == {}


def test_answers_leave_room_for_other_calls() -> None:
    peers = Peers(2)
    peers.stores[1].append(FEED, 1.0)
    peers.loose[1].receive(0, json.dumps({message.id: -1 for message in FEED}).encode(), 1.0)
    said = []
    while peers.loose[1].has_output(0):
        said.append(len(peers.loose[1].take_output(0, 1)))
    assert said == [1] * len(FEED)


SAID = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just(parse(LATER.text)),
)


@given(
    st.one_of(
        st.binary(max_size=50),
        st.dictionaries(st.sampled_from([LATER.id, OTHERS[0].id, "x"]), SAID, max_size=3).map(
            lambda told: json.dumps(told).encode()
        ),
        st.sampled_from([json.dumps({LATER.id: {"content": {}}}).encode(), b"[]", b"-1"]),
    )
)
def test_whatever_a_peer_says_is_a_fault_or_changes_nothing_else(body: bytes) -> None:
    store = MemoryFeeds()
    loose = Loose(store)
    loose.want(LATER.id)
    loose.open(1, "1")
    try:
        loose.receive(1, body, 1.0)
    except InvalidRequest:
        return
    assert store.get(LATER.id) in (None, LATER)
    assert store.tips() == {}


def test_of_too_many_wants_the_oldest_give_way() -> None:
    loose = Loose(MemoryFeeds())
    for number in (1, 2):
        loose.open(number, str(number))
    ids = [message_ref(number.to_bytes(32, "big")) for number in range(2 * MOST_WANTS)]
    for id_ in ids:
        loose.receive(1, json.dumps({id_: -1}).encode(), 1.0)
    assert [*loose.wanted] == ids[MOST_WANTS:]
    loose.receive(2, json.dumps({ids[0]: -1}).encode(), 1.0)  # one remote's wants cost another's none
    assert len(loose.wanted) == MOST_WANTS + 1
    loose.close(1)
    assert [*loose.wanted] == ids[:1]


def test_a_closed_connection_and_a_guest_are_not_heard() -> None:
    loose = Loose(MemoryFeeds())
    loose.receive(1, json.dumps({LATER.id: -1}).encode(), 1.0)
    assert loose.wanted == {}
    assert not loose.has_output(1)


def test_a_user_reads_a_message_of_a_feed_that_nobody_here_follows(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "eve")]) as peers:
        peers.follow("ann", "ben")
        peers.follow("ben", "ann")
        peers.connect("ann", "ben")
        peers.connect("ben", "eve")
        said = peers.say("eve", text="nobody follows me")
        id_ = said["key"] if isinstance(said, dict) else said
        peers.run(5)
        assert peers.do("ann", "get", arguments=[id_]) is None
        peers.run(5)
        value = peers.do("ann", "get", arguments=[id_])
        assert value["author"] == peers.id("eve")
        assert value["content"]["text"] == "nobody follows me"
        assert peers.tip("ann", "eve") == 0


def test_the_command_shows_a_message_and_its_thread(tmp_path: Path) -> None:
    root = ssb(tmp_path / "ann", "publish", "Hello").split()[0]
    ssb(tmp_path / "ann", "publish", "--content", json.dumps({"type": "post", "text": "Yes", "root": root}))
    ssb(tmp_path / "ann", "publish", "Something else")
    assert ssb(tmp_path / "ann", "get", root).count("\n") == 1
    lines = ssb(tmp_path / "ann", "get", root, "--thread").splitlines()
    assert [line.split()[-1] for line in lines] == ["Hello", "Yes"]
    assert json.loads(ssb(tmp_path / "ann", "get", root, "--json"))["content"]["text"] == "Hello"
    with pytest.raises(UserError, match="the message is not here, and the peer"):
        ssb(tmp_path / "ann", "get", OTHERS[0].id)
    with pytest.raises(UserError, match="of the form %"):
        ssb(tmp_path / "ann", "get", "x")


def test_the_command_completes_a_thread_through_peers(tmp_path: Path) -> None:
    """Ann has the last answer only, which is her own; she follows nobody of those who wrote the others."""
    with OurPeer(tmp_path / "ann") as ann, OurPeer(tmp_path / "ben") as ben:

        def post(peer: OurPeer, text: str, **more: object) -> str:
            return str(peer.do("publish", arguments=[{"type": "post", "text": text, **more}])["key"])

        root = post(ben, "question")
        first = post(ben, "first", root=root, branch=root)
        second = post(ben, "second", root=root, branch=first)
        post(ben, "elsewhere")
        post(ann, "last", root=root, branch=[second, NOWHERE])
        alone = ssb(tmp_path / "ann", "get", root, "--thread", "--wait", "0.1").splitlines()
        assert [line.split()[-1] for line in alone if "missing" not in line] == ["last"]
        (row,) = ssb(tmp_path / "ann", "view", "threads").splitlines()
        assert row.startswith("   1 posts")
        ann.do("connect", arguments=[ben.address])
        *shown, problem = sorted(
            ssb(tmp_path / "ann", "get", root, "--thread", "--wait", "5").splitlines(),
            key=lambda line: line.startswith("missing"),
        )
        assert [line.split()[-1] for line in shown] == ["question", "first", "second", "last"]
        assert problem.startswith(f"missing: {NOWHERE}: no peer has sent ")
        (row,) = ssb(tmp_path / "ann", "view", "threads", "--wait", "0.1").splitlines()[-1:]
        assert row.startswith("   4 posts")
        assert row.endswith("question")
        assert ann.ids(ben.id) == []
    shown = ssb(tmp_path / "ann", "get", root, "--thread").splitlines()
    assert sum(line.startswith("missing") for line in shown) == 1
    assert len(shown) == 5, "fetched messages stay"
    with pytest.raises(UserError, match="neither the message nor an answer to it is here"):
        ssb(tmp_path / "ann", "get", NOWHERE, "--thread")
    with pytest.raises(UserError, match="of the form %"):
        ssb(tmp_path / "ann", "get", LATER.author, "--thread")
    with pytest.raises(AssertionError, match="--wait is for threads"):
        ssb(tmp_path / "ann", "view", "likes", "--wait", "1")


@pytest.mark.parametrize("caller", ["ann", "ben"])
def test_wants_are_heard_whoever_of_the_two_calls(tmp_path: Path, caller: str) -> None:
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        key = world.say("ann", text="x")["key"]
        assert world.do("ben", "get", arguments=[key]) is None
        world.connect(caller, "ben" if caller == "ann" else "ann")
        world.run(10)
        assert world.do("ben", "get", arguments=[key]) is not None
