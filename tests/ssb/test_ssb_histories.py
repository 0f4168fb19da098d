"""Views over time: any order of arrival gives the same view, and a change of the past is found, for all four
applications. Messages are those of synthetic authors, who read some of what the others write.
"""

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.applications.authors import (
    Author,
    ChessAuthor,
    GatheringsAuthor,
    LikesAuthor,
    ThreadAuthor,
)
from ssb.applications.catalogue import APPLICATIONS
from ssb.applications.histories import StateView, ThreadView, view
from ssb.applications.tangles import branches
from ssb.keys import Identity
from ssb.message import Message

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(3)]
REFS = [person.ref for person in PEOPLE]
NAMES = [*APPLICATIONS]
WITH_STATES = [name for name in NAMES if name != "threads"]


def author_of(name: str, number: int, root: str, random: Random) -> Author:
    match name:
        case "threads":
            return ThreadAuthor(root)
        case "likes":
            return LikesAuthor(random)
        case "gatherings":
            return GatheringsAuthor(random)
    return ChessAuthor({REFS[number]: [ref for ref in REFS if ref != REFS[number]]})


def written(name: str, turns: list[tuple[int, int, int]], seed: int = 1) -> list[Message]:
    """Messages by turns: who writes, how many more messages they have read, and the time that they claim."""
    authors: dict[int, Author] = {}
    read = dict.fromkeys(range(len(PEOPLE)), 0)
    tips: dict[int, Message] = {}
    every: list[Message] = []
    for who, more, clock in turns:
        if who not in authors:
            root = every[0].id if every else ""
            authors[who] = author_of(name, who, root, Random(f"{seed} {who}"))
        for message in every[read[who] : read[who] + more]:
            if message.author != REFS[who]:
                authors[who].add(message)
        read[who] = min(read[who] + more, len(every))
        content = authors[who].content(REFS[who], {"type": "post", "text": f"words {len(every)}"})
        tips[who] = Message.create(PEOPLE[who], tips.get(who), content, clock)
        authors[who].add(tips[who])
        every.append(tips[who])
    return every


TURNS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(0, 20)), min_size=2, max_size=25)


def rows_of(state: StateView) -> list[dict[str, Any]]:
    """The rows of a view, those of a subject after those of another."""
    return [row for history in state._histories.values() for row in json.loads(history.now)]


def rows(name: str, messages: list[Message]) -> list[str]:
    """The product's view of messages, made in one go."""
    state = APPLICATIONS[name].state()
    for message in messages:
        state.add(message)
    return sorted(json.dumps(row) for row in APPLICATIONS[name].rows(state))


