"""Merged forks in users' peers: real peers over TCP on loopback, and their accounts on disk."""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from fresh_seeds import first_fresh_seed
from local_peers import LocalPeers
from patience import PATIENCE_S
from stock_peer import OurPeer, StockPeer, node_modules, until
from test_ssb_import import ssb

from base.endpoint import Program, StreamPort
from base.sockets import Sockets, free_port
from base.units import SECOND
from ssb.applications.causality import CausalOrder
from ssb.branches.exchange import BranchExchange
from ssb.branches.feeds import BranchedFeeds
from ssb.branches.store import BRANCHES_FILE
from ssb.branches.tree import MOST_BRANCHES, TANGLE, FeedTree
from ssb.canonical import stringify
from ssb.daemon.account import Account
from ssb.daemon.commands import Commands
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.replication.replication import ProtocolError
from ssb.replication.session import Limits
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import StoreError
from ssb.store.memory import MemoryFeeds
from ssb.transport.address import parse_address
from testbed.cli.main import feednet
from testbed.errors import UserError

AUTHOR = Identity.from_seed(b"a" * 32)
NAMES = ("laptop", "restored", "far", "friend")


def call(path: Path, *name: str, arguments: list[Any] | None = None) -> Any:
    """Make a call at an account whose peer is not running."""
    with closing(Account(path)) as account:
        return Commands(account, lambda: 2e12).answer(name, arguments or [])


def say(path: Path, text: str) -> str:
    return str(call(path, "publish", arguments=[{"type": "post", "text": text}])["key"])


def shown(path: Path, feed: str) -> list[str]:
    """The texts of a feed, in causal order."""
    lines = ssb(path, "log", feed, "--causal", "--type", "post").splitlines()
    return [line.split("  ")[-1] for line in lines]


@pytest.fixture
def forked(tmp_path: Path) -> str:
    """A laptop, and the same restored from a backup, which have both written message 3; the feed."""
    for text in ("one", "two"):
        say(tmp_path / "laptop", text)
    shutil.copytree(tmp_path / "laptop", tmp_path / "restored")
    say(tmp_path / "laptop", "three on the laptop")
    call(tmp_path / "restored", "settle")
    say(tmp_path / "restored", "three on the restored one")
    feed = str(call(tmp_path / "laptop", "whoami")["id"])
    contact = {"type": "contact", "contact": feed, "following": True}
    for name in ("far", "friend"):
        call(tmp_path / name, "publish", arguments=[contact])
    return feed


def running(stack: ExitStack, path: Path) -> list[OurPeer]:
    """Run the peers; each of the laptops calls another one, as two peers with one key take turns with one."""
    laptop, restored, far, friend = peers = [stack.enter_context(OurPeer(path / name)) for name in NAMES]
    for peer, to in ((laptop, friend), (restored, far), (far, friend)):
        peer.do("connect", arguments=[to.address])
    return peers


def branches(peer: OurPeer, feed: str) -> int:
    return int(peer.do("branches", "list")[feed]["branches"])


def test_both_branches_of_a_restored_laptop_reach_a_friend(tmp_path: Path, forked: str) -> None:
    """They reach the two laptops, too, which both write on; and all is there after a restart."""
    for name in NAMES:
        ssb(tmp_path / name, "merge", forked)
    with ExitStack() as stack:
        peers = running(stack, tmp_path)
        until(lambda: all(branches(peer, forked) == 2 for peer in peers))
        joined = [
            peer.do("publish", arguments=[{"type": "post", "text": f"four by {number}"}])
            for number, peer in enumerate(peers[:2])
        ]
        until(lambda: all(len(peer.ids(forked)) == 6 for peer in peers))
        assert [branches(peer, forked) for peer in peers] == [2] * 4
        for each in joined:
            assert len(each["value"]["content"]["tangles"][TANGLE]["previous"]) == 2
        views = [shown(tmp_path / name, forked) for name in NAMES]
    assert all(view == views[0] for view in views)
    assert views[0][:2] == ["one", "two"]
    assert {*views[0][2:]} == {"three on the laptop", "three on the restored one", "four by 0", "four by 1"}
    assert [shown(tmp_path / name, forked) for name in NAMES] == views
    assert "2 branches from message 3 on, 6 messages" in ssb(tmp_path / "friend", "status")
    with ExitStack() as stack:
        peers = running(stack, tmp_path)
        last = peers[1].do("publish", arguments=[{"type": "post", "text": "after the restart"}])["key"]
        until(lambda: all(last in peer.ids(forked) for peer in peers))


