"""Small changes that fit the stories of any family, for exploring and climbing."""

from dataclasses import replace
from random import Random
from typing import Any

from testbed.verify.kit.family import S

_BAD: tuple[dict[str, float], ...] = (
    {},
    {"loss_percent": 2.0},
    {"reorder_percent": 2.0},
    {"duplicate_percent": 2.0},
)


def change_luck(story: S, rng: Random) -> S:
    """Change the frames' random fates."""
    return replace(story, seed=rng.getrandbits(48))


def move_step(story: S, rng: Random) -> S:
    """Move a step: slightly, to another step's time, or anywhere."""
    if not story.steps:
        return story
    index = rng.randrange(len(story.steps))
    step = story.steps[index]
    near = step.at + rng.choice((-1, 1)) * rng.choice((1, 5, 50, 500)) * story.MS
    beside = rng.choice(story.steps).at + rng.randrange(10 * story.MS)
    at = rng.choice((near, beside, rng.randrange(story.span)))
    moved = step._replace(at=max(0, min(at, story.latest(step))))
    return replace(story, steps=(*story.steps[:index], moved, *story.steps[index + 1 :]))


def remove_step(story: S, rng: Random) -> S:
    """Remove a step."""
    if len(story.steps) < 3:
        return story
    index = rng.randrange(len(story.steps))
    return replace(story, steps=story.steps[:index] + story.steps[index + 1 :])


def repeat_step(story: S, rng: Random) -> S:
    """Repeat a step at another time."""
    if not story.steps:
        return story
    step = rng.choice(story.steps)
    return replace(story, steps=(*story.steps, step._replace(at=rng.randrange(story.span))))


def change_link_quality(story: Any, rng: Random) -> Any:
    """Improve or degrade a link of an emulated network."""
    index = rng.randrange(len(story.links))
    a, b = story.links[index]["a"], story.links[index]["b"]
    link = {"a": a, "b": b, "delay_ms": rng.choice((0.5, 5.0, 20.0)), **rng.choice(_BAD)}
    return replace(story, links=(*story.links[:index], link, *story.links[index + 1 :]))


CHANGES = (change_luck, move_step, move_step, remove_step, repeat_step, change_link_quality)
"""For stories of emulated networks."""
