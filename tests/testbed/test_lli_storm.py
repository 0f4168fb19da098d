"""Strangers who send long-lived Interests without end, in `lli-storm`: what holds, and what does not."""

from typing import Any

import pytest

from testbed.bench.runs.storm import CASES, Storm, measure
from testbed.errors import UserError
from testbed.layerings.kinds.lli import HostileNode
from testbed.scenario.reader import load

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def storms() -> dict[str, Storm]:
    return {name: measure(1, changes) for name, changes in CASES.items()}


def test_readers_who_are_there_notice_no_attack(storms: dict[str, Storm]) -> None:
    alone = storms["none"]
    assert (alone.delivered, alone.late, alone.gain) == (100, 100, 0)
    for name, storm in storms.items():
        assert storm.delivered == 100, name
        assert storm.latency < 1.2 * alone.latency, name


def test_a_router_keeps_so_many_feeds_for_a_stranger_and_no_more(storms: dict[str, Storm]) -> None:
    for kind in ("unknown", "idle"):
        one, two = storms[f"{kind} feeds, 1 stranger"], storms[f"{kind} feeds, 2 strangers"]
        assert 512 <= one.feeds < 530
        assert 900 < two.feeds <= 1024
        assert one.refused > 500
        assert two.state < 100_000
        assert one.gain < 1.5, "a refusal is as long as what it refuses"


def test_a_full_table_has_no_room_for_who_comes_later(storms: dict[str, Storm]) -> None:
    """The next router counts all that this one asks for as this one's; so one stranger fills that share."""
    assert storms["unknown feeds, 1 stranger"].late == 100
    for name in ("unknown feeds, 2 strangers", "idle feeds, 1 stranger", "idle feeds, 2 strangers"):
        assert storms[name].late < 60, name


def test_an_address_that_may_be_made_up_brings_three_times_its_bytes_at_most(
    storms: dict[str, Storm],
) -> None:
    assert storms["spoofed"].gain <= 3
    assert storms["spoofed, addresses unchecked"].gain > 300
    assert storms["rewinds"].gain > 300, "who shows that the address is its own gets what it asks for"


def test_attackers_and_their_parameters_are_checked() -> None:
    for changes, message in (
        ({"parameters.lli.hostile": ["s1"]}, "lli: 's1' is hostile, and can neither publish nor follow"),
        ({"parameters.lli.hostile": ["x9"]}, "lli: hostile node 'x9' is not a node"),
        ({"parameters.lli.hostile": []}, "lli.attack: it has no effect without hostile nodes"),
        ({"workload.idle_feeds": 0}, "lli.attack: idle asks for idle feeds; set workload.idle_feeds"),
    ):
        with pytest.raises(UserError, match=message):
            load("lli-storm", changes=changes)


def test_the_attacker_is_the_only_program_of_its_node() -> None:
    from testbed.experiment.emulated_run import Emulation
    from testbed.scenario import workload

    changes: dict[str, Any] = {"parameters.lli.attack": "rewind"}
    scenario = load("lli-storm", items=20, changes=changes)
    emulation = Emulation(scenario, "lli", workload.load(scenario))
    emulation.run(emulation.timeline.start + 2_000_000_000)
    node = emulation.nodes["x1"]
    assert isinstance(node, HostileNode)
    assert [program.endpoint for program in node.programs] == [node.attacker]
    counted = node.counters()
    assert counted["attacks"] > 100
    assert counted["attack_brought"] > counted["attack_bytes"] > 0
    assert "attacks" not in emulation.nodes["r2"].counters()
