"""The state of nodes by kind, counted once more by hand: docs/architecture.md, State."""

import pytest
from simulation import load_of, scenario

from base.units import MS
from ssb_over_ndn.naming import SHA256, extend_prefix, log_name
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.nodes.ndn_node import NdnNode

FEEDS = 6
NETWORK = {"publishers": ("pub",), "subscribers": ("s1", "s2", "s3", "s4")}
"""A tree of depth 2: pub at its root, r1 and r2 below it, and two subscribers below each."""


ITEMS = {"items": 12, "feeds": FEEDS, "schedule": {"speed": 1e6, "idle_limit_ms": 5.0}}
WANTED = scenario(workload=ITEMS, settle_ms=2000, **NETWORK)
NAMES = [log_name(feed.key) for feed in load_of(WANTED).feeds]


def settled(layering: str) -> Emulation:
    """A network in which everybody has subscribed, and all is silent."""
    emulation = Emulation(WANTED, layering, load_of(WANTED))
    emulation.run(emulation.timeline.settle + 1500 * MS)
    return emulation


def test_under_lli_a_relay_holds_a_range_for_each_neighbour_and_feed() -> None:
    emulation = settled("lli")
    held = emulation.nodes["r1"].held()
    # Two subscribers below, and what was asked of pub above: 28 each.
    assert held["llis"] == (FEEDS, sum(len(name) + 3 * 28 for name in NAMES))
    # One way up for each feed, and one for all hashes.
    assert held["routes"] == (FEEDS + 1, sum(len(name) + 8 for name in NAMES) + len(SHA256) + 8)
    # Evidence: its own, what pub offers, and for each subscriber what it knows and what it was told.
    assert held["sources"].entries == FEEDS
    assert FEEDS * 9 * 4 <= held["sources"].bytes <= FEEDS * 9 * 6
    assert held["pit"] == held["strategies"] == held["ends"] == (0, 0)
    # A subscriber: next, limit, expiry, and evidence of a source.
    assert emulation.nodes["s1"].held()["ends"] == (FEEDS, sum(len(name) + 24 + 9 for name in NAMES))


def test_under_sync_log_each_feed_has_a_group_with_routes_and_a_strategy() -> None:
    emulation = settled("sync-log")
    groups = [extend_prefix(name) for name in NAMES]
    held = emulation.nodes["r1"].held()
    # A group leads to both subscribers and to pub.
    own = sum(len(name) + 8 for name in NAMES) + len(SHA256) + 8
    assert held["routes"] == (2 * FEEDS + 1, own + sum(len(name) + 3 * 8 for name in groups))
    assert held["strategies"] == (FEEDS, sum(len(name) + 4 for name in groups))
    assert {*held} == {"pit", "routes", "strategies", "ends"}
    for end in ("pub", "s1"):
        assert emulation.nodes[end].held()["ends"] == (FEEDS, sum(len(name) + 32 for name in NAMES))


@pytest.mark.parametrize(
    "layering",
    ["pull", "poll", "persistent", "notify", "notify-each", "sync", "sync-all", "psync", "sync-ps"],
)
def test_who_follows_holds_an_end_of_each_feed(layering: str) -> None:
    emulation = settled(layering)
    held = {name: node.held()["ends"] for name, node in emulation.nodes.items()}
    if layering == "poll":  # all that it knows are its Interests
        assert not any(any(size) for size in held.values())
        return
    assert held["s1"].entries == FEEDS
    assert held["s1"].bytes > sum(map(len, NAMES))
    assert held["r1"] == (0, 0)


def test_the_size_of_routes_follows_all_changes() -> None:
    emulation = settled("notify")
    for name, node in emulation.nodes.items():
        assert isinstance(node, NdnNode)
        fib = node.host.forwarder.fib
        for face in {hop.face for _, hops in fib.items() for hop in hops}:
            fib.suspend(face)
        assert node.held()["routes"] == (0, 0), name
        for face in list(node.host.forwarder.faces):
            fib.resume(face)
        routes = [*fib.items()]
        size = sum(len(prefix) + 8 * len(hops) for prefix, hops in routes)
        assert node.held()["routes"] == (len(routes), size)
