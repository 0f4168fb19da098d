"""The applications that `feednet ssb view` shows: each is a state, computed from messages of some types."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ssb.applications.chess import TYPES, Games
from ssb.applications.gatherings import Gatherings
from ssb.applications.tangles import Threads
from ssb.applications.votes import Votes


class Application(NamedTuple):
    """An application: makes its state, whose `add` takes messages of these types."""

    state: Callable[[], Any]
    types: tuple[str, ...]


APPLICATIONS: Final = {
    "threads": Application(Threads, ("post",)),
    "likes": Application(Votes, ("vote",)),
    "gatherings": Application(Gatherings, ("gathering", "about")),
    "chess": Application(Games, TYPES),
}
"""By name."""
