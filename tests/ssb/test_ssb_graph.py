"""The follow graph: its rules, against a recomputation from them, and against the code of stock peers."""

import json
import os
import random
import subprocess
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stock_peer import node_modules

from ssb.graph import Changes, Graph, Relation
from ssb.keys import Identity, feed_ref
from ssb.message import Message
from ssb.store.feeds import read_log
from ssb.store.memory import MemoryFeeds

NODE = Path(__file__).parent / "node"
ME, ANN, BEN, CAT, DAN, EVE = FEEDS = [feed_ref(bytes([number]) * 32) for number in range(6)]
FOLLOW, BLOCK, UNFOLLOW = {"following": True}, {"blocking": True}, {"following": False}
NUMBERS = count(1)


def graph_of(*statements, max_hops=3):
    graph = Graph(ME, max_hops)
    for statement in statements:
        state(graph, *statement)
    return graph


def state(graph, author, feed, stated):
    graph.add_content(author, next(NUMBERS), {"type": "contact", "contact": feed, **stated})


def test_only_oneself():
    graph = Graph(ME)
    assert graph.hops() == {ME: 0}
    assert graph.replicated() == {ME}
    assert graph.take_changes() == Changes(frozenset({ME}), frozenset())
    assert graph.take_changes() == Changes(frozenset(), frozenset())


def test_hops():
    graph = graph_of((ME, ANN, FOLLOW), (ANN, BEN, FOLLOW), (BEN, CAT, FOLLOW), (CAT, DAN, FOLLOW))
    assert graph.hops() == {ME: 0, ANN: 1, BEN: 2, CAT: 3}
    assert graph.hops(max_hops=1) == {ME: 0, ANN: 1}
    assert graph.hops(max_hops=9) == {ME: 0, ANN: 1, BEN: 2, CAT: 3, DAN: 4}
    assert graph.hops(BEN) == {BEN: 0, CAT: 1, DAN: 2}
    assert graph.replicated() == {ME, ANN, BEN, CAT}
    assert graph_of((ME, ANN, FOLLOW), max_hops=0).replicated() == {ME}


@pytest.mark.parametrize(
    ("statements", "is_in"),
    [
        ([(ME, CAT, BLOCK), (ANN, CAT, FOLLOW)], False),  # mine outweighs theirs
        ([(ANN, CAT, BLOCK), (BEN, CAT, FOLLOW)], True),  # among friends a follow wins
        ([(ANN, CAT, BLOCK), (DAN, CAT, FOLLOW)], False),  # a friend outweighs a friend of a friend
        ([(DAN, CAT, BLOCK), (ANN, CAT, FOLLOW)], True),
        ([(ME, CAT, UNFOLLOW), (ANN, CAT, FOLLOW)], True),
        ([(ME, CAT, UNFOLLOW), (DAN, CAT, FOLLOW)], False),  # my unfollow outweighs friends of friends
        ([(ME, ANN, BLOCK), (ANN, CAT, FOLLOW)], False),  # whom the blocked follow does not matter
        ([(ME, CAT, BLOCK), (ME, CAT, FOLLOW)], True),  # the latest statement holds
        ([(ME, CAT, FOLLOW), (ME, CAT, FOLLOW | BLOCK)], False),  # a block outweighs a follow in one message
        ([(ME, CAT, BLOCK), (ME, CAT, {"blocking": False})], False),  # no block, and no follow either
        ([(EVE, CAT, FOLLOW)], False),  # a stranger
    ],
)
def test_who_decides(statements, is_in):
    friends = [(ME, ANN, FOLLOW), (ME, BEN, FOLLOW), (BEN, DAN, FOLLOW)]
    assert (CAT in graph_of(*friends, *statements).replicated()) is is_in


