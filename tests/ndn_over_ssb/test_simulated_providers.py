"""Networks of providers: what must hold holds on many seeds, and deliberate bugs are found."""

from collections import Counter

import pytest
from fresh_seeds import first_fresh_seed
from mutants.patches import mutated
from mutants.providers import MUTANTS

from ndn_over_ssb.contract import Terms
from testbed.verify.kit.search import play_seeds
from testbed.verify.providers.network import Producer, ProviderNetwork
from testbed.verify.providers.story import HOSTILE, make_story
from testbed.verify.providers.world import PROVIDERS

SEEDS = 24
FRESH = 6
WITHIN = 20
FROM = {
    "a delegated prefix is its giver's": 14,
    "any rate": 36,
    "caches keep what was revoked": 1,
    "feeds read are kept": 2,
    "lines stay when contracts end": 1,
    "messages read twice": 2,
    "no new epoch": 1,
    "no routes": 3,
    "nothing is acknowledged": 2,
}
"""Where the search for a mutant begins, if not at 0: at a short story that meets it."""
HAPPENS = {
    *("ask", "data", "timeout", "nack 50", "nack 150"),
    *("cut", "heal", "restart", "end", "request", "revoke", "give"),
}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), PROVIDERS)
    assert not found.failures, found.failures
    return found.coverage


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(0, SEEDS)
    assert {what for what in HAPPENS if not coverage[what]} == set()
    kinds = {kind for seed in range(SEEDS) for kind in make_story(seed).hostile.values()}
    assert kinds == {*HOSTILE}


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


@pytest.mark.parametrize("seed", range(0, 12, 4))
def test_a_replay_is_exact(seed: int) -> None:
    first, again = PROVIDERS.play_seed(seed), PROVIDERS.play_seed(seed)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    seeds = range(FROM.get(name, 0), FROM.get(name, 0) + WITHIN)
    with mutated(name, MUTANTS):
        caught = next((seed for seed in seeds if PROVIDERS.play_seed(seed).violation is not None), None)
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
    assert PROVIDERS.play(make_story(caught)).violation is None


def test_a_day_leaves_no_more_than_half_of_it() -> None:
    """Transient feeds come and go; what is stored stays within the contract's bound."""
    pairs = [("customer", "nfp"), ("repository", "nfp"), ("root", "nfp")]
    net = ProviderNetwork([{"a": a, "b": b, "delay_ms": 5.0} for a, b in pairs], pairs)
    terms = Terms(entries=16, unread=2, term_s=2 * 86_400)
    net.add("root")
    net.add("nfp", offer=Terms(term_s=2 * 86_400))
    net.add("repository", producer=Producer(lambda name: None))
    net.add("customer")
    net.allocate("/a", "repository", ["repository"])
    net.run(2)
    net.request("customer", "nfp", terms)
    net.request("repository", "nfp", terms)
    net.run(2)
    most = [0, 0]
    for number in range(24 * 60):
        net.ask("customer", f"/a/{number}", lifetime_ms=1000)
        net.run(60)
        half = number // (12 * 60)
        most[half] = max(most[half], *(sum(map(store.bytes, store.tips())) for store in net.stores.values()))
    written = sum(line.written for node in net.nodes.values() for line in node.links())
    assert written >= 2 * 24 * 60
    assert all(line.stored <= 2 * 4 * 16 for node in net.nodes.values() for line in node.links())
    assert most[1] <= 1.05 * most[0]
