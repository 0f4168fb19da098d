"""Threads in causal order, likes and games of chess: peers with the same messages show the same."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ssb_import import ssb

from ssb.applications.chess import Games
from ssb.applications.tangles import Completion, Tangle, Threads, branches
from ssb.applications.votes import Votes
from ssb.keys import Identity, message_ref
from ssb.message import Message

PEOPLE = [Identity.from_seed(bytes([number]) * 32) for number in range(3)]
ANN, BEN, CAT = PEOPLE


class Logs:
    """Logs of several people, all messages in the order of writing."""

    def __init__(self) -> None:
        self.written: list[Message] = []

    def write(self, person: Identity, content: dict[str, Any], time: float | None = None) -> Message:
        own = [each for each in self.written if each.author == person.ref]
        clock = len(self.written) if time is None else time
        message = Message.create(person, own[-1] if own else None, content, clock)
        self.written.append(message)
        return message

    def post(
        self, person: Identity, root: Message | None = None, *branch: Message, time: float = 0
    ) -> Message:
        content: dict[str, Any] = {"type": "post", "text": str(len(self.written))}
        if root is not None:
            content |= {"root": root.id, "branch": [each.id for each in branch]}
        return self.write(person, content, time)


def heads(root: Message, messages: list[Message]) -> list[str]:
    """The model: the messages that none names, and after which their author has written none."""
    named = {each for m in messages if m is not root for each in branches(m.content) if each != m.id}
    later = {m.id for m in messages for n in messages if n.author == m.author and n.sequence > m.sequence}
    return sorted({m.id for m in messages} - named - later)


def ordered(root: Message, messages: list[Message]) -> list[Message]:
    """The model: of the messages whose predecessors are all taken, take the one with the least time."""
    parents: dict[str, set[str]] = {}
    for message in messages:
        assert isinstance(message.content, dict)
        named = [] if message is root else branches(message.content)
        own = [m for m in messages if m.author == message.author and m.sequence < message.sequence]
        parents[message.id] = {m.id for m in messages if m.id in named}
        parents[message.id] |= {m.id for m in own if m.sequence == max(each.sequence for each in own)}
    taken: list[Message] = []
    left = list(messages)
    while left:
        ready = [m for m in left if parents[m.id] <= {each.id for each in taken}]
        taken.append(min(ready, key=lambda m: (m is not root, m.timestamp, m.author, m.sequence)))
        left.remove(taken[-1])
    return taken


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A thread: who writes, what its author has seen, and what time they claim. Some name nothing."""
    logs = Logs()
    root = logs.post(ANN, time=draw(st.integers(0, 5)))
    for _ in range(draw(st.integers(0, 9))):
        person = draw(st.sampled_from(PEOPLE))
        seen = draw(st.lists(st.sampled_from(logs.written), max_size=2, unique_by=lambda m: m.id))
        logs.post(person, root, *seen, time=draw(st.integers(0, 5)))
    return logs.written


@settings(max_examples=300)
@given(conversations(), st.data())
def test_a_thread_is_in_causal_order_whatever_came_first(written: list[Message], data: st.DataObject) -> None:
    root = written[0]
    arrived = data.draw(st.permutations(written))
    tangle = Tangle(root.id)
    for count, message in enumerate(arrived, 1):
        changed = tangle.add(message)
        assert changed is not None
        assert tangle.order[changed.place] is message
        assert tangle.order == tangle.computed() == ordered(root, arrived[:count])
        assert tangle.heads() == heads(root, arrived[:count])
    assert all(tangle.add(message) is None for message in written)
    threads = Threads()
    for message in (*arrived, *written):
        threads.add(message)
    assert {id_: each.order for id_, each in threads.tangles.items()} == (
        {root.id: tangle.order} if len(written) > 1 else {}
    )


def reachable(root: str, here: list[Message], elsewhere: list[Message]) -> tuple[set[str], set[str]]:
    """The model: the messages that a reader has who asks for all that it lacks, and those that nobody has."""
    got = {message.id: message for message in here}
    held = {message.id: message for message in elsewhere}
    while True:
        named = {root} | {
            id_
            for message in got.values()
            if message.id != root and isinstance(message.content, dict)
            for id_ in branches(message.content)
        }
        new = {id_: held[id_] for id_ in named - got.keys() if id_ in held}
        if not new:
            return {*got}, named - got.keys()
        got |= new


@settings(max_examples=300)
@given(conversations(), st.data())
def test_a_thread_is_completed_by_all_that_it_names(written: list[Message], data: st.DataObject) -> None:
    root = written[0].id
    places = data.draw(st.lists(st.sampled_from("hel-"), min_size=len(written), max_size=len(written)))
    here, early, late = ([m for m, at in zip(written, places, strict=True) if at == each] for each in "hel")
    tangle = Tangle(root)
    for message in here:
        tangle.add(message)
    held = {message.id: message for message in early}
    asked: list[str] = []
    completion = Completion([tangle], lambda id_: asked.append(id_) or held.get(id_))
    for elsewhere in (early, early + late):
        held |= {message.id: message for message in elsewhere}
        asked.clear()
        missing = completion.proceed()
        got, lacking = reachable(root, here, elsewhere)
        assert ({each.id for each in tangle.order}, {*missing}) == (got, lacking)
        assert len(asked) == len({*asked}), "each is asked for once"
    assert tangle.order == tangle.computed()