@pytest.mark.parametrize(
    ("stated", "relation"),
    [
        ({"following": True}, Relation.FOLLOWS),
        ({"following": "yes"}, Relation.UNFOLLOWED),
        ({"following": 1}, Relation.UNFOLLOWED),
        ({}, Relation.UNFOLLOWED),
        ({"blocking": "yes"}, Relation.BLOCKS),
        ({"flagged": {"reason": "spam"}}, Relation.BLOCKS),
        ({"flagged": {}}, Relation.BLOCKS),
        ({"blocking": []}, Relation.BLOCKS),
        ({"blocking": 0, "flagged": ""}, Relation.UNFOLLOWED),
        ({"contact": "@nobody"}, None),
        ({"contact": None}, None),
        ({"type": "about"}, None),
    ],
)
def test_statements(stated, relation):
    graph = graph_of((ME, ANN, stated))
    assert graph.relation(ME, ANN) is relation
    assert graph.is_blocked(ANN) is (relation is Relation.BLOCKS)
    assert graph.is_following(ME, ANN) is (relation is Relation.FOLLOWS)
    assert not graph.is_blocked(ANN, by=BEN)


def test_an_older_statement_changes_nothing():
    graph = Graph(ME)
    graph.add_content(ME, 5, {"type": "contact", "contact": ANN, **FOLLOW})
    graph.add_content(ME, 4, {"type": "contact", "contact": ANN, **BLOCK})
    graph.add_content(ME, 5, {"type": "contact", "contact": ANN, **BLOCK})
    assert graph.is_following(ME, ANN)


def test_changes_are_told_once():
    graph = graph_of((ME, ANN, FOLLOW), (ANN, BEN, FOLLOW))
    assert graph.take_changes() == Changes(frozenset({ME, ANN, BEN}), frozenset())
    state(graph, ANN, BEN, UNFOLLOW)
    state(graph, ANN, CAT, FOLLOW)
    assert graph.take_changes() == Changes(frozenset({CAT}), frozenset({BEN}))
    state(graph, ME, ANN, UNFOLLOW)
    state(graph, ME, ANN, FOLLOW)
    assert graph.take_changes() == Changes(frozenset(), frozenset())
    state(graph, ME, ANN, BLOCK)
    assert graph.take_changes() == Changes(frozenset(), frozenset({ANN, CAT}))


def test_from_the_log_of_a_store():
    ann, ben = Identity.from_seed(b"a" * 32), Identity.from_seed(b"b" * 32)
    store = MemoryFeeds()
    store.publish(ann, {"type": "contact", "contact": ben.ref, **FOLLOW}, 1)
    store.publish(ann, {"type": "post", "text": "hello"}, 2)
    graph = Graph(ann.ref)
    cursor = 0
    for stored in read_log(store, cursor, ["contact"]):
        graph.add(stored.message)
        cursor = stored.position
    assert graph.replicated() == {ann.ref, ben.ref}
    store.publish(ann, {"type": "contact", "contact": ben.ref, **BLOCK}, 3)
    (stored,) = read_log(store, cursor, ["contact"])
    graph.add(stored.message)
    graph.add(Message.create(ann, None, "aGVsbG8=.box", 1))
    assert graph.replicated() == {ann.ref}


def by_the_rules(statements, max_hops):
    """Hops by rounds over all statements, from nothing: (least weight, follow before the rest) decides."""
    latest = {(author, feed): relation for author, feed, relation in statements}
    decided = {ME: (0, True)}
    for hops in range(max_hops):
        for (author, feed), relation in latest.items():
            if decided.get(author) == (hops, True):
                weight = hops + (2 if relation is Relation.UNFOLLOWED else 1)
                claim = (weight, relation is Relation.FOLLOWS)
                before = decided.get(feed, (99, False))
                decided[feed] = min(before, claim, key=lambda claim: (claim[0], not claim[1]))
    return {feed: weight for feed, (weight, follows) in decided.items() if follows}


CONTENTS = {Relation.FOLLOWS: FOLLOW, Relation.BLOCKS: BLOCK, Relation.UNFOLLOWED: UNFOLLOW}
STATEMENTS = st.tuples(
    st.sampled_from(FEEDS),
    st.sampled_from(FEEDS),
    st.sampled_from([Relation.FOLLOWS, Relation.FOLLOWS, Relation.BLOCKS, Relation.UNFOLLOWED]),
)


