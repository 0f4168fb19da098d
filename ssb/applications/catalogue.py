"""The applications that `feednet ssb view` shows: each is a state, computed from messages of some types."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from ssb.applications.chess import TYPES, Games
from ssb.applications.gatherings import Gatherings
from ssb.applications.tangles import Threads
from ssb.applications.votes import Votes

Rows = list[dict[str, Any]]


class Application(NamedTuple):
    """An application.

    Attributes:
        state: makes its state, whose `add` takes messages.
        types: the types of messages that the state takes.
        rows: returns the view of a state: one for each thread, liked message, gathering or game, as JSON.
    """

    state: Callable[[], Any]
    types: tuple[str, ...]
    rows: Callable[[Any], Rows]


def _threads(threads: Threads) -> Rows:
    rows = []
    for root, tangle in threads.tangles.items():
        first = tangle.order[0]
        text = first.content.get("text") if first.id == root and isinstance(first.content, dict) else None
        text = text if isinstance(text, str) else None
        last = max(each.timestamp for each in tangle.order)
        rows.append({"root": root, "posts": len(tangle.order), "last": last, "text": text})
    return rows


def _likes(votes: Votes) -> Rows:
    return [{"message": id_, "likes": count} for id_, count in votes.liked()]


def _gatherings(state: Gatherings) -> Rows:
    found = [asdict(each) for id_ in state.gatherings() if (each := state.get(id_)) is not None]
    return [row | {"attendees": sorted(row["attendees"])} for row in found]


def _chess(state: Games) -> Rows:
    return [asdict(game) for game in state.games()]


APPLICATIONS: Final = {
    "threads": Application(Threads, ("post",), _threads),
    "likes": Application(Votes, ("vote",), _likes),
    "gatherings": Application(Gatherings, ("gathering", "about"), _gatherings),
    "chess": Application(Games, TYPES, _chess),
}
"""By name."""
