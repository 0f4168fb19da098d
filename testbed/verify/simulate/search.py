"""Plays many seeds, over several processes, in flat memory: a batch's results are all that stays of it."""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial

from testbed.experiment.workers import work_off
from testbed.verify.simulate.classic_story import make_classic
from testbed.verify.simulate.make import make_story
from testbed.verify.simulate.world import Outcome, play

_BATCH = 50


@dataclass(frozen=True)
class Failure:
    """A seed whose story violates an invariant."""

    seed: int
    invariant: str
    text: str


@dataclass
class SearchResult:
    """What the stories of some seeds have shown.

    `slowest` is the longest that a story took to catch up, ns, and `slowest_seed` whose that was.
    """

    seeds: int = 0
    failures: list[Failure] = field(default_factory=list)
    coverage: Counter[str] = field(default_factory=Counter)
    stories: Counter[str] = field(default_factory=Counter)
    slowest: int = 0
    slowest_seed: int | None = None

    def add(self, other: "SearchResult") -> None:
        """Add what other seeds have shown."""
        self.seeds += other.seeds
        self.failures = sorted([*self.failures, *other.failures], key=lambda failure: failure.seed)
        self.coverage += other.coverage
        self.stories += other.stories
        if other.slowest > self.slowest:
            self.slowest, self.slowest_seed = other.slowest, other.slowest_seed


def play_one(seed: int) -> Outcome:
    """Play a seed's story of controlled push."""
    return play(make_story(seed))


def play_classic(seed: int) -> Outcome:
    """Play a seed's story of classic NDN."""
    return play(make_classic(seed))


def play_seeds(seeds: Sequence[int], play_seed: Callable[[int], Outcome] = play_one) -> SearchResult:
    """Play each seed's story, of the family that `play_seed` plays."""
    result = SearchResult()
    for seed in seeds:
        outcome = play_seed(seed)
        result.seeds += 1
        result.coverage += outcome.coverage
        result.stories += Counter(outcome.coverage.keys())
        if (outcome.caught_up or 0) > result.slowest:
            result.slowest, result.slowest_seed = outcome.caught_up or 0, seed
        if (violation := outcome.violation) is not None:
            result.failures.append(Failure(seed, violation.invariant, str(violation)))
    return result


def search(
    first: int, count: int, jobs: int, play_seed: Callable[[int], Outcome] = play_one
) -> Generator[SearchResult, None, None]:
    """Play `count` seeds from `first` on in `jobs` processes; yield what each batch has shown, as it comes.

    Whoever has seen enough closes the generator, which ends the processes.
    """
    work = partial(play_seeds, play_seed=play_seed)
    end = first + count
    batches = (range(at, min(at + _BATCH, end)) for at in range(first, end, _BATCH))
    yield from work_off(work, batches, jobs)
