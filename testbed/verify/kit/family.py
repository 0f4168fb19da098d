"""What a family of stories is to the kit, which plays, shrinks, saves, explores and climbs them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol, TypeVar

from testbed.verify.kit.outcome import Outcome
from testbed.verify.kit.story import Story

S = TypeVar("S", bound=Story)
S_contra = TypeVar("S_contra", bound=Story, contravariant=True)

Fails = Callable[[S], bool]
Pass = Callable[[S, Fails[S]], S]
"""Returns a smaller or plainer story for which the function that it gets still returns True."""
Change = Callable[[S, Random], S]
"""Returns a story that differs a little."""


class Play(Protocol[S_contra]):
    """Plays a story; `record` keeps the rows of a chart, `watch` the features."""

    def __call__(self, story: S_contra, *, record: bool = False, watch: bool = False) -> Outcome:
        """Return what becomes of the story."""


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
        play: plays a story.
        allowed: how long a story may take to catch up, ns, where nothing special takes part.
        passes: by which a failing story is cut down, in order.
        changes: of which exploring and climbing draw; one that is there twice is drawn twice as often.
        is_plain: tells whether `allowed` holds for a story.
        pinned: returns a story with what has befallen its frames written out.
    """

    name: str
    story: type[S]
    make: Callable[[int], S]
    play: Play[S]
    allowed: int
    passes: tuple[Pass[S], ...]
    changes: tuple[Change[S], ...]
    is_plain: Callable[[S], bool] = _always
    pinned: Callable[[S, Outcome], S] = _as_it_is

    def play_seed(self, seed: int) -> Outcome:
        """Play a seed's story."""
        return self.play(self.make(seed))
