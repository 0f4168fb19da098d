"""Name services, storages and devices that move: what must hold holds, and deliberate bugs are found."""

from collections import Counter

import pytest
from fresh_seeds import first_fresh_seed
from mutants.mapping import MUTANTS
from mutants.patches import mutated

from testbed.verify.kit.search import play_seeds
from testbed.verify.mapping.world import MAPPING

SEEDS = 13
FRESH = 3
CAUGHT_BY = {
    "replays believed": 4,
    "another id's record believed": 4,
    "items stored unverified": 2,
    "records not renewed": 12,
    "uploads sent once": 2,
    "places never asked for again": 1,
    "caches always asked": 7,
    "readers stay at the first place": 4,
}
"""The seed that finds a mutant, if not 0."""
HAPPENS = {
    *("delivered", "leave", "attach", "cut", "heal", "restart", "lie", "be honest", "forge"),
    *("server refused: forged", "server refused: older", "server refused: expired", "server refused: format"),
    *("reader refused: forged", "reader refused: expired"),
    *("storage refused: forged", "storage refused: format"),
}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), MAPPING)
    assert not found.failures, found.failures
    return found.coverage


@pytest.mark.compiled
def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(0, SEEDS)
    assert {what for what in HAPPENS if not coverage[what]} == set()


@pytest.mark.compiled
def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_replay_is_exact() -> None:
    first, again = MAPPING.play_seed(3), MAPPING.play_seed(3)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.patches
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    """By one of the seeds that the code without it passes."""
    seed = CAUGHT_BY.get(name, 0)
    assert seed < SEEDS
    with mutated(name, MUTANTS):
        assert MAPPING.play_seed(seed).violation is not None
