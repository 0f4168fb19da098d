"""A workload's messages of an application: each names what its author can have read, and nothing else."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import scenario

from base.units import MS
from ssb.applications.tangles import Tangle, branches
from ssb.keys import named_messages
from ssb.message import Message
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Workload
from testbed.scenario import workload
from testbed.scenario.conditions import Planned
from testbed.scenario.conversation import Flood
from testbed.scenario.reader import load
from testbed.scenario.sections import Change
from topologies.model import Link, Medium, Topology

NODES = ("a", "b", "c", "d", "e")
LINKS = (("a", "b"), ("b", "c"), ("c", "d"))
MEMBERS = ("a", "d", "e")
NETWORK = Topology(NODES, tuple(Link(*ends) for ends in LINKS), (Medium("m", MEMBERS),))


def is_up(pair: tuple[str, str], changes: list[Planned], time: int) -> bool:
    """The model: whether two neighbours reach each other when the changes up to a time have happened."""
    stopped: set[str] = set()
    away: set[str] = set()
    down: set[str] = set()
    for _, change in (each for each in changes if each[0] <= time):
        stopped = (stopped | {change.stop or ""}) - {change.start}
        away = (away | {(change.leave or " ").split(" ")[0]}) - {(change.join or " ").split(" ")[0]}
        down = (down | {change.link_down or ""}) - {change.link_up}
    if stopped & {*pair}:
        return False
    over_link = any(set(pair) == {*ends} and " ".join(ends) not in down for ends in LINKS)
    return over_link or ({*pair} <= {*MEMBERS} and not away & {*pair})


def reached(start: str, begin: int, changes: list[Planned], end: int) -> dict[str, int]:
    """The model: when each node has what is at a node from a time on, looking at every time."""
    found = {start: begin}
    for time in range(begin, end + 1):
        for _ in NODES:
            for have in [*found]:
                for node in NODES:
                    if node not in found and is_up((have, node), changes, time):
                        found[node] = time
    return found


@st.composite
def change_lists(draw: st.DrawFn) -> list[Planned]:
    said = [{kind: " ".join(ends)} for ends in LINKS for kind in ("link_down", "link_up")]
    said += [{kind: node} for node in NODES for kind in ("stop", "start")]
    said += [{kind: f"{node} m"} for node in MEMBERS for kind in ("leave", "join")]
    said += [{"restart": "b"}, {"strategy": "multicast"}]
    times = sorted(draw(st.lists(st.integers(0, 12), max_size=8)))
    return [(time, Change.model_validate({"at_ms": 0} | draw(st.sampled_from(said)))) for time in times]


@settings(max_examples=150)
@given(change_lists(), st.lists(st.tuples(st.integers(0, 12), st.sampled_from(NODES)), max_size=4))
def test_a_post_comes_as_soon_as_links_allow(changes: list[Planned], posts: list[tuple[int, str]]) -> None:
    flood = Flood(NETWORK, changes)
    for number, (time, node) in enumerate(sorted(posts)):
        flood.advance(time)
        flood.publish(node, str(number), time)
    flood.advance(12)
    for number, (time, node) in enumerate(sorted(posts)):
        came = {at: each[str(number)] for at, each in flood.came.items() if str(number) in each}
        assert came == reached(node, time, changes, 12)


def test_what_changes_at_one_instant_changes_at_once() -> None:
    said = [(0, {"stop": "a"}), (0, {"link_down": "b c"}), (1, {"start": "a"}), (1, {"link_down": "a b"})]
    flood = Flood(NETWORK, [(at, Change.model_validate({"at_ms": 0} | each)) for at, each in said])
    flood.advance(0)
    flood.publish("a", "post", 0)
    flood.advance(2)
    assert "post" not in flood.came["b"]
    assert flood.came["d"] == {"post": 1}


def talk(**changes: Any) -> Workload:
    return workload.load(load("chat", changes=changes))


def written(load_: Workload) -> list[tuple[int, str, Message]]:
    """All messages in the order of publication, with time and node."""
    every = [
        (time, feed.publisher, message)
        for feed in load_.feeds
        for time, message in zip(feed.times, feed.messages, strict=True)
    ]
    return sorted(every, key=lambda each: (each[0], each[1], each[2].sequence))


@pytest.mark.parametrize("follows", [2, 7])
def test_a_post_names_the_newest_posts_that_its_author_has_read(follows: int) -> None:
    """Without sessions each post comes at once, and is read 300 ms later."""
    load_ = talk(**{"workload.follows": follows, "sessions.online_ms": 8e7, "workload.items": 60})
    every = written(load_)
    root = every[0][2]
    answers = 0
    for time, node, message in every[1:]:
        assert isinstance(message.content, dict)
        heard = {feed.key for feed in load_.follows[node]}
        known = Tangle(root.id)
        for at, where, other in every:
            if (where == node and other.sequence < message.sequence) or (
                other.author in heard and at + 300 * MS <= time
            ):
                known.add(other)
        assert (message.content.get("root") == root.id) == bool(known.order)
        assert sorted(branches(message.content)) == known.heads()
        answers += bool(known.order)
    assert answers > 20


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("likes", {"post", "vote"}),
        ("gatherings", {"gathering", "about"}),
        ("chess", {"post", "chess_invite", "chess_invite_accept", "chess_move"}),
    ],
)
@pytest.mark.parametrize("follows", [2, 7])
def test_a_message_answers_what_its_author_has_read(kind: str, types: set[str], follows: int) -> None:
    changes = {"workload.follows": follows, "sessions.online_ms": 8e7, "workload.application.kind": kind}
    load_ = talk(**changes)
    every = written(load_)
    of = {message.id: (time, node, message) for time, node, message in every}
    answered = 0
    for time, node, message in every:
        assert isinstance(message.content, dict)
        heard = {feed.key for feed in load_.follows[node]}
        for id_ in named_messages(json.dumps(message.content)):
            at, where, other = of[id_]
            if where == node:
                assert other.sequence < message.sequence
            else:
                assert other.author in heard
                assert at + 300 * MS <= time
                answered += 1
    assert {message.content["type"] for _, _, message in every if isinstance(message.content, dict)} == types
    assert answered > 10


def test_players_of_chess_invite_the_next_two_whom_they_follow() -> None:
    load_ = talk(**{"workload.application.kind": "chess", "workload.follows": 3})
    keys = [feed.key for feed in load_.feeds]
    for number, feed in enumerate(load_.feeds):
        contents = [each.content for each in feed.messages if isinstance(each.content, dict)]
        invited = [content["inviting"] for content in contents if content["type"] == "chess_invite"]
        heard = {each.key for each in load_.follows[feed.publisher]}
        circle = [key for key in keys[number + 1 :] + keys[:number] if key in heard]
        assert invited == circle[:2]


def test_nothing_is_read_that_links_did_not_bring() -> None:
    """An author that is cut off goes on with the own posts, and with those that came before."""
    table = load("chat").model_dump(mode="json", by_alias=True) | {
        "topology": {"links": [{"a": "ann", "b": "r1"}, {"a": "ben", "b": "r1"}]},
        "publishers": ("ann", "ben"),
        "publisher": "ann",
        "subscribers": ("ann", "ben"),
        "sessions": None,
        "events": [{"at_ms": 3000, "link_down": "ann r1"}, {"at_ms": 12000, "link_up": "ann r1"}],
    }
    times: dict[str, int] = {}
    crossed = 0
    for time, node, message in written(workload.load(scenario(**table))):
        assert isinstance(message.content, dict)
        times[message.id] = time
        if node == "ben" and 3_000 * MS <= time < 12_300 * MS:
            own = [each for each in branches(message.content) if times[each] >= 3_000 * MS]
            crossed += len(own)
            assert len(own) <= 1  # the own last post
    assert crossed


def test_messages_are_whole_feeds_of_the_drafts_sizes() -> None:
    kept = 0
    for changes in ({}, {"workload.item_bytes": None}):
        plain = workload.load(load("chat", changes={"workload.application": None, **changes}))
        load_ = talk(**changes)
        for feed, draft in zip(load_.feeds, plain.feeds, strict=True):
            assert feed.times == draft.times
            for before, message in pairwise([None, *feed.messages]):
                assert message is not None
                message.verify()
                message.follow(before)
            sizes = [
                (len(new.encoded) - len(old.encoded), new)
                for new, old in zip(feed.messages, draft.messages, strict=True)
            ]
            assert all(larger == 0 or (larger > 0 and not new.content["text"]) for larger, new in sizes)
            kept += sum(larger == 0 for larger, _ in sizes)
    assert kept > 200
    assert all(len(message.text) <= 8192 for feed in load_.feeds for message in feed.messages)


def test_clocks_are_wrong_by_at_most_what_is_allowed() -> None:
    right, wrong = (talk(**{"workload.application.clock_error_ms": error}) for error in (0, 1000))
    errors = {
        b.timestamp - a.timestamp
        for one, other in zip(right.feeds, wrong.feeds, strict=True)
        for a, b in zip(one.messages, other.messages, strict=True)
    }
    assert 4 < len(errors) <= 8
    assert -1000 <= min(errors) < -100
    assert 100 < max(errors) <= 1000


def test_a_thread_is_too_long() -> None:
    with pytest.raises(UserError, match=r"2001, but an application has at most 2,000; lower it"):
        load("chat", items=2001)
