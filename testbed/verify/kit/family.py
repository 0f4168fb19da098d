"""A family of stories: the functions that the kit needs to play, shrink, save, explore and climb them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from testbed.verify.kit.outcome import Outcome, OutcomeOptions, Playable, played
from testbed.verify.kit.story import Story

S = TypeVar("S", bound=Story)

Fails = Callable[[S], bool]
Pass = Callable[[S, Fails[S]], S]
"""Returns a smaller or plainer story for which the given function still returns True."""
Change = Callable[[S, Random], S]
"""Returns a slightly changed story."""


def _no_pace(story: Story) -> int:
    return 0


def _as_it_is(story: S, outcome: Outcome) -> S:
    return story


@dataclass(frozen=True)
class Family(Generic[S]):
    """A family of stories. Its functions are module-level: other processes find them by name.

    Attributes:
        name: of the family, as users type it.
        story: the type of its stories.
        make: makes the story of a seed.
        world: makes the world that plays a story.
        allowed: bound on catching up, ns, beyond a story's pace.
        passes: shrinking passes, in order.
        changes: for exploring and climbing; a repeated one is drawn more often.
        pace: returns the time that a story's items need on slow links and in slow applications, ns; None if
            exceptional circumstances allow it more.
        pinned: returns a story with its frames' fates made explicit.
    """

    name: str
    story: type[S]
    make: Callable[[int], S]
    world: Callable[[S, OutcomeOptions], Playable]
    allowed: int
    passes: tuple[Pass[S], ...]
    changes: tuple[Change[S], ...]
    pace: Callable[[S], int | None] = _no_pace
    pinned: Callable[[S, Outcome], S] = _as_it_is

    def play(self, story: S, *, record: bool = False, watch: bool = False) -> Outcome:
        """Play a story; `record` keeps the rows of a chart, `watch` the features."""
        wanted = OutcomeOptions(record, watch)
        return played(lambda: self.world(story, wanted), wanted)

    def lateness(self, story: S, outcome: Outcome) -> int:
        """Return the time of catching up beyond the story's pace, ns; 0 if there is no such bound."""
        pace = self.pace(story)
        return 0 if pace is None or outcome.caught_up is None else max(outcome.caught_up - pace, 0)

    def play_seed(self, seed: int) -> Outcome:
        """Play a seed's story."""
        return self.play(self.make(seed))


def to_text(family: Family[Any], story: Story) -> str:
    """Write a story as JSON that names its family."""
    return json.dumps({"family": family.name} | story.to_json(), indent=1) + "\n"


def from_text(text: str, families: Mapping[str, Family[Any]], unnamed: str) -> tuple[Family[Any], Story]:
    """Read a story and its family; `unnamed`: the family of files without a name.

    Raises ValueError, KeyError, TypeError or AttributeError for text not written by to_text().
    """
    value = json.loads(text)
    family = families[value.pop("family", unnamed)]
    return family, family.story.from_json(value)
