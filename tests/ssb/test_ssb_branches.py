"""Forked feeds that are merged: the same messages give the same view, in any order, and peers get all."""

import json
from collections import defaultdict
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mutants.bounds import Bound, check, value
from mutants.bounds import line as reads

from base.units import MS, SECOND
from ssb.branches import tree as trees
from ssb.branches.exchange import MOST_IDS, BranchExchange
from ssb.branches.feeds import BranchedFeeds
from ssb.branches.tree import MOST_BRANCHES, TANGLE, FeedTree
from ssb.canonical import stringify
from ssb.keys import Identity, named_messages
from ssb.message import InvalidMessage, Message
from ssb.replication.replication import ProtocolError

AUTHOR = Identity.from_seed(b"a" * 32)
OTHER = Identity.from_seed(b"o" * 32)


def post(previous: Message | None, text: str, time: float = 1) -> Message:
    return Message.create(AUTHOR, previous, {"type": "post", "text": text}, time)


def line(tip: Message | None, count: int, text: str) -> list[Message]:
    """So many messages behind a tip."""
    made: list[Message] = []
    for number in range(count):
        made.append(post(made[-1] if made else tip, f"{text} {number}"))
    return made


def tree_of(messages: list[Message]) -> FeedTree:
    tree = FeedTree(AUTHOR.ref)
    for message in messages:
        with suppress(InvalidMessage):
            tree.add(message)
    return tree


def written(steps: list[tuple[int, list[int]]], devices: int) -> list[Message]:
    """Devices with one key write, each on its own tree, after they have read the messages of some others."""
    trees = [FeedTree(AUTHOR.ref) for _ in range(devices)]
    last: list[Message | None] = [None] * devices
    made: list[Message] = []
    for number, (device, read) in enumerate(steps):
        for other in read:
            for message in trees[other % devices].view():
                trees[device % devices].add(message)
        tree = trees[device % devices]
        content = {"type": "post", "text": f"{number}"}
        message = tree.write(AUTHOR, last[device % devices], content, float(number % 3))
        tree.add(message)
        last[device % devices] = message
        if message not in made:
            made.append(message)
    return made


def shuffled(messages: list[Message], rng: Random) -> list[Message]:
    """A random order in which each message comes behind its previous one."""
    waiting = defaultdict(list)
    for message in messages:
        waiting[message.previous].append(message)
    ready, order = waiting.pop(None, []), []
    while ready:
        order.append(ready.pop(rng.randrange(len(ready))))
        ready += waiting.pop(order[-1].id, [])
    return order


def past(messages: list[Message]) -> dict[str, set[str]]:
    """The obvious model of causal order: of each message all that it leads back to."""
    here = {message.id: message for message in messages}
    found: dict[str, set[str]] = {}

    def of(id_: str) -> set[str]:
        if id_ not in found:
            named = [each for each in named_messages(here[id_].text) if each in here]
            found[id_] = set(named).union(*(of(each) for each in named))
        return found[id_]

    for id_ in here:
        of(id_)
    return found


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2)), min_size=1, max_size=25
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_same_messages_give_the_same_view(steps, devices, rng):
    made = written(steps, devices)
    views = [tree_of(shuffled(made, rng)).view() for _ in range(3)]
    assert views[0] == views[1] == views[2]
    assert sorted(each.id for each in views[0]) == sorted(each.id for each in made)
    place = {message.id: number for number, message in enumerate(views[0])}
    for id_, before in past(made).items():
        assert all(place[each] < place[id_] for each in before)


