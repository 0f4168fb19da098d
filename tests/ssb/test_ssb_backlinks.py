"""Backlinks: the index has the links of the messages, whatever happens to the store and to the file."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ssb_import import ssb

from ssb.applications.links import Link, links_of
from ssb.branches.store import MergedFeeds
from ssb.daemon import backlinks
from ssb.daemon.account import Account
from ssb.daemon.backlinks import BACKLINKS, Backlinks
from ssb.daemon.commands import CommandError, Commands
from ssb.keys import Identity, blob_ref, feed_ref, message_ref
from ssb.message import Message
from ssb.store.sqlite import SqliteFeeds
from testbed.errors import UserError

AUTHORS = [Identity.from_seed(bytes([number]) * 32) for number in range(4)]
DIGESTS = [bytes([7] * 8 + [number] * 24) for number in range(3)]  # the index cannot tell these apart
DESTS = [ref(digest) for digest in DIGESTS for ref in (message_ref, feed_ref, blob_ref)]
RELS = ["root", "branch", "vote", "mentions"]

WRITTEN = st.recursive(
    st.sampled_from([*DESTS, *DESTS, "", "%x.sha256", None, 1, True]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.fixed_dictionaries({}, optional={"link": inner, "name": inner})
    ),
    max_leaves=4,
)
CONTENTS = st.one_of(
    st.dictionaries(st.sampled_from(RELS), WRITTEN, max_size=3).map(lambda said: {"type": "post"} | said),
    st.just("aGVsbG8=.box"),
)


def plainly(content: Any) -> set[Link]:
    """The links of a content, said again: a member, or one of its list, that is a reference or has a link."""
    found = set()
    for rel, value in content.items() if isinstance(content, dict) else []:
        for each in value if isinstance(value, list) else [value]:
            for dest in DESTS:
                if each == dest or (isinstance(each, dict) and each.get("link") == dest):
                    found.add(Link(rel, dest))
    return found


@given(CONTENTS)
def test_links_are_members_of_a_content(content: Any) -> None:
    links = links_of(content)
    assert {*links} == plainly(content)
    assert len(links) == len({*links})


def found(index: Backlinks) -> dict[str, list[tuple[str, Link]]]:
    return {dest: sorted((each.message.id, each.link) for each in index.to(dest)) for dest in DESTS}


def authors(index: Backlinks, dest: str, most: int) -> list[str]:
    """The authors of all messages of logs that link to something, asked for so many at a time."""
    found: list[tuple[int, str]] = []
    while more := index.authors(dest, found[-1][0] if found else 0, most):
        assert len(more) <= most
        found += more
    assert found == sorted(found)
    return [author for _, author in found]


def expected(messages: Iterable[Message]) -> dict[str, list[tuple[str, Link]]]:
    links = [(message.id, link) for message in messages for link in plainly(message.content)]
    return {dest: sorted(each for each in links if each[1].dest == dest) for dest in DESTS}


def merged(store: SqliteFeeds) -> MergedFeeds:
    """No feeds, so no file is made."""
    return MergedFeeds(store, Path("/nowhere"))


class Story:
    """A store, its index, and an obvious model: the messages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = SqliteFeeds(directory / "feeds.sqlite")
        self.index = Backlinks(directory / BACKLINKS, self.store, merged(self.store))
        self.logs: dict[str, list[Message]] = {each.ref: [] for each in AUTHORS}
        self.loose: list[Message] = []

    def write(self, author: Identity, content: Any) -> None:
        log = self.logs[author.ref]
        log.append(Message.create(author, log[-1] if log else None, content, 1.0))
        assert self.store.append(log[-1:], 1.0).stored == 1

    def fetch(self, content: Any) -> None:
        stranger = Identity.from_seed((1000 + len(self.loose)).to_bytes(32, "big"))
        self.loose.append(Message.create(stranger, None, content, 1.0))
        self.store.add_out_of_order(self.loose[-1], 1.0)

    def reopen(self, harm: str) -> None:
        """Open the index again, after `harm` to its file."""
        file = self.directory / BACKLINKS
        self.index.close()
        if harm == "lost":
            file.unlink(missing_ok=True)
        elif harm == "damaged" and file.exists():
            data = bytearray(file.read_bytes())
            data[Random(len(data)).randrange(len(data))] ^= 1
            file.write_bytes(data)
        self.index = Backlinks(file, self.store, merged(self.store))

    def check(self) -> None:
        logged = [message for log in self.logs.values() for message in log]
        assert found(self.index) == expected([*logged, *self.loose])
        linking = [(m.author, {link.dest for link in plainly(m.content)}) for m in logged]
        for most in (1, 3):
            # The index cannot tell the digests apart: each stands for all.
            named = sorted(author for author, dests in linking if dests)
            assert sorted(authors(self.index, DESTS[0], most)) == named


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(AUTHORS), CONTENTS),
        st.tuples(st.just("fetch"), CONTENTS),
        st.tuples(st.just("reopen"), st.sampled_from(["", "", "lost", "damaged"])),
        st.tuples(st.just("drop"), st.sampled_from(AUTHORS)),
        st.tuples(st.just("check")),
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, most=st.sampled_from([1, 3, 2000]))
def test_the_index_is_the_links_of_the_messages(
    steps: list[Any], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backlinks, "_MOST_BEHIND", most)
        story = Story(tmp_path_factory.mktemp("story"))
        with story.store:
            for do, *what in steps:
                if do == "drop":
                    story.store.drop(what[0].ref)
                    story.logs[what[0].ref].clear()
                else:
                    getattr(story, do)(*what)
            story.check()


