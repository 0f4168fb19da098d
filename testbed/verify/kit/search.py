"""Plays many seeds in several processes, in constant memory: only a batch's results are kept."""

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from testbed.experiment.workers import work_off
from testbed.verify.kit.family import Family

_BATCH = 50


@dataclass(frozen=True)
class Failure:
    """A seed whose story violates an invariant."""

    seed: int
    invariant: str
    text: str


@dataclass
class SearchResult:
    """Results of several seeds.

    `slowest` is the longest catch-up time, ns, and `slowest_seed` its seed; stories outside the family's
    bound are excluded.
    """

    seeds: int = 0
    failures: list[Failure] = field(default_factory=list)
    coverage: Counter[str] = field(default_factory=Counter)
    stories: Counter[str] = field(default_factory=Counter)
    slowest: int = 0
    slowest_seed: int | None = None

    def add(self, other: "SearchResult") -> None:
        """Add the results of other seeds."""
        self.seeds += other.seeds
        self.failures = sorted([*self.failures, *other.failures], key=lambda failure: failure.seed)
        self.coverage += other.coverage
        self.stories += other.stories
        if other.slowest > self.slowest:
            self.slowest, self.slowest_seed = other.slowest, other.slowest_seed


def play_seeds(seeds: Sequence[int], family: Family[Any]) -> SearchResult:
    """Play each seed's story."""
    result = SearchResult()
    for seed in seeds:
        story = family.make(seed)
        outcome = family.play(story)
        result.seeds += 1
        result.coverage += outcome.coverage
        result.stories += Counter(outcome.coverage.keys())
        if (outcome.caught_up or 0) > result.slowest and family.is_plain(story):
            result.slowest, result.slowest_seed = outcome.caught_up or 0, seed
        if (violation := outcome.violation) is not None:
            result.failures.append(Failure(seed, violation.invariant, str(violation)))
    return result


def search(family: Family[Any], first: int, count: int, jobs: int) -> Generator[SearchResult, None, None]:
    """Play `count` seeds from `first` on in `jobs` processes; yield the results of each batch as they arrive.

    Close the generator to end the processes early.
    """
    end = first + count
    batches = (range(at, min(at + _BATCH, end)) for at in range(first, end, _BATCH))
    yield from work_off(partial(play_seeds, family=family), batches, jobs)
