"""Swarms of whole peers: what must hold holds on many seeds, and deliberate bugs are found."""

from collections import Counter

import pytest
from fresh_seeds import first_fresh_seed
from mutants.patches import mutated
from mutants.swarms import MUTANTS

from testbed.verify.kit.search import play_seeds
from testbed.verify.swarms.story import HOSTILE, make_swarm
from testbed.verify.swarms.world import SWARMS

SEEDS = 100
FRESH = 40
WITHIN = 150
FROM = {
    "called once": 187,
    "messages not verified": 182,
    "patience without end": 842,
    "progress not told": 157,
    "proofs of forks dropped": 225,
    "remote clock as sent": 1200,
}
"""Where the search for a mutant begins, if not at 150: before a story that meets it, maybe one in 400."""
HAPPENS = {
    *("write", "stored", "connected", "closed", "refused"),
    *(
        "cut",
        "heal",
        "restart",
        "forget",
        "follow",
        "leave",
        "block",
        "ended",
        "goes on",
        "want",
        "out of order",
    ),
}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), SWARMS)
    assert not found.failures, found.failures
    return found.coverage


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(0, SEEDS)
    assert {what for what in HAPPENS if not coverage[what]} == set()
    kinds = {kind for seed in range(SEEDS) for kind in make_swarm(seed).hostile.values()}
    assert kinds == {*HOSTILE}


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_wish_outlives_the_peer_that_heard_it() -> None:
    """A peer is killed that had heard that another one now replicates a feed; neither says so again."""
    played(19382910647803, 1)


@pytest.mark.parametrize("seed", range(0, 20, 4))
def test_a_replay_is_exact(seed: int) -> None:
    first, again = SWARMS.play_seed(seed), SWARMS.play_seed(seed)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    first = FROM.get(name, 150)
    with mutated(name, MUTANTS):
        caught = next(
            (seed for seed in range(first, first + WITHIN) if SWARMS.play_seed(seed).violation is not None),
            None,
        )
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
    assert SWARMS.play(make_swarm(caught)).violation is None
