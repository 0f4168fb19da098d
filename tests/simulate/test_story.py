"""Stories: made from a seed, plain, and replayed to the byte."""

import json
from dataclasses import replace

import pytest

from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.story import Fate, Story


def test_a_story_is_json() -> None:
    for seed in range(50):
        story = make_story(seed)
        assert Story.from_json(json.loads(json.dumps(story.to_json()))) == story
    pinned = replace(make_story(1), fates=(Fate("a", "b", 3, "late", 5000),))
    assert Story.from_json(json.loads(json.dumps(pinned.to_json()))) == pinned


def test_a_seed_is_one_story_and_another_another() -> None:
    assert make_story(3) == make_story(3)
    assert len({make_story(seed) for seed in range(50)}) == 50


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_replay_is_exact(seed: int) -> None:
    first, again = PUSH.play(make_story(seed)), PUSH.play(make_story(seed), record=True)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)
    assert first.fates == again.fates
    assert again.rows


def test_worlds_differ_by_their_seed() -> None:
    assert len({PUSH.play(make_story(seed)).digest for seed in range(20)}) == 20


def test_pinned_fates_replay_the_luck_of_a_seed() -> None:
    seen = 0
    for seed in range(40):
        story = make_story(seed)
        drawn = PUSH.play(story)
        seen += len(drawn.fates)
        assert PUSH.play(replace(story, fates=tuple(drawn.fates))).digest == drawn.digest
    assert seen > 20


def test_a_fate_is_its_frames_alone() -> None:
    # With other luck on one link, a frame of the other still meets what its own number has in store.
    story = next(s for s in map(make_story, range(1000)) if len(s.links) == 2 and s.links[0].lost >= 0.1)
    quiet = replace(story, links=(story.links[0], replace(story.links[1], lost=0.0, twice=0.0, late=0.0)))
    pair = {story.links[0].a, story.links[0].b}
    first, second = (
        {(fate.a, fate.b, fate.n): fate for fate in PUSH.play(s).fates if {fate.a, fate.b} == pair}
        for s in (story, quiet)
    )
    both = first.keys() & second.keys()
    assert both
    assert all(first[key] == second[key] for key in both)
