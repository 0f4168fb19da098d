"""Merged forks and the limit on blobs after faults: full disks, lost files, damage and late messages."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from local_peers import LocalPeers

from ssb.branches.exchange import BRANCHES, BranchExchange
from ssb.branches.tree import MOST_BRANCHES
from ssb.daemon.account import Account
from ssb.daemon.commands import Commands
from ssb.keys import Identity, blob_ref
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.replication.blobs import Blobs
from ssb.replication.storage import OwnBlobs, StorageLimit
from ssb.store.blobs import MemoryBlobs
from ssb.store.feeds import StoreError

AUTHOR = Identity.from_seed(b"a" * 32)
STRANGER = Identity.from_seed(b"s" * 32).ref
FIRST = Message.create(AUTHOR, None, {"type": "post", "text": "first"}, 1)


def branch(name: str, common: Message = FIRST, count: int = 3) -> list[Message]:
    made = [common]
    for number in range(count):
        made.append(Message.create(AUTHOR, made[-1], {"type": "post", "text": f"{name} {number}"}, 1))
    return made[1:]


ONE, OTHER = branch("one"), branch("other")
ALL = {message.id for message in (FIRST, *ONE, *OTHER)}


def merging(path: Path) -> Account:
    """An account that merges the author's feed."""
    account = Account(path)
    account.merged.merge(AUTHOR.ref)
    return account


def shown(account: Account) -> list[str]:
    return [stored.id for stored in account.log.messages([AUTHOR.ref], None, None)]


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_message_that_a_full_disk_refuses_comes_again(tmp_path: Path, is_forked: bool) -> None:
    """What came before it is reported, and what comes behind it later is stored."""
    with closing(merging(tmp_path)) as account:
        account.merged.append([FIRST, *ONE, *(OTHER if is_forked else [])], 1.0)
        exchange = BranchExchange(account.merged, [AUTHOR.ref])
        big = [OTHER[-1] if is_forked else ONE[-1]]
        for _ in range(20):
            big.append(Message.create(AUTHOR, big[-1], {"type": "post", "text": "x" * 6_000}, 1))
        database = (account.merged._branches if is_forked else account.feeds)._database
        ((pages,),) = database.execute("PRAGMA page_count").fetchall()
        database.execute(f"PRAGMA max_page_count = {pages + 8}")
        with pytest.raises(StoreError, match="the disk is full"):
            exchange.append(big[1:], 0, 2.0)
        database.execute("PRAGMA max_page_count = 1000000")
        reported = exchange.take_stored()
        assert reported
        assert exchange.append(big[1:], 0, 3.0) == {}
        assert [*reported, *exchange.take_stored()] == big[1:]
        assert {each.id for each in big} <= {*shown(account)}
        here = shown(account)
    with closing(Account(tmp_path)) as account:
        assert shown(account) == here


def test_the_fork_is_known_while_both_branches_are_here(tmp_path: Path) -> None:
    """A power cut has taken the proof of the fork from the store of feeds, or its disk has."""
    with closing(merging(tmp_path)) as account:
        account.merged.append([FIRST, *ONE, *OTHER], 1.0)
    with closing(sqlite3.connect(tmp_path / "feeds.sqlite")) as database, database:
        database.execute("DELETE FROM forks")
    with closing(Account(tmp_path)) as account:
        assert {*shown(account)} == ALL
        assert account.merged.is_forked(AUTHOR.ref)


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_branches_are_whole_when_the_lost_store_of_feeds_has_come_again(
    tmp_path: Path, is_exchanged: bool
) -> None:
    """In the same run, without a restart, and no message is shown twice."""
    with closing(merging(tmp_path)) as account:
        account.merged.append([FIRST, *ONE, *OTHER], 1.0)
        feed = account.feeds.path
    for suffix in ("", "-wal", "-shm"):
        feed.with_name(feed.name + suffix).unlink(missing_ok=True)
    with closing(Account(tmp_path)) as account:
        account.merged.tree(AUTHOR.ref)
        if is_exchanged:
            account.merged.append([FIRST, *ONE], 2.0)
        else:
            account.feeds.append([FIRST, *ONE], 2.0)
        assert {*account.merged.tree(AUTHOR.ref).tips} == {ONE[-1].id, OTHER[-1].id}
        assert sorted(shown(account)) == sorted(ALL)
        assert account.merged.append([*ONE, *OTHER], 3.0).stored == 0
    with closing(Account(tmp_path)) as account:
        assert sorted(shown(account)) == sorted(ALL)