@settings(deadline=None, max_examples=40)
@given(STEPS, st.integers(1, 4))
def test_devices_never_have_more_branches_than_they_are(steps, devices):
    """However often they write at once, as each goes on behind its own last message."""
    assert len(tree_of(written(steps, devices)).tips) <= devices


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_the_same_messages_of_any_author_give_the_same_view(parents, rng):
    """Also of a hostile author, whose messages follow any other ones: what the model below says is shown."""
    made: list[Message] = []
    for number, parent in enumerate(parents):
        made.append(post(made[parent % len(made)] if made else None, f"{number}"))
    trees = [tree_of(shuffled(made, rng)) for _ in range(3)]
    children = defaultdict(list)
    for message in made:
        children[message.previous].append(message)
    tips = [message for message in made if message.id not in children]
    fork = min((own[0].sequence for own in children.values() if len(own) > 1), default=None)
    shown = {each.id for each in made}
    if len(tips) > MOST_BRANCHES:
        shown = {each.id for each in made if each.sequence < fork}
    for tree in trees:
        assert {each.id for each in tree.view()} == shown
        assert tree.view() == trees[0].view()
        assert tree.fork == fork or not tree.is_overgrown


def test_an_author_with_any_number_of_branches_costs_little():
    """Beyond the bound a tree takes one message for each place before the fork, and nothing else."""
    common = line(None, 10, "common")
    store = BranchedFeeds()
    store.append(common, 1.0)
    for number in range(200):
        store.append(line(common[7], 5, f"branch {number}"), 1.0)
    tree = store.tree(AUTHOR.ref)
    assert tree.is_overgrown
    assert len(tree) <= len(common) + (MOST_BRANCHES + 1) * 5
    assert tree.view() == common[:8]
    for number in range(200):
        store.append([post(common[number % 7], f"earlier {number}")], 1.0)
    assert len(tree) <= len(common) + (MOST_BRANCHES + 1) * 5 + len(common)
    assert tree.view() == common[:1]
    assert len(tree.locator()) < MOST_IDS
    with pytest.raises(InvalidMessage, match="has more than 16 branches"):
        store.publish(AUTHOR, {"type": "post", "text": "too late"}, 2.0)


def test_a_device_names_the_other_branch_once_it_has_read_it():
    common = line(None, 3, "common")
    mine, theirs = line(common[-1], 2, "mine"), line(common[-1], 3, "theirs")
    store = BranchedFeeds()
    store.append([*common, *mine, *theirs], 1.0)
    store.resume(mine[-1])
    joined = store.publish(AUTHOR, {"type": "post", "text": "joined"}, 2.0)
    tips = sorted([mine[-1].id, theirs[-1].id])
    assert joined.content["tangles"] == {TANGLE: {"root": common[0].id, "previous": tips}}
    assert (joined.previous, joined.sequence) == (mine[-1].id, 6)
    assert store.tree(AUTHOR.ref).view()[-1] == joined
    after = store.publish(AUTHOR, {"type": "post", "text": "after"}, 3.0)
    assert "tangles" not in after.content
    assert after.previous == joined.id
    assert store.last(AUTHOR.ref) == after
    store.append(line(theirs[-1], 1, "more"), 3.0)
    assert "tangles" not in store.publish(OTHER, {"type": "post", "text": "another feed"}, 3.0).content


def test_a_device_without_a_message_of_its_own_goes_on_with_the_longest_branch():
    common = line(None, 2, "common")
    store = BranchedFeeds()
    store.append([*common, *line(common[-1], 1, "short"), *(long := line(common[-1], 2, "long"))], 1.0)
    assert store.publish(AUTHOR, {"type": "post", "text": "restored"}, 2.0).previous == long[-1].id


def test_other_tips_wait_where_a_message_has_no_room():
    common = line(None, 1, "common")
    mine, theirs = line(common[-1], 1, "mine"), line(common[-1], 1, "theirs")
    store = BranchedFeeds()
    store.append([*common, *mine, *theirs], 1.0)
    store.resume(mine[-1])
    room = 8192 - len(post(mine[-1], "").text)
    full = store.publish(AUTHOR, {"type": "post", "text": "x" * room}, 1)
    assert "tangles" not in full.content
    assert "tangles" not in store.publish(AUTHOR, "AAAA.box", 1).text
    assert store.publish(AUTHOR, {"type": "post", "text": "y"}, 1).content["tangles"][TANGLE]["previous"]
    with pytest.raises(InvalidMessage, match="UTF-16 units"):
        store.publish(AUTHOR, {"type": "post", "text": "x" * (room + 999)}, 1)


