"""Layering `holes` in whole networks: logs arrive whole, and who obeys drops what is to be deleted."""

from typing import Any

import pytest
from simulation import Result, scenario, simulate

from base.units import MS
from ssb.detached import Reference, attach, reference_of, requested_by
from testbed.layerings.peers.holes import HolesNode
from testbed.scenario import workload

READERS = tuple(f"s{number}" for number in range(1, 9))
ALL = list(range(1, 21))
ASKED = {1, 2, 3, 4, 5}
TREE = {"generator": "tree", "depth": 3, "fanout": 2, "link": {"delay_ms": 5.0}}


def run(**changes: Any) -> Result:
    made = {
        "layerings": ("holes",),
        "topology": TREE,
        "subscribers": READERS,
        "settle_ms": 6000,
        "deletion": {"items": 5, "after": 9, "ignored_percent": 25},
        "parameters": {"holes": {"connections": 3}},
    }
    return simulate(scenario(**(made | changes)), "holes")


def held(result: Result, node: str) -> set[int]:
    """The numbers of the messages whose contents a node has."""
    (feed,) = result.load.feeds
    blobs = {*result.nodes[node].state.blobs.blobs()}
    references = {message.sequence: reference_of(message) for message in feed.messages}
    return {number for number, one in references.items() if one is not None and one.blob in blobs}


LIVE = {*ALL} - ASKED - {10}


def test_who_obeys_keeps_a_log_with_holes_and_who_does_not_keeps_all() -> None:
    result = run()
    rebels = result.load.disobedient
    assert len(rebels) == 2
    for node in READERS:
        assert result.delivered(node) == ALL
        assert held(result, node) == (LIVE | ASKED if node in rebels else LIVE), node
    assert held(result, "pub") == LIVE
    for name, node in result.nodes.items():
        if name in ("pub", *READERS):
            assert isinstance(node, HolesNode)
            assert node.counters()["asked_contents"] == len(ASKED) * (name in rebels)
            sizes = sum(len(result.load.feeds[0].contents[number]) for number in held(result, name))
            assert node.held()["contents"] == (len(held(result, name)), sizes)


def test_who_was_offline_drops_nothing_before_coming_back() -> None:
    away = ({"at_item": 8, "link_down": "s1 r3"}, {"at_ms": 4000.0, "link_up": "s1 r3"})
    result = run(deletion={"items": 3, "after": 9}, events=away)
    times = {event["seq"]: event["time"] for event in result.events["s1"] if event["event"] == "delivered"}
    assert [*times] == ALL
    assert times[10] > 4000 * MS
    assert held(result, "s1") == {*ALL} - {1, 2, 3, 10}


def test_a_restart_loses_no_content_and_brings_none_back() -> None:
    result = run(events=({"at_ms": 5000.0, "restart": "s2"},))
    assert held(result, "s2") == (LIVE | ASKED if "s2" in result.load.disobedient else LIVE)


def test_without_a_request_to_come_logs_have_their_contents_in_them() -> None:
    result = run(deletion=None)
    assert all(result.delivered(node) == ALL for node in READERS)
    assert all(not node.state.blobs.used for node in result.nodes.values())


@pytest.mark.parametrize("seed", [1, 2])
def test_the_workload_has_a_valid_log_and_one_request(seed: int) -> None:
    made = scenario(seed=seed, deletion={"items": 4, "after": 7, "ignored_percent": 50})
    plain, (feed,) = workload.load(made.model_copy(update={"deletion": None})), workload.load(made).feeds
    asked = workload.load(made).asked
    tip = None
    for message, original in zip(feed.messages, plain.feeds[0].messages, strict=True):
        message.verify()
        message.follow(tip)
        tip = message
        if message.sequence == 8:
            assert requested_by(message) == [each.id for each in feed.messages[:4]]
            assert 8 not in feed.contents
            continue
        reference = reference_of(message)
        assert isinstance(reference, Reference)
        assert attach(message.author, reference, feed.contents[message.sequence]) == original.content
        assert (reference.blob in asked) == (message.sequence <= 4)
    assert feed.times == plain.feeds[0].times
    assert len(workload.load(made).disobedient) == 2
