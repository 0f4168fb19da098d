"""Hostile clients beside honest ones, in the scenario `isp-storm`: what they cost, and who detects them."""

from functools import cache
from typing import Any, get_args

import pytest
from test_tiny_layerings import assert_complete, played

from analysis.metrics.run.tiny import misbehaviour
from base.units import MS
from testbed.errors import UserError
from testbed.layerings.tiny.hostile_client import Attack
from testbed.scenario.reader import load

SHORT: dict[str, Any] = {"settle_ms": 9000, "drain_ms": 0}
HOSTILE = ["x1", "x2"]
DETECTED = {
    "none": set(),
    "crowd": set(),
    "flood": set(),
    "false-fin": {"a fin before the end", "a fin of a feed that is not at its end"},
    "malformed": {"an entry of nobody's", "what does not belong into a line"},
    "ignore-pause": set(),
    "replay": {"an entry of nobody's"},
    "fork": {"two entries for one place"},
    "beg": set(),
}
"""Misbehaviour of which the provider holds evidence; none where bounds are enough."""


@cache
def storm(attack: str, items: int, seeds: int, backlog: int) -> tuple[float, list[dict[str, Any]]]:
    """Return in how many seconds honest clients have all items of each other, in all seeds together, and
    the misbehaviour that nodes have detected in the first one."""
    seconds, found = 0.0, []
    for seed in range(1, seeds + 1):
        changes = {"parameters.tiny-isp.attack": attack, "parameters.tiny-isp.backlog": backlog, **SHORT}
        wanted = load("isp-storm", items=items, seed=seed, changes=changes)
        rows, emulation = played(wanted, "tiny-isp")
        assert_complete(wanted, rows)
        first = min(row["time"] for row in rows if row["event"] == "published")
        last = max(row["time"] for row in rows if row["event"] == "delivered")
        seconds += (last - first) / (1000 * MS)
        counters = [
            node.counters() | {"layering": "tiny-isp", "node": name} for name, node in emulation.nodes.items()
        ]
        found = found or misbehaviour(counters).to_pylist()
        attacks = [each.get("attacks", 0) for each in counters]
        assert bool(sum(attacks)) == (attack != "none"), "what does not happen hurts nobody"
    return seconds, found


def check(attack: str, items: int, seeds: int = 1) -> None:
    backlog = 4 if attack == "ignore-pause" else 50  # of so few somebody is told to pause
    alone, _ = storm("none", items, seeds, backlog)
    beside, found = storm(attack, items, seeds, backlog)
    assert beside <= alone / 0.9, "honest clients keep nine tenths of their throughput"
    held = {row["misbehaviour"] for row in found if row["accused"]}
    assert held == DETECTED[attack]
    assert all(row["node"] in ("isp", *HOSTILE) for row in found), "no honest client is bothered"
    assert all(set(row["accused"]) <= {*HOSTILE} for row in found), "nobody honest is accused"


@pytest.mark.parametrize("attack", ["false-fin", "replay", "fork"])
def test_a_storm_leaves_honest_clients_their_throughput(attack: str) -> None:
    check(attack, 24)


@pytest.mark.slow
@pytest.mark.parametrize("attack", get_args(Attack))
def test_a_long_storm_leaves_honest_clients_their_throughput(attack: str) -> None:
    check(attack, 160, 3)


def test_a_hostile_client_has_no_other_part() -> None:
    for hostile, message in (
        (["c1"], "tiny-isp: 'c1' is hostile, and can neither publish nor follow"),
        (["x3"], "tiny-isp: hostile client 'x3' is not a node"),
        (["isp"], "tiny-isp: 'isp' is a provider, and can neither publish nor follow"),
    ):
        with pytest.raises(UserError, match=message):
            load("isp-storm", changes={"parameters.tiny-isp.hostile": hostile})