def forged(common: list[Message]) -> Message:
    value = json.loads(post(common[-1], "x").text)
    return Message.from_value(value | {"content": {"type": "forged"}})


def misnumbered(common: list[Message]) -> Message:
    return Message.from_value(json.loads(post(common[-1], "x").text) | {"sequence": 9})


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda common: post(post(common[-1], "unknown"), "x"), "which is not here"),
        (lambda common: Message.create(OTHER, None, {"type": "post"}, 1), "does not write the feed"),
        (forged, "signature does not verify"),
        (misnumbered, "sequence 9 does not come after 3"),
    ],
)
def test_a_message_that_is_not_valid_changes_nothing(made, why):
    common = line(None, 3, "common")
    tree = tree_of(common)
    with pytest.raises(InvalidMessage, match=why):
        tree.add(made(common))
    assert tree.view() == common
    assert [*tree.tips] == [common[-1].id]


def test_stock_peers_are_served_the_branch_that_came_first():
    common = line(None, 2, "common")
    first, second = line(common[-1], 2, "first"), line(common[-1], 5, "second")
    store = BranchedFeeds()
    store.append([*common, *first, *second], 1.0)
    served = [stored.message for stored in store.after(AUTHOR.ref, 0, 99)]
    assert served == [*common, *first]
    assert all(store.get(each.id) == each for each in [*common, *first, *second])
    assert store.bytes(AUTHOR.ref) == sum(len(each.encoded) for each in [*common, *first, *second])
    store.publish(AUTHOR, {"type": "post", "text": "x"}, 1)
    with pytest.raises(ValueError, match="is written here"):
        store.drop(AUTHOR.ref)


