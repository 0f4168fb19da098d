"""Each deliberate bug is found, in a story that the code without it passes."""

from collections.abc import Iterable
from itertools import chain

import pytest
from saved_stories import SAVED

from testbed.verify.simulate.make import make_story
from testbed.verify.simulate.mutants import COSTLY, MUTANTS, mutated
from testbed.verify.simulate.shrink import shrink
from testbed.verify.simulate.source_mutants import SOURCE_MUTANTS
from testbed.verify.simulate.story import Story
from testbed.verify.simulate.world import SECOND_NS, play

ALL = MUTANTS | SOURCE_MUTANTS

WITHIN = 400
"""Seeds."""
FIRST = 20
"""Seeds that are played before the saved stories, which take longer."""
CAUGHT_BY = {
    "Nack ignored": "lifetime-ends-before-the-search",
    "ambiguous answers believed": "answer-to-another",
    "cancel for all": "downstream-is-the-only-way",
    "idle answer ignored": "forgery-spoils-a-repair",
    "loop not detected": "lifetime-ends-before-the-search",
    "no second try": "feeds-that-share-a-hop",
    "nonce made up": "loop-in-step-with-probes",
    "nothing sent again": "go-back-n-in-step",
    "past not fetched": "past-item-is-a-sign-of-life",
    "producer not told of a fork": "producer-not-told-of-the-fork",
    "pulled back": "cache-of-a-dead-hop-looks-like-life",
    "pulled once": "downstream-is-asked-last",
    "refused in step": "past-item-is-a-sign-of-life",
    "refused without a word": "lifetime-ends-before-the-search",
    "signature unchecked": 267,
    "stray Nack believed": "loop-in-step-with-probes",
    "wish met twice": "pulled-from-a-dead-hop",
}
"""Saved stories and seeds that are played first, as the search takes long: few stories meet these bugs, and
one of those before is a storm of frames under them."""


def first_caught(name: str, saved: Iterable[Story] = ()) -> Story:
    known = CAUGHT_BY.get(name)
    first = [] if known is None else [make_story(known) if isinstance(known, int) else SAVED[known]]
    with mutated(name, ALL):
        seeds = map(make_story, range(FIRST)), map(make_story, range(FIRST, WITHIN))
        for story in chain(first, seeds[0], saved, seeds[1]):
            if play(story).violation is not None:
                return story
    pytest.fail(f"{name!r} passes {WITHIN} seeds")


@pytest.mark.patches
@pytest.mark.parametrize("name", ALL)
def test_a_mutant_is_caught(name: str) -> None:
    assert play(first_caught(name, SAVED.values())).violation is None


@pytest.mark.patches
@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("repair to the cheapest hop", "repair-by-name-at-a-dead-hop"),
    ],
)
def test_a_bug_costs_time(name: str, saved: str) -> None:
    story = SAVED[saved]
    without = play(story).caught_up
    with mutated(name, COSTLY):
        slower = play(story).caught_up
    assert without is not None
    assert slower is not None
    assert slower > without + SECOND_NS


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
    with mutated(name):
        long = play(story).violation
        shrunk = shrink(story)
        short = play(shrunk).violation
    assert long is not None
    assert short is not None
    assert short.invariant == long.invariant
    assert play(shrunk).violation is None
    assert len(shrunk.nodes) <= 4
    assert len(shrunk.steps) <= 5
    assert size(shrunk) < size(story)
    assert sum(step.what[2] for step in shrunk.steps if step.do == "publish") <= 12  # type: ignore[misc]


@pytest.mark.patches
def test_shrinking_is_bounded_and_repeatable() -> None:
    story = first_caught("gap ignored")
    with mutated("gap ignored"):
        assert shrink(story, plays=3) == shrink(story, plays=3)
        assert shrink(story) == shrink(story)


def test_a_story_that_passes_does_not_shrink() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(make_story(0))
