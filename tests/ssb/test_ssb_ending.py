"""Ends of feeds: what ends one, that nothing comes behind, who goes on, and that nobody asks for more."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from local_peers import LocalPeers

from ssb.canonical import stringify
from ssb.daemon.account import STORE, Account
from ssb.ending import END, End, end_content, end_in, end_of
from ssb.graph import Graph, Relation
from ssb.keys import Identity, encode_base64, feed_ref
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.store.memory import MemoryFeeds
from ssb.store.sqlite import SqliteFeeds
from testbed.cli.main import feednet

OLD, NEW, OTHER = (Identity.from_seed(bytes([number]) * 32) for number in range(3))
GOES_ON = end_content(OLD.ref, NEW)
POST = {"type": "post", "text": "hello"}


def feed(identity, *contents):
    messages = []
    for content in contents:
        messages.append(Message.create(identity, messages[-1] if messages else None, content, 1))
    return messages


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryFeeds() if request.param == "memory" else SqliteFeeds(tmp_path / "feeds.db")
    with made:
        yield made


def test_what_ends_a_feed():
    assert end_of(OLD.ref, 7, {"type": END}) == end_of(OLD.ref, 7, end_content(OLD.ref)) == End(7, None)
    assert end_of(OLD.ref, 7, GOES_ON) == End(7, NEW.ref)
    (message,) = feed(OLD, GOES_ON)
    assert end_in(message.encoded) == End(1, NEW.ref)
    with pytest.raises(ValueError, match="itself"):
        end_content(OLD.ref, OLD)


@pytest.mark.parametrize(
    ("author", "content"),
    [
        (OLD, POST),
        (OLD, "aGVsbG8=.box"),
        (OTHER, GOES_ON),  # consent to go on in place of another feed
        (NEW, GOES_ON),
        (OLD, GOES_ON | {"successor": OTHER.ref}),
        (OLD, GOES_ON | {"successor": 5}),
        (OLD, GOES_ON | {"successor": ""}),
        (OLD, GOES_ON | {"consent": None}),
        (OLD, GOES_ON | {"consent": GOES_ON["consent"].removesuffix(".sig.ed25519")}),
        (OLD, GOES_ON | {"consent": "AAAA.sig.ed25519"}),
        (OLD, {"type": END, "successor": OLD.ref, "consent": end_content(NEW.ref, OLD)["consent"]}),
        (OLD, {"type": END, "successor": NEW.ref}),
    ],
)
def test_what_does_not(store, author, content):
    """The feed goes on behind such a message, as it is one like any other."""
    assert end_of(author.ref, 1, content) is None
    messages = feed(author, content, POST)
    assert store.append(messages, 1).stored == 2
    assert not store.ends()


@given(st.integers(0, 63), st.integers(1, 255))
def test_any_other_signature_is_no_consent(place, flip):
    signature = bytearray(NEW.sign(stringify({"type": END, "feed": OLD.ref, "successor": NEW.ref}).encode()))
    flipped = GOES_ON | {"consent": GOES_ON["consent"]}
    assert end_of(OLD.ref, 1, flipped) is not None
    signature[place] ^= flip
    assert end_of(OLD.ref, 1, GOES_ON | {"consent": encode_base64(bytes(signature)) + ".sig.ed25519"}) is None


@given(st.binary(max_size=200))
def test_any_text_ends_a_feed_or_does_not(text):
    assert end_in(text) is None
    assert end_in(b'{"type": "end-of-feed"' + text) is None


@pytest.mark.parametrize("together", [True, False])
def test_nothing_is_stored_behind_an_end(store, together):
    messages = feed(OLD, POST, GOES_ON, POST, POST)
    if together:
        appended = store.append(messages, 1)
    else:
        assert store.append(messages[:2], 1).stored == 2
        appended = store.append(messages, 2)
    assert str(appended.refused[OLD.ref]) == f"the feed has ended with message 2, and goes on as {NEW.ref}"
    assert store.tips() == {OLD.ref: 2}
    assert store.ends() == {OLD.ref: End(2, NEW.ref)}
    assert store.is_complete(OLD.ref)
    assert not store.is_complete(NEW.ref)
    with pytest.raises(InvalidMessage, match="has ended with message 2"):
        store.add_out_of_order(messages[3], 1)
    with pytest.raises(InvalidMessage, match="has ended with message 2"):
        store.publish(OLD, POST, 3)
    assert [stored.message for stored in store.after(OLD.ref, 0, 10)] == messages[:2]


def test_an_end_and_another_message_in_its_place_are_a_fork(store):
    messages = feed(OLD, POST, {"type": END})
    branch = feed(OLD, POST, {"type": "post", "text": "branch"}, POST)
    store.append(messages, 1)
    for wrong in (branch[2], branch[1]):
        assert isinstance(store.append([wrong], 2).refused[OLD.ref], ForkedFeed)


def test_publishing_an_end(store):
    store.publish(OLD, POST, 1)
    store.publish(OLD, {"type": END}, 2)
    assert store.ends() == {OLD.ref: End(2, None)}
    with pytest.raises(InvalidMessage, match=r"ended with message 2$"):
        store.publish(OLD, POST, 3)


def test_a_dropped_feed_ends_again(store):
    messages = feed(OLD, POST, GOES_ON)
    store.append(messages, 1)
    store.drop(OLD.ref)
    assert not store.ends()
    assert not store.is_complete(OLD.ref)
    store.append(messages, 2)
    assert store.is_complete(OLD.ref)


def test_ends_are_there_after_reopening(tmp_path):
    path = tmp_path / "feeds.db"
    messages = feed(OLD, POST, GOES_ON, POST)
    with SqliteFeeds(path) as store:
        store.append(feed(OTHER, GOES_ON, {"type": END, "successor": "nobody"}, POST), 1)
        with SqliteFeeds(path, read_only=True) as reader:
            assert not reader.ends()
            store.append(messages[:2], 1)
            assert reader.ends() == {OLD.ref: End(2, NEW.ref)}
    with SqliteFeeds(path) as store:
        assert store.ends() == {OLD.ref: End(2, NEW.ref)}
        assert store.append(messages, 1).refused.keys() == {OLD.ref}


def test_a_damaged_end_is_not_the_end_until_it_is_restored(tmp_path):
    path = tmp_path / "feeds.db"
    messages = feed(OLD, POST, GOES_ON)
    with SqliteFeeds(path) as store:
        store.append(messages, 1)
        with store._transaction():
            store._database.execute("UPDATE messages SET text = x'00' WHERE sequence = 2")
        store.check_message(OLD.ref, 2)
        assert not store.is_complete(OLD.ref)
    with SqliteFeeds(path) as store:
        assert not store.is_complete(OLD.ref)
        store.append(messages, 2)
        assert store.is_complete(OLD.ref)
        assert store.ends() == {OLD.ref: End(2, NEW.ref)}


# The graph

ME, *FEEDS = [feed_ref(bytes([number]) * 32) for number in range(7)]
STATED = st.tuples(
    st.sampled_from([ME, *FEEDS]),
    st.sampled_from([ME, *FEEDS]),
    st.sampled_from([*Relation, Relation.FOLLOWS]),
)
ENDED = st.tuples(st.sampled_from([ME, *FEEDS]), st.sampled_from([ME, *FEEDS])).filter(
    lambda pair: pair[0] != pair[1]
)
SAYS = {
    Relation.FOLLOWS: {"following": True},
    Relation.BLOCKS: {"blocking": True},
    Relation.UNFOLLOWED: {"following": False},
}


def say(graph, number, author, about, relation):
    graph.add_content(author, number, {"type": "contact", "contact": about, **SAYS[relation]})


def inherited(said, ends, disputed, author, feed, on_the_way=()):
    """All that holds of an author's statements for a feed: of a disputed end no follow."""
    if (author, feed) in said:
        return {said[author, feed]}
    found = set()
    for old, new in ends if feed not in on_the_way else ():
        if new == feed:
            held = inherited(said, ends, disputed, author, old, (*on_the_way, feed))
            found |= held - ({Relation.FOLLOWS} if old in disputed else set())
    return found


