"""Every schedule of one fault: no set is left out or played twice, and no invariant fails."""

from math import comb

import pytest
from mutants.patches import mutated
from mutants.push import MUTANTS

from base.units import SECOND
from testbed.verify.push.exhaust import EXCHANGES, GRIDS, WAYS, cover, outages, schedules
from testbed.verify.push.family import PUSH

FRAMES = 8


@pytest.mark.parametrize("name", EXCHANGES)
def test_every_schedule_of_one_fault_holds(name: str) -> None:
    covered = cover(name, FRAMES, 1)
    assert covered.violation is None, covered.story
    assert covered.schedules == 1 + FRAMES * len(WAYS)


def test_each_set_of_faults_is_played_once() -> None:
    played = [story.fates for story, _ in schedules(EXCHANGES["two nodes"], 4, 2)]
    assert len(set(played)) == len(played)
    # Those of faults that leave the later frames where they are: all but a few, so no fewer than without.
    assert len(played) == 1 + 4 * len(WAYS) + comb(4, 2) * len(WAYS) ** 2


@pytest.mark.parametrize("name", GRIDS)
def test_every_outage_of_a_mesh_holds(name: str) -> None:
    covered = cover(name, 0, 0)
    assert covered.violation is None, covered.story
    assert covered.schedules == len(set(outages(*GRIDS[name])))
    assert covered.slowest < 4 * SECOND  # a Hello's time, and a second


def test_relays_of_a_mesh_lose_their_only_way_together() -> None:
    together = sum(
        PUSH.play(story).coverage["relays lost their only way together"]
        for story in outages(100_000, 400_000)
        if story.converge is None
    )
    assert together >= 5


@pytest.mark.patches
def test_a_bug_is_found() -> None:
    with mutated("gap ignored", MUTANTS):
        assert any(cover(name, FRAMES, 1).violation is not None for name in EXCHANGES)


def recoveries(name: str) -> list[int]:
    outcomes = [outcome for _, outcome in schedules(EXCHANGES[name], 60, 1)]
    assert all(outcome.violation is None for outcome in outcomes)
    return [outcome.caught_up or 0 for outcome in outcomes]


@pytest.mark.patches
def test_a_bug_that_others_make_good_costs_time() -> None:
    name = "a late joiner, the past is beyond a legacy forwarder"
    without = recoveries(name)
    with mutated("backfill not repeated", MUTANTS):
        slower = recoveries(name)
    assert len(slower) == len(without)
    assert sum(slower) > 1.2 * sum(without)