def world(path: Path, *merging: str, late: str = "") -> LocalPeers:
    """A laptop and a tablet with one key: the laptop knows a friend, and the tablet a far peer. These two
    know each other, and the friend knows one that merges nothing. All follow the laptop.
    """
    pairs = [("laptop", "friend"), ("tablet", "far"), ("far", "friend"), ("plain", "friend")]
    made = LocalPeers(path, pairs, keys={"tablet": "laptop"})
    for name in ("friend", "far", "plain"):
        made.follow(name, "laptop")
    for name in merging:
        made.do(name, "branches", "merge", arguments=[made.id("laptop")])
    for name, friend in pairs:
        if name != late:
            made.connect(name, friend)
    return made


def texts(made: LocalPeers, name: str) -> list[str]:
    """The texts of the laptop's feed at a peer, in causal order."""
    found = made.accounts[name].log.messages([made.id("laptop")], None, "post")
    here = {stored.id: stored.message for stored in found}
    return [str(here[each].content["text"]) for each in CausalOrder(here.values()).order()]


def frozen(made: LocalPeers, name: str) -> tuple[int, int | None]:
    feeds = made.accounts[name].feeds
    return feeds.tips().get(made.id("laptop"), 0), feeds.fork_of(made.id("laptop"))


MERGING = ("laptop", "tablet", "friend", "far")


@pytest.mark.parametrize("seed", range(first_fresh_seed(), first_fresh_seed() + 4))
def test_peers_that_merge_show_the_same_and_others_what_they_showed_before(tmp_path: Path, seed: int) -> None:
    """Both devices write at random times, off the net or on it; peers are closed and opened again."""
    rng = Random(seed)
    written = set()
    with world(tmp_path, *MERGING) as made:
        for number in range(12):
            device = rng.choice(("laptop", "tablet"))
            written.add(f"{number} by {device}")
            made.say(device, text=f"{number} by {device}")
            made.run(rng.choice((0.0, 0.02, 6.0)))
        made.run(20)
        views = {name: texts(made, name) for name in MERGING}
        assert {*views["far"]} == written
        assert all(view == views["far"] for view in views.values())
        tip, fork = frozen(made, "plain")
        if fork is not None:
            assert len(texts(made, "plain")) == fork - 1
            before = tip
            made.say("laptop", text="after the fork")
            made.run(10)
            assert frozen(made, "plain") == (before, fork)
            assert "after the fork" in texts(made, "far")