@given(st.integers(0, 8), st.integers(1, 6))
def test_who_answers_cannot_make_a_reader_ask_without_end(most: int, width: int) -> None:
    """Each answer names others, and a message of another thread names more."""
    logs = Logs()
    root = logs.post(ANN)
    foreign = logs.post(CAT, logs.post(CAT), logs.post(CAT))
    for number in range(20):
        logs.post(BEN, root, *logs.written[-width:], *([foreign] if number % 2 else []))
    held = {message.id: message for message in logs.written}
    tangle = Tangle(root.id)
    tangle.add(logs.written[-1])
    asked: list[str] = []
    completion = Completion([tangle], lambda id_: asked.append(id_) or held.get(id_), most)
    completion.proceed()
    completion.proceed()
    assert len(asked) == min(most, 21)  # all but the last answer, and the foreign one; not the two behind it
    assert foreign not in tangle.order


def test_a_false_time_does_not_put_an_answer_before_its_question() -> None:
    logs = Logs()
    root = logs.post(ANN, time=10)
    question = logs.post(BEN, root, root, time=20)
    answer = logs.post(CAT, root, question, time=1)
    tangle = Tangle(root.id)
    for message in (answer, question, root):
        tangle.add(message)
    assert tangle.order == [root, question, answer]
    assert tangle.heads() == [answer.id]


def test_a_late_post_goes_to_its_place_and_moves_only_what_waited_for_it() -> None:
    logs = Logs()
    root = logs.post(ANN, time=10)
    late = logs.post(BEN, root, time=20)
    newest = logs.post(CAT, root, root, time=30)
    answer = logs.post(ANN, root, late, time=15)
    tangle = Tangle(root.id)
    for message in (root, newest):
        tangle.add(message)
    assert tangle.add(late) == (1, 0)
    assert tangle.order == [root, late, newest]
    tangle = Tangle(root.id)
    for message in (root, answer, newest):
        tangle.add(message)
    assert tangle.order == [root, answer, newest]
    assert tangle.add(late) == (1, 0)
    assert tangle.order == [root, late, answer, newest]


def test_a_forked_author_who_closes_a_circle_hides_nothing() -> None:
    logs = Logs()
    root = logs.post(BEN)
    first = Logs().post(ANN)
    later = Message.create(ANN, first, {"type": "post", "text": "x", "root": root.id}, 0)
    answer = logs.post(BEN, root, later)
    forked = Message.create(ANN, None, {"type": "post", "text": "y", "root": root.id, "branch": answer.id}, 0)
    after = logs.post(CAT, root, forked)
    for seed in range(20):
        arrived = [root, later, answer, forked, after]
        Random(seed).shuffle(arrived)
        tangle = Tangle(root.id)
        for message in arrived:
            tangle.add(message)
            assert tangle.order == tangle.computed()
        assert tangle.order[0] is root
        assert {each.id for each in tangle.order} == {each.id for each in arrived}


def vote(logs: Logs, person: Identity, link: str, value: Any) -> Message:
    return logs.write(person, {"type": "vote", "vote": {"link": link, "value": value, "expression": "Like"}})


def test_likes() -> None:
    logs = Logs()
    one, two = logs.post(ANN).id, logs.post(ANN).id
    vote(logs, BEN, one, 1)
    vote(logs, BEN, two, 1)
    vote(logs, CAT, two, 1)
    vote(logs, BEN, one, 0)  # taken back
    vote(logs, ANN, one, -1)
    for value in (True, "1", None):
        vote(logs, CAT, one, value)
    vote(logs, CAT, "%x", 1)
    votes = Votes()
    for message in (*reversed(logs.written), *logs.written):
        votes.add(message)
    assert votes.liked() == [(two, 2)]
    assert votes.likes(two) == {BEN.ref, CAT.ref}
    assert votes.likes(one) == votes.likes(message_ref(bytes(32))) == frozenset()


class Board(Logs):
    """A game between Ann (white) and Ben."""

    def __init__(self) -> None:
        super().__init__()
        self.invite = self.write(ANN, {"type": "chess_invite", "inviting": BEN.ref, "myColor": "white"})
        self.last = self.invite

    def say(self, person: Identity, type_: str, **fields: Any) -> Message:
        content = {"type": type_, "root": self.invite.id, "branch": self.last.id, **fields}
        return self.write(person, content)

    def play(self, *moves: str) -> None:
        for ply, move in enumerate(moves, 1):
            self.last = self.say(PEOPLE[1 - ply % 2], "chess_move", ply=ply, pgnMove=move)


def games(messages: list[Message]) -> Any:
    state = Games()
    for message in messages:
        state.add(message)
    (game,) = state.games()
    return game