class Swarm:
    """Peers whose connections take each body after a random time."""

    def __init__(self, stores: list[BranchedFeeds], links: list[tuple[int, int]], seed: int) -> None:
        self.rng = Random(seed)
        self.peers = [BranchExchange(each, [AUTHOR.ref], rng=self.rng) for each in stores]
        self.now = 0
        self.sent = 0
        self.ways: dict[tuple[int, int], int] = {}
        self.under_way: dict[tuple[int, int], list[bytes]] = {}
        for number, (one, other) in enumerate(links, start=1):
            for at, to in ((one, other), (other, one)):
                self.ways[at, number] = to
                self.under_way[at, number] = []
                self.peers[at].open(number, f"peer {to}", is_caller=at == one, now=0)

    def run(self, most: int = 4_000) -> None:
        """Until nothing is under way."""
        for _ in range(most):
            self.now += 5 * MS
            for at, number in self.ways:
                due = self.peers[at].output_due(number)
                if due is not None and due <= self.now:
                    self.under_way[at, number] += self.peers[at].take_output(number, 700, self.now)
            full = [way for way, bodies in self.under_way.items() if bodies]
            waiting = [self.peers[at].output_due(number) for at, number in self.ways]
            waiting += [peer.next_deadline() for peer in self.peers]
            if not full and all(due is None for due in waiting):
                return
            for peer in self.peers:
                peer.wake(self.now)
            for at, number in self.rng.sample(full, (len(full) + 1) // 2):
                bodies, self.under_way[at, number] = self.under_way[at, number], []
                self.sent += sum(b'"signature"' in body for body in bodies)
                self.peers[self.ways[at, number]].receive(number, bodies, self.now, 1.0)
        raise AssertionError("it does not fall silent")


@settings(deadline=None, max_examples=40)
@example(steps=[(0, [])], devices=1, seed=100, count=5)  # news between the first notes of two peers
@example(  # a peer that has got from a third one what the author has
    steps=[(0, []), (0, []), (0, []), (1, []), (2, [])], devices=3, seed=2, count=3
)
@example(  # a peer that is asked, and gets more meanwhile
    steps=[*[(1, [])] * 3, (2, []), (0, [1]), *[(0, [])] * 11, (1, []), *[(2, [])] * 3],
    devices=3,
    seed=441,
    count=4,
)
@given(STEPS, st.integers(1, 4), st.integers(0, 999), st.integers(2, 5))
def test_peers_that_are_connected_come_to_have_all_branches(steps, devices, seed, count):
    """Whatever each has at first: messages and all before them. A tree of connections carries each once."""
    rng = Random(seed)
    made = written(steps, devices)
    stores = [BranchedFeeds() for _ in range(count)]
    had = [shuffled(made, rng)[: rng.randrange(len(made) + 1)] for _ in stores]
    had[0] = made
    for store, messages in zip(stores, had, strict=True):
        store.append(messages, 1.0)
    swarm = Swarm(stores, [(rng.randrange(at), at) for at in range(1, count)], seed)
    swarm.run()
    views = [store.tree(AUTHOR.ref).view() for store in stores]
    assert all(view == views[0] for view in views)
    assert len(views[0]) == len(made)
    written_now = stores[-1].publish(AUTHOR, {"type": "post", "text": "new"}, 2.0)
    swarm.peers[-1].on_appended(AUTHOR.ref, swarm.now)
    before = swarm.sent
    swarm.run()
    assert all(store.get(written_now.id) == written_now for store in stores)
    assert swarm.sent - before == count - 1


def test_peers_with_equal_branches_send_no_message():
    made = written([(0, []), (0, []), (1, [0]), (0, []), (1, [])], 2)
    stores = [BranchedFeeds() for _ in range(3)]
    for store in stores:
        store.append(made, 1.0)
    swarm = Swarm(stores, [(0, 1), (1, 2), (0, 2)], 1)
    swarm.run()
    assert swarm.sent == 0


def test_a_peer_that_names_what_it_lacks_does_not_stop_others():
    """The next peer is asked after a while."""
    made = line(None, 3, "post")
    stores = [BranchedFeeds(), BranchedFeeds()]
    stores[1].append(made, 1.0)
    swarm = Swarm(stores, [(0, 1)], 1)
    peer = swarm.peers[0]
    peer.open(99, "liar", is_caller=False, now=0)
    lie = {"clock": {AUTHOR.ref: [post(made[-1], "kept").id]}}
    peer.receive(99, [stringify(lie, indent=0).encode()], 0, 1.0)
    swarm.run()
    assert stores[0].tree(AUTHOR.ref).view() == made
    peer.close(99, swarm.now)
    swarm.run()


@pytest.mark.parametrize(
    "body",
    [
        b'{"clock": 3}',
        b'{"clock": {"@x": 3}}',
        b'{"clock": {"@x": ["%x"]}}',
        b"[]",
        b'{"signature": 1}',
        b"nothing",
        stringify({"clock": {"@x": [f"%{'A' * 43}=.sha256"] * (MOST_IDS + 1)}}, indent=0).encode(),
    ],
)
def test_a_malformed_body_is_the_peers_fault(body):
    swarm = Swarm([BranchedFeeds(), BranchedFeeds()], [(0, 1)], 1)
    with pytest.raises(ProtocolError):
        swarm.peers[0].receive(1, [body], 0, 1.0)


def encoded(value: object) -> bytes:
    return stringify(value, indent=0).encode()


@settings(deadline=None, max_examples=60)
@example(before=2, between=1, seed=2)
@given(st.integers(0, 60), st.integers(0, 20), st.integers(0, 99))
def test_a_feed_is_left_and_followed_again_while_messages_are_under_way(before, between, seed):
    made = line(None, 60, "post")
    stores = [BranchedFeeds(), BranchedFeeds()]
    stores[0].append(made, 1.0)
    swarm = Swarm(stores, [(0, 1)], seed)
    with suppress(AssertionError):
        swarm.run(before)
    swarm.peers[1].unwant(AUTHOR.ref, swarm.now)
    with suppress(AssertionError):
        swarm.run(between)
    swarm.peers[1].want_all([AUTHOR.ref], swarm.now)
    swarm.run()
    assert stores[1].tree(AUTHOR.ref).view() == made
    assert not swarm.peers[1].set_aside


def test_connected_peers_show_the_same_of_an_overgrown_feed():
    """Each refuses some of the branches of the other. A proof of an earlier fork still passes."""
    common = line(None, 50, "common")
    late = [post(common[-1], f"late {number}") for number in range(MOST_BRANCHES + 2)]
    early = post(common[19], "early")
    stores = [BranchedFeeds(), BranchedFeeds()]
    stores[0].append([*common, *late[:-1]], 1.0)
    stores[1].append([*common, *late[1:]], 1.0)
    swarm = Swarm(stores, [(0, 1)], 1)
    swarm.run()
    swarm.peers[1].append([late[0], early], swarm.now, 1.0, by=99)
    swarm.run()
    assert [store.tree(AUTHOR.ref).view() for store in stores] == [common[:20]] * 2


def test_a_feed_of_very_many_branches_ends_no_connection():
    """Each fork is earlier than those before, so a tree takes all of them."""
    common = line(None, MOST_IDS + 50, "common")
    stores = [BranchedFeeds(), BranchedFeeds()]
    for store in stores:
        store.append(common, 1.0)
    swarm = Swarm(stores, [(0, 1)], 1)
    swarm.run()
    forks = [post(message, "fork") for message in reversed(common[:-1])]
    swarm.peers[0].append(forks, swarm.now, 1.0, by=99)
    assert len(stores[0].tree(AUTHOR.ref).tips) > MOST_IDS
    swarm.run()
    views = [store.tree(AUTHOR.ref).view() for store in stores]
    assert views == [common[:1]] * 2


def test_a_peer_that_repeats_a_message_is_not_waited_for():
    made = line(None, 3, "post")
    store = BranchedFeeds()
    store.append(made[:1], 1.0)
    peer = BranchExchange(store, [AUTHOR.ref])
    for number, named in ((1, post(made[-1], "kept")), (2, made[-1])):
        peer.open(number, f"peer {number}", is_caller=False, now=0)
        peer.receive(number, [encoded({"clock": {AUTHOR.ref: [named.id]}})], 0, 1.0)
        peer.take_output(number, 10_000, 0)
    for second in range(1, 10):
        peer.receive(1, [encoded(json.loads(made[0].text))], second * SECOND, 1.0)
        peer.wake(second * SECOND)
    assert any(b'"ask"' in body for body in peer.take_output(2, 10_000, 10 * SECOND))


def test_notes_without_end_cost_no_more_than_one_answer():
    store = BranchedFeeds()
    store.append(line(None, 500, "post"), 1.0)
    peer = BranchExchange(store, [AUTHOR.ref])
    peer.open(1, "flooder", is_caller=False, now=0)
    notes = [encoded({"clock": {AUTHOR.ref: None}}), encoded({"clock": {AUTHOR.ref: []}})]
    for _ in range(1_000):
        peer.receive(1, notes, 0, 1.0)
    assert sum(map(len, peer.take_output(1, 1 << 20, 0))) < 2_000
    unknown = {f"@{number}": [post(None, "x").id] * MOST_IDS for number in range(100)}
    peer.receive(1, [encoded({"clock": unknown})], 0, 1.0)
    assert not any(peer.sessions[1].offers[feed] for feed in unknown), "only names of unwanted feeds are kept"
    with pytest.raises(ProtocolError, match="too many notes"):
        peer.receive(1, notes * 30_000, 0, 1.0)


def test_a_feed_is_left_and_followed_again():
    made = written([(0, []), (1, [0]), (0, []), (1, [])], 2)
    stores = [BranchedFeeds(), BranchedFeeds()]
    swarm = Swarm(stores, [(0, 1)], 1)
    swarm.run()
    swarm.peers[1].unwant(AUTHOR.ref, swarm.now)
    swarm.run()
    swarm.peers[0].append(made, swarm.now, 1.0)
    swarm.run()
    assert swarm.sent == 0
    swarm.peers[1].want_all([AUTHOR.ref], swarm.now)
    swarm.run()
    assert stores[1].tree(AUTHOR.ref).view() == stores[0].tree(AUTHOR.ref).view()
    assert swarm.sent == len(made)


def test_a_refused_message_costs_its_feed_on_its_connection():
    common = line(None, 2, "common")
    stores = [BranchedFeeds(), BranchedFeeds()]
    stores[1].append(common, 1.0)
    swarm = Swarm(stores, [(0, 1)], 1)
    orphan = post(post(common[-1], "unknown"), "orphan")
    swarm.peers[0].receive(
        1, [stringify({"signature": "x", "author": AUTHOR.ref}, indent=0).encode()], 0, 1.0
    )
    swarm.peers[0].receive(1, [orphan.encoded], 0, 1.0)
    assert AUTHOR.ref in swarm.peers[0].set_aside
    assert len(stores[0].tree(AUTHOR.ref)) == 0


WORDS = st.sampled_from(["clock", "ask", "author", "signature", AUTHOR.ref, OTHER.ref, "previous", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.sampled_from([post(None, "x").id, "%x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
NOTES = st.fixed_dictionaries({"clock": st.dictionaries(WORDS, VALUES, max_size=3), "ask": VALUES})


@settings(deadline=None, max_examples=150)
@given(st.lists(VALUES | NOTES, max_size=6))
def test_any_body_is_taken_or_is_the_peers_fault(bodies):
    """Whatever form it has, it changes no feed."""
    store = BranchedFeeds()
    made = line(None, 3, "post")
    store.append(made, 1.0)
    peer = BranchExchange(store, [AUTHOR.ref])
    peer.open(1, "peer", is_caller=False, now=0)
    for body in bodies:
        try:
            peer.receive(1, [encoded(body)], 0, 1.0)
        except ProtocolError:
            break
        peer.take_output(1, 10_000, 0)
    assert store.tree(AUTHOR.ref).view() == made


def test_what_another_protocol_carries_is_asked_for_when_nothing_more_comes_of_it():
    made = line(None, 3, "post")
    store = BranchedFeeds()
    peer = BranchExchange(store, [AUTHOR.ref], is_carried=lambda feed: True)
    peer.open(1, "peer", is_caller=False, now=0)
    peer.receive(1, [encoded({"clock": {AUTHOR.ref: [made[-1].id]}})], 0, 1.0)

    def asks(second: int) -> bool:
        peer.wake(second * SECOND)
        return any(b'"ask"' in body for body in peer.take_output(1, 10_000, second * SECOND))

    assert not asks(2)
    store.append(made[:1], 1.0)
    assert not asks(4)
    assert not asks(6)
    assert asks(7)


def test_what_is_written_here_and_carried_by_another_protocol_is_only_told():
    sent = {}
    for is_carried in (True, False):
        store = BranchedFeeds()
        peer = BranchExchange(store, [AUTHOR.ref], is_carried=lambda feed, carried=is_carried: carried)
        peer.open(1, "peer", is_caller=False, now=0)
        peer.receive(1, [encoded({"clock": {AUTHOR.ref: []}})], 0, 1.0)
        peer.take_output(1, 10_000, 0)
        store.publish(AUTHOR, {"type": "post", "text": "x"}, 1.0)
        peer.on_appended(AUTHOR.ref, 0)
        sent[is_carried] = b" ".join(peer.take_output(1, 10_000, SECOND))
    assert b'"signature"' not in sent[True]
    assert b'"clock"' in sent[True]
    assert b'"signature"' in sent[False]


def test_a_feed_is_hidden_from_a_peer_from_now_on():
    """Whatever was said before: nothing of it is sent or taken."""
    made = line(None, 4, "post")
    hidden: set[str] = set()
    store = BranchedFeeds()
    store.append(made[:2], 1.0)
    peer = BranchExchange(store, [AUTHOR.ref], is_hidden=lambda feed, remote: remote in hidden)
    for number, remote in ((1, "friend"), (2, "enemy")):
        peer.open(number, remote, is_caller=False, now=0)
        peer.receive(number, [encoded({"clock": {AUTHOR.ref: [made[0].id]}})], 0, 1.0)
        assert peer.take_output(number, 10_000, 0)
    peer.receive(2, [encoded({"clock": {AUTHOR.ref: [made[0].id]}, "ask": True})], 0, 1.0)
    hidden.add("enemy")
    peer.append([made[2]], SECOND, 1.0, by=99)
    peer.receive(2, [encoded(json.loads(made[3].text))], SECOND, 1.0)
    peer.receive(2, [encoded({"clock": {AUTHOR.ref: []}, "ask": True})], SECOND, 1.0)
    assert not [body for body in peer.take_output(2, 10_000, 2 * SECOND) if AUTHOR.ref.encode() in body]
    assert [body for body in peer.take_output(1, 10_000, 2 * SECOND) if made[2].id.encode() in body]
    assert made[3].id not in store.tree(AUTHOR.ref)
    peer.open(3, "enemy", is_caller=False, now=2 * SECOND)
    assert not peer.take_output(3, 10_000, 2 * SECOND)


BOUNDS = (
    Bound(
        "branches without a bound",
        value(trees, "MOST_BRANCHES"),
        test_an_author_with_any_number_of_branches_costs_little,
    ),
    Bound(
        "an overgrown feed without an earlier fork",
        reads(FeedTree, "takes", "(self._first_fork or 0) > message.sequence", "False"),
        test_an_author_with_any_number_of_branches_costs_little,
    ),
    Bound(
        "an overgrown feed that shows all",
        reads(FeedTree, "view", "if self.is_overgrown:", "if False:"),
        test_an_author_with_any_number_of_branches_costs_little,
    ),
    Bound(
        "tips that are named for ever",
        reads(FeedTree, "joined", "- self._named", ""),
        test_a_device_names_the_other_branch_once_it_has_read_it,
    ),
    Bound(
        "a device that goes on with any branch",
        reads(FeedTree, "write", "before = last or max", "before = max"),
        test_a_device_names_the_other_branch_once_it_has_read_it,
    ),
    Bound(
        "signatures that nobody checks",
        reads(FeedTree, "add", "message.verify(self._hmac_key)", "pass"),
        lambda: test_a_message_that_is_not_valid_changes_nothing(forged, "signature does not verify"),
    ),
    Bound(
        "a silent peer that is asked for ever",
        reads(BranchExchange, "wake", "session.offers.get(feed, {}).clear()", "pass"),
        test_a_peer_that_names_what_it_lacks_does_not_stop_others,
    ),
    Bound(
        "what another protocol carries is never asked for",
        reads(BranchExchange, "_ask", "and not is_overdue", ""),
        test_what_another_protocol_carries_is_asked_for_when_nothing_more_comes_of_it,
    ),
    Bound(
        "what another protocol carries is asked for while it comes",
        reads(BranchExchange, "wake", "<= before", ">= before"),
        test_what_another_protocol_carries_is_asked_for_when_nothing_more_comes_of_it,
    ),
    Bound(
        "a message that two protocols send",
        reads(BranchExchange, "pass_on", "and not self._is_carried(feed)", ""),
        test_what_is_written_here_and_carried_by_another_protocol_is_only_told,
    ),
    *(
        Bound(
            f"a feed that is not hidden in {method}",
            reads(BranchExchange, method, original, mutant),
            test_a_feed_is_hidden_from_a_peer_from_now_on,
        )
        for method, original, mutant in (
            ("_greet", "if not self._is_hidden(feed, session.remote)", ""),
            ("take_output", "if self._is_hidden(feed, session.remote):", "if False:"),
            ("_expects", "if self._is_hidden(feed, session.remote):", "if False:"),
            ("pass_on", "or self._is_hidden(feed, session.remote)", ""),
        )
    ),
    Bound(
        "news that come between two first notes, and are not told",
        reads(BranchExchange, "pass_on", "session.told.discard(feed)", "pass"),
        test_peers_that_are_connected_come_to_have_all_branches,
    ),
    Bound(
        "a feed that is followed again without a note",
        reads(BranchExchange, "_hear", "self._greet(session, [feed])", "pass"),
        test_a_feed_is_left_and_followed_again,
    ),
)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_each_rule_is_needed(bound):
    check(bound)
