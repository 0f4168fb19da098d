"""Plays many seeds in several processes or as Spark tasks, in constant memory: only a batch's results are
kept.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from testbed.experiment.workers import rare_collections, work_off, work_off_on_spark
from testbed.verify.kit.family import Family

_BATCH = 50
_MOST_TASKS = 1_000


@dataclass(frozen=True)
class Failure:
    """A seed whose story violates an invariant."""

    seed: int
    invariant: str
    text: str


@dataclass
class SearchResult:
    """Results of several seeds.

    `slowest` is the longest catch-up time beyond a story's pace, ns, and `slowest_seed` its seed; stories
    outside the family's bound are excluded.
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
        with rare_collections():
            outcome = family.play(story)
        result.seeds += 1
        result.coverage += outcome.coverage
        result.stories += Counter(outcome.coverage.keys())
        if (late := family.lateness(story, outcome)) > result.slowest:
            result.slowest, result.slowest_seed = late, seed
        if (violation := outcome.violation) is not None:
            result.failures.append(Failure(seed, violation.invariant, str(violation)))
    return result


def search(family: Family[Any], first: int, count: int, jobs: int) -> Generator[SearchResult, None, None]:
    """Play `count` seeds from `first` on in `jobs` processes; yield the results of each batch as they arrive.

    Close the generator to end the processes early.
    """
    yield from work_off(partial(play_seeds, family=family), _batches(first, count, _BATCH), jobs)


def search_on_spark(
    family: Family[Any], first: int, count: int, master: str
) -> Generator[SearchResult, None, None]:
    """Yield the same results from Spark tasks. Raises UserError."""
    batches = [*_batches(first, count, max(_BATCH, -(-count // _MOST_TASKS)))]
    yield from work_off_on_spark(partial(play_seeds, family=family), batches, master)


def _batches(first: int, count: int, size: int) -> Iterator[range]:
    end = first + count
    return (range(at, min(at + size, end)) for at in range(first, end, size))
