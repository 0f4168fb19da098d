"""mine, asked without any network, and in a run in the emulator."""

from pathlib import Path
from random import Random

from feednet import Experiment
from forwarder.forwarder import Forwarder
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.name import from_uri
from testbed.templates.strategy import Mine

HOPS = [NextHop(2, 10), NextHop(3, 10), NextHop(4, 20)]


def ask(name: str, last: int = 1, hops: list[NextHop] = HOPS) -> object:
    node = Forwarder(rng=Random(1))
    strategy = Mine(node, {"last": str(last)})
    return strategy.after_interest(PitEntry((from_uri(name), False, False)), 1, hops, 0)


def test_a_flow_stays_on_its_way() -> None:
    assert len({str(ask(f"/feed/{n}")) for n in range(100)}) == 1


def test_flows_are_spread_over_the_cheapest_only() -> None:
    assert {str(ask(f"/feed{n}/1")) for n in range(100)} == {"[2]", "[3]"}


def test_no_way_to_go() -> None:
    assert ask("/feed/1", hops=[]) is None


def test_a_run_uses_both_ways(tmp_path: Path) -> None:
    ends = ["pub r1", "r1 a", "a r2", "r1 b", "b r2", "r2 s1"]
    links = [dict(zip("ab", pair.split(), strict=True)) for pair in ends]
    experiment = Experiment(
        topology={"links": links, "link": {"bw_mbit": 10.0, "delay_ms": 5.0}},
        layerings=["poll"],
        strategies={"/": "mine"},
        workload={"items": 20, "feeds": 8, "activity_exponent": 0.0},
        settle_ms=2000,
    )
    frames = experiment.run(tmp_path / "run", net="emulated").packets("poll")
    assert {"a", "b"} <= {*frames[frames["kind"] == "data"]["node"]}