@given(st.lists(STATEMENTS, max_size=40), st.integers(0, 4), st.data())
def test_step_by_step_is_what_the_rules_say(statements, max_hops, data):
    graph = Graph(ME, max_hops)
    replicated = set()
    for number, (author, feed, relation) in enumerate(statements):
        state(graph, author, feed, CONTENTS[relation])
        if data.draw(st.booleans()):  # several at once, too
            expected = by_the_rules(statements[: number + 1], max_hops)
            assert graph.hops() == expected
            added, removed = graph.take_changes()
            assert not added & replicated
            assert removed <= replicated
            replicated = (replicated | added) - removed
            assert replicated == graph.replicated() == expected.keys()
    assert graph.hops() == graph.hops(ME) == by_the_rules(statements, max_hops)


@settings(max_examples=30)
@given(st.lists(STATEMENTS, max_size=25), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(statements, rng):
    numbered = list(enumerate(statements, 1))
    graphs = []
    for _ in range(2):
        graph = Graph(ME, 3)
        for number, (author, feed, relation) in numbered:
            graph.add_content(author, number, {"type": "contact", "contact": feed, **CONTENTS[relation]})
        graphs.append(graph)
        rng.shuffle(numbered)
    assert graphs[0].hops() == graphs[1].hops()


def large_graph(rng, feeds, edges):
    """A graph with popular and active feeds, as power laws have them: (origin, statements)."""
    refs = [feed_ref(rng.randbytes(32)) for _ in range(feeds)]
    weights = [(rank + 1) ** -0.8 for rank in range(feeds)]
    sources, targets = (rng.choices(refs, weights, k=edges) for _ in range(2))
    relations = rng.choices(list(Relation), (0.9, 0.05, 0.05), k=edges)
    return refs[50], list(zip(sources, targets, relations, strict=True))


def test_a_large_graph_step_by_step_is_the_same_as_anew():
    rng = random.Random(7)
    origin, statements = large_graph(rng, 1000, 8000)
    graph = Graph(origin, 3)
    for number, (author, feed, relation) in enumerate(statements):
        state(graph, author, feed, CONTENTS[relation])
        if number % 500 == 0 or number > 7990:
            assert graph.hops() == graph.hops(origin)
    assert len(graph.replicated()) > 500
    again = Graph(origin, 3)
    again.restore(graph.statements())
    assert again.hops() == graph.hops()
    assert again.replicated() == graph.replicated()
    assert set(again.blocks()) == {(a, f) for a, f, _, _ in graph.statements() if graph.is_blocked(f, by=a)}
    for number, (author, feed, relation) in enumerate(statements[:200], len(statements)):
        for one in (graph, again):
            contact = {"type": "contact", "contact": feed, **CONTENTS[relation]}
            one.add_content(author, number + 10_000, contact)
    assert again.hops() == graph.hops()


def test_against_layered_graph():
    rng = random.Random(3)
    graphs, questions = [], []
    for size, edges in [(6, 12)] * 60 + [(20, 80)] * 40 + [(400, 3000)] * 5:
        origin, statements = large_graph(rng, max(size, 51), edges)
        chosen = {refs for refs, _, _ in statements}
        origin = rng.choice(sorted(chosen))
        max_hops = rng.randint(1, 4)
        graph, stated = Graph(origin, max_hops), {}
        for author, feed, relation in statements:
            state(graph, author, feed, CONTENTS[relation])
            stated.setdefault(author, {})[feed] = int(relation)
        graphs.append(graph)
        questions.append(json.dumps({"start": origin, "max": max_hops, "graph": stated}))
    ran = subprocess.run(
        ["node", NODE / "hops.js"],
        env=os.environ | {"NODE_PATH": str(node_modules())},
        input="\n".join(questions),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(graphs)
    for graph, answer in zip(graphs, answers, strict=True):
        # There, what blocks and unfollows have decided on is in the answer, as negative.
        assert graph.hops() == {feed: hops for feed, hops in answer.items() if hops >= 0}
    assert max(len(graph.hops()) for graph in graphs) > 100
