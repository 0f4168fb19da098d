"""The layering invite in whole networks: pubs by invite, and those that logs name."""

from random import Random
from typing import Any

import pytest
from simulation import Result, scenario, simulate

from ssb.graph import CONTACT
from testbed.errors import UserError
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.peers.invite import InviteNode
from testbed.scenario.reader import load

READERS = ("s1", "s2", "s3")
ALL = list(range(1, 21))
OUTAGE_MS = 2_000
"""When pubs go; the author writes from 1,500 ms on, for about a second."""


def run(pubs: int, readers: tuple[str, ...] = READERS, **changes: Any) -> Result:
    """Run `invite` with pubs p1, p2 and so on around a router, which forwards IP only."""
    names = [f"p{number}" for number in range(1, pubs + 1)]
    links = [{"a": name, "b": "net"} for name in ("pub", *names, *readers)]
    given: dict[str, Any] = {
        "settle_ms": 4_000,
        "warmup_ms": 1_500,
        "workload": {"items": 20, "schedule": {"speed": 1e5, "idle_limit_ms": 100.0}},
        "topology": {"links": links, "link": {"delay_ms": 2.0}},
        "subscribers": readers,
        "layerings": ("invite",),
        "parameters": {"invite": {"at": "p1", "pubs": names[1:]}},
    }
    return simulate(scenario(**given | changes), "invite")


def node_of(result: Result, name: str) -> InviteNode:
    node = result.nodes[name]
    assert isinstance(node, InviteNode)
    return node


def guests(result: Result, pub: str, readers: tuple[str, ...] = READERS) -> list[str]:
    """Return the nodes that a pub has followed in its log, in order."""
    names = {peer_identity(scenario().seed, name).ref: name for name in ("pub", *readers)}
    node = node_of(result, pub)
    log = node._store.after(node._identity.ref, 0, 100)
    contents = [stored.message.content for stored in log]
    assert all(each["type"] == CONTACT and each["pub"] is True for each in contents)
    return [names[each["contact"]] for each in contents]


@pytest.mark.parametrize("seed", range(8))
def test_who_gets_what_when_some_pubs_go_away(seed: int) -> None:
    """The model: who came in time knows all pubs, and needs one that stays; later ones need the first."""
    random = Random(seed)
    count = random.randint(1, 3)
    gone = random.sample(range(1, count + 1), random.randint(1, count))
    events = [{"at_ms": OUTAGE_MS, "stop": f"p{number}"} for number in gone]
    events += [{"at_ms": 0, "stop": "s3"}, {"at_ms": 3_000, "start": "s3"}]
    result = run(count, events=sorted(events, key=lambda each: each["at_ms"]))
    before = [
        each["seq"]
        for each in result.events["pub"]
        if each["event"] == "published" and each["time"] < OUTAGE_MS * 1_000_000
    ]
    assert 0 < len(before) < len(ALL)
    for name in ("s1", "s2"):
        got = result.delivered(name)
        if len(gone) < count:
            assert got == ALL, (count, gone)
        else:
            assert got == ALL[: len(got)]
            assert len(before) - 2 <= len(got) <= len(before), "an item may be on its way"
    assert result.delivered("s3") == ([] if 1 in gone else ALL)


def test_each_pub_follows_those_whom_it_has_invited_and_each_invite_is_used_once() -> None:
    result = run(2)
    assert sorted(guests(result, "p1")) == ["pub", *READERS]
    assert guests(result, "p2") == ["pub"]
    assert {left for name in ("p1", "p2") for left in node_of(result, name)._invites.uses.values()} == {0}
    for name in READERS:
        node = node_of(result, name)
        assert node._entered == {peer_identity(scenario().seed, "p1").ref}
        assert node.counters()["pubs_named"] == 2
        assert node.held()["connections"].entries == 2
    assert result.nodes["net"].programs == []


def test_nobody_reads_of_a_second_pub_if_its_one_guest_says_nothing() -> None:
    """Without the author's log, which names it, a second pub is unknown: its address is in no other place."""
    result = run(2, events=({"at_ms": 0, "stop": "pub"},))
    for name in READERS:
        assert node_of(result, name).counters()["pubs_named"] == 1
        assert node_of(result, name).held()["connections"].entries == 1


@pytest.mark.parametrize("who", ["s1", "p1", "pub"])
def test_a_node_that_restarts_forks_no_log_and_uses_no_invite_again(who: str) -> None:
    result = run(2, events=({"at_ms": 1_800, "restart": who},))
    for name in READERS:
        assert result.delivered(name) == ALL
        assert node_of(result, name)._store.forks() == {}
    assert sorted(guests(result, "p1")) == ["pub", *READERS]
    log = [event for events in result.events.values() for event in events if event["event"] == "error"]
    assert log == []


def test_a_pub_that_does_not_answer_is_tried_again() -> None:
    events = ({"at_ms": 0, "stop": "p1"}, {"at_ms": 2_500, "start": "p1"})
    result = run(1, events=events)
    for name in READERS:
        assert result.delivered(name) == ALL
        first = next(each["time"] for each in result.events[name] if each["event"] == "delivered")
        assert first > 2_500_000_000


def test_logs_say_who_reads_whom() -> None:
    """All replicate the logs of a pub's guests, so each reader learns of both others."""
    result = run(1, settle_ms=1_000)
    assert [result.nodes[name].counters()["subscriptions_seen"] for name in READERS] == [2, 2, 2]


def test_a_pub_neither_publishes_nor_follows() -> None:
    for pubs, message in ((["p1"], "'p1' publishes or follows"), (["nobody"], "'nobody' is not a node")):
        with pytest.raises(UserError, match=message):
            load("newcomers", layerings=("invite",), parameters={"invite": {"pubs": pubs}})
