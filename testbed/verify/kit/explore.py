"""Searches among mutated stories: exploring for novelty, climbing towards slow recovery.

Theory of operation. Some stories are drawn from seeds; useful ones are kept, and mutated: times, luck, links,
failures. A share is always new, so that a search does not dwell on its beginning.

Exploring works like a coverage-guided fuzzer. Features are given by an outcome: a transition of a node's
state, or the frequency of an event. Stories with a new feature are kept, and so are the slowest. Climbing
keeps only the slowest, by the time from a story's last disturbance until everyone has everything, beyond the
story's pace. It plays only stories to which the family's short bound applies.
"""

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Generic

from testbed.experiment.workers import work_off
from testbed.verify.kit.family import Family, S

_NEW = 0.3
"""Share of explored stories made from a seed."""
_SLOW = 0.35
"""Share of the others made from the slowest."""
_NEW_TO_CLIMB = 0.2
_FIRST = 20
"""Minimum number of stories of a climb made from a seed."""
_KEPT = 400
"""Maximum number of stories kept for their features; the oldest goes."""
_SLOWEST = 16
"""Maximum number of stories kept as slow; the fastest goes."""
_PART = 1_000
"""Stories per exploration; each starts afresh."""
_PART_OF_CLIMB = 300
"""Stories per climb; the next begins with the slowest of all."""


@dataclass
class SearchFindings(Generic[S]):
    """Results of a search.

    Attributes:
        stories: number played.
        slowest: the slowest, with their times, ns, in that order.
        features: of all, and
        by_seeds: number of these first shown by new stories.
        failures: stories with a violation, and the violation.
    """

    stories: int = 0
    slowest: list[tuple[int, S]] = field(default_factory=list)
    features: set[Hashable] = field(default_factory=set)
    by_seeds: int = 0
    failures: list[tuple[S, str]] = field(default_factory=list)

    @property
    def slowest_time(self) -> int:
        """The longest catch-up time, ns."""
        return self.slowest[0][0] if self.slowest else 0

    def keep(self, time: int, story: S) -> None:
        """Keep a story if it is among the slowest."""
        if all(time != other for other, _ in self.slowest):
            self.slowest = sorted([*self.slowest, (time, story)], key=lambda each: -each[0])[:_SLOWEST]

    def add(self, other: "SearchFindings[S]") -> None:
        """Merge another search's results."""
        self.stories += other.stories
        self.features |= other.features
        self.failures += other.failures
        for time, story in other.slowest:
            self.keep(time, story)

    def play(self, family: Family[S], story: S, *, watch: bool) -> set[Hashable]:
        """Play a story, and record its outcome; return its new features."""
        outcome = family.play(story, watch=watch)
        self.stories += 1
        if outcome.violation is not None:
            self.failures.append((story, str(outcome.violation)))
        elif outcome.caught_up is not None:
            self.keep(family.lateness(story, outcome), story)
        news = outcome.features - self.features
        self.features |= news
        return news


def explore(seed: int, family: Family[S], stories: int) -> SearchFindings[S]:
    """Play `stories` stories to find new features; the search is determined by the seed."""
    rng = Random(seed)
    found: SearchFindings[S] = SearchFindings()
    kept: list[S] = []
    for _ in range(stories):
        draw = rng.random()
        is_new = not kept or draw < _NEW
        if is_new:
            story = family.make(rng.getrandbits(48))
        elif found.slowest and draw < _NEW + _SLOW:
            story = changed(rng.choice(found.slowest)[1], family, rng)
        else:
            story = changed(rng.choice(kept), family, rng)
        if news := found.play(family, story, watch=True):
            found.by_seeds += len(news) * is_new
            kept.append(story)
            del kept[:-_KEPT]
    return found


def explore_all(
    family: Family[S], seed: int, stories: int, jobs: int
) -> Generator[SearchFindings[S], None, None]:
    """Search in `jobs` independent processes; yield the results of each in rounds."""
    part = min(stories, _PART)
    rounds = [seed * 1_000_003 + number for number in range(-(-stories // part))]
    yield from work_off(partial(explore, family=family, stories=part), rounds, jobs)


@dataclass(frozen=True)
class Task(Generic[S]):
    """A climb: the seed of its draws, the number of stories, and its initial ones."""

    seed: int
    stories: int
    begin: tuple[tuple[int, S], ...] = ()


def climb(task: Task[S], family: Family[S]) -> SearchFindings[S]:
    """Play stories to find slow ones; the climb is determined by the task."""
    rng = Random(task.seed)
    found = SearchFindings(slowest=list(task.begin))
    while found.stories < task.stories:
        is_early = not found.slowest or len(found.slowest) + found.stories < _FIRST
        if is_early or rng.random() < _NEW_TO_CLIMB:
            story = family.make(rng.getrandbits(48))
        else:
            story = changed(rng.choice(found.slowest)[1], family, rng)
        if family.pace(story) is not None:
            found.play(family, story, watch=False)
    return found


def climb_all(
    family: Family[S], seed: int, stories: int, jobs: int
) -> Generator[SearchFindings[S], None, None]:
    """Climb in `jobs` processes, in rounds that begin with the slowest so far; yield the results of each."""
    best: SearchFindings[S] = SearchFindings()
    at = 0
    while at < stories:
        tasks: list[Task[S]] = []
        while at < stories and len(tasks) < jobs:
            some = min(_PART_OF_CLIMB, stories - at)
            tasks.append(Task(seed * 1_000_003 + at, some, tuple(best.slowest)))
            at += some
        for found in work_off(partial(climb, family=family), tasks, jobs):
            best.add(found)
            yield found


def changed(story: S, family: Family[S], rng: Random) -> S:
    """Return a slightly changed story."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        other = rng.choice(family.changes)(story, rng)
        story = other if other.is_sound else story
    return replace(story, steps=tuple(sorted(story.steps, key=lambda step: step.at)))
