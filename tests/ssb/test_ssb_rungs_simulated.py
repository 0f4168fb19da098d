"""Rungs of the ladder in whole networks: what must hold holds on many seeds, and deliberate bugs are found."""

import pytest
from fresh_seeds import first_fresh_seed

from testbed.layerings.ladder import RUNGS
from testbed.verify.simulate.mutants import mutated
from testbed.verify.simulate.search import play_seeds
from testbed.verify.swarms.mutants import RUNG_MUTANTS
from testbed.verify.swarms.rungs import play_rungs

SEEDS = 40
FRESH = 40
WITHIN = 150
HAPPENS = {"joined", "published", "delivered", "link-down", "link-up", "restart", *RUNGS}


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    found = play_seeds(range(SEEDS), play_rungs)
    assert not found.failures, found.failures
    assert {what for what in HAPPENS if not found.coverage[what]} == set()


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    first = first_fresh_seed()
    found = play_seeds(range(first, first + FRESH), play_rungs)
    assert not found.failures, found.failures


@pytest.mark.parametrize("seed", [153, 205])
def test_two_peers_that_poll_each_other_do_not_hang_up_on_each_other(seed: int) -> None:
    assert play_rungs(seed).violation is None


def test_a_replay_is_exact() -> None:
    first, again = play_rungs(7), play_rungs(7)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", RUNG_MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    with mutated(name, RUNG_MUTANTS):
        caught = next((seed for seed in range(WITHIN) if play_rungs(seed).violation is not None), None)
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
