"""Scuttlebutt peers that reach each other by gateways across NDN, in virtual time, by every layering."""

from random import Random
from typing import Any

import pytest
from simulation import Result, scenario, simulate

from base.units import MS
from testbed.errors import UserError
from testbed.layerings.kinds.ndn import NDN_LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

PEOPLE = ("ann", "ben", "cleo")
LINKS = [("ann", "g1"), ("cleo", "g1"), ("g1", "r"), ("r", "g2"), ("g2", "ben")]
ALL = list(range(1, 13))
LAYERING = pytest.mark.parametrize("layering", NDN_LAYERINGS)


def people(**changes: Any) -> Scenario:
    """Ann and Cleo are at home at one gateway, Ben at another; each follows both others."""
    link = changes.pop("link", {})
    table = {
        "topology": {
            "links": [{"a": a, "b": b} for a, b in LINKS],
            "link": {"delay_ms": 5.0} | link,
        },
        "publishers": PEOPLE,
        "subscribers": PEOPLE,
        "nodes": {"ann": {"gateway": "g1"}, "cleo": {"gateway": "g1"}, "ben": {"gateway": "g2"}},
        "workload": {
            "items": 36,
            "activity_exponent": 0.0,
            "schedule": {"speed": 1e6, "idle_limit_ms": 50.0},
        },
        "settle_ms": 20_000,
    }
    return scenario(**table | changes)


def all_have_all(result: Result) -> bool:
    return all(
        result.delivered(node, number) == ALL
        for node in PEOPLE
        for number, feed in enumerate(result.load.feeds)
        if feed.publisher != node
    )


@LAYERING
def test_feeds_cross(layering: str) -> None:
    assert all_have_all(simulate(people(), layering))


@LAYERING
def test_links_may_lose(layering: str) -> None:
    link = {"loss_percent": 5.0, "reorder_percent": 2.0, "duplicate_percent": 2.0}
    assert all_have_all(simulate(people(link=link, settle_ms=60_000), layering))


@LAYERING
@pytest.mark.parametrize("node", ["ann", "g1", "r", "g2"])
def test_a_node_that_starts_anew_goes_on(layering: str, node: str) -> None:
    result = simulate(people(events=({"at_ms": 400, "restart": node},), settle_ms=90_000), layering)
    assert all_have_all(result)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_on_the_way_all_have_all_in_the_end(seed: int) -> None:
    random = Random(seed)
    layering = random.choice([*NDN_LAYERINGS])
    nodes = [*PEOPLE, "g1", "g2", "r"]
    events: list[dict[str, Any]] = [
        {"at_ms": random.randint(0, 1500), "restart": random.choice(nodes)} for _ in range(2)
    ]
    for a, b in random.sample(LINKS, 2):
        begin, signalled = random.randint(0, 1500), random.random() < 0.5
        events.append({"at_ms": begin, "link_down": f"{a} {b}", "signalled": signalled})
        end = begin + random.randint(1, 3000)
        events.append({"at_ms": end, "link_up": f"{a} {b}", "signalled": signalled})
    result = simulate(
        people(seed=seed, link={"loss_percent": 3.0}, events=tuple(events), settle_ms=120_000), layering
    )
    assert all_have_all(result)


def test_across_ndn_a_feed_travels_once_to_all_who_are_at_home_at_a_gateway() -> None:
    result = simulate(people(), "lli")
    held = {name: node.held()["messages"].entries for name, node in result.nodes.items() if name[0] == "g"}
    assert held == {"g1": 36, "g2": 36}
    latency = [
        event["time"] - result.load.feeds[1].times[event["seq"] - 1] - result.timeline.start
        for event in result.events["ann"]
        if event["event"] == "delivered" and event["feed"] == result.load.feeds[1].key
    ]
    assert min(latency) == 4 * 5 * MS, "four links"


def test_who_leaves_a_feed_ends_its_subscription() -> None:
    result = simulate(people(plans={"ben": {"stop_ms": 200.0}}), "lli")
    assert 0 < len(result.delivered("ben")) < 24
    assert result.delivered("ann", 1) == ALL, "others go on"
    held = result.nodes["g2"].held()["messages"].entries
    assert held < 36, "nor does the gateway go on"


def test_the_same_each_time() -> None:
    wanted = people(link={"loss_percent": 3.0})
    assert simulate(wanted, "lli").capture == simulate(wanted, "lli").capture


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": {"ann": {"gateway": "g9"}}}, "gateway 'g9' is not a node"),
        ({"nodes": {"dan": {"gateway": "g1"}}}, "'dan' is not a node"),
        ({"nodes": {"ann": {"gateway": "ben"}}}, "'ben' publishes, follows or has a gateway itself"),
        ({"nodes": {"r": {"gateway": "g1"}}}, "'r' neither publishes nor follows"),
        ({"plans": {"ben": {"drain_per_s": 3.0}}}, "lli with gateways cannot carry slow subscribers"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Any, changes: dict[str, Any], said: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        """
title = "people"
layerings = ["lli"]
publishers = ["ann", "ben"]
subscribers = ["ann", "ben"]
[topology]
links = [{a="ann", b="g1"}, {a="g1", b="r"}, {a="r", b="g2"}, {a="g2", b="ben"}]
[nodes.ann]
gateway = "g1"
[nodes.ben]
gateway = "g2"
""",
        encoding="utf-8",
    )
    flat = {
        f"{table}.{node}.{key}": value
        for table, nodes in changes.items()
        for node, keys in nodes.items()
        for key, value in keys.items()
    }
    with pytest.raises(UserError, match=said):
        load(str(path), changes=flat)
