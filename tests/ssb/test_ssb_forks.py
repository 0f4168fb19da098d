"""Forked feeds in stores: the messages before the fork stay, and all is ignored from the fork on."""

import json
import sqlite3
from contextlib import closing, suppress
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ssb_import import ssb

from ssb.daemon.account import STORE, Account
from ssb.daemon.commands import Commands
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.store.admission import Admission
from ssb.store.feeds import ignored_from
from ssb.store.memory import MemoryFeeds
from ssb.store.sqlite import SqliteFeeds

FORKER = Identity.from_seed(b"f" * 32)
OTHER = Identity.from_seed(b"o" * 32)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryFeeds() if request.param == "memory" else SqliteFeeds(tmp_path / "feeds.db")
    with made:
        yield made


def branches(common: int, one: int, other: int) -> tuple[list[Message], list[Message]]:
    """Two branches of a feed with so many messages in common, and each as many of its own."""
    made: list[list[Message]] = []
    shared: list[Message] = []
    for number in range(common):
        shared.append(
            Message.create(FORKER, shared[-1] if shared else None, {"type": "post", "n": number}, 1)
        )
    for name, own in (("one", one), ("other", other)):
        branch = shared.copy()
        for number in range(own):
            content = {"type": "post", "text": f"{name} {number}"}
            branch.append(Message.create(FORKER, branch[-1] if branch else None, content, 1))
        made.append(branch)
    return made[0], made[1]


def fetched(store, messages: list[Message]) -> None:
    """One by one, by their ids."""
    for message in messages:
        with suppress(ForkedFeed):
            store.add_out_of_order(message, 1.0)


def before_the_fork(store) -> list[Message]:
    point = ignored_from(store.forks()[FORKER.ref])
    return [stored.message for stored in store.after(FORKER.ref, 0, 100) if stored.sequence < point]


def offered_in_parts(store, messages: list[Message], cuts: list[int]) -> None:
    """As streams bring them: each part in order, and repeated from before as often as streams begin anew."""
    for cut in cuts:
        store.append(messages[cut % len(messages) :], 1.0)
    store.append(messages, 1.0)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 5),
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(st.integers(0, 19), max_size=6),
    st.integers(0, 9),
)
def test_stores_with_both_branches_ignore_the_same(
    common, one, other, first_cuts, other_cuts, single, here_before
):
    """Whichever branch came first, wherever the other one began, and whichever single messages came before
    them, ahead of the feed: the messages in common stay.
    """
    left, right = branches(common, one, other)
    stores = [MemoryFeeds(), MemoryFeeds()]
    for store, (mine, theirs) in zip(stores, ((left, right), (right, left)), strict=True):
        store.append(mine[:here_before], 1.0)
        fetched(store, [[*mine, *theirs][number % len([*mine, *theirs])] for number in single])
        store.append(mine, 1.0)
        offered_in_parts(store, theirs, first_cuts)
        offered_in_parts(store, mine, other_cuts)
    assert [before_the_fork(store) for store in stores] == [left[:common]] * 2
    assert [ignored_from(store.forks()[FORKER.ref]) for store in stores] == [common + 1] * 2


def test_an_earlier_proof_of_a_fork_replaces_a_later_one(store):
    """Message 6 of the other branch shows only that message 5 is another one there; message 3 shows more."""
    left, right = branches(2, 3, 5)
    store.append(left, 1.0)
    assert isinstance(store.append(right[5:], 2.0).refused[FORKER.ref], ForkedFeed)
    assert ignored_from(store.forks()[FORKER.ref]) == 5
    assert "message 3 is" in str(store.append(right[2:], 3.0).refused[FORKER.ref])
    assert ignored_from(store.forks()[FORKER.ref]) == 3
    assert store.append(right[3:], 4.0).refused
    assert store.forks()[FORKER.ref] == (left[2], right[2])
    assert before_the_fork(store) == left[:2]
    forged = Message.from_value({**json.loads(right[0].text), "content": {"type": "post", "n": 7}})
    assert isinstance(store.append([forged], 5.0).refused[FORKER.ref], InvalidMessage)
    assert ignored_from(store.forks()[FORKER.ref]) == 3


def test_a_fork_that_is_proved_ahead_of_the_feed_does_not_end_it_before(store):
    """Two single messages contradict each other. Those before them follow, and can move the fork back."""
    left, right = branches(4, 2, 1)
    store.append(left[:2], 1.0)
    fetched(store, [left[4], right[4]])
    assert store.fork_of(FORKER.ref) == 5
    assert not store.is_frozen(FORKER.ref)
    appended = store.append(left, 2.0)
    assert appended.stored == 2
    assert isinstance(appended.refused[FORKER.ref], ForkedFeed)
    assert before_the_fork(store) == left[:4]
    assert store.is_frozen(FORKER.ref)
    assert not store.is_ignored(FORKER.ref, 4)
    assert store.is_ignored(FORKER.ref, 5)


