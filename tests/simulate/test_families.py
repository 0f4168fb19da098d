"""What the kit does, it does for all families: stories are saved, cut down, drawn, explored and climbed."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from mutants.mapping import MUTANTS as MAPPING
from mutants.patches import Mutants, mutated
from mutants.providers import MUTANTS as PROVIDERS
from mutants.social import MUTANTS as SOCIAL
from mutants.swarms import MUTANTS as SWARMS
from mutants.swarms import RUNG_MUTANTS as RUNGS
from mutants.tiny import MUTANTS as TINY
from slow import but_slow

from testbed.cli.simulate import FAMILIES, simulate
from testbed.verify.kit.chart import draw
from testbed.verify.kit.explore import climb_all, explore
from testbed.verify.kit.family import Family, from_text, to_text
from testbed.verify.kit.shrink import shrink
from testbed.verify.kit.story import without

EMULATED = [name for name in FAMILIES if name not in ("push", "classic")]
BUGS: dict[str, tuple[Mutants, str, int]] = {
    "swarms": (SWARMS, "messages told again", 150),
    "rungs": (RUNGS, "floods stay at the author", 0),
    "providers": (PROVIDERS, "messages read twice", 2),
    "social": (SOCIAL, "graphs are one follow deeper", 15),
    "mapping": (MAPPING, "signatures unchecked", 0),
    "tiny": (TINY, "routes stay", 0),
}
"""A bug of each family, and the first of some seeds that find it."""
PLAYS = 30


@pytest.fixture(params=[*FAMILIES])
def family(request: pytest.FixtureRequest) -> Family[Any]:
    return FAMILIES[request.param]


@pytest.fixture(
    params=["push", "tiny", pytest.param("others", marks=[pytest.mark.slow, pytest.mark.patches])]
)
def families(request: pytest.FixtureRequest) -> list[Family[Any]]:
    others = [name for name in FAMILIES if name not in ("push", "tiny")]
    return [FAMILIES[name] for name in (others if request.param == "others" else [request.param])]


def test_a_saved_story_is_the_story(family: Family[Any]) -> None:
    for seed in range(20):
        story = family.make(seed)
        again, loaded = from_text(to_text(family, story), FAMILIES, "push")
        assert again is family
        assert loaded == story
        assert not {"seed", "steps"} - json.loads(to_text(family, story)).keys()


def test_a_recorded_story_ends_as_it_does_otherwise(family: Family[Any]) -> None:
    story = family.make(1)
    plain, watched = family.play(story), family.play(story, record=True, watch=True)
    assert (plain.digest, plain.time) == (watched.digest, watched.time)
    assert watched.rows
    assert watched.features
    assert draw(story, watched).startswith(f"seed {story.seed}; times in ms\n")


def test_exploring_finds_more_than_seeds_do(families: list[Family[Any]]) -> None:
    for family in families:
        found = explore(1, family, 12)
        assert found.stories == 12
        assert found.by_seeds <= len(found.features)


def test_climbing_keeps_the_slowest(families: list[Family[Any]]) -> None:
    for family in families:
        (found,) = climb_all(family, 1, 6, 1)
        times = [time for time, _ in found.slowest]
        assert times == sorted(times, reverse=True)
        assert found.stories == 6


def test_a_node_goes_with_all_that_has_to_do_with_it() -> None:
    for name in EMULATED:
        story = FAMILIES[name].make(3)
        gone = story.columns[-1]
        left = without(story, gone)
        assert gone not in left.columns
        assert all(gone not in step.what for step in left.steps)


@pytest.mark.patches
@pytest.mark.parametrize("name", but_slow(BUGS, "providers", "tiny"))
def test_a_failing_story_shrinks_and_still_fails(name: str) -> None:
    family, (mutants, bug, first) = FAMILIES[name], BUGS[name]
    with mutated(bug, mutants):
        stories = map(family.make, range(first, first + 40))
        story = next(story for story in stories if family.play(story).violation is not None)
        short = shrink(family, story, plays=PLAYS)
        before, after = family.play(story).violation, family.play(short).violation
    assert before is not None
    assert after is not None
    assert before.kind == after.kind
    assert len(json.dumps(short.to_json())) < len(json.dumps(story.to_json()))


def test_bad_combinations_are_one_line() -> None:
    for arguments, said in (
        (["tiny", "--exhaustive"], "--exhaustive is for push, not for tiny."),
        (["--frames", "3"], "--frames has no effect without --exhaustive."),
        (["tiny", "--story", "x"], "has no effect with --story"),
        (["rings"], "'rings' is not one of 'push'"),
    ):
        ran = CliRunner().invoke(simulate, arguments)
        assert ran.exit_code == 2
        assert said in ran.output
