"""What becomes of a story that is played, and how a world is played to its end."""

import traceback
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Violation(Exception):
    """An invariant does not hold; `invariant` is its short name, `where` a node's or subscriber's."""

    def __init__(self, invariant: str, where: str, detail: str) -> None:
        super().__init__(f"{invariant} at {where}: {detail}")
        self.invariant = invariant
        self.where = where
        self.detail = detail

    @property
    def kind(self) -> str:
        """The invariant; of a crash, with the exception and the line that raised it."""
        if self.invariant != CRASH:
            return self.invariant
        return f"{CRASH} {self.detail.partition(':')[0]} {self.detail.rpartition('(')[2]}"


CRASH = "crash"
"""The invariant that code raises no exception but violations."""


class Row(NamedTuple):
    """A line for the chart: at `time` (ns), from `a` to `b` (or at `a` alone), `text`."""

    time: int
    a: str
    b: str | None
    text: str
    lost: bool = False


@dataclass
class Outcome:
    """What became of a story.

    Attributes:
        violation: the invariant that did not hold, None if all did.
        time: when the story ended, ns.
        digest: hash of all that nodes have seen, in order.
        coverage: how often what happened.
        rows: for the chart, if they were asked for.
        fates: what befell frames, of a family whose stories can pin that.
        sent: the first frames, of the same: from, to, and which of that link and direction.
        features: what tells a story from others, if that was asked for.
        caught_up: ns from the last disturbance until everyone had everything; None if not so far.
    """

    violation: Violation | None = None
    time: int = 0
    digest: str = ""
    coverage: Counter[str] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)
    fates: list[Any] = field(default_factory=list)
    sent: list[tuple[str, str, int]] = field(default_factory=list)
    features: set[Hashable] = field(default_factory=set)
    caught_up: int | None = None


class Wanted(NamedTuple):
    """What an outcome is to hold besides: the rows of a chart, the features that tell a story from others."""

    record: bool = False
    watch: bool = False


class Playable(Protocol):
    """A world in which a story is played. Its `outcome` gets rows, features and coverage meanwhile."""

    outcome: Outcome
    running: str
    """The node that acts, or what else to name when the code crashes."""

    @property
    def now(self) -> int:
        """The time, ns."""

    def play(self) -> None:
        """Play the story; raise Violation."""

    def violated(self) -> None:
        """Note for the chart what is under way when an invariant does not hold."""

    def digest(self) -> str:
        """Return the hash of all that nodes have seen."""


def played(make: Callable[[], Playable], wanted: Wanted) -> Outcome:
    """Make a world, and play its story to the end or to the first invariant that does not hold.

    Whatever the code raises counts as a violation, CRASH. Features are those that the world has noted, or
    else how often what happened, by orders of magnitude.
    """
    world: Playable | None = None
    outcome = Outcome()
    try:
        world = make()
        outcome = world.outcome
        world.play()
    except Violation as violation:
        outcome.violation = violation
        if world is not None:
            world.violated()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
        outcome.violation = Violation(CRASH, "the story" if world is None else world.running, where)
    if world is not None:
        outcome.time, outcome.digest = world.now, world.digest()
    if wanted.watch and not outcome.features:
        outcome.features |= {(what, times.bit_length()) for what, times in outcome.coverage.items()}
    return outcome