def test_a_feed_that_is_not_forked_crosses_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EBT carries it; the notes of branches tell of no message that is not there by then."""
    sent: list[bytes] = []
    take_output = BranchExchange.take_output

    def recorded(exchange: BranchExchange, *arguments: Any) -> list[bytes]:
        sent.extend(bodies := take_output(exchange, *arguments))
        return bodies

    monkeypatch.setattr(BranchExchange, "take_output", recorded)
    with world(tmp_path, *MERGING) as made:
        for number in range(30):
            made.say("laptop", text=str(number))
            made.run(0.3)
        made.run(3)
        assert len(texts(made, "far")) == 30
        assert any(b"clock" in body for body in sent)
        assert not any(b"signature" in body for body in sent)


def test_a_user_begins_to_merge_and_stops(tmp_path: Path) -> None:
    """While the peer runs: what is shown changes at once, and after a restart it is the same."""
    with world(tmp_path) as made:
        feed = made.id("laptop")
        for device in ("laptop", "tablet", "laptop"):
            made.say(device, text=device)
        made.run(5)
        assert texts(made, "far") == []
        for name in MERGING:
            made.do(name, "branches", "merge", arguments=[feed])
        made.run(15)
        for name in MERGING:
            assert sorted(texts(made, name)) == ["laptop", "laptop", "tablet"]
            assert made.do(name, "status")["forked"] == {}
        made.do("friend", "branches", "split", arguments=[feed])
        assert texts(made, "friend") == []
        assert made.do("friend", "status")["forked"] == {feed: 1}
        made.say("laptop", text="later")
        made.run(10)
        assert texts(made, "friend") == []
    assert call(tmp_path / "friend", "branches", "list") == {}
    assert [*call(tmp_path / "far", "branches", "list")] == [feed]


def test_what_devices_say_holds_in_causal_order(tmp_path: Path) -> None:
    """The tablet writes much, and follows. The laptop reads that, and blocks by a message of a low number."""
    with world(tmp_path, *MERGING) as made:
        stranger = Identity.from_seed(b"s" * 32).ref
        for number in range(9):
            made.say("tablet", text=str(number))
        contact = {"type": "contact", "contact": stranger, "following": True}
        made.do("tablet", "publish", arguments=[contact])
        made.say("laptop", text="before it has read that")
        made.run(10)
        assert made.accounts["far"].graph.is_following(made.id("laptop"), stranger)
        said = made.do("laptop", "publish", arguments=[contact | {"following": False, "blocking": True}])
        assert said["value"]["sequence"] == 2
        made.run(10)
        for name in MERGING:
            assert made.accounts[name].graph.is_blocked(stranger, by=made.id("laptop"))
    for name in MERGING:
        with closing(Account(tmp_path / name)) as account:
            assert account.graph.is_blocked(stranger, by=made.id("laptop"))
            account.views.save()
        with closing(Account(tmp_path / name)) as account:
            assert account.graph.is_blocked(stranger, by=made.id("laptop"))


def test_branches_are_hidden_from_whom_the_author_blocks(tmp_path: Path) -> None:
    with world(tmp_path, *MERGING, "plain") as made:
        contact = {"type": "contact", "contact": made.id("plain"), "following": False, "blocking": True}
        made.do("laptop", "publish", arguments=[contact])
        made.run(5)
        made.say("tablet", text="tablet")
        made.say("laptop", text="laptop")
        made.run(15)
        assert {*texts(made, "friend")} == {"laptop", "tablet"}
        assert texts(made, "plain") == []


def test_threads_and_links_have_messages_of_all_branches(tmp_path: Path) -> None:
    with world(tmp_path, *MERGING) as made:
        root = made.say("laptop", text="root")["key"]
        made.say("tablet", text="answer", root=root, branch=root)
        blob = f"&{'A' * 43}=.sha256"
        made.say("tablet", text="picture", mentions=[{"link": blob}])
        made.run(15)
    for name in MERGING:
        assert [line.split("  ")[-1] for line in ssb(tmp_path / name, "links", blob).splitlines()] == [
            "picture"
        ]
        assert "2 posts" in ssb(tmp_path / name, "view", "threads")
        assert len(ssb(tmp_path / name, "get", root, "--thread", "--wait", "0").splitlines()) == 2
        assert len(ssb(tmp_path / name, "log", made.id("laptop"), "--limit", "2").splitlines()) == 2


def test_a_number_of_another_branch_raises_no_lasting_doubt(tmp_path: Path) -> None:
    """The friend says that it has more than the laptop, until the fork is known."""
    with world(tmp_path, *MERGING, late="laptop") as made:
        made.say("laptop", text="on the laptop")
        for number in range(3):
            made.say("tablet", text=str(number))
        made.run(5)
        made.connect("laptop", "friend")
        doubts = []
        for _ in range(60):
            made.run(0.005)
            doubts.append(made.accounts["laptop"].own.doubt)
        assert any("says that it has 3" in each for each in doubts)
        assert not doubts[-1]
        made.say("laptop", text="and on it goes")
        made.run(15)
        assert texts(made, "far")[-1] == "and on it goes"


def test_a_device_that_has_lost_messages_goes_on_behind_them(tmp_path: Path) -> None:
    """The tablet is put back to its state before the fork's last messages, which the far peer has."""
    with world(tmp_path, *MERGING) as made:
        for device in ("laptop", "tablet", "laptop"):
            made.say(device, text=device)
        made.run(15)
        made.accounts["tablet"].close()
        shutil.copytree(tmp_path / "tablet", tmp_path / "backup")
        made.accounts["tablet"] = Account(tmp_path / "tablet")
    for number in range(3):
        last = say(tmp_path / "tablet", f"lost {number}")
    with closing(Account(tmp_path / "tablet")) as account:
        lost = [stored.message for stored in account.log.messages([account.identity.ref], None, None)]
    with closing(Account(tmp_path / "backup")) as account:
        account.own.settle()
        assert account.merged.append(lost, 1.0).stored == 3
    said = call(tmp_path / "backup", "publish", arguments=[{"type": "post", "text": "back"}])
    assert said["value"]["previous"] == last
    assert "2 branches" in ssb(tmp_path / "backup", "status")
    assert sorted(shown(tmp_path / "backup", str(call(tmp_path / "backup", "whoami")["id"]))) == sorted(
        ["laptop", "tablet", "laptop", "lost 0", "lost 1", "lost 2", "back"]
    )


