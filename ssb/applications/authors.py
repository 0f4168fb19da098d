"""Synthetic authors of applications: what a person writes next, given the messages that they have read.

Each author keeps the state of the application by its own code, and answers what that shows. Contents are
those of stock clients. Chance is drawn from a generator that is passed in.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol

from ssb.applications.chess import Game, Games
from ssb.applications.gatherings import Gatherings
from ssb.applications.tangles import Tangle
from ssb.applications.votes import Votes
from ssb.canonical import Value
from ssb.message import Message

Content = dict[str, Value]

_MOST_NAMED: Final = 50
"""References in a `branch` at most: a message has at most 8192 characters."""
_POSTS_IN_VIEW: Final = 10
_POST_SHARE: Final = 0.2
_CHANGE_SHARE: Final = 0.3
_PROPERTIES: Final = ("title", "description", "location")
_LONGEST: Final = 40

# Morphy against the Duke of Brunswick and Count Isouard, Paris 1858.
_MOVES: Final = (
    "e2e4 e4", "e7e5 e5", "g1f3 Nf3", "d7d6 d6", "d2d4 d4", "c8g4 Bg4", "d4e5 dxe5", "g4f3 Bxf3",
    "d1f3 Qxf3", "d6e5 dxe5", "f1c4 Bc4", "g8f6 Nf6", "f3b3 Qb3", "d8e7 Qe7", "b1c3 Nc3", "c7c6 c6",
    "c1g5 Bg5", "b7b5 b5", "c3b5 Nxb5", "c6b5 cxb5", "c4b5 Bxb5+", "b8d7 Nbd7", "e1c1 O-O-O", "a8d8 Rd8",
    "d1d7 Rxd7", "d8d7 Rxd7", "h1d1 Rd1", "e7e6 Qe6", "b5d7 Bxd7+", "f6d7 Nxd7", "b3b8 Qb8+", "d7b8 Nxb8",
    "d1d8 Rd8#",
)  # fmt: skip
"""The moves of each game: their squares, and PGN's notation."""


class Author(Protocol):
    """A person who writes, and who reads what others write."""

    def add(self, message: Message) -> None:
        """Read a message, or take over one of their own."""

    def content(self, feed: str, draft: Mapping[str, Any]) -> Content:
        """Return the content of the next message of a feed of theirs; the draft, a post, if there is none."""


class ThreadAuthor:
    """Answers the newest posts of one thread; see Author.

    Args:
        root: reference of the thread's first post; "" if the author is about to write it.
    """

    def __init__(self, root: str) -> None:
        self._tangle = Tangle(root)

    def add(self, message: Message) -> None:
        if not self._tangle.root:
            self._tangle = Tangle(message.id)
        self._tangle.add(message)

    def content(self, feed: str, draft: Mapping[str, Any]) -> Content:
        """See Author; an author who has read nothing of the thread writes outside it."""
        heads = {*self._tangle.heads()}
        newest = [message.id for message in self._tangle.order if message.id in heads]
        links = {"root": self._tangle.root, "branch": [*newest[-_MOST_NAMED:]]} if newest else {}
        return {**draft, **links}


class LikesAuthor:
    """Writes some posts, and likes one of the last ten that they have read or takes that back; see Author."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._votes = Votes()
        self._posts: list[str] = []

    def add(self, message: Message) -> None:
        if isinstance(message.content, dict) and message.content["type"] == "post":
            self._posts.append(message.id)
        self._votes.add(message)

    def content(self, feed: str, draft: Mapping[str, Any]) -> Content:
        if not self._posts or self._random.random() < _POST_SHARE:
            return {**draft}
        post = self._random.choice(self._posts[-_POSTS_IN_VIEW:])
        is_liked = feed in self._votes.likes(post)
        said = {"value": 0, "expression": "Unlike"} if is_liked else {"value": 1, "expression": "Like"}
        return {"type": "vote", "vote": {"link": post, **said}}


class GatheringsAuthor:
    """Announces a gathering if they know of none; else comes, stays away or changes one; see Author."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._gatherings = Gatherings()

    def add(self, message: Message) -> None:
        self._gatherings.add(message)

    def content(self, feed: str, draft: Mapping[str, Any]) -> Content:
        """See Author; new texts are the draft's first words."""
        known = self._gatherings.gatherings()
        if not known:
            return {"type": "gathering"}
        gathering = self._gatherings.get(self._random.choice(known))
        assert gathering is not None
        about: Content = {"type": "about", "about": gathering.id}
        if self._random.random() < _CHANGE_SHARE:
            return about | {self._random.choice(_PROPERTIES): draft["text"][:_LONGEST]}
        attendee: Content = {"link": feed}
        return about | {"attendee": attendee | ({"remove": True} if feed in gathering.attendees else {})}


class ChessAuthor:
    """Moves when it is their turn, accepts all invitations, and invites opponents; see Author.

    Args:
        opponents: whom each feed of theirs invites, each to one game at a time.
    """

    def __init__(self, opponents: Mapping[str, Sequence[str]]) -> None:
        self._opponents = opponents
        self._games = Games()
        self._last: dict[tuple[str, int], str] = {}  # the message of a move, by game and number

    def add(self, message: Message) -> None:
        self._games.add(message)
        match message.content:
            case {"type": "chess_move" | "chess_game_end", "root": str() as root, "ply": int() as ply}:
                self._last.setdefault((root, ply), message.id)
            case {"type": "chess_invite_accept", "root": str() as root}:
                self._last.setdefault((root, 0), message.id)

    def content(self, feed: str, draft: Mapping[str, Any]) -> Content:
        """See Author; an invitation also follows the end of a game."""
        games = [each for each in self._games.games() if each.end is None]
        for game in games:
            if game.is_accepted and game.mover(len(game.moves) + 1) == feed:
                return self._move(game)
        for game in games:
            if game.invited == feed and not game.is_accepted:
                return {"type": "chess_invite_accept", "root": game.id, "branch": game.id}
        invited = {game.invited for game in games if game.white == feed}
        for opponent in self._opponents[feed]:
            if opponent not in invited:
                return {"type": "chess_invite", "inviting": opponent, "myColor": "white"}
        return {**draft}

    def _move(self, game: Game) -> Content:
        ply = len(game.moves) + 1
        squares, move = _MOVES[ply - 1].split()
        answer = self._last[game.id, ply - 1]
        content: Content = {"type": "chess_move", "root": game.id, "branch": answer, "ply": ply}
        content |= {"orig": squares[:2], "dest": squares[2:], "pgnMove": move}
        if ply < len(_MOVES):
            return content
        return content | {"type": "chess_game_end", "status": "mate", "winner": game.mover(ply)}