def test_the_proof_of_a_fork_ahead_of_the_feed_is_one_against_the_message_before(store):
    """Both prove the fork at 5, of which one continues another message 4 than the one that comes."""
    left, right = branches(2, 4, 4)
    store.append(left[:2], 1.0)
    fetched(store, [left[4], right[4]])
    assert store.append(left, 2.0).stored == 1
    assert store.fork_of(FORKER.ref) == 4
    assert before_the_fork(store) == left[:3]


def test_a_store_that_keeps_the_first_proof_is_caught():
    def kept(self, feed, message=None):
        original(self, feed)

    original = Admission._check_unforked
    with pytest.raises(AssertionError), patch.object(Admission, "_check_unforked", kept):
        test_an_earlier_proof_of_a_fork_replaces_a_later_one(MemoryFeeds())


def test_a_user_sees_a_forked_feed_up_to_the_fork(tmp_path):
    left, right = branches(2, 3, 5)
    with closing(Account(tmp_path)) as account:
        account.feeds.append(left, 1.0)
        commands = Commands(account, lambda: 1.0)

        def shown(**options):
            asked = {"id": FORKER.ref, **options}
            return [entry["key"] for entry in commands.stream(["createLogStream"], [asked])]

        assert shown() == [message.id for message in left]
        account.feeds.append(right, 2.0)
        assert shown() == shown(limit=100) == shown(type="post") == [message.id for message in left[:2]]
        assert commands.answer(["status"], [])["forked"] == {FORKER.ref: 3}


def test_a_damaged_proof_of_a_fork_is_lost_and_no_more(tmp_path):
    """Status and log go on; and a peer with the other branch proves the fork again."""
    left, right = branches(2, 3, 5)
    with closing(Account(tmp_path)) as account:
        account.feeds.append(left, 1.0)
        account.feeds.append(right, 2.0)
    with closing(sqlite3.connect(tmp_path / STORE)) as database, database:
        database.execute("UPDATE forks SET second = x'00'")
    with closing(Account(tmp_path)) as account:
        commands = Commands(account, lambda: 1.0)
        assert commands.answer(["status"], [])["forked"] == {}
        assert len(list(commands.stream(["createLogStream"], [{}]))) == len(left)
        account.feeds.append(right, 3.0)
        assert commands.answer(["status"], [])["forked"] == {FORKER.ref: 3}


def test_a_log_reads_the_proof_of_a_fork_once(tmp_path, monkeypatch):
    left, right = branches(2, 30, 1)
    with closing(Account(tmp_path)) as account:
        account.feeds.append(left, 1.0)
        account.feeds.append(right, 2.0)
    with closing(Account(tmp_path)) as account:
        asked = []
        query = account.feeds._query
        monkeypatch.setattr(
            account.feeds, "_query", lambda text, *rest: asked.append(text) or query(text, *rest)
        )
        assert [len(list(account.log.messages(None, limit, None))) for limit in (None, 10)] == [2, 2]
        assert len([text for text in asked if "forks" in text]) == 1


def post(author: Identity, previous: Message | None, text: str, **links: Any) -> Message:
    return Message.create(author, previous, {"type": "post", "text": text, **links}, 1.0)


def test_threads_and_links_leave_out_ignored_messages_too(tmp_path):
    """Another's post names an ignored one, which is not brought back by that."""
    root = post(OTHER, None, "root")
    in_thread = {"root": root.id, "branch": root.id}
    first = post(FORKER, None, "first", **in_thread)
    ignored = post(FORKER, first, "ignored", **in_thread)
    branch = post(FORKER, first, "other branch", **in_thread)
    last = post(OTHER, root, "last", root=root.id, branch=ignored.id)
    with closing(Account(tmp_path)) as account:
        account.feeds.append([first, ignored, root, last], 1.0)
        account.feeds.append([branch], 2.0)
        commands = Commands(account, lambda: 1.0)

        def linked(**options):
            return {entry["key"] for entry in commands.stream(["links"], [options])}

        assert linked(dest=root.id) == {first.id, last.id}
        assert linked(dest=root.id, source=FORKER.ref) == linked(source=FORKER.ref) == {first.id}
        assert linked(source=FORKER.ref, dest="%") == {first.id}
    shown = ssb(tmp_path, "links", root.id, "--rel", "root").splitlines()
    assert [line.split()[-1] for line in shown] == ["first", "last"]
    (thread,) = ssb(tmp_path, "view", "threads", "--json").splitlines()
    assert json.loads(thread)["posts"] == 3
    problem, *posts = ssb(tmp_path, "get", root.id, "--thread", "--json").splitlines()
    assert problem == f"left out: {ignored.id}: their feeds are forked before them"
    assert [json.loads(each)["content"]["text"] for each in posts] == ["root", "first", "last"]
    assert json.loads(ssb(tmp_path, "get", ignored.id, "--json"))["content"]["text"] == "ignored"