def test_a_game_of_chess_in_two_logs() -> None:
    board = Board()
    assert not games(board.written).is_accepted
    board.say(BEN, "chess_invite_accept")
    board.play("f3", "e5", "g4")
    assert games(board.written).is_accepted
    board.say(BEN, "chess_game_end", status="mate", ply=4, pgnMove="Qh4#")
    game = games(board.written)
    assert game.moves == ("f3", "e5", "g4", "Qh4#")
    assert (game.end, game.winner, game.waiting) == ("mate", BEN.ref, 0)


def test_an_observer_of_one_log_sees_the_game_as_far_as_the_other_has_come() -> None:
    board = Board()
    board.play("e4", "e5", "Nf3", "Nc6")
    of_ann = [each for each in board.written if each.author == ANN.ref]
    game = games(of_ann)
    assert game.moves == ("e4",)
    assert game.waiting == 1
    assert game.mover(len(game.moves) + 1) == BEN.ref


def test_nobody_moves_out_of_turn_twice_or_for_another() -> None:
    board = Board()
    board.play("e4")
    board.say(ANN, "chess_move", ply=2, pgnMove="e5")  # Ben's turn
    board.say(CAT, "chess_move", ply=2, pgnMove="e6")  # no player
    board.say(CAT, "chess_game_end", status="resigned")
    board.say(BEN, "chess_move", ply=2, pgnMove="c5")
    board.say(BEN, "chess_move", ply=2, pgnMove="d5")  # too late
    for ply in (0, -1, True, "3", None):
        board.say(ANN, "chess_move", ply=ply, pgnMove="a3")
    board.say(ANN, "chess_move", ply=3, pgnMove="Nf3")  # answers another move than Ben's
    game = games(board.written)
    assert game.moves == ("e4", "c5")
    assert game.end is None
    board.say(BEN, "chess_game_end", status="resigned")
    assert games(board.written) == replace(game, end="resigned", winner=ANN.ref)


@given(st.data())
def test_no_order_of_arrival_changes_a_game(data: st.DataObject) -> None:
    board = Board()
    for _ in range(data.draw(st.integers(1, 8))):
        person = data.draw(st.sampled_from(PEOPLE))
        ply = data.draw(st.integers(1, 3))
        made = board.say(person, "chess_move", ply=ply, pgnMove=f"m{len(board.written)}")
        if data.draw(st.booleans()):
            board.last = made
        if data.draw(st.booleans()):
            board.say(person, "chess_game_end", status=data.draw(st.sampled_from(["draw", "resigned", "x"])))
    assert games(data.draw(st.permutations(board.written))) == games(board.written)


def publish(account: Path, **content: Any) -> str:
    return ssb(account, "publish", "--content", json.dumps(content)).split()[0]


def test_views_on_the_command_line(tmp_path: Path) -> None:
    ann = tmp_path / "ann"
    root = ssb(ann, "publish", "Hello").split()[0]
    yes = publish(ann, type="post", text="Yes", root=root, branch=root)
    publish(ann, type="post", text="And", root=root, branch=[yes])
    publish(ann, type="vote", vote={"link": root, "value": 1})
    event = publish(ann, type="gathering")
    publish(ann, type="about", about=event, title="Picnic", startDateTime={"epoch": 1_600_000_000_000})
    invite = publish(ann, type="chess_invite", inviting=BEN.ref, myColor="white")
    publish(ann, type="chess_move", root=invite, branch=invite, ply=1, pgnMove="e4")
    (line,) = ssb(ann, "view", "threads").splitlines()
    assert line.split()[:2] == ["3", "posts,"]
    assert line.endswith(f"{root}  Hello")
    assert ssb(ann, "view", "likes").split() == ["1", root]
    assert ssb(ann, "view", "gatherings").startswith("Picnic, 2020-09-13 12:26, host @")
    assert "1 moves, not accepted  e4" in ssb(ann, "view", "chess")
    assert json.loads(ssb(ann, "view", "chess", "--json"))["moves"] == ["e4"]
    assert json.loads(ssb(ann, "view", "gatherings", "--json"))["title"] == "Picnic"
    shown = ssb(ann, "get", root, "--thread").splitlines()
    assert [each.split()[-1] for each in shown] == ["Hello", "Yes", "And"]


def test_a_view_of_nothing_is_empty(tmp_path: Path) -> None:
    ssb(tmp_path / "ann", "publish", "Hello")
    for what in ("threads", "likes", "gatherings", "chess"):
        assert ssb(tmp_path / "ann", "view", what) == ""


@pytest.mark.parametrize("content", ["aGVsbG8=.box", {"type": "vote"}, {"type": "vote", "vote": 1}])
def test_messages_that_say_nothing(content: Any) -> None:
    message = Message.create(ANN, None, content, 1)
    votes, state, threads = Votes(), Games(), Threads()
    for each in (votes, state, threads):
        each.add(message)
    assert votes.liked() == state.games() == []
    assert threads.tangles == {}
