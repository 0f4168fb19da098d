"""The layering broker in whole networks: every item arrives once, in order; mosquitto can be the broker."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from simulation import Result, scenario, simulate

from base.units import MS
from feednet import Experiment, UserError
from ssb.keys import Identity
from ssb.message import Message
from testbed.layerings.kinds.broker import ClientNode
from testbed.layerings.nodes.node import middle_of
from testbed.scenario.reader import load
from topologies.mininet import sandbox

LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
ALL = list(range(1, 21))
HAS_MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") is not None


def run(parameters: dict[str, Any] | None = None, **changes: Any) -> Result:
    given = {"settle_ms": 20_000, "parameters": {"broker": parameters or {}}}
    return simulate(scenario(**given | changes), "broker")


def test_everything_arrives_once_and_in_order() -> None:
    result = run()
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@pytest.mark.parametrize("inflight", [0, 1, 20])
def test_links_may_lose(inflight: int) -> None:
    lossy = LINE | {"link": {"delay_ms": 5.0, "loss_percent": 5.0}}
    result = run({"inflight": inflight}, topology=lossy, subscribers=("s1",), settle_ms=40_000)
    assert result.delivered("s1") == ALL


def test_a_late_joiner_gets_all() -> None:
    result = run(plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    first = next(e for e in result.events["s1"] if e["event"] == "delivered")
    assert 900 * MS <= first["time"] < 1_100 * MS


@pytest.mark.parametrize("node", ["pub", "s1"])
def test_an_end_that_starts_anew_goes_on(node: str) -> None:
    result = run(events=({"at_ms": 450, "restart": node},), settle_ms=60_000)
    for name in ("s1", "s2"):
        assert result.delivered(name) == ALL
    assert [e["seq"] for e in result.events["pub"] if e["event"] == "published"] == ALL


def test_a_link_that_is_down_for_a_while_loses_nothing() -> None:
    events = ({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 2_000, "link_up": "r1 r2"})
    result = run(topology=LINE, subscribers=("s1",), events=events, settle_ms=40_000)
    assert result.delivered("s1") == ALL


def test_the_broker_holds_messages_subscriptions_and_connections() -> None:
    result = run({"at": "r1"}, topology=LINE, subscribers=("s1",))
    held = result.nodes["r1"].held()
    assert held["messages"].entries == 20
    assert held["connections"] == (1, 40)  # the reader has left
    assert result.nodes["r2"].held()["connections"].entries == 0


def test_what_comes_under_a_feeds_topic_and_is_no_message_of_it_is_dropped() -> None:
    node = run(topology=LINE, subscribers=("s1",)).nodes["s1"]
    assert isinstance(node, ClientNode)
    ((feed, before),) = node._store.tips().items()
    other = Message.create(Identity.from_seed(bytes(32)), None, {"type": "post", "text": "x"}, 1.0)
    forged = Message.from_text(node._store.after(feed, 5, 1)[0].text.replace(b"post", b"past"))
    for text in (b"garbage", other.encoded, forged.encoded):
        node._take_in(feed, before + 1, text, 0)
    assert node.counters() == {"rejected": 3}
    assert node._store.tips()[feed] == before


@pytest.mark.parametrize("layering", ["broker", "room", "invite"])
def test_a_broker_room_or_pub_has_a_node_of_its_own(layering: str) -> None:
    network = load("fanout").network
    assert middle_of(layering, network, {"pub"}, None) == "r1"
    assert middle_of(layering, network, {"r1"}, None) != "r1"
    for at, message in (("pub", "'pub' publishes or follows"), ("r77", "'r77' is not a node")):
        with pytest.raises(UserError, match=message):
            load("fanout", layerings=(layering,), changes={f"parameters.{layering}.at": at})
    with pytest.raises(UserError, match="every node publishes or follows"):
        load("fanout", layerings=(layering,), changes={"subscribers": [*set(network.nodes) - {"pub"}]})


def test_mosquitto_needs_mininet() -> None:
    experiment = Experiment("fanout", layerings=["broker"], parameters={"broker": {"program": "mosquitto"}})
    with pytest.raises(UserError, match=r"mosquitto (runs in real time|is not here)"):
        experiment.run(net="emulated")


@pytest.mark.mininet
@pytest.mark.skipif(not HAS_MOSQUITTO, reason="mosquitto is not here")
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_publisher_and_subscribers_talk_to_mosquitto(tmp_path: Path) -> None:
    experiment = Experiment(
        "fanout",
        layerings=["broker"],
        parameters={"broker": {"program": "mosquitto"}},
        workload={"items": 30},
        plans={"s1": {"start_ms": 1500.0}},
    )
    results = experiment.run(tmp_path / "run", net="mininet")
    assert results.comparison()["broker"]["delivered_share"] == 100
