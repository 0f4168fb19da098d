"""Rungs of the ladder in whole networks: what must hold does on many seeds, and deliberate bugs are found."""

from itertools import count, islice

import pytest
from fresh_seeds import first_fresh_seed
from mutants.patches import mutated
from mutants.swarms import RUNG_MUTANTS

from testbed.layerings.peers.ladder import RUNGS as LADDER
from testbed.verify.kit.search import play_seeds
from testbed.verify.swarms.rungs import RUNGS, make_rungs

SEEDS = 40
FRESH = 20
WITHIN = 20
FROM = {"records of what was sent": 100_600}
"""Where the search for a mutant begins, if not at 0: one story of gossip-skip in 1,000 meets this one."""
RUNG_OF = {
    "records of what was sent": "gossip-skip",
    "ignored for ever": "gossip-skip",
    "the hub believes its record": "hub",
    "the hub passes nothing on": "hub",
    "floods stay at the author": "flood",
    "closed and kept": "gossip",
    "calls of others closed": "append-poll",
}
HAPPENS = {"joined", "published", "delivered", "link-down", "link-up", "restart", *LADDER}


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    found = play_seeds(range(SEEDS), RUNGS)
    assert not found.failures, found.failures
    assert {what for what in HAPPENS if not found.coverage[what]} == set()


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    first = first_fresh_seed()
    found = play_seeds(range(first, first + FRESH), RUNGS)
    assert not found.failures, found.failures


@pytest.mark.parametrize("seed", [153, 205])
def test_two_peers_that_poll_each_other_do_not_hang_up_on_each_other(seed: int) -> None:
    assert RUNGS.play_seed(seed).violation is None


def test_who_ignored_a_feed_that_was_empty_can_come_to_want_it() -> None:
    assert RUNGS.play_seed(41321703077784).violation is None


def test_a_replay_is_exact() -> None:
    first, again = RUNGS.play_seed(7), RUNGS.play_seed(7)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", RUNG_MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    stories = (seed for seed in count(FROM.get(name, 0)) if make_rungs(seed).rung == RUNG_OF[name])
    with mutated(name, RUNG_MUTANTS):
        caught = any(RUNGS.play_seed(seed).violation is not None for seed in islice(stories, WITHIN))
    assert caught, f"{name!r} passes {WITHIN} stories"