@settings(max_examples=300)
@given(
    st.lists(STATED | ENDED, max_size=30),
    st.lists(st.frozensets(st.sampled_from([ME, *FEEDS])), min_size=1, max_size=3),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_statements_hold_for_successors(happenings, disputes, max_hops, rng):
    """As in a graph in which each author has said so of each successor; whatever came first."""
    said = {each[:2]: each[2] for each in happenings if len(each) == 3}
    ends = {each for each in happenings if len(each) == 2}
    expected = Graph(ME, max_hops)
    for author in (ME, *FEEDS):
        for about in (ME, *FEEDS):
            held = inherited(said, ends, disputes[-1], author, about)
            for relation in (Relation.BLOCKS, Relation.FOLLOWS, Relation.UNFOLLOWED):
                if relation in held:
                    say(expected, 1, author, about, relation)
                    break
    steps = list(enumerate(happenings, 1))
    shuffled = steps.copy()
    rng.shuffle(shuffled)
    graphs = []
    for order in (steps, shuffled):
        graph = Graph(ME, max_hops)
        replicated = set(graph.take_changes().added)
        for number, each in order:
            if len(each) == 3:
                say(graph, number, *each)
            else:
                graph.succeed(*each)
            if rng.random() < 0.2:
                graph.dispute(rng.choice(disputes))
            added, removed = graph.take_changes()
            replicated = (replicated | added) - removed
        graph.dispute(disputes[-1])
        added, removed = graph.take_changes()
        replicated = (replicated | added) - removed
        assert replicated == graph.replicated()
        graphs.append(graph)
    again = Graph(ME, max_hops)
    again.restore(graph.statements(), graph.ends())
    again.dispute(disputes[-1])
    for graph in (*graphs, again):
        assert graph.hops() == graph.hops(ME) == expected.hops()
        assert sorted(graph.blocks()) == sorted(expected.blocks())
        for author in (ME, *FEEDS):
            for about in (ME, *FEEDS):
                assert graph.relation(author, about) == expected.relation(author, about)


# Peers


def run_to_the_end(world: LocalPeers) -> None:
    """Ann ends her feed in favour of Dan's; Ben follows Ann, and Cyn Ben."""
    for name, other in [("ben", "ann"), ("cyn", "ben")]:
        world.follow(name, other)
    for name, other in [("ben", "ann"), ("cyn", "ben"), ("ben", "dan")]:
        world.connect(name, other)
    world.say("ann", text="hello")
    world.say("dan", text="I shall be Ann")
    world.run(3)


LINKS = [("ann", "ben"), ("ben", "cyn"), ("dan", "ben")]


def test_who_follows_a_feed_goes_on_with_its_successor(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, LINKS) as world:
        run_to_the_end(world)
        assert (world.tip("ben", "ann"), world.tip("ben", "dan"), world.tip("cyn", "dan")) == (1, 0, 0)
        content = end_content(world.id("ann"), world.accounts["dan"].identity)
        world.do("ann", "publish", arguments=[content])
        world.say("dan", text="here I am")
        world.run(10)
        assert (world.tip("ben", "ann"), world.tip("ben", "dan"), world.tip("cyn", "dan")) == (2, 2, 2)
        assert world.do("cyn", "status")["ended"] == {world.id("ann"): world.id("dan")}
        for name in ("ben", "cyn"):  # nobody receives the feed that has ended any more
            replication = world.peers[name].peer.replication
            assert world.id("ann") not in replication.sources.chosen
            assert world.id("dan") in replication.sources.chosen
            receiving = [session.exchanges.get(world.id("ann")) for session in replication.sessions.values()]
            assert not any(exchange is not None and exchange.receives for exchange in receiving)
        with pytest.raises(Exception, match="the feed has ended with message 2"):
            world.say("ann", text="too late")


def test_a_block_holds_for_the_successor(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, LINKS) as world:
        run_to_the_end(world)
        world.follow("cyn", "ann", following=False, blocking=True)
        world.do("ann", "publish", arguments=[end_content(world.id("ann"), world.accounts["dan"].identity)])
        world.run(10)
        assert world.tip("ben", "dan") == 1
        assert world.tip("cyn", "dan") == 0
        world.follow("ben", "ann", following=False, blocking=True)
        world.say("dan", text="does Ben still listen?")
        world.run(10)
        assert world.tip("ben", "dan") == 1
        assert world.id("dan") not in world.accounts["ben"].graph.replicated()
        assert not world.peers["ben"].peer.connections.scheduler._known.get(world.id("dan"))


def test_views_keep_successors(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, LINKS) as world:
        run_to_the_end(world)
        world.do("ann", "publish", arguments=[end_content(world.id("ann"), world.accounts["dan"].identity)])
        world.run(5)
        ann, dan = world.id("ann"), world.id("dan")
        world.accounts["ben"].views.save()
    with LocalPeers(tmp_path, LINKS) as world:
        views = world.accounts["ben"].views
        assert [*views.graph.ends()] == [(ann, dan)]
        assert dan in views.graph.replicated()
        data = json.loads((tmp_path / "ben" / "views").read_bytes()[32:])
        assert data["ended"] == [[ann, dan]]


# Two ends


@pytest.mark.parametrize("relation", [Relation.FOLLOWS, Relation.BLOCKS])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("lengths", [(0, 0), (1, 0), (2, 3)])
def test_two_ends_with_two_successors(tmp_path: Path, relation: Relation, first: int, lengths) -> None:
    """No follow passes to either successor, whichever end came first; a block does; with a merge all do."""
    before = feed(OLD, POST)
    ends = []
    for heir, more in zip((NEW, OTHER), lengths, strict=True):
        branch = list(before)
        for content in [*({"type": "post", "text": f"{heir.ref} {n}"} for n in range(more))]:
            branch.append(Message.create(OLD, branch[-1], content, 1))
        ends.append([*branch, Message.create(OLD, branch[-1], end_content(OLD.ref, heir), 1)])
    heirs = [NEW.ref, OTHER.ref]
    contact = {"type": "contact", "contact": OLD.ref, **SAYS[relation]}
    follows = relation is Relation.FOLLOWS

    def holding(account: Account) -> list[str]:
        me = account.identity.ref
        held = [heir for heir in heirs if account.graph.relation(me, heir) is relation]
        assert account.graph.replicated() >= (set(held) if follows else set())
        return held

    with closing(Account(tmp_path)) as account:
        account.publish(contact, 1)
        accept(account, ends[first])
        assert holding(account) == [heirs[first]]
        accept(account, ends[1 - first])
        assert account.feeds.fork_of(OLD.ref) == 2
        both = heirs if lengths[1 - first] == 0 else [heirs[first]]  # by the fork's proof, or the log alone
        assert holding(account) == ([] if follows else both)
        assert account.graph.disputed() == {OLD.ref: sorted(both)}
        account.views.save()
    shown = CliRunner().invoke(feednet, ["ssb", "--path", str(tmp_path), "status"]).output
    named = " or ".join(sorted(both))
    assert f"ended        {OLD.ref}; forked, so no follow passes to {named}: follow the right one" in shown
    with closing(Account(tmp_path)) as account:
        assert holding(account) == ([] if follows else both)
        account.merged.merge(OLD.ref)
        account.restate()
        for message in ends[1 - first]:
            if account.merged.append([message], 2).stored:
                account.update_views(message)
        account.restate()
        assert holding(account) == heirs
        assert not account.graph.disputed()
    with closing(Account(tmp_path)) as account:
        assert holding(account) == heirs
        account.split(OLD.ref)
        assert not follows or not holding(account)


def accept(account: Account, messages: list[Message]) -> None:
    """Let a peer's store and views have messages that come from others."""
    stored = account.feeds.append(messages, 2).stored
    for message in messages[:stored]:
        account.update_views(message)
    account.restate()


def test_an_end_before_the_fork_counts(tmp_path: Path) -> None:
    """A message behind an end is no other end: it takes no followers from the successor."""
    branch = feed(OLD, POST, GOES_ON, POST)
    other = Message.create(OLD, branch[1], {"type": "post", "text": "another"}, 2)
    with closing(Account(tmp_path)) as account:
        account.publish({"type": "contact", "contact": OLD.ref, "following": True}, 1)
        accept(account, branch[:2])
        account.feeds.prove((branch[2], other))
        account.restate()
        assert account.graph.is_following(account.identity.ref, NEW.ref)


def test_a_damaged_proof_of_two_ends_ends_no_peer(tmp_path: Path) -> None:
    """It was sound when it was first read."""
    start = feed(OLD, POST)
    ends = [Message.create(OLD, start[-1], end_content(OLD.ref, heir), 1) for heir in (NEW, OTHER)]
    with closing(Account(tmp_path)) as account:
        for end in ends:
            accept(account, [*start, end])
        assert list(account.graph.disputed()) == [OLD.ref]
        with closing(sqlite3.connect(tmp_path / STORE)) as database, database:
            database.execute("UPDATE forks SET second = x'00'")
        account.restate()  # the proof is read, and lost
        account.restate()
        assert account.feeds.fork_of(OLD.ref) is None
        assert not account.graph.disputed()