def branch(number: int, common: Message, count: int = 3) -> list[Message]:
    made = [common]
    for place in range(count):
        made.append(Message.create(AUTHOR, made[-1], {"type": "post", "text": f"{number} {place}"}, 1))
    return made[1:]


class Unbounded(BranchedFeeds):
    """A hostile peer's store, which keeps any number of branches."""

    def tree(self, feed: str) -> FeedTree:
        tree = super().tree(feed)
        tree.takes = lambda message: True  # type: ignore[method-assign]
        return tree


async def hostile_peer(store: Unbounded, address: str, done: Callable[[], bool]) -> None:
    """Run a peer over TCP that offers all that its store has, until something is so."""
    clock = time.monotonic_ns
    friend = parse_address(address)
    exchange = BranchExchange(store, [AUTHOR.ref])
    peer = Peer(
        Identity.from_seed(b"h" * 32),
        MemoryFeeds(),
        MemoryClocks(),
        [],
        PeerOptions(),
        Random(1),
        branches=exchange,
    )
    peer.add(friend.peer, (friend.host, friend.port), clock())
    sockets = Sockets([Program(peer, {1: StreamPort(free_port())})], "127.0.0.1", clock)
    await sockets.start()
    ends = clock() + PATIENCE_S * SECOND
    while not done() and clock() < ends:
        peer.wake(clock())
        sockets.settle()
        await asyncio.sleep(0.05)
    sockets.close()
    await asyncio.sleep(0)


def test_a_hostile_peer_with_an_overgrown_feed_costs_little(tmp_path: Path) -> None:
    """It is stored up to the bound, and ignored from the fork on, also after a restart."""
    common = branch(0, Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1))
    store = Unbounded()
    store.append([Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1), *common], 1.0)
    for number in range(1, 60):
        store.append(branch(number, common[0]), 1.0)
    assert len(store.tree(AUTHOR.ref).tips) == 60
    contact = {"type": "contact", "contact": AUTHOR.ref, "following": True}
    call(tmp_path, "publish", arguments=[contact])
    ssb(tmp_path, "merge", AUTHOR.ref)
    with OurPeer(tmp_path) as peer:

        def state() -> Any:
            return peer.do("branches", "list")[AUTHOR.ref]

        asyncio.run(hostile_peer(store, peer.address, lambda: state()["overgrown"]))
        for _ in range(5):
            time.sleep(0.2)
        assert (state()["branches"], state()["fork"]) == (MOST_BRANCHES + 1, 3)
        assert state()["messages"] <= 2 + 3 * (MOST_BRANCHES + 1)
        assert [each["value"]["content"]["text"] for each in peer.log(AUTHOR.ref)] == ["first", "0 0"]
        assert not peer.do("status")["refused"]
    assert shown(tmp_path, AUTHOR.ref) == ["first", "0 0"]
    line = "overgrown with 17 branches; ignored from message 3 on"
    assert line in ssb(tmp_path, "status")
    assert line in ssb(tmp_path, "merge")


