"""Searches for stories that do what no story has done before, as a coverage-guided fuzzer does.

Theory of operation. A feature is what an outcome notes as one: a step of a node's state, or how often what
happened. A story that shows a new one is kept. So are the stories in which nodes take longest to catch up
when all is well again. Kept ones are changed a little to make others: times, luck, links, what breaks. A part
of the stories is always new, so that the search does not dwell on what it began with.
"""

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Generic

from testbed.experiment.workers import work_off
from testbed.verify.kit.family import Family, S

_NEW = 0.3
"""The share of stories that are made from a seed."""
_SLOW = 0.35
"""The share of those that are made from the slowest."""
_PART = 1_000
"""Stories of one search; each begins anew."""
_KEPT = 400
"""Stories that are kept for their features at most; the oldest goes."""
_SLOWEST = 12
"""Stories that are kept because they are slow; the fastest goes."""


@dataclass
class ExplorationResult(Generic[S]):
    """What a search has met: stories, features, how many of these were shown by new stories, failures.

    `slowest` is the longest that a story took to catch up, ns.
    """

    stories: int = 0
    slowest: int = 0
    features: set[Hashable] = field(default_factory=set)
    by_seeds: int = 0
    failures: list[tuple[S, str]] = field(default_factory=list)


def explore(seed: int, family: Family[S], stories: int) -> ExplorationResult[S]:
    """Play so many stories; the same seed gives the same search."""
    rng = Random(seed)
    result: ExplorationResult[S] = ExplorationResult()
    kept: list[S] = []
    slow: list[tuple[int, int, S]] = []
    for number in range(stories):
        draw = rng.random()
        is_new = not kept or draw < _NEW
        if is_new:
            story = family.make(rng.getrandbits(48))
        elif slow and draw < _NEW + _SLOW:
            story = changed(rng.choice(slow)[-1], family, rng)
        else:
            story = changed(rng.choice(kept), family, rng)
        outcome = family.play(story, watch=True)
        result.stories += 1
        if outcome.violation is not None:
            result.failures.append((story, str(outcome.violation)))
        elif outcome.caught_up is not None and all(outcome.caught_up != time for time, *_ in slow):
            slow = sorted([*slow, (outcome.caught_up, number, story)], key=lambda each: each[:2])[-_SLOWEST:]
            result.slowest = slow[-1][0]
        news = outcome.features - result.features
        if news:
            result.features |= news
            result.by_seeds += len(news) * is_new
            kept.append(story)
            del kept[:-_KEPT]
    return result


def explore_all(
    family: Family[S], seed: int, stories: int, jobs: int
) -> Generator[ExplorationResult[S], None, None]:
    """Search in `jobs` processes, each by itself; yield what each has met, in rounds of some stories."""
    part = min(stories, _PART)
    rounds = [seed * 1_000_003 + number for number in range(-(-stories // part))]
    yield from work_off(partial(explore, family=family, stories=part), rounds, jobs)


def changed(story: S, family: Family[S], rng: Random) -> S:
    """Return a story that differs a little."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        story = rng.choice(family.changes)(story, rng)
    return replace(story, steps=tuple(sorted(story.steps, key=lambda step: step.at)))
