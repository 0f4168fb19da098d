"""Climbs toward slow recovery: stories are changed again and again, and the slowest are kept.

Theory of operation. The measure of a story is the time from its last disturbance until every reader has
everything. Some stories are drawn from seeds; of all, those with the greatest measure are kept, one for each
measure, and changed a little (see explore) to make the next. A share is always new, as a climb ends on the
next hill.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random

from testbed.experiment.workers import work_off
from testbed.verify.simulate.explore import changed
from testbed.verify.simulate.make import make_story
from testbed.verify.simulate.promise import promise
from testbed.verify.simulate.story import Story
from testbed.verify.simulate.world import play

_NEW = 0.2
"""The share of stories that are made from a seed."""
_FIRST = 20
"""So many stories of a climb, at least, are made from a seed."""
_KEPT = 16
_PART = 300
"""Stories of one climb; the next begins with the slowest of all."""


@dataclass
class Climbed:
    """What a climb has met: how many stories; the slowest with their times, ns, in that order; failures."""

    stories: int = 0
    slowest: list[tuple[int, Story]] = field(default_factory=list)
    failures: list[tuple[Story, str]] = field(default_factory=list)

    def keep(self, time: int, story: Story) -> None:
        """Keep a story if it is among the slowest."""
        if all(time != other for other, _ in self.slowest):
            ranked = sorted([*self.slowest, (time, story)], key=lambda each: -each[0])
            self.slowest = ranked[:_KEPT]


@dataclass(frozen=True)
class _Task:
    seed: int
    stories: int
    begin: tuple[tuple[int, Story], ...] = ()


def climb(task: _Task) -> Climbed:
    """Play so many stories for which the short bound is promised; the same task gives the same climb."""
    rng = Random(task.seed)
    result = Climbed(slowest=list(task.begin))
    while result.stories < task.stories:
        is_new = not result.slowest or len(result.slowest) + result.stories < _FIRST or rng.random() < _NEW
        story = make_story(rng.getrandbits(48)) if is_new else changed(rng.choice(result.slowest)[1], rng)
        if not promise(story).is_plain:
            continue
        outcome = play(story)
        result.stories += 1
        if outcome.violation is not None:
            result.failures.append((story, str(outcome.violation)))
        elif outcome.caught_up is not None:
            result.keep(outcome.caught_up, story)
    return result


def climb_all(seed: int, stories: int, jobs: int) -> Generator[Climbed, None, None]:
    """Climb in `jobs` processes, in rounds that begin with the slowest so far; yield what each has met."""
    best = Climbed()
    at = 0
    while at < stories:
        tasks: list[_Task] = []
        while at < stories and len(tasks) < jobs:
            some = min(_PART, stories - at)
            tasks.append(_Task(seed * 1_000_003 + at, some, tuple(best.slowest)))
            at += some
        for found in work_off(climb, tasks, jobs):
            for time, story in found.slowest:
                best.keep(time, story)
            yield found