def test_damage_to_other_branches_harms_no_feed(tmp_path: Path) -> None:
    """A damaged message counts as missing, and comes again. A damaged file is one line with the remedy."""
    first = Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)
    both = [first, *branch(1, first), *branch(2, first)]
    path = tmp_path / BRANCHES_FILE
    with closing(Account(tmp_path)) as account:
        account.merged.merge(AUTHOR.ref)
        account.merged.append(both, 1.0)
        assert len(account.merged.tree(AUTHOR.ref)) == len(both)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE branches SET text = replace(text, '2 1', '2 7') WHERE sequence = 3")
    with pytest.raises(UserError, match="damaged: 1 message of other branches; run the peer"):
        ssb(tmp_path, "check")
    ssb(tmp_path, "check")
    with closing(Account(tmp_path)) as account:
        assert len(account.merged.tree(AUTHOR.ref)) == len(both) - 2
        assert account.merged.append(both, 2.0).stored == 1  # the one behind it has waited
    with closing(Account(tmp_path)) as account:
        assert len(account.merged.tree(AUTHOR.ref)) == len(both)
        assert account.merged.get(both[-1].id) == both[-1]
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"x" * 10_000)
    with pytest.raises(StoreError, match="delete the file and merge the feeds again"):
        ssb(tmp_path, "status")
    path.unlink()
    assert f"{AUTHOR.ref}: not forked" in ssb(tmp_path, "merge", AUTHOR.ref)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["merge", "@x"], "@x: "),
        (["merge", "--undo"], "--undo has no effect without"),
        (["merge", "%x", "--undo"], "%x: "),
    ],
)
def test_a_mistake_is_one_line_and_merges_nothing(tmp_path: Path, words: list[str], why: str) -> None:
    say(tmp_path, "x")
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), *words])
    assert done.exit_code
    assert why in (done.output or str(done.exception))
    assert not (tmp_path / BRANCHES_FILE).exists()


def test_a_feed_with_a_second_key_is_not_merged(tmp_path: Path) -> None:
    feed = str(
        call(tmp_path / "one", "publish", arguments=[{"type": "post", "text": "x"}])["value"]["author"]
    )
    ssb(tmp_path / "one", "suite")
    with pytest.raises(UserError, match="second key"):
        ssb(tmp_path / "one", "merge", feed)
    say(tmp_path / "two", "x")
    ssb(tmp_path / "two", "merge", str(call(tmp_path / "two", "whoami")["id"]))
    with pytest.raises(UserError, match="merged"):
        ssb(tmp_path / "two", "suite")


def test_nothing_follows_an_end_on_its_branch(tmp_path: Path) -> None:
    first = Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)
    end = Message.create(AUTHOR, first, {"type": "end-of-feed"}, 1)
    other = Message.create(AUTHOR, first, {"type": "post", "text": "other"}, 1)
    after, beside = (
        Message.create(AUTHOR, each, {"type": "post", "text": "more"}, 1) for each in (end, other)
    )
    with closing(Account(tmp_path)) as account:
        account.merged.merge(AUTHOR.ref)
        assert account.merged.append([first, other, end], 1.0).stored == 3
        assert account.merged.append([beside], 1.0).stored == 1
        assert "has ended this branch" in str(account.merged.append([after], 1.0).refused[AUTHOR.ref])


