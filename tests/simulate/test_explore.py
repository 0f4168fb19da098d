"""The search for stories that do what none has done before."""

from random import Random

import pytest
from mutants.patches import mutated
from mutants.push import MUTANTS

from testbed.verify.kit.explore import changed, explore
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.story import Story


def test_the_same_seed_gives_the_same_search() -> None:
    assert explore(3, PUSH, 40) == explore(3, PUSH, 40)


def test_changed_stories_show_what_new_ones_do_not() -> None:
    found = explore(1, PUSH, 80)
    assert not found.failures
    assert 0 < found.by_seeds < len(found.features)


def test_a_changed_story_is_a_story() -> None:
    rng = Random(1)
    for seed in range(100):
        story = changed(make_story(seed), PUSH, rng)
        assert Story.from_json(story.to_json()) == story
        assert [step.at for step in story.steps] == sorted(step.at for step in story.steps)
        assert all(step.at < story.calm for step in story.steps if step.do in ("cut", "restart", "inject"))


@pytest.mark.patches
def test_a_bug_is_found() -> None:
    with mutated("gap ignored", MUTANTS):
        assert explore(1, PUSH, 100).failures