@pytest.mark.parametrize("is_exchanged", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_message_of_the_served_branch_comes_again(
    tmp_path: Path, number: int, is_exchanged: bool
) -> None:
    """Number 1 is before the fork, and comes by EBT, too."""
    with closing(merging(tmp_path)) as account:
        account.merged.append([FIRST, *ONE, *OTHER], 1.0)
    with closing(sqlite3.connect(tmp_path / "feeds.sqlite")) as database, database:
        changed = "UPDATE messages SET text = replace(text, 'text', 'texT') WHERE sequence = ?"
        assert database.execute(changed, (number,)).rowcount == 1
    with closing(Account(tmp_path)) as account:
        assert len(account.merged.tree(AUTHOR.ref)) < len(ALL)
        assert account.feeds.damaged() == {AUTHOR.ref: [number]}
        append = account.merged.append if is_exchanged or number == 3 else account.feeds.append
        append([FIRST, *ONE], 2.0)
        assert len(account.merged.tree(AUTHOR.ref)) == len(ALL)
        assert sorted(shown(account)) == sorted(ALL)
        assert account.merged.append([FIRST, *ONE, *OTHER], 3.0).stored == 0
        assert sorted(shown(account)) == sorted(ALL)


def test_a_sealed_message_behind_lost_ones_can_be_opened(tmp_path: Path) -> None:
    """Its nonce has the id of the message before it, which has just come back from another peer."""
    with closing(Account(tmp_path, identity=AUTHOR)) as account:
        account.own.settle()
        account.merged.merge(AUTHOR.ref)
        account.merged.append([FIRST, ONE[0], *OTHER], 1.0)
        account.own.advance()
        account.merged.append(ONE[1:], 2.0)
        commands = Commands(account, lambda: 2e12)
        group = commands.answer(("groups", "create"), [])
        said = commands.answer(("groups", "post"), [group, {"type": "post", "text": "hello"}])
        message = account.log.get(str(said))
        assert message is not None
        assert account.open_private(message) is not None


def test_a_stopped_merge_leaves_no_statement(tmp_path: Path) -> None:
    """Neither in a running peer, nor in the file of views if the feed is merged once more."""
    contact = {"type": "contact", "contact": STRANGER, "following": True}
    follow = Message.create(AUTHOR, OTHER[-1], contact, 1)
    for end in (False, True):
        path = tmp_path / str(end)
        with closing(merging(path)) as account:
            account.merged.append([FIRST, *ONE, *OTHER, follow], 1.0)
            assert account.graph.is_following(AUTHOR.ref, STRANGER)
            account.views.save()
        with closing(Account(path)) as account:
            assert account.graph.is_following(AUTHOR.ref, STRANGER)
            Commands(account, lambda: 2e12).answer(("branches", "split"), [AUTHOR.ref])
            assert not account.graph.is_following(AUTHOR.ref, STRANGER)
            account.views.save()
        with closing(Account(path)) as account:
            if end:
                account.merged.merge(AUTHOR.ref)
            assert not account.graph.is_following(AUTHOR.ref, STRANGER)


def test_an_overgrown_feed_says_the_same_in_any_order(tmp_path: Path) -> None:
    """What a branch has said before the feed was overgrown holds no more, also after a restart."""
    contact = {"type": "contact", "contact": STRANGER, "following": True}
    follow = Message.create(AUTHOR, FIRST, contact, 1)
    more = [branch(str(number), count=1)[0] for number in range(MOST_BRANCHES)]
    for number, messages in enumerate(([FIRST, follow, *more], [FIRST, *more, follow])):
        path = tmp_path / str(number)
        with closing(merging(path)) as account:
            _ = account.views
            for each in messages:
                if account.merged.append([each], 1.0).stored:
                    account.update_views(each)
                    account.restate()
            assert account.merged.tree(AUTHOR.ref).is_overgrown
            assert not account.graph.is_following(AUTHOR.ref, STRANGER)
            account.views.save()
        with closing(Account(path)) as account:
            assert not account.graph.is_following(AUTHOR.ref, STRANGER)


def test_a_running_peer_leaves_a_feed_that_only_a_deleted_branch_has_followed(tmp_path: Path) -> None:
    pairs = [("laptop", "friend"), ("tablet", "far"), ("far", "friend")]
    with LocalPeers(tmp_path, pairs, keys={"tablet": "laptop"}) as made:
        feed = made.id("laptop")
        for name in ("friend", "far"):
            made.follow(name, "laptop")
        for name in ("friend", "far", "tablet"):
            made.do(name, "branches", "merge", arguments=[feed])
        made.say("laptop", text="laptop")
        made.connect("laptop", "friend")
        made.run(3)
        made.do("tablet", "publish", arguments=[{"type": "contact", "contact": STRANGER, "following": True}])
        made.connect("tablet", "far")
        made.connect("far", "friend")
        made.run(15)
        wanted = made.peers["friend"].peer.protocol.wanted
        assert STRANGER in wanted
        made.do("friend", "branches", "split", arguments=[feed])
        assert STRANGER not in wanted


def lost(path: Path) -> None:
    """Lose the store of feeds, and all that is computed from it; blobs and marks stay."""
    for name in ("feeds.sqlite", "feeds.sqlite-wal", "feeds.sqlite-shm", "views", "backlinks"):
        (path / name).unlink(missing_ok=True)


def test_a_limit_spares_the_users_blobs_while_the_users_messages_are_missing(tmp_path: Path) -> None:
    """The store of feeds is lost: no message here tells any more that the pictures are the user's."""
    options = {"ann": PeerOptions(blob_storage_limit=1_500)}
    with LocalPeers(tmp_path, [("ann", "ben")], options=options) as world:
        world.follow("ben", "ann")
        pictures = [world.accounts["ann"].blobs.add(bytes([number]) * 1_000) for number in range(2)]
        for picture in pictures:
            world.say("ann", text="mine", mentions=[{"link": picture}])
        world.connect("ann", "ben")
        world.run(3)
        assert world.tip("ben", "ann") == 2
        other = world.accounts["ann"].blobs.add(b"x" * 1_000)
    lost(tmp_path / "ann")
    with LocalPeers(tmp_path, [("ann", "ben")], options=options) as world:
        blobs = world.accounts["ann"].blobs
        assert world.accounts["ann"].own.doubt
        assert {*blobs.blobs()} == {*pictures, other}
        world.connect("ann", "ben")
        world.run(60)
        assert world.tip("ann", "ann") == 2
        assert not world.accounts["ann"].own.doubt
        assert {*blobs.blobs()} == {*pictures}


def test_a_word_behind_a_torn_one_is_whole(tmp_path: Path) -> None:
    """The disk was full in the middle of a word."""
    path = tmp_path / "added"
    blobs = [blob_ref(sha256(bytes([number])).digest()) for number in range(3)]
    OwnBlobs(path).add(blobs[0])
    path.write_bytes(path.read_bytes() + b"\n" + blobs[1].encode()[:20])
    OwnBlobs(path).add(blobs[2])
    own = OwnBlobs(path)
    own.begin([], lambda blob: False)
    assert blobs[0] in own
    assert blobs[2] in own


def test_a_blob_that_is_dropped_at_once_is_not_announced() -> None:
    """The user's blobs fill the limit, and a wanted one comes that is larger than was told."""
    store = MemoryBlobs()
    own = store.add(b"own")
    storage = StorageLimit(store, 3, own.__eq__, lambda blob, size: None)
    blobs = Blobs(store, storage=storage)
    blobs.open(1)
    blob = store.add(b"another")
    blobs.receive(1, f'{{"{blob}": -1}}'.encode())
    assert store.size(blob) is None
    assert not blobs.take_output(1)


def test_a_limit_spares_what_a_device_has_named_before_it_became_one(tmp_path: Path) -> None:
    options = {"ann": PeerOptions(blob_storage_limit=1_500)}
    with LocalPeers(tmp_path, [("ann", "tablet")], options=options) as world:
        for one, other in (("ann", "tablet"), ("tablet", "ann")):
            world.follow(one, other)
        picture = world.accounts["tablet"].blobs.add(b"p" * 1_000)
        world.say("tablet", text="mine", mentions=[{"link": picture}])
        world.connect("ann", "tablet")
        world.do("ann", "blobs", "want", arguments=[picture])
        world.run(3)
        assert world.accounts["ann"].blobs.size(picture)
        world.do("ann", "devices", "invite", arguments=[world.id("tablet")])
        world.run(5)
        world.do("tablet", "devices", "join", arguments=[world.id("ann"), False])
        world.run(20)
        devices = world.accounts["ann"].views.fusions.devices(world.id("ann"))
        assert {*devices} == {world.id("ann"), world.id("tablet")}
        storage = world.peers["ann"].blobs._storage
        assert storage is not None
        storage.on_want(world.accounts["ann"].blobs.add(b"x" * 1_000))
        storage.make_room()
        assert world.accounts["ann"].blobs.size(picture)


def test_a_call_that_was_ended_is_not_served_again(tmp_path: Path) -> None:
    """Each one would get the locator of all feeds, and begin with a new allowance of notes."""
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        world.follow("ann", "ben")
        world.do("ann", "branches", "merge", arguments=[world.id("ann")])
        world.connect("ben", "ann")
        world.run(1)
        branches = world.peers["ann"].peer.services.branches
        assert branches is not None
        connections = world.peers["ben"].peer.connections
        (connection,) = connections.values()
        assert connection.branches is not None

        def flush() -> None:
            connections.changed(connection)
            connections.update(world.network.now)
            world.network.settle("ben")
            world.run(1)

        connection.calls.end(connection.branches, "over")
        flush()
        assert not branches.exchange.sessions
        found = []
        for _ in range(3):
            call = connection.calls.call(BRANCHES, [{}], "duplex")
            flush()
            found.append(len(branches.exchange.sessions))
            connection.calls.end(call, "over")
            flush()
        assert found == [1, 0, 0]
        assert len(connections) == 1


@pytest.mark.parametrize("numbers", [(4,), (3, 4), (3,), (1,), (1, 2, 3, 4)])
def test_an_own_feed_is_written_behind_its_true_end_after_damage(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """Nothing is written while the last message is damaged, and no further branch once it has come again."""
    with closing(Account(tmp_path, identity=AUTHOR)) as account:
        account.own.settle()
        account.merged.merge(AUTHOR.ref)
        account.merged.append([FIRST, *ONE, *OTHER], 1.0)
        account.own.advance()
    with closing(sqlite3.connect(tmp_path / "feeds.sqlite")) as database, database:
        changed = "UPDATE messages SET text = replace(text, 'text', 'texT') WHERE sequence = ?"
        for number in numbers:
            assert database.execute(changed, (number,)).rowcount == 1
    with closing(Account(tmp_path)) as account:
        if 4 in numbers:
            with pytest.raises(StoreError, match="its last one, is damaged here"):
                account.publish({"type": "post", "text": "too early"}, 2.0)
        account.merged.append([FIRST, *ONE, *OTHER], 2.0)
        message = account.publish({"type": "post", "text": "on"}, 3.0)
        assert message.previous == ONE[-1].id
        assert len(account.merged.tree(AUTHOR.ref).tips) == 2
        assert sorted(shown(account)) == sorted({*ALL, message.id})
    with closing(Account(tmp_path)) as account:
        assert sorted(shown(account)) == sorted({*ALL, message.id})
