"""Some hundreds of small worlds of classic NDN: what must hold, holds."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from fresh_seeds import first_fresh_seed
from mutants.classic import CLASSIC_MUTANTS
from mutants.patches import mutated
from saved_stories import SAVED

from testbed.cli.simulate import FAMILIES, simulate
from testbed.verify.classic.family import CLASSIC
from testbed.verify.classic.story import make_classic
from testbed.verify.kit.chart import draw
from testbed.verify.kit.family import from_text
from testbed.verify.kit.search import play_seeds
from testbed.verify.kit.shrink import shrink
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.story import Story

SEEDS = 200
FRESH = 150
WITHIN = 150
"""Seeds in which a mutant is caught."""

CLASSIC_STORIES = {name: story for name, story in SAVED.items() if story.is_classic}

HAPPENS = {
    *("frame lost", "frame twice", "frame late", "frame lost: cut", "frame lost: queue full"),
    *("cut, signalled", "cut, silent", "heal", "restart", "face made anew"),
    *("sent interest", "sent data", "sent item", "sent nack", "sent fragment", "sent ack", "sent repeat"),
    *("asked: is answered", "asked: times out"),
    *(f"asked: is refused, reason {reason}" for reason in (50, 100, 150)),
    *(f"followed {layering}" for layering in ("pull", "poll", "long-lived", "notify", "persistent", "sync")),
    *("congestion mark", "sent lli", "delivered"),  # beside controlled push
}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), CLASSIC)
    if found.failures:
        short = shrink(CLASSIC, make_classic(found.failures[0].seed))
        pytest.fail(f"{found.failures}\n{draw(short, CLASSIC.play(short, record=True))}")
    return found.coverage


@pytest.mark.compiled
def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(0, SEEDS)
    assert {what for what in HAPPENS if not coverage[what]} == set()


@pytest.mark.compiled
def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_classic_story_is_json_and_is_another_one() -> None:
    for seed in range(50):
        story = make_classic(seed)
        assert Story.from_json(json.loads(json.dumps(story.to_json()))) == story
        assert story.is_classic
        assert not make_story(seed).is_classic


@pytest.mark.parametrize("seed", range(0, 20, 4))
def test_a_replay_is_exact(seed: int) -> None:
    first, again = CLASSIC.play(make_classic(seed)), CLASSIC.play(make_classic(seed), record=True)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.patches
@pytest.mark.parametrize("name", CLASSIC_MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    with mutated(name, CLASSIC_MUTANTS):
        stories = [*CLASSIC_STORIES.values(), *map(make_classic, range(WITHIN))]
        caught = next((story for story in stories if CLASSIC.play(story).violation is not None), None)
    assert caught is not None
    assert CLASSIC.play(caught).violation is None


@pytest.mark.patches
def test_the_command_shrinks_draws_saves_and_replays(tmp_path: Path) -> None:
    story = tmp_path / "story.json"
    options = ["classic", "--seeds", "60", "--first", "4", "--jobs", "1", "--save", str(story)]
    with mutated("Data sent back", CLASSIC_MUTANTS):
        failed = CliRunner().invoke(simulate, options)
        assert failed.exit_code == 1, failed.output
        assert "replay: feednet simulate classic --seed " in failed.output
        assert "VIOLATED  unasked" in failed.output
        family, saved = from_text(story.read_text(), FAMILIES, "")
        assert family is CLASSIC
        assert len(saved.columns) <= 3
        assert len(saved.steps) <= 3
    held = CliRunner().invoke(simulate, ["--story", str(story)])
    assert held.exit_code == 0
    assert "everything holds" in held.output


def test_classic_is_a_family_of_seeds() -> None:
    assert "everything holds" in CliRunner().invoke(simulate, ["classic", "--seed", "3"]).output
    assert CliRunner().invoke(simulate, ["classic", "--exhaustive"]).exception is not None
