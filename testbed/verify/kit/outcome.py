"""Outcome of a story, and the playing of a world to its end."""

import traceback
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ssb.keys import cached_signatures


class Violation(Exception):
    """A violated invariant; `invariant` is its short name, `where` a node's or subscriber's."""

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
    """Outcome of a story.

    Attributes:
        violation: the violated invariant, None if all held.
        time: when the story ended, ns.
        digest: hash of everything that nodes have seen, in order.
        coverage: number of occurrences by event.
        rows: for the chart, if requested.
        fates: fates of frames, if the family can pin them.
        sent: the first frames, likewise: from, to, and index on that link and direction.
        features: distinguishing features, if requested.
        caught_up: ns from the last disturbance until everyone had everything; None if not reached.
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


class OutcomeOptions(NamedTuple):
    """Requested contents of an outcome: the rows of a chart, distinguishing features."""

    record: bool = False
    watch: bool = False


class Playable(Protocol):
    """A world that plays a story. Its `outcome` receives rows, features and coverage."""

    outcome: Outcome
    running: str
    """The acting node, or another label for a crash."""

    @property
    def now(self) -> int:
        """The time, ns."""

    def play(self) -> None:
        """Play the story; raise Violation."""

    def violated(self) -> None:
        """Add pending frames to the chart after a violation."""

    def digest(self) -> str:
        """Return the hash of everything that nodes have seen."""


def played(make: Callable[[], Playable], wanted: OutcomeOptions) -> Outcome:
    """Make a world, and play its story to the end or to the first violation.

    Any exception counts as a violation, CRASH. Features are those of the world, or by default the events'
    frequencies by order of magnitude.
    """
    world: Playable | None = None
    outcome = Outcome()
    try:
        with cached_signatures():
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
