"""The layering ssb in whole networks: every item arrives once, in order; a run is the same each time."""

from typing import Any

import pytest
from simulation import Result, load_of, scenario, simulate

from captures.key_log import Secret
from ssb.transport.secure_stream import CLIENT_SECRET, SERVER_SECRET
from testbed.experiment.emulated_run import Emulation

MS = 1_000_000
LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
ALL = list(range(1, 21))
CONNECT = pytest.mark.parametrize("connect", ["publishers", "neighbours"])


def run(connect: str = "publishers", **changes: Any) -> Result:
    parameters = {"ssb": {"connect": connect}}
    return simulate(scenario(**{"settle_ms": 20_000, "parameters": parameters} | changes), "ssb")


@CONNECT
def test_everything_arrives_once_and_in_order(connect: str) -> None:
    result = run(connect)
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@CONNECT
@pytest.mark.parametrize("loss", [1.0, 5.0])
def test_links_may_lose(connect: str, loss: float) -> None:
    lossy = LINE | {"link": {"delay_ms": 5.0, "loss_percent": loss}}
    result = run(connect, topology=lossy, subscribers=("s1",), settle_ms=40_000)
    assert result.delivered("s1") == ALL


@CONNECT
def test_a_late_joiner_gets_all(connect: str) -> None:
    result = run(connect, plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    first = next(e for e in result.events["s1"] if e["event"] == "delivered")
    assert 900 * MS <= first["time"] < 1_100 * MS


@CONNECT
@pytest.mark.parametrize("node", ["pub", "r1", "s1"])
def test_a_node_that_starts_anew_goes_on(connect: str, node: str) -> None:
    result = run(connect, events=({"at_ms": 450, "restart": node},), settle_ms=60_000)
    for name in ("s1", "s2"):
        assert result.delivered(name) == ALL
    assert [e["seq"] for e in result.events["pub"] if e["event"] == "published"] == ALL


@CONNECT
def test_a_link_that_is_down_for_a_while_loses_nothing(connect: str) -> None:
    events = ({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 2_000, "link_up": "r1 r2"})
    result = run(connect, topology=LINE, subscribers=("s1",), events=events, settle_ms=40_000)
    assert result.delivered("s1") == ALL


def test_several_publishers_and_their_subscribers() -> None:
    workload = {"items": 20, "feeds": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
    result = run(workload=workload, publishers=("pub", "s2"), subscribers=("s1", "s3"))
    for node in ("s1", "s3"):
        delivered = [(e["feed"], e["seq"]) for e in result.events[node] if e["event"] == "delivered"]
        assert len(delivered) == len(set(delivered)) == 20


@CONNECT
def test_a_run_is_the_same_each_time(connect: str) -> None:
    first, second = run(connect), run(connect)
    assert first.capture == second.capture
    assert first.events == second.events


def test_only_messages_for_others_are_counted_as_state() -> None:
    wanted = scenario(parameters={"ssb": {"connect": "neighbours"}})
    emulation = Emulation(wanted, "ssb", load_of(wanted))
    emulation.run(emulation.timeline.stop - 1)
    held = {name: node.held() for name, node in emulation.nodes.items()}
    assert held["pub"]["messages"] == held["s1"]["messages"] == (0, 0)
    assert held["r1"]["messages"].entries == 20
    assert held["r1"]["connections"].entries == 3
    secrets: list[Secret] = [each for node in emulation.nodes.values() for each in node.take_secrets()]
    assert {each.label for each in secrets} == {CLIENT_SECRET, SERVER_SECRET}


def test_after_the_end_no_connection_is_left() -> None:
    result = run()
    assert {node.held()["connections"] for node in result.nodes.values()} == {(0, 0)}
