"""Climbs toward slow recovery: stories are changed again and again, and the slowest are kept.

Theory of operation. The measure of a story is the time from its last disturbance until every reader has
everything. Some stories are drawn from seeds; of all, those with the greatest measure are kept, one for each
measure, and changed a little (see explore) to make the next. A share is always new, as a climb ends on the
next hill.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Generic

from testbed.experiment.workers import work_off
from testbed.verify.kit.explore import changed
from testbed.verify.kit.family import Family, S

_NEW = 0.2
"""The share of stories that are made from a seed."""
_FIRST = 20
"""So many stories of a climb, at least, are made from a seed."""
_KEPT = 16
_PART = 300
"""Stories of one climb; the next begins with the slowest of all."""


@dataclass
class Climbed(Generic[S]):
    """What a climb has met: how many stories; the slowest with their times, ns, in that order; failures."""

    stories: int = 0
    slowest: list[tuple[int, S]] = field(default_factory=list)
    failures: list[tuple[S, str]] = field(default_factory=list)

    def keep(self, time: int, story: S) -> None:
        """Keep a story if it is among the slowest."""
        if all(time != other for other, _ in self.slowest):
            ranked = sorted([*self.slowest, (time, story)], key=lambda each: -each[0])
            self.slowest = ranked[:_KEPT]


@dataclass(frozen=True)
class Task(Generic[S]):
    """A climb: the seed of what it draws, how many stories, and those that it begins with."""

    seed: int
    stories: int
    begin: tuple[tuple[int, S], ...] = ()


def climb(task: Task[S], family: Family[S]) -> Climbed[S]:
    """Play so many stories for which the short bound is promised; the same task gives the same climb."""
    rng = Random(task.seed)
    result = Climbed(slowest=list(task.begin))
    while result.stories < task.stories:
        is_new = not result.slowest or len(result.slowest) + result.stories < _FIRST or rng.random() < _NEW
        if is_new:
            story = family.make(rng.getrandbits(48))
        else:
            story = changed(rng.choice(result.slowest)[1], family, rng)
        if not family.is_plain(story):
            continue
        outcome = family.play(story)
        result.stories += 1
        if outcome.violation is not None:
            result.failures.append((story, str(outcome.violation)))
        elif outcome.caught_up is not None:
            result.keep(outcome.caught_up, story)
    return result


def climb_all(family: Family[S], seed: int, stories: int, jobs: int) -> Generator[Climbed[S], None, None]:
    """Climb in `jobs` processes, in rounds that begin with the slowest so far; yield what each has met."""
    best: Climbed[S] = Climbed()
    at = 0
    while at < stories:
        tasks: list[Task[S]] = []
        while at < stories and len(tasks) < jobs:
            some = min(_PART, stories - at)
            tasks.append(Task(seed * 1_000_003 + at, some, tuple(best.slowest)))
            at += some
        for found in work_off(partial(climb, family=family), tasks, jobs):
            for time, story in found.slowest:
                best.keep(time, story)
            yield found
