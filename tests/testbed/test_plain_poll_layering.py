"""Plain-poll in whole networks: everything arrives, in order, within a poll, over every link on the way."""

from collections import Counter
from pathlib import Path
from typing import Any

import pcapng_oracle
import pytest
from plain_poll.layering import PORT, Subscriber
from plain_poll.protocol import frame
from simulation import Result, load_of, scenario, simulate

from base.endpoint import Close, Received
from base.units import MS
from captures.formats.pcapng import Direction
from testbed.errors import UserError
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.nodes.node import StateSize
from testbed.library import scenarios
from testbed.scenario.reader import load

pytestmark = pytest.mark.usefixtures("plain_poll")
LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
ALL = list(range(1, 21))


def run(**changes: Any) -> Result:
    return simulate(
        scenario(**{"settle_ms": 5_000, "parameters": {"plain-poll": {"poll_ms": 200}}} | changes),
        "plain-poll",
    )


def published(result: Result) -> dict[int, int]:
    return {e["seq"]: e["time"] for e in result.events["pub"] if e["event"] == "published"}


def test_everything_arrives_once_in_order_and_within_a_poll() -> None:
    result = run()
    times = published(result)
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL
        for event in result.events[node]:
            if event["event"] == "delivered":
                # A poll is due within 200 ms; a handshake and an answer take two round trips of 20 ms.
                assert 0 < event["time"] - times[event["seq"]] <= (200 + 60) * MS


@pytest.mark.parametrize("loss", [1.0, 5.0])
def test_links_may_lose(loss: float) -> None:
    result = run(
        topology=LINE | {"link": {"delay_ms": 5.0, "loss_percent": loss}},
        subscribers=("s1",),
        settle_ms=20_000,
    )
    assert result.delivered("s1") == ALL


def test_a_late_joiner_gets_all_at_its_first_poll() -> None:
    result = run(plans={"s1": {"start_ms": 900.0}})
    first = [e for e in result.events["s1"] if e["event"] == "delivered"]
    assert result.delivered("s1") == ALL
    assert 900 * MS < first[0]["time"] < 1000 * MS
    assert [e["time"] for e in result.events["s1"] if e["event"] == "joined"] == [900 * MS]


@pytest.mark.parametrize("node", ["pub", "r1", "s1"])
def test_a_node_that_starts_anew_goes_on(node: str) -> None:
    result = run(events=({"at_ms": 450, "restart": node},))
    for name in ("s1", "s2"):
        assert result.delivered(name) == ALL
    assert [e["seq"] for e in result.events["pub"] if e["event"] == "published"] == ALL


def test_a_link_that_is_down_for_a_while_delays_and_loses_nothing() -> None:
    result = run(
        topology=LINE,
        subscribers=("s1",),
        events=({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 2_000, "link_up": "r1 r2"}),
        settle_ms=30_000,
    )
    assert result.delivered("s1") == ALL


def test_every_link_on_the_way_carries_it(tmp_path: Path) -> None:
    result = run(topology=LINE, subscribers=("s1",))
    (tmp_path / "capture.pcapng").write_bytes(result.capture)
    frames = [p for p in pcapng_oracle.read(tmp_path / "capture.pcapng") if p.direction is Direction.OUT]
    assert {frame.frame[23] for frame in frames} == {6}
    counts = Counter(frame.interface.name for frame in frames)
    assert len(counts) == 2 * 3
    assert len({counts[f"{node}-eth{end}"] for node, end in (("pub", 0), ("r1", 1), ("r2", 1))}) == 1
    hops = {frame.interface.name: frame.frame[22] for frame in frames}
    assert [hops["pub-eth0"], hops["r1-eth1"], hops["r2-eth1"]] == [255, 254, 253]
    assert result.packets == []


def test_after_the_end_no_stream_is_left() -> None:
    result = run()
    assert {held for node in result.nodes.values() for held in node.held().values()} == {(0, 0)}


def test_a_poll_under_way_is_state_at_both_ends_and_nowhere_else() -> None:
    feeds = {"publishers": ("pub", "s2"), "subscribers": ("s1",)}
    workload = {"items": 20, "feeds": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
    wanted = scenario(workload=workload, **feeds)
    emulation = Emulation(wanted, "plain-poll", load_of(wanted))

    def held(milliseconds: float) -> dict[str, dict[str, StateSize]]:
        emulation.run(emulation.timeline.start + round(milliseconds * MS))
        return {name: node.held() for name, node in emulation.nodes.items()}

    nothing = {"streams": StateSize(0, 0), "requests": StateSize(0, 0)}
    assert all(state == nothing for name, state in held(0).items() if name != "s1")
    # Two hops of 5 ms: publishers know of a stream after 30 ms, answers come after 40. Each has two feeds.
    under_way = held(35)
    assert under_way.pop("s1") == {"streams": StateSize(2, 80), "requests": StateSize(4, 160)}
    for publisher in ("pub", "s2"):
        assert under_way.pop(publisher) == {"streams": StateSize(1, 40), "requests": StateSize(0, 0)}
    assert all(state == nothing for state in under_way.values())
    assert all(state == nothing for state in held(500).values())


@pytest.mark.parametrize("name", ["fork", "archive", "bottleneck", "slow-consumer"])
def test_a_scenario_that_it_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"^--layering plain-poll: plain-poll cannot carry "):
        load(str(scenarios()[name]), layerings=("plain-poll",))


def test_a_publisher_that_starts_anew_amid_an_answer_is_polled_again() -> None:
    # The answer is more than the connection buffers, and its rest goes with the publisher.
    link = {"delay_ms": 5.0, "bw_mbit": 1.0}
    result = run(
        topology=LINE | {"link": link},
        subscribers=("s1",),
        workload={"items": 1200, "schedule": {"speed": 1e6, "idle_limit_ms": 0.1}},
        warmup_ms=0,
        events=({"at_ms": 500, "restart": "pub"},),
        settle_ms=30_000,
    )
    assert result.delivered("s1") == list(range(1, 1201))


def test_a_link_that_is_down_for_longer_than_tcp_waits_ends_no_subscription() -> None:
    result = run(
        topology=LINE | {"link": {"delay_ms": 5.0, "bw_mbit": 1.0}},
        subscribers=("s1",),
        workload={"items": 100, "schedule": {"speed": 1e6, "idle_limit_ms": 0.1}},
        events=({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 200_000, "link_up": "r1 r2"}),
        settle_ms=60_000,
    )
    assert result.delivered("s1") == list(range(1, 101))


def test_what_cannot_be_believed_is_an_error_that_is_told() -> None:
    wanted = scenario(layerings=("plain-poll",), subscribers=("s1",), settle_ms=2_000)
    feed = load_of(wanted).feeds[0]
    address = ("10.255.0.1", PORT)
    subscriber = Subscriber({address: [feed]}, {feed.messages[0].author: None}, 1000 * MS, 0, 10_000 * MS)
    subscriber.wake(0)
    subscriber.on_stream(Received(1, frame(feed.messages[1].encoded)), 5)
    error = subscriber.events[-1]
    assert (error.event, error.time) == ("error", 5)
    assert error.detail
    assert subscriber.actions[-1] == Close(1, abort=True)
