"""Merged branches over NDN: two devices with one key, whose readers get all and see the same."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from fresh_seeds import first_fresh_seed
from hypothesis import given
from hypothesis import strategies as st
from simulation import Result, simulate

from base.units import SECOND
from forwarder.feedcache.items import Item, open_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import parse_data
from ssb.application import Plan
from ssb.branches.feeds import BranchedFeeds
from ssb.branches.tree import MOST_BRANCHES
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.following.subscriptions import WrappedSubscription
from ssb_over_ndn.layerings.branches import Branch, BranchReader, BranchSubscriber
from ssb_over_ndn.naming import branch_name, log_name, message_packet
from testbed.layerings.kinds.ndn import NDN_LAYERINGS
from testbed.scenario.reader import load
from testbed.scenario.sections import Change

LAYERINGS = [name for name, layering in NDN_LAYERINGS.items() if layering.branches]
READERS = ("s1", "s2", "s3")
DEVICES = ("pub", "pub2")


def devices(events: tuple[Change, ...] = (), seed: int = 1, **changes: Any) -> Any:
    fork = {"fork.after": 10, "fork.cure": "merge", "settle_ms": 20_000, "layerings": LAYERINGS}
    scenario = load("devices", items=30, seed=seed, changes=fork | changes)
    return scenario.model_copy(update={"events": events})


def assert_merged(result: Result) -> None:
    """Every reader has every item of both branches once and in order, and all nodes have the same view."""
    first, second = result.load.feeds
    for node in READERS:
        had = [(e["feed"], e["seq"]) for e in result.events[node] if e["event"] == "delivered"]
        for feed, numbers in ((first, range(1, 31)), (second, range(11, 31))):
            assert [seq for key, seq in had if key == feed.key] == [*numbers], node
        assert "forked" not in {e["event"] for e in result.events[node]}
    trees = [result.nodes[node]._merging.branches.tree(first.key) for node in (*DEVICES, *READERS)]
    assert all(tree.view() == trees[0].view() for tree in trees)
    assert [(len(tree), len(tree.tips)) for tree in trees] == [(50, 2)] * 5
    assert not [e for node in DEVICES for e in result.events[node] if e["event"] == "delivered"]
    told = Counter(e["node"] for rows in result.events.values() for e in rows if e["event"] == "published")
    assert told == {"pub": 30, "pub2": 20}


@pytest.mark.parametrize("layering", LAYERINGS)
def test_two_devices_lose_nothing_and_name_what_they_have_read(layering: str) -> None:
    result = simulate(devices(), layering)
    assert_merged(result)
    tree = result.nodes["s1"]._merging.branches.tree(result.load.feeds[0].key)
    own = {each.content["text"] for each in result.load.feeds[0].messages}
    joining = {each.content["text"] in own for each in tree.view() if "tangles" in each.content}
    assert joining == {True, False}  # each device has named tips of the other one's branch


def bad_times(seed: int) -> Any:
    """Return `devices` with nodes that start anew, a device that is cut off, and links that lose frames."""
    rng = Random(f"branches {seed}")
    nodes = rng.sample((*DEVICES, *READERS, "r2"), rng.randrange(4))
    events = [Change(at_ms=rng.uniform(200, 2_500), restart=node) for node in nodes]
    if rng.random() < 0.5:
        events += [Change(at_ms=900.0, link_down="pub r1"), Change(at_ms=2_000.0, link_up="pub r1")]
    events.sort(key=lambda each: each.at_ms or 0)
    loss = rng.choice((0.0, 2.0, 10.0))
    return devices(tuple(events), seed, **{"topology.link.loss_percent": loss})


@pytest.mark.parametrize("layering", LAYERINGS)
@pytest.mark.parametrize("seed", [*range(1, 5), *range(first_fresh_seed(), first_fresh_seed() + 2)])
def test_so_they_do_over_bad_links_and_where_nodes_start_anew(layering: str, seed: int) -> None:
    assert_merged(simulate(bad_times(seed), layering))


class Given(WrappedSubscription):
    """A subscription with items that are given to it."""

    forked_at = None

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def start(self, now: int) -> None: ...

    def wake(self, now: int) -> None: ...

    def receive(self, header: LpPacket, now: int) -> None: ...

    def take_errors(self) -> list[str]:
        return []

    def take_outputs(self) -> list[bytes]:
        return []

    def next_deadline(self) -> int | None:
        return None

    def size(self) -> int:
        return 0

    def take_items(self, limit: int | None = None) -> list[Item]:
        taken, self.items = self.items[:limit], self.items[len(self.items[:limit]) :]
        return taken


AUTHOR = Identity.from_seed(bytes(32))
DEVICE = Identity.from_seed(b"d" * 32).ref


def forked(common: int, own: int) -> dict[str, tuple[bytes, list[Item]]]:
    """Return a log of two more items than both devices have, and a branch: names and items."""
    log = generate_feed(Random(1), common + 2, AUTHOR)
    branch = generate_feed(Random(2), own, AUTHOR, log[common - 1])
    named = {
        "log": (log_name(AUTHOR.ref), log),
        "branch": (branch_name(AUTHOR.ref, DEVICE, common + 1), branch),
    }
    return {
        key: (name, [open_item(name, m.sequence, parse_data(message_packet(m, name))) for m in messages])
        for key, (name, messages) in named.items()
    }


@given(st.integers(1, 8), st.integers(1, 8), st.lists(st.sampled_from(("log", "branch")), max_size=30))
def test_a_branch_waits_for_the_message_that_it_follows(common: int, own: int, taken: list[str]) -> None:
    """In any order of reading; meanwhile it has one item taken, and leaves the others where they are."""
    branches = BranchedFeeds()
    inner = {key: Given(items) for key, (_, items) in forked(common, own).items()}
    readers = {key: BranchReader(each, branches) for key, each in inner.items()}
    got: dict[str, list[int]] = {"log": [], "branch": []}
    for key in taken:
        got[key] += [item.seq for item in readers[key].take_items(1)]
        assert readers["branch"].is_due <= (len(got["log"]) >= common)
        if len(got["log"]) < common:
            assert not got["branch"]
            assert len(inner["branch"].items) >= own - 1
    for key in ("log", "branch"):
        got[key] += [item.seq for item in readers[key].take_items()]
    assert got == {"log": [*range(1, common + 3)], "branch": [*range(common + 1, common + own + 1)]}
    assert len(branches.tree(AUTHOR.ref)) == common + 2 + own


@given(st.lists(st.integers(2, 40), max_size=30), st.booleans())
def test_a_reader_follows_the_branches_that_messages_name(firsts: list[int], is_told_twice: bool) -> None:
    """Each once, at most as many as an identity has devices; what is malformed names none."""
    devices = [Identity.from_seed(bytes([number]) * 32).ref for number in range(len(firsts))]
    named = [{"device": device, "first": first} for device, first in zip(devices, firsts, strict=True)]
    wrong: list[Any] = [
        {"device": DEVICE, "first": 1},
        {"device": "@x", "first": 2},
        {"first": 2},
        DEVICE,
        None,
    ]
    wrong += [{"device": DEVICE, "first": value} for value in (True, 2.5, "2", 1 << 60)]
    contents: list[dict[str, Any]] = [
        {"type": "post", "branches": [*wrong, *named]},
        {"type": "post", "branches": 5},
    ]
    log: list[Message] = []
    for content in contents * (1 + is_told_twice):
        log.append(Message.create(AUTHOR, log[-1] if log else None, content, 1))
    name = log_name(AUTHOR.ref)
    items = [open_item(name, m.sequence, parse_data(message_packet(m))) for m in log]
    branches, asked = BranchedFeeds(), list[tuple[bytes, int]]()

    def subscribe(name: bytes, after: int) -> BranchReader:
        asked.append((name, after))
        return BranchReader(Given([]), branches)

    followed = Branch(name, AUTHOR.ref, BranchReader(Given(items), branches))
    reader = BranchSubscriber(AUTHOR.ref, [followed], Plan(0, SECOND), subscribe)
    reader.wake(0)
    expected = [
        (branch_name(AUTHOR.ref, d, first), first - 1) for d, first in zip(devices, firsts, strict=True)
    ]
    assert asked == expected[: MOST_BRANCHES - 1]


def test_a_branch_goes_on_as_soon_as_what_it_follows_is_here() -> None:
    """Even if nothing more comes of the branch itself."""
    (log, of_log), (name, of_branch) = forked(3, 2).values()
    branches = BranchedFeeds()
    given_log, given_branch = Given([]), Given(of_branch)
    reader = BranchSubscriber(
        AUTHOR.ref,
        [
            Branch(name, DEVICE, BranchReader(given_branch, branches)),
            Branch(log, AUTHOR.ref, BranchReader(given_log, branches)),
        ],
        Plan(0, SECOND),
    )
    reader.wake(0)
    reader.receive(of_branch[0].data.wire, 1)
    assert {event.event for event in reader.take_events()} == {"joined"}
    given_log.items = of_log
    reader.receive(of_log[0].data.wire, 2)
    had = [(event.feed, event.seq) for event in reader.take_events()]
    assert had == [(DEVICE, 4), (DEVICE, 5), *((AUTHOR.ref, n) for n in range(1, 6))]
