"""The rungs of the ladder in whole networks: all have all in the end, once and in order."""

from typing import Any

import pytest
from simulation import Result, scenario, simulate

from testbed.layerings.peers.ladder import RUNGS

RUNG = pytest.mark.parametrize("rung", RUNGS)
ALL = list(range(1, 21))
TREE = {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0}}
WRITERS = {"items": 30, "feeds": 3, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}


def run(rung: str, **changes: Any) -> Result:
    parameters = {rung: {"connections": 2}} if rung in ("flood", "ebt") else {rung: {"interval_ms": 400}}
    return simulate(scenario(**{"settle_ms": 10_000, "parameters": parameters} | changes), rung)


@RUNG
def test_everything_arrives_once_and_in_order(rung: str) -> None:
    result = run(rung)
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@RUNG
def test_a_late_joiner_gets_all(rung: str) -> None:
    result = run(rung, plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    first = next(e for e in result.events["s1"] if e["event"] == "delivered")
    assert first["time"] >= 900_000_000


@RUNG
def test_a_run_is_the_same_each_time(rung: str) -> None:
    first, second = run(rung), run(rung)
    assert first.capture == second.capture
    assert first.events == second.events


def test_what_a_scan_repeats_the_others_do_not() -> None:
    repeated = {}
    for rung in ("scan", "gossip", "gossip-skip", "flood"):
        result = run(rung, topology=TREE)
        repeated[rung] = sum(node.counters()["repeated"] for node in result.nodes.values())
    # Gossip: what came by two exchanges at once.
    assert repeated["scan"] > 10 * repeated["flood"] > repeated["gossip"] + repeated["gossip-skip"]


def test_skipping_saves_clocks() -> None:
    said = {}
    for rung in ("gossip", "gossip-skip"):
        result = run(rung, workload=WRITERS, publishers=("pub", "s2"), subscribers=("s1", "s3", "s4"))
        said[rung] = sum(node.counters()["clock_elements"] for node in result.nodes.values())
    assert said["gossip-skip"] < said["gossip"] / 4