def test_another_stores_file_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlinks, "_MOST_BEHIND", 1)
    for name, count in (("one", 3), ("two", 5)):
        (tmp_path / name).mkdir()
        story = Story(tmp_path / name)
        with story.store:
            for number in range(count):
                story.write(AUTHORS[0], {"type": name, "root": DESTS[number % 2 * 3]})
            story.check()
    (tmp_path / "two" / BACKLINKS).replace(tmp_path / "one" / BACKLINKS)
    with SqliteFeeds(tmp_path / "one" / "feeds.sqlite") as store:
        assert len(Backlinks(tmp_path / "one" / BACKLINKS, store, merged(store)).to(DESTS[0])) == 2


def test_a_query_reads_only_the_messages_that_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlinks, "_MOST_BEHIND", 10)
    story = Story(tmp_path)
    with story.store:
        for _ in range(30):
            story.write(AUTHORS[0], {"type": "post", "root": DESTS[0]})
        story.check()
        story.reopen("")
        read: list[int] = []
        log = story.store.log
        monkeypatch.setattr(story.store, "log", lambda after, *rest: read.append(after) or log(after, *rest))
        story.write(AUTHORS[0], {"type": "post", "root": DESTS[0]})
        story.check()
        assert min(read) == 30


def asked(account: Account, **options: Any) -> list[Any]:
    return list(Commands(account, lambda: 0.0).stream(["links"], [options]))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "source or dest has to be a reference"),
        ({"rel": "root"}, "source or dest has to be a reference"),
        ({"dest": "%x"}, "reference is not of the form %"),
        ({"dest": "hello"}, "no reference of a message, feed or blob"),
        ({"dest": 1}, "source and dest are references"),
        ({"dest": DESTS[0], "rel": 1}, "links takes source, dest, rel"),
        ({"dest": DESTS[0], "live": True}, "links takes source, dest, rel"),
        ({"dest": DESTS[0], "meta": False, "keys": False}, "one of meta, keys and values"),
    ],
)
def test_a_wrong_question_has_one_line(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    account = Account(tmp_path)
    with pytest.raises(CommandError, match=problem):
        asked(account, **options)
    account.close()


def test_the_command_shows_links_and_their_relations(tmp_path: Path) -> None:
    ann = tmp_path / "ann"
    root = ssb(ann, "publish", "Hello").split()[0]
    ssb(ann, "publish", "--content", json.dumps({"type": "post", "text": "Yes", "root": root}))
    ssb(ann, "publish", "--content", json.dumps({"type": "vote", "vote": {"link": root, "value": 1}}))
    lines = ssb(ann, "links", root).splitlines()
    assert [line.split()[0] for line in lines] == ["root", "vote"]
    assert ssb(ann, "links", root, "--rel", "root").endswith("Yes\n")
    (vote,) = ssb(ann, "links", root, "--rel", "vote", "--json").splitlines()
    assert json.loads(vote)["value"]["content"]["vote"]["value"] == 1
    assert ssb(ann, "links", DESTS[0]) == ""
    with pytest.raises(UserError, match="no reference"):
        ssb(ann, "links", "hello")
