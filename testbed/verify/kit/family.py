"""What a family of stories is to the kit, which plays, shrinks, saves, explores and climbs them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from testbed.verify.kit.outcome import Outcome, Playable, Wanted, played
from testbed.verify.kit.story import Story

S = TypeVar("S", bound=Story)

Fails = Callable[[S], bool]
Pass = Callable[[S, Fails[S]], S]
"""Returns a smaller or plainer story for which the function that it gets still returns True."""
Change = Callable[[S, Random], S]
"""Returns a story that differs a little."""


def _always(story: Story) -> bool:
    return True


def _as_it_is(story: S, outcome: Outcome) -> S:
    return story


@dataclass(frozen=True)
class Family(Generic[S]):
    """A family of stories. Its functions are those of modules: other processes find them by name.

    Attributes:
        name: of the family, as users type it.
        story: the type of its stories.
        make: makes the story of a seed.
        world: makes the world in which a story is played.
        allowed: how long a story may take to catch up, ns, where nothing special takes part.
        passes: by which a failing story is cut down, in order.
        changes: of which exploring and climbing draw; one that is there twice is drawn twice as often.
        is_plain: tells whether `allowed` holds for a story.
        pinned: returns a story with what has befallen its frames written out.
    """

    name: str
    story: type[S]
    make: Callable[[int], S]
    world: Callable[[S, Wanted], Playable]
    allowed: int
    passes: tuple[Pass[S], ...]
    changes: tuple[Change[S], ...]
    is_plain: Callable[[S], bool] = _always
    pinned: Callable[[S, Outcome], S] = _as_it_is

    def play(self, story: S, *, record: bool = False, watch: bool = False) -> Outcome:
        """Play a story; `record` keeps the rows of a chart, `watch` the features."""
        wanted = Wanted(record, watch)
        return played(lambda: self.world(story, wanted), wanted)

    def play_seed(self, seed: int) -> Outcome:
        """Play a seed's story."""
        return self.play(self.make(seed))


def to_text(family: Family[Any], story: Story) -> str:
    """Write a story as JSON that names its family."""
    return json.dumps({"family": family.name} | story.to_json(), indent=1) + "\n"


def from_text(text: str, families: Mapping[str, Family[Any]], unnamed: str) -> tuple[Family[Any], Story]:
    """Read a story, and which of some families it is of; `unnamed`: that of a file that does not say so.

    Raises ValueError, KeyError, TypeError or AttributeError for any text that to_text() has not written.
    """
    value = json.loads(text)
    family = families[value.pop("family", unnamed)]
    return family, family.story.from_json(value)
