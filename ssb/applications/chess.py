"""Correspondence chess: a game is a list of moves that alternates between two logs.

The invitation names both players, and its id the game. Each further message has the game as its `root`, and
the move that it answers as its `branch`. Only the player whose turn it is can continue, so no state is ever
contested (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, section 3.2). Messages are those of npm's
ssb-chess: `chess_invite`, `chess_invite_accept`, `chess_move`, `chess_game_end`. As there, the rules of chess
are left to the players' boards. Of two moves at one turn the first in the player's log counts.

An observer with one player's log sees the game as far as the other's moves have come.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from ssb.applications.tangles import branches
from ssb.keys import is_feed, is_message
from ssb.message import Message

_END: Final = "chess_game_end"
TYPES: Final = ("chess_invite", "chess_invite_accept", "chess_move", _END)
_COLOURS: Final = {"white": "black", "black": "white"}


@dataclass(frozen=True)
class Game:
    """A game as far as it is here.

    Attributes:
        id: reference of the invitation.
        white, black: the players.
        invited: the one of them who was invited.
        is_accepted: that one has accepted, or moved.
        moves: in PGN's notation, from the first on.
        waiting: moves that are here, though one before them is not.
        end: `mate`, `draw` or `resigned`; None while it goes on.
        winner: None without.
    """

    id: str
    white: str
    black: str
    invited: str
    is_accepted: bool = False
    moves: tuple[str, ...] = ()
    waiting: int = 0
    end: str | None = None
    winner: str | None = None

    def mover(self, ply: int) -> str:
        """Return the player who makes a move, by its number from 1."""
        return self.black if ply % 2 == 0 else self.white

    def other(self, player: str) -> str:
        """Return the player's opponent."""
        return self.black if player == self.white else self.white


def game_of(message: Message) -> str | None:
    """Return the game that a message begins or belongs to, by its id; None if there is none."""
    match message.content:
        case {"type": "chess_invite"}:
            return message.id
        case {"type": type_, "root": root} if type_ in TYPES and is_message(root):
            return root
    return None


def turn(message: Message) -> tuple[float, float, str, int]:
    """Return a message's place in its game: invitation, acceptance, moves by their numbers, an end."""
    content = _content(message)
    fixed = {"chess_invite": -1, "chess_invite_accept": 0}.get(content["type"], inf)
    number = _ply(content)
    return fixed if number is None else number, message.timestamp, message.author, message.sequence


class Games:
    """State of all games, computed from messages in any order of arrival.

    Adding a message again changes nothing.
    """

    def __init__(self) -> None:
        self._invites: dict[str, Game] = {}
        self._of_game: defaultdict[str, dict[str, Message]] = defaultdict(dict)

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is of no game."""
        match message.content:
            case {"type": "chess_invite", "inviting": other, "myColor": "white" | "black" as own} if (
                is_feed(other) and other != message.author
            ):
                players = {own: message.author, _COLOURS[own]: other}
                self._invites[message.id] = Game(message.id, players["white"], players["black"], other)
            case {"type": type_} if type_ != "chess_invite" and (root := game_of(message)) is not None:
                self._of_game[root][message.id] = message

    def games(self) -> list[Game]:
        """Return the games whose invitation is here, in the order of their ids."""
        return [self._played(self._invites[id_]) for id_ in sorted(self._invites)]

    def _played(self, game: Game) -> Game:
        moves: dict[int, list[Message]] = {}
        ends: list[Message] = []
        is_accepted = False
        for message in sorted(
            self._of_game.get(game.id, {}).values(), key=lambda each: (each.sequence, each.id)
        ):
            content = _content(message)
            if message.author not in (game.white, game.black):
                continue
            is_accepted |= message.author == game.invited
            if (ply := _ply(content)) is not None and message.author == game.mover(ply):
                moves.setdefault(ply, []).append(message)
            elif content["type"] == _END and content.get("status") in _ENDS:
                ends.append(message)
        made: list[Message] = []
        while next_ := [
            each for each in moves.get(len(made) + 1, ()) if not made or _answers(each, made[-1])
        ]:
            made.append(next_[0])
        return replace(
            game,
            is_accepted=is_accepted,
            moves=tuple(_content(each)["pgnMove"] for each in made),
            waiting=sum(ply > len(made) for ply in moves),
            **_ended(game, made, ends),
        )


_ENDS: Final = ("mate", "draw", "resigned")


def _content(message: Message) -> dict[str, Any]:
    assert isinstance(message.content, dict)
    return message.content


def _ply(content: dict[str, Any]) -> int | None:
    """Return a move's number; None if the content is no move."""
    match content:
        case {"type": "chess_move" | "chess_game_end", "ply": int() as ply, "pgnMove": str()} if ply > 0:
            return ply
    return None


def _answers(message: Message, last: Message) -> bool:
    named = branches(_content(message))
    return not named or last.id in named


def _ended(game: Game, made: list[Message], ends: list[Message]) -> dict[str, Any]:
    """Return the end of a game: with its last move, or said by a player, by the earlier of two."""
    if made and _content(made[-1]).get("status") in _ENDS:
        ends = made[-1:]
    if not ends:
        return {}
    last = min(ends, key=lambda each: (each.timestamp, each.author, each.sequence))
    status = _content(last)["status"]
    winner = {"mate": last.author, "resigned": game.other(last.author)}.get(status)
    return {"end": status, "winner": winner}
