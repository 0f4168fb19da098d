"""Each deliberate bug is found, in a story that the code without it passes."""

import warnings
from collections.abc import Iterable
from itertools import chain

import pytest
from mutants.patches import mutated
from mutants.push import COSTLY, MUTANTS
from mutants.sources import SOURCE_COSTLY, SOURCE_MUTANTS
from saved_stories import SAVED

from base.units import SECOND
from testbed.verify.classic.family import CLASSIC
from testbed.verify.kit.outcome import Outcome
from testbed.verify.kit.shrink import shrink
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.story import Story

ALL = MUTANTS | SOURCE_MUTANTS
ALL_COSTLY = COSTLY | SOURCE_COSTLY

WITHIN = 400
"""Seeds."""
FIRST = 20
"""Seeds that are played before the saved stories, which take longer."""
CAUGHT_BY = {
    "Nack ignored": 343,
    "backfill not repeated": "first-believed-for-ever",
    "backlink unchecked": 14,
    "cancel for all": "go-back-n-without-a-source",
    "death not told": "first-answer-from-afar",
    "digest not compared": "low-hop-limit-from-a-stranger",
    "duplicate LLI heeded": 13,
    "few nonces known": "more-llis-at-once-than-nonces-known",
    "fork accepted": 14,
    "grant shortened": "downstream-is-asked-last",
    "haves not compared": "back-an-item-at-a-time",
    "hop limits not counted": 1043,
    "hops not counted": "go-back-n-without-a-source",
    "idle answer ignored": "items-taken-for-lost-that-do-not-exist",
    "loop not detected": 343,
    "missed rewind": "answers-after-the-time-out",
    "missing items not named": "spent-range-keeps-a-dead-hop",
    "no second try": 2785,
    "nonce made up": 343,
    "nothing sent again": "go-back-n-in-step",
    "past not fetched": "first-believed-for-ever",
    "proof not missed": 24,
    "proof not propagated": 14,
    "proof unchecked": 177,
    "pulled once": "downstream-is-asked-last",
    "refused without a word": 200110,
    "repaired once": 11,
    "round trip of another answer": "answer-to-an-lli-given-up",
    "signature unchecked": "storm-of-rewinds",
    "silence unnoticed": 409,
    "silent hops forgotten": "left-hop-delivers",
    "stray Nack believed": 13,
    "tail-loss probe missing": 17,
    "waiting not told": 600109,
    "way to the source not shown": "repair-lost-as-well",
    "what comes by name taken for pushed": "stored-item-is-waited-for",
    "what was forgotten not asked for": 200006,
    "who alone asks is asked": 771300112947,
    "wish met twice": "pulled-from-a-dead-hop",
}
"""Saved stories and seeds that are played first, as the search takes longer: few stories meet these bugs, and
one of those before is a storm of frames under them."""
COSTS = {
    "checks not made": "feed-forgotten-while-asked-for",
    "demand not made": 702280,
    "demand not met": 702280,
    "demand not passed on": 702280,
    "notice not repeated": 702410,
    "probes never rarer": "too-short-to-find-out-silence",
    "refused in step": 201398,
    "renewals that the holder alone believes": "answers-after-the-time-out",
    "rest of a lifetime renewed": 700276,
    "silent hops not pulled from": 200778,
    "who pushes not gone on with": "pulled-by-entries-of-one-item",
}
"""Where a bug that breaks nothing costs a second, or half as many frames again."""


def known(where: int | str) -> Story:
    return make_story(where) if isinstance(where, int) else SAVED[where]


def which(story: Story) -> int | str:
    return next((name for name, saved in SAVED.items() if saved is story), story.seed)


def first_caught(name: str, saved: Iterable[Story] = ()) -> Story:
    first = [known(CAUGHT_BY[name])] if name in CAUGHT_BY else []
    with mutated(name, ALL):
        seeds = map(make_story, range(FIRST)), map(make_story, range(FIRST, WITHIN))
        for story in chain(first, seeds[0], saved, seeds[1]):
            if CLASSIC.play(story).violation is not None:
                if first and story is not first[0]:
                    warnings.warn(
                        f"CAUGHT_BY: {CAUGHT_BY[name]} does not meet {name!r}; {which(story)} does",
                        stacklevel=2,
                    )
                return story
    pytest.fail(f"{name!r} passes {WITHIN} seeds")


@pytest.mark.patches
@pytest.mark.parametrize("name", ALL)
def test_a_mutant_is_caught(name: str) -> None:
    assert CLASSIC.play(first_caught(name, SAVED.values())).violation is None


def sent(outcome: Outcome) -> int:
    return sum(count for what, count in outcome.coverage.items() if what.startswith("sent "))


@pytest.mark.patches
@pytest.mark.parametrize("name", ALL_COSTLY)
def test_a_bug_costs_time_or_frames(name: str) -> None:
    story = known(COSTS[name])
    without = CLASSIC.play(story)
    with mutated(name, ALL_COSTLY):
        beside = CLASSIC.play(story)
    assert without.violation is None
    is_slower = beside.caught_up is not None and beside.caught_up > (without.caught_up or 0) + SECOND
    assert is_slower or sent(beside) > sent(without) * 3 // 2


def test_a_mutant_is_gone_after_its_context() -> None:
    before = {owner: dict(vars(owner)) for patches in ALL.values() for owner, _, _ in patches}
    for name in ALL:
        with mutated(name, ALL):
            assert any(dict(vars(owner)) != attributes for owner, attributes in before.items())
    assert {owner: dict(vars(owner)) for owner in before} == before


def size(story: Story) -> int:
    return sum(map(len, (story.nodes, story.links, story.feeds, story.subscribers, story.steps)))


@pytest.mark.patches
@pytest.mark.parametrize("name", ["credit off by one", "gap ignored", "range not dropped with its face"])
def test_a_failing_story_shrinks_and_still_fails(name: str) -> None:
    story = first_caught(name)
    with mutated(name, MUTANTS):
        long = CLASSIC.play(story).violation
        shrunk = shrink(CLASSIC, story)
        short = CLASSIC.play(shrunk).violation
    assert long is not None
    assert short is not None
    assert short.invariant == long.invariant
    assert CLASSIC.play(shrunk).violation is None
    assert len(shrunk.nodes) <= 4
    assert len(shrunk.steps) <= 5
    assert size(shrunk) < size(story)
    assert sum(step.what[2] for step in shrunk.steps if step.do == "publish") <= 12  # type: ignore[misc]


@pytest.mark.patches
def test_shrinking_is_bounded_and_repeatable() -> None:
    story = first_caught("gap ignored")
    with mutated("gap ignored", MUTANTS):
        assert shrink(CLASSIC, story, plays=3) == shrink(CLASSIC, story, plays=3)
        assert shrink(CLASSIC, story) == shrink(CLASSIC, story)


def test_a_story_that_passes_does_not_shrink() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(CLASSIC, make_story(0))