@pytest.mark.parametrize("is_merged", [True, False])
def test_stock_peers_see_a_frozen_feed_as_ever(tmp_path: Path, is_merged: bool) -> None:
    """They get what else there is, on the same connection, and no message of the feed."""
    node_modules()
    first = Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)
    one, other = branch(1, first), branch(2, first)
    contact = {"type": "contact", "contact": AUTHOR.ref, "following": True}
    call(tmp_path / "ours", "publish", arguments=[contact])
    with closing(Account(tmp_path / "ours")) as account:
        if is_merged:
            account.merged.merge(AUTHOR.ref)
            account.merged.append([first, *one, *other], 1.0)
        else:
            account.feeds.append([first, *one], 1.0)
            account.feeds.append(other, 1.0)
    with StockPeer(tmp_path / "stock") as stock, OurPeer(tmp_path / "ours") as ours:
        assert len(ours.ids(AUTHOR.ref)) == (7 if is_merged else 1)
        stock.do("publish", count=3, size=100)
        ours.follow(stock.id)
        stock.do("request", feeds=[ours.id, AUTHOR.ref])
        ours.do("connect", arguments=[stock.address])
        until(lambda: stock.do("heads").get(ours.id) == 2 and len(ours.ids(stock.id)) == 3)
        ours.publish(2)
        until(lambda: stock.do("heads").get(ours.id) == 4)
        assert AUTHOR.ref not in stock.do("heads")
        (connection,) = ours.do("status")["connections"]
        assert connection["ebt"]
        assert not ours.do("status")["refused"]
        assert not ours.do("status")["set_aside"]


def test_an_answer_that_reads_a_large_feed_costs_more_notes(tmp_path: Path) -> None:
    """A hostile peer cannot let this one read it again and again."""
    made = [Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)]
    for number in range(500):
        made.append(Message.create(AUTHOR, made[-1], {"type": "post", "text": str(number)}, 1))
    with closing(Account(tmp_path)) as account:
        account.merged.merge(AUTHOR.ref)
        account.feeds.append(made, 1.0)
        for body in ({"clock": {AUTHOR.ref: []}, "ask": True}, {"clock": {AUTHOR.ref: None}}):
            exchange = BranchExchange(account.merged, [AUTHOR.ref], Limits(notes_burst=100))
            exchange.open(1, "peer", is_caller=False, now=0)
            note = stringify(body, indent=0).encode()
            exchange.receive(1, [note] * 10, 0, 1.0)
            with pytest.raises(ProtocolError, match="too many notes"):
                exchange.receive(1, [note] * 5, 0, 1.0)


def test_views_are_computed_anew_when_other_feeds_are_merged(tmp_path: Path) -> None:
    """What holds in causal order has greater numbers, which would count for ever."""
    stranger = Identity.from_seed(b"s" * 32).ref
    contact = {"type": "contact", "contact": stranger, "following": True}
    first = Message.create(AUTHOR, None, contact, 1)
    fork = [Message.create(AUTHOR, first, {"type": "post", "text": text}, 1) for text in ("one", "other")]
    with closing(Account(tmp_path)) as account:
        account.merged.merge(AUTHOR.ref)
        account.merged.append([first, *fork], 1.0)
        assert account.graph.is_following(AUTHOR.ref, stranger)
        account.views.save()
    (tmp_path / BRANCHES_FILE).unlink()
    undone = Message.create(AUTHOR, fork[0], contact | {"following": False}, 1)
    with closing(Account(tmp_path)) as account:
        account.views.add(undone)
        assert not account.graph.is_following(AUTHOR.ref, stranger)


def test_a_resumption_that_was_cut_short_shows_no_message_twice(tmp_path: Path) -> None:
    first = Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)
    both = [first, *branch(1, first), *branch(2, first)]
    with closing(Account(tmp_path)) as account:
        account.merged.merge(AUTHOR.ref)
        account.merged.append(both, 1.0)
        more = branch(3, both[3])
        account.merged.append(more, 1.0)
        account.feeds.adopt(more, 2.0)
    with closing(Account(tmp_path)) as account:
        assert len([*account.log.messages([AUTHOR.ref], None, None)]) == len(both) + len(more)
