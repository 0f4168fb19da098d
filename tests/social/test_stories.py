"""Networks of SSB-aware forwarders: what must hold holds on many seeds, and deliberate bugs are found."""

from collections import Counter
from random import Random

import pytest
from fresh_seeds import first_fresh_seed
from mutants.patches import mutated
from mutants.social import MUTANTS

from base.units import MS, SECOND
from ssb.generate import generate_feed
from ssb.message import Message
from ssb_over_ndn.naming import log_name
from testbed.verify.kit.outcome import OutcomeOptions
from testbed.verify.kit.search import play_seeds
from testbed.verify.social.story import HOSTILE, LAYERINGS, Neighbourhood, identity_of, make_story
from testbed.verify.social.world import SOCIAL, SocialWorld

SEEDS = 8
FRESH = 4
FROM = {
    "graphs are one follow deeper": 15,
    "any feed is carried": 8,
    "forgeries are passed on": 14,
    "blocks are not read": 5,
    "caches outlive the graph": 5,
    "replicas outlive the graph": 5,
    "anybody attaches anybody": 96,
    "a log that is back is told again": 60,
    "Interests have no receiver": 4,
    "users never leave": 3,
}
"""Where the search for a mutant begins, if not at 0."""
WITHIN = 4
HAPPENS = {"items", "joined", "published", "delivered", "cut", "heal", "restart", "forged items"}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), SOCIAL)
    assert not found.failures, found.failures
    return found.coverage


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(10, SEEDS)
    assert {what for what in HAPPENS if not coverage[what]} == set()
    stories = [make_story(seed) for seed in range(10, 10 + SEEDS)]
    assert {kind for story in stories for kind in story.strangers.values()} == {*HOSTILE}
    assert {story.layering for story in stories} == {*LAYERINGS}


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_lost_last_item_is_noticed_beside_short_lifetimes() -> None:
    played(75, 1)


def test_interests_do_not_go_to_users_who_refuse_them() -> None:
    """A user at two places passed attachments on, and seemed to be the way to another user."""
    played(78, 1)


@pytest.mark.slow
def test_what_must_hold_holds_on_many_seeds() -> None:
    played(first_fresh_seed() + FRESH, 300)


def test_a_replay_is_exact() -> None:
    first, again = SOCIAL.play_seed(1), SOCIAL.play_seed(1)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    seeds = range(FROM.get(name, 0), FROM.get(name, 0) + WITHIN)
    with mutated(name, MUTANTS):
        caught = next((seed for seed in seeds if SOCIAL.play_seed(seed).violation is not None), None)
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
    assert SOCIAL.play(make_story(caught)).violation is None


def time_to_follow(layering: str, strangers: dict[str, str], items: int = 150) -> int:
    """Return when a follower has a log, ns, that all is written at once and crosses two routers."""
    writer, reader = identity_of(0, "p0"), identity_of(0, "p1")
    follow = {"type": "contact", "contact": writer.ref, "following": True}
    back = {"type": "contact", "contact": reader.ref, "following": True}
    ends = [("p0", "r0"), ("r0", "r1"), ("p1", "r1"), *((stranger, "r1") for stranger in strangers)]
    links = tuple({"a": a, "b": b, "delay_ms": 5.0, "bw_mbit": 4.0} for a, b in ends)
    say = (Message.create(reader, None, follow, 0),)
    log = (Message.create(writer, None, back, 0),)
    log += tuple(generate_feed(Random(3), items, writer, log[0]))
    logs = {"p0": (log, (100 * MS,) + (2 * SECOND,) * items), "p1": (say, (100 * MS,))}
    story = Neighbourhood(
        seed=0,
        layering=layering,
        hops=2,
        routers=("r0", "r1"),
        people=("p0", "p1"),
        strangers=strangers,  # type: ignore[arg-type]
        links=links,
        away=(),
        logs=logs,
        steps=(),
    )
    world = SocialWorld(story, OutcomeOptions(), rate=200)
    while world.nodes["p1"].keeper.replicas.tip(log_name(writer.ref)) <= items:
        assert world.network.now < 60 * SECOND
        world.network.run(world.network.now + 10 * MS)
    return world.network.now - 2 * SECOND


@pytest.mark.parametrize("layering", LAYERINGS)
def test_who_floods_costs_others_a_tenth_at_most(layering: str) -> None:
    """2,000 Interests a second, of 4 Mbit/s."""
    quiet = time_to_follow(layering, {})
    assert time_to_follow(layering, {"s0": "floods"}) <= 1.1 * quiet
