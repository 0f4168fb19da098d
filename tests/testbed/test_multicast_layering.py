"""The layering multicast in whole networks: every item arrives once, in order, over trees that move."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulation import Result, scenario, simulate

from analysis.decode.protocols.multicast import DECLARATION
from base.units import MS
from feednet import Experiment
from forwarder.wire.name import to_uri
from ssb.keys import Identity
from ssb.message import Message
from ssb.multicast.packets import FIRST, ITEM_BYTES, LAST, Channel, Heartbeat, Item, Segment, encode
from ssb_over_ndn.naming import log_name
from testbed.layerings.kinds.multicast import MulticastNode, channels
from testbed.scenario.reader import load
from topologies.mininet import sandbox

LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
RING = {
    "links": [
        {"a": "pub", "b": "r1", "delay_ms": 5.0},
        {"a": "r1", "b": "r2", "delay_ms": 5.0},
        {"a": "r2", "b": "s1", "delay_ms": 5.0},
        {"a": "r1", "b": "r3", "delay_ms": 15.0},
        {"a": "r3", "b": "r2", "delay_ms": 15.0},
    ]
}
"""The way over r3 is longer."""
ALL = list(range(1, 21))


def run(parameters: dict[str, Any] | None = None, **changes: Any) -> Result:
    given = {"settle_ms": 5_000, "parameters": {"multicast": parameters or {}}}
    return simulate(scenario(**given | changes), "multicast")


def test_everything_arrives_once_and_in_order() -> None:
    result = run()
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@pytest.mark.parametrize("kept", [0, 4, 256])
def test_links_may_lose_and_delay(kept: int) -> None:
    link = {"delay_ms": 5.0, "loss_percent": 10.0, "jitter_ms": 4.0}
    result = run({"kept": kept}, topology=LINE | {"link": link}, subscribers=("s1",), settle_ms=40_000)
    assert result.delivered("s1") == ALL


@pytest.mark.parametrize("size", [400, 1_457, 1_458, 5_000])
def test_items_have_as_many_segments_as_their_bytes_need(size: int) -> None:
    work = {"items": 5, "item_bytes": size, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
    result = run(topology=LINE, subscribers=("s1",), workload=work)
    assert result.delivered("s1") == [1, 2, 3, 4, 5]
    assert max(len(seen.packet) for seen in result.packets) <= 1_472


def test_a_late_joiner_gets_the_past_from_the_source() -> None:
    result = run({"kept": 2}, plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    first = next(e for e in result.events["s1"] if e["event"] == "delivered")
    assert 900 * MS <= first["time"] < 1_100 * MS


@pytest.mark.parametrize("node", ["pub", "r1", "s1"])
def test_a_node_that_starts_anew_goes_on(node: str) -> None:
    result = run(events=({"at_ms": 450, "restart": node},), settle_ms=10_000)
    for name in ("s1", "s2", "s3", "s4"):
        assert result.delivered(name) == ALL
    assert [e["seq"] for e in result.events["pub"] if e["event"] == "published"] == ALL


@pytest.mark.parametrize("converge_ms", [0.0, 50.0])
def test_a_link_that_fails_moves_the_tree(converge_ms: float) -> None:
    events = ({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 700, "link_up": "r1 r2"})
    routing = {"converge_ms": converge_ms}
    result = run(topology=RING, publisher="pub", subscribers=("s1",), events=events, routing=routing)
    assert result.delivered("s1") == ALL
    passed = [seen.time for seen in result.packets if seen.sent and seen.interface.startswith("r3")]
    assert 400 * MS < min(passed) < 800 * MS
    assert max(passed) < 2_000 * MS  # the tree has gone back
    assert result.nodes["r3"].held()["trees"].entries == 0


def test_trees_are_the_state_of_routers_and_are_gone_when_nobody_reads() -> None:
    wanted = scenario(topology=LINE, subscribers=("s1",), settle_ms=1_000, drain_ms=2_000)
    before = simulate(wanted, "multicast", until_drained=False).nodes
    assert before["r1"].held()["trees"] == (1, 32)  # towards the source, and towards the reader
    assert before["r1"].counters()["kept_bytes"] > 0
    assert before["pub"].held()["ends"] == (1, 32)
    after = simulate(wanted, "multicast").nodes
    assert [node.held()["trees"].entries for node in after.values()] == [0] * len(after)


def test_what_is_no_message_of_the_feed_is_dropped() -> None:
    result = run(topology=LINE, subscribers=("s1",))
    node = result.nodes["s1"]
    assert isinstance(node, MulticastNode)
    feed = result.load.feeds[0]
    other = Message.create(Identity.from_seed(bytes(32)), None, {"type": "post", "text": "x"}, 1.0)
    forged = feed.messages[0].encoded.replace(b"post", b"past")
    node._role.follows = {feed.key: feed}
    for text in (b"garbage", other.encoded, forged):
        node._take_in(feed.key, text, 0)
    assert node.counters()["rejected"] == 3
    node.receive(1, b"\xff", None, 0)
    assert node.counters()["malformed"] == 1


def test_channels_are_of_their_publisher_and_differ() -> None:
    wanted = load("many-feeds", layerings=("multicast",))
    from testbed.scenario import workload

    feeds = workload.load(wanted)
    found = channels(wanted.network, feeds)
    assert len(set(found.values())) == len(feeds.feeds)
    assert all(each.group[0] == 232 and each.group[1:] >= b"\0\1\0" for each in found.values())


def test_every_captured_packet_is_read() -> None:
    assert DECLARATION.datagram is not None
    loss = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0, "loss_percent": 10.0}}
    result = run(topology=loss, subscribers=("s1",))
    kinds = {DECLARATION.datagram(seen.packet).kind for seen in result.packets}
    assert kinds == {"pushed", "resent", "heartbeat", "request", "join", "prune"}
    channel = Channel(bytes((10, 0, 0, 1)), bytes((232, 0, 1, 0)))
    item = Item(channel, 7, 255, Segment(FIRST | LAST, b"text"))
    assert DECLARATION.datagram(encode(item)) == ("pushed", None, "/10.0.0.1/232.0.1.0/7", 4, None, None)
    message = result.load.feeds[0].messages[6]
    begin, end = (Segment(place, message.encoded) for place in (FIRST, LAST))
    said = DECLARATION.datagram(encode(item._replace(segment=begin)))
    assert (said.feed, said.seq) == (to_uri(log_name(message.author)), 7)
    assert DECLARATION.datagram(encode(item._replace(segment=end))).seq is None
    assert DECLARATION.datagram(encode(Heartbeat(channel, 1, 7)))[2] == "/10.0.0.1/232.0.1.0"
    assert DECLARATION.datagram(b"\x09")[:2] == ("malformed", "no packet of a multicast tree")


@pytest.mark.spark
def test_reports_have_its_layers_and_it_is_cheaper_than_all_else(tmp_path: Path) -> None:
    experiment = Experiment(
        "fanout", layerings=["multicast", "lli", "broker"], workload={"items": 30}, seed=3
    )
    results = experiment.run(tmp_path / "run", net="emulated")
    costs = [results.comparison()[name]["bytes_per_item"] for name in ("multicast", "lli", "broker")]
    assert all(less < more for less, more in pairwise(costs))
    layers = results.pandas("overhead").query("layering == 'multicast'").set_index("layer").bytes
    traffic = results.pandas("traffic").query("layering == 'multicast'").set_index("kind")
    sent = results.pandas("packets").query(
        "layering == 'multicast' and direction == 'out' and kind == 'pushed'"
    )
    assert layers.sum() == traffic.frame_bytes.sum()
    assert layers["multicast pushed"] == ITEM_BYTES * len(sent)
    assert layers["payload"] == sent.payload_bytes.sum() > 0


@pytest.mark.spark
@pytest.mark.parametrize("size", [400, 4_000])
def test_the_lower_bound_is_a_copy_of_an_item_on_each_link_of_its_tree(tmp_path: Path, size: int) -> None:
    """Without losses `multicast` sends this copy, and beats it by nothing."""
    changes: dict[str, Any] = {"workload": {"items": 8, "item_bytes": size}, "seed": 5}
    results = Experiment("fanout", layerings=["multicast"], **changes).run(tmp_path / "run", net="emulated")
    found = results.comparison()["multicast"]
    packets = results.pandas("packets")
    segments = packets[(packets.direction == "out") & (packets.kind == "pushed")]
    assert (segments.groupby("name").size() > 1).any()
    bound = found["bound_bytes_per_item"] * len(results.pandas("latency"))
    assert bound == pytest.approx(segments.frame_bytes.sum())
    assert 1 < found["wire_ratio"] < 1.6
    late = results.pandas("latency")
    assert (late.latency_ns >= late.bound_ns).all()
    assert (late.latency_ns - late.bound_ns).min() < MS


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_it_runs_over_mininet(tmp_path: Path) -> None:
    experiment = Experiment(
        "fanout", layerings=["multicast"], workload={"items": 30}, plans={"s1": {"start_ms": 1500.0}}
    )
    results = experiment.run(tmp_path / "run", net="mininet")
    assert results.comparison()["multicast"]["delivered_share"] == 100