@settings(max_examples=40, deadline=None)
@given(TURNS, st.data())
@pytest.mark.parametrize("name", NAMES)
def test_any_order_of_arrival_gives_the_same_view(
    name: str, turns: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    every = written(name, turns)
    first, second = view(name, every), view(name, every)
    arrived = data.draw(st.permutations(every))
    some = data.draw(st.integers(0, len(every)))
    for message in every:
        first.add(message)
    for message in arrived[:some]:
        second.add(message)
    if isinstance(second, StateView):
        assert sorted(json.dumps(row) for row in rows_of(second)) == rows(name, arrived[:some])
        is_same = rows(name, arrived[:some]) == rows(name, every)
        assert (first.digest() == second.digest()) == is_same
    for message in [*arrived[some:], *arrived]:  # of a feed that was dropped and came again
        second.add(message)
    assert first.digest() == second.digest()
    assert rows(name, arrived) == rows(name, every)


def place(name: str, message: Message) -> tuple[Any, ...]:
    """The model: a message's place in the history of its subject."""
    content = message.content
    assert isinstance(content, dict)
    turn = {"chess_invite": -1, "chess_invite_accept": 0}.get(content["type"], content.get("ply"))
    own = message.timestamp, message.author, message.sequence
    return (turn, *own) if name == "chess" else own


def subject(message: Message) -> str:
    content = message.content
    assert isinstance(content, dict)
    return str(
        content.get("about") or content.get("root") or content.get("vote", {}).get("link") or message.id
    )


def history(name: str, messages: list[Message]) -> dict[str, tuple[list[str], list[str]]]:
    """The model: what is shown before and after each message of a subject, made anew from the first on."""
    ordered = sorted(messages, key=lambda each: place(name, each))
    shown = [rows(name, ordered[:number]) for number in range(len(ordered) + 1)]
    return {each.id: (shown[number], shown[number + 1]) for number, each in enumerate(ordered)}


@settings(max_examples=40, deadline=None)
@given(TURNS, st.data())
@pytest.mark.parametrize("name", WITH_STATES)
def test_a_message_corrects_what_is_shown_after_others(
    name: str, turns: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    state = view(name, [])
    here: dict[str, list[Message]] = {}
    for message in data.draw(st.permutations(written(name, turns))):
        change = state.add(message)
        assert isinstance(message.content, dict)
        if message.content["type"] == "post":
            assert change is None
            continue
        own = here.setdefault(subject(message), [])
        before = history(name, own)
        own.append(message)
        corrected = [
            id_
            for id_, (_, shown) in history(name, own).items()
            if id_ in before and before[id_][0] != before[id_][1] != shown
        ]
        assert change == (corrected, None)


def test_a_late_like_corrects_the_counts_after_it() -> None:
    post = Message.create(PEOPLE[0], None, {"type": "post", "text": ""}, 0)
    like = {"type": "vote", "vote": {"link": post.id, "value": 1}}
    first = Message.create(PEOPLE[1], None, like, 1)
    second = Message.create(PEOPLE[2], None, like, 2)
    third = Message.create(PEOPLE[0], post, like, 3)
    state = view("likes", [])
    for message, corrected in ((second, []), (third, []), (first, [second.id, third.id]), (second, None)):
        change = state.add(message)
        assert (change and change.corrected) == corrected
    assert isinstance(state, StateView)
    assert rows_of(state) == [{"message": post.id, "likes": 3}]


def test_a_late_move_corrects_the_positions_after_it() -> None:
    """Black's second move waits for white's."""
    turns = [(0, 0, 0), (1, 1, 0), *((number % 2, 2, number) for number in range(6))]
    invite, accept, *moves = (each for each in written("chess", turns) if _type(each) != "post")
    state = view("chess", [])
    arrived = [invite, accept, moves[0], moves[1], moves[3], moves[2]]
    changes = [state.add(message) for message in arrived]
    assert [change and change.corrected for change in changes] == [[]] * 5 + [[moves[3].id]]
    assert isinstance(state, StateView)
    (game,) = rows_of(state)
    assert (game["moves"], game["waiting"]) == (["e4", "e5", "Nf3", "d6"], 0)


def _type(message: Message) -> str:
    assert isinstance(message.content, dict)
    return str(message.content["type"])


def test_a_view_of_threads_is_that_of_the_first_root() -> None:
    """A post of somebody who had read nothing is outside it."""
    every = written("threads", [(0, 0, 0), (1, 0, 1), (1, 2, 2), (0, 3, 3)])
    state = view("threads", every)
    assert isinstance(state, ThreadView)
    assert [state.add(each) is not None for each in every] == [True, False, True, True]
    alone = view("threads", every[:1])
    assert alone.digest() == ""
    assert alone.add(every[0]) is None


@pytest.mark.parametrize(
    "content", ["aGVsbG8=.box", {"type": "vote"}, {"type": "about", "about": "x"}, {"type": "chess_move"}]
)
@pytest.mark.parametrize("name", NAMES)
def test_messages_that_say_nothing(name: str, content: Any) -> None:
    state = view(name, [])
    assert state.add(Message.create(PEOPLE[0], None, content, 1)) is None
    assert state.digest() == ""


# Authors


def games_of_chess(turns: int) -> list[Message]:
    return written("chess", [(number % 2, 3, number) for number in range(turns)])


def test_a_game_of_chess_is_played_to_its_end_and_the_next_follows() -> None:
    every = games_of_chess(170)
    games = [json.loads(row) for row in rows("chess", every)]
    ended = [game for game in games if game["end"]]
    assert ended
    for game in ended:
        assert (game["end"], game["winner"], len(game["moves"])) == ("mate", game["white"], 33)
    again = [_type(each) for each in every].index("chess_game_end")
    assert "chess_invite" in [_type(each) for each in every[again:]]


def test_moves_of_chess_are_those_of_the_pieces_that_they_name() -> None:
    """Their squares, played on a board, hold what PGN's notation says, and in the end the mated king."""
    every = games_of_chess(170)
    end = next(each for each in every if _type(each) == "chess_game_end")
    assert isinstance(end.content, dict)
    root = end.content["root"]
    own = [
        each.content for each in every if isinstance(each.content, dict) and each.content.get("root") == root
    ]
    board = {
        f"{file}{rank}": piece
        for rank, line in RANKS.items()
        for file, piece in zip(FILES, line, strict=True)
    }
    for move in [each for each in own if "ply" in each]:
        notation = move["pgnMove"]
        piece = board.pop(move["orig"])
        assert piece.isupper() == (move["ply"] % 2 == 1)
        assert piece.upper() == ("K" if notation[0] == "O" else notation[0] if notation[0].isupper() else "P")
        assert ("x" in notation) == (move["dest"] in board)
        assert notation[0] == "O" or notation.rstrip("+#")[-2:] == move["dest"]
        board[move["dest"]] = piece
        if notation == "O-O-O":
            board["d1"] = board.pop("a1")
    assert {square: board[square] for square in ("d8", "e8", "g5", "d7") if square in board} == {
        "d8": "R",
        "e8": "k",
        "g5": "B",
    }


FILES = "abcdefgh"
RANKS = {1: "RNBQKBNR", 2: "P" * 8, 7: "p" * 8, 8: "rnbqkbnr"}


@pytest.mark.parametrize("name", NAMES)
def test_authors_name_only_what_they_have_read(name: str) -> None:
    """Who reads nothing of the others names nothing of theirs."""
    turns = [(number % 3, 0 if number % 3 == 0 else 9, number) for number in range(60)]
    every = written(name, turns)
    of = {each.id: each for each in every}
    of_others = 0
    for message in every:
        assert isinstance(message.content, dict)
        vote = message.content.get("vote", {}).get("link")
        named = {*branches(message.content), message.content.get("about"), vote} & of.keys()
        strange = {of[id_].author for id_ in named} - {message.author}
        assert message.author != REFS[0] or not strange
        of_others += bool(strange)
        before = every[: every.index(message)]
        assert named <= {each.id for each in before}
    assert of_others > 5


def test_likes_come_and_go() -> None:
    every = written("likes", [(number % 3, 9, number) for number in range(90)])
    state = StateView("likes")
    counts: dict[str, list[int]] = {}
    for message in every:
        state.add(message)
        for row in rows_of(state):
            counts.setdefault(row["message"], []).append(row["likes"])
    steps = {later - before for own in counts.values() for before, later in pairwise(own)}
    assert {1, -1} <= steps
