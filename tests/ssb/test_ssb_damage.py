"""Damaged stores: nothing altered is handed out, what is damaged comes again, and no feed forks."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from test_ssb_export import ALICE, BOB, feed
from test_ssb_hostile_peers import compact

from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import ForkedFeed, Message
from ssb.replication.ebt import Ebt
from ssb.replication.session import Note
from ssb.store import sound
from ssb.store.clocks import MemoryClocks
from ssb.store.feed_table import DamagedStore
from ssb.store.feeds import StoreError, Tip
from ssb.store.mend import check_chains, check_file, examined
from ssb.store.sqlite import SqliteFeeds
from testbed.ladder.swarms.swarm import Swarm
from testbed.verify.fuzz import flips
from testbed.verify.fuzz.flips import Drill, main

LENGTH = 12
FEED = feed(ALICE, LENGTH)
POST = {"type": "post", "text": "hello"}
OTHERS = [feed(Identity.from_seed(bytes([number]) * 32), LENGTH) for number in (1, 2)]


def change(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement, values)


def flip(path: Path, message: Message, place: int = -20) -> None:
    """Change one byte of a stored text."""
    text = bytearray(message.encoded)
    text[place] ^= 1
    change(path, "UPDATE messages SET text = ? WHERE text = ?", bytes(text), message.encoded)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteFeeds(tmp_path / "feeds.db") as store:
        store.append(FEED, 1)
        for number in range(3):
            store.publish(BOB, POST, number)
    return tmp_path / "feeds.db"


def held(store: SqliteFeeds, author: str = ALICE.ref) -> list[Message]:
    return [stored.message for stored in store.after(author, 0, 1000)]


def test_a_feed_ends_before_a_damaged_message_until_it_has_come_again(path: Path) -> None:
    flip(path, FEED[4])
    with SqliteFeeds(path) as store:
        assert held(store) == FEED[:4]
        assert store.tip(ALICE.ref) == Tip(4, FEED[3].id)
        assert store.get(FEED[4].id) is None
        assert store.get(FEED[5].id) == FEED[5]
        assert store.take_lost() == [(ALICE.ref, 5)]
    with SqliteFeeds(path) as store:
        assert (store.tips()[ALICE.ref], store.damaged()) == (4, {ALICE.ref: [5]})
        assert store.append(FEED[4:5], 2).stored == 1
        assert (held(store), store.damaged()) == (FEED, {})
        assert store.log(0, 100)[-1].message == FEED[4], "it has a new place in the log, as it came anew"
        check_chains(store)


def test_the_log_passes_over_damaged_messages(path: Path) -> None:
    flip(path, FEED[0])
    flip(path, FEED[7])
    whole = [*FEED[1:7], *FEED[8:]]
    with SqliteFeeds(path) as store:
        assert [stored.message for stored in store.log(0, 5)] == whole[:5]
        assert [stored.message for stored in store.newest(LENGTH, ALICE.ref)] == whole
        assert ALICE.ref not in store.tips()
        assert store.append(FEED, 1).stored == 2
        check_chains(store)


def test_the_low_bytes_of_a_text_are_not_all_of_it(path: Path) -> None:
    # The id covers the low byte of each UTF-16 unit: of U+00E9 and U+01E9 that is the same.
    message = Message.create(ALICE, FEED[-1], {"type": "post", "text": "caf\u00e9"}, 5)
    altered = message.encoded.replace("\u00e9".encode(), "\u01e9".encode())
    with SqliteFeeds(path) as store:
        store.append([message], 1)
        assert held(store)[-1] == message
        change(path, "UPDATE messages SET text = ? WHERE text = ?", altered, message.encoded)
        assert store.newest(1, ALICE.ref)[0].message == FEED[-1]
        assert store.damaged() == {ALICE.ref: [message.sequence]}


def test_an_own_feed_goes_on_where_it_ended(path: Path) -> None:
    with SqliteFeeds(path) as store:
        first, _, last = held(store, BOB.ref)
    flip(path, first)
    with SqliteFeeds(path) as store:
        assert held(store, BOB.ref) == []
        message = store.publish(BOB, POST, 9)
        assert (message.sequence, message.previous) == (4, last.id)
        assert held(store, BOB.ref) == [], "others get it when the feed is whole"
        assert store.append([first], 10).stored == 1
        assert len(held(store, BOB.ref)) == 4


def test_an_own_feed_whose_last_message_is_damaged_does_not_go_on(path: Path) -> None:
    with SqliteFeeds(path) as store:
        last = held(store, BOB.ref)[-1]
    flip(path, last)
    with SqliteFeeds(path) as store:
        with pytest.raises(StoreError, match=r"message 3 of @.*, its last one, is damaged here") as error:
            store.publish(BOB, POST, 9)
        assert "\n" not in str(error.value)
        store.append([last], 10)
        assert store.publish(BOB, POST, 11).previous == last.id


def test_what_comes_again_must_not_contradict_what_is_behind(path: Path) -> None:
    other = Message.create(ALICE, FEED[3], {"type": "post", "text": "another fifth"}, 5)
    flip(path, FEED[4])
    with SqliteFeeds(path) as store:
        assert held(store) == FEED[:4]
        refused = store.append([other], 2).refused[ALICE.ref]
        assert isinstance(refused, ForkedFeed)
        assert dict(store.forks()) == {ALICE.ref: (other, FEED[5])}


def test_damage_forks_no_feed(path: Path) -> None:
    more = Message.create(ALICE, FEED[-1], POST, 5)
    change(path, "UPDATE feeds SET sequence = 6 WHERE author = ?", ALICE.ref)
    with pytest.raises(DamagedStore, match="feednet ssb check"):
        SqliteFeeds(path)
    check_file(path)
    with SqliteFeeds(path) as store:
        assert store.append([*FEED, more], 1) == (1, LENGTH, {})
        assert not store.forks()


def test_a_damaged_proof_proves_nothing(path: Path) -> None:
    branch = Message.create(ALICE, FEED[2], {"type": "vote"}, 5)
    with SqliteFeeds(path) as store:
        store.append([branch], 1)
    change(path, "UPDATE forks SET second = replace(second, 'vote', 'note')")
    with SqliteFeeds(path) as store:
        assert store.append(FEED, 1).refused == {}
        assert list(store.append([branch], 1).refused) == [ALICE.ref], "it is proven again"


DAMAGES = {
    "no feed": "UPDATE feeds SET author = 'nobody' WHERE feed = 1",
    "another feed": f"UPDATE feeds SET author = '{OTHERS[0][0].author}' WHERE feed = 1",
    "no row": "DELETE FROM feeds WHERE feed = 1",
    "a shorter feed": "UPDATE feeds SET sequence = 3 WHERE feed = 1",
    "a longer feed": "UPDATE feeds SET sequence = 99 WHERE feed = 1",
    "another tip": "UPDATE feeds SET tip = zeroblob(32) WHERE feed = 1",
    "no number": "UPDATE feeds SET sequence = 'x' WHERE feed = 1",
    "no network": "DELETE FROM network",
    "messages of nobody": "UPDATE messages SET feed = 7 WHERE feed = 1",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_written_anew(path: Path, name: str) -> None:
    with SqliteFeeds(path) as store:
        own = held(store, BOB.ref)
    change(path, DAMAGES[name])
    with pytest.raises(DamagedStore) as error:
        SqliteFeeds(path)
    assert str(error.value).endswith("`feednet ssb check` writes it anew with all that is whole")
    checked = check_file(path)
    assert checked.messages == LENGTH + 3
    assert checked.kept is not None
    assert checked.kept.exists()
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "feeds.db",
        "feeds.db.damaged",
        "feeds.db.lock",
    ]
    with SqliteFeeds(path) as store:
        assert (held(store), held(store, BOB.ref)) == (FEED, own)
        with pytest.raises(ValueError, match="written here"):
            store.drop(BOB.ref)
        assert store.publish(BOB, POST, 9).previous == own[-1].id
        check_chains(store)
    assert check_file(path) == (LENGTH + 4, {}, None)


def test_pages_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "feeds.db"
    with SqliteFeeds(path) as store:
        for line in (FEED, *OTHERS):
            store.append(line, 1)
        for number in range(200):
            store.publish(BOB, {"type": "post", "text": "x" * 500}, number)
    data = bytearray(path.read_bytes())
    page = data.index(b"x" * 500) // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)
    with SqliteFeeds(path) as store, pytest.raises(DamagedStore, match="malformed"):
        store.after(BOB.ref, 0, 1000)
    checked = check_file(path)
    assert checked.kept is not None
    with SqliteFeeds(path) as store:
        lost = len(store.damaged()[BOB.ref])
        assert 0 < lost < 10
        assert checked.messages == 3 * LENGTH + 200 - lost
        assert store.publish(BOB, POST, 9).sequence == 201


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE feeds (x' WHERE name = 'feeds'",
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE messages (x)' WHERE name = 'messages'",
        "UPDATE sqlite_schema SET sql = replace(sql, 'text', CAST(x'e978' AS TEXT)) WHERE name = 'messages'",
    ],
)
def test_what_is_beyond_mending_stays_as_it_is(path: Path, statement: str) -> None:
    """Nothing takes its place: an empty store would begin the own feed anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(statement)
    before = path.read_bytes()
    for opening in (SqliteFeeds, check_file):
        with pytest.raises(StoreError) as error:
            opening(path)
        assert "damaged" in str(error.value)
        assert "\n" not in str(error.value)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.new*"))


def test_other_files_are_not_written_anew(path: Path) -> None:
    change(path, "PRAGMA application_id = 7")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="belongs to another program"):
        check_file(path)
    with pytest.raises(StoreError, match="no such file"):
        check_file(path.with_name("none"), read_only=True)
    assert path.read_bytes() == before


def test_what_was_damaged_in_memory_only_counts_again(path: Path) -> None:
    with SqliteFeeds(path) as store:
        store._record_damage(ALICE.ref, 5)
        assert held(store) == FEED[:4]
        assert sum(1 for _ in examined(store)) == LENGTH + 3
        assert held(store) == FEED


def test_peers_send_again_what_is_damaged(tmp_path: Path) -> None:
    lines = [generate_feed(Random(seed), 30, Identity.from_seed(bytes([seed + 1]) * 32)) for seed in range(2)]
    keys = [line[0].author for line in lines]
    with SqliteFeeds(tmp_path / "feeds.db") as store:
        swarm = Swarm([lambda _, clocks, wanted: Ebt(store, clocks, wanted), Ebt, Ebt], keys)
        swarm.peers[0].feeds = store
        for other in (1, 2):
            swarm.connect(0, other)
        for place, line in enumerate(lines):
            swarm.publish(place, line)
        swarm.run(10**10)
        assert store.tips() == dict.fromkeys(keys, 30)
        for line, sequence in ((lines[0], 3), (lines[0], 30), (lines[1], 7)):
            flip(tmp_path / "feeds.db", line[sequence - 1])
            assert len(held(store, line[0].author)) == sequence - 1
            for feed_, _ in store.take_lost():
                swarm.peers[0].replication.on_lost(feed_, swarm.now)
            swarm.touch(0)
            swarm.run(swarm.now + 10**10)
            assert held(store, line[0].author) == line
        assert not store.damaged()
        check_chains(store)


@pytest.mark.parametrize("is_told", [True, False])
def test_what_is_on_its_way_when_damage_is_found_breaks_no_rule(path: Path, is_told: bool) -> None:
    """The remote sends on behind the damage until it hears how far the store is now."""
    later = Message.create(ALICE, FEED[-1], POST, 1.0)
    with SqliteFeeds(path) as store:
        ebt = Ebt(store, MemoryClocks(), [ALICE.ref])
        ebt.open(1, "@other", is_caller=False, now=0)
        ebt.receive(1, [json.dumps({ALICE.ref: Note(LENGTH + 1, True).number}).encode()], 0, 0.0)
        ebt.take_output(1, 1 << 16, 0)
        flip(path, FEED[4])
        assert held(store) == FEED[:4]
        if is_told:
            ebt.on_lost(ALICE.ref, 0)
        ebt.receive(1, [compact(later)], 1, 1.0)
        assert ebt.set_aside == {}
        if not is_told:
            ebt.on_lost(ALICE.ref, 2)
        ebt.receive(1, [*map(compact, FEED[4:]), compact(later)], 3, 3.0)
        assert held(store) == [*FEED, later]
        check_chains(store)


def test_a_peer_of_which_a_message_was_refused_sends_again_what_is_damaged(path: Path) -> None:
    bad = compact(Message.create(ALICE, FEED[-1], POST, 1.0)).replace(b"hello", b"hallo")
    with SqliteFeeds(path) as store:
        ebt = Ebt(store, MemoryClocks(), [ALICE.ref])
        ebt.open(1, "@other", is_caller=False, now=0)
        ebt.receive(1, [json.dumps({ALICE.ref: Note(LENGTH + 1, True).number}).encode(), bad], 0, 0.0)
        assert [*ebt.set_aside] == [ALICE.ref]
        flip(path, FEED[4])
        assert held(store) == FEED[:4]
        ebt.on_lost(ALICE.ref, 1)
        ebt.receive(1, [*map(compact, FEED[4:]), bad], 2, 2.0)
        assert held(store) == FEED
        assert [*ebt.set_aside] == [ALICE.ref]


class Damage(RuleBasedStateMachine):
    """Messages are damaged and come, in any order; the feed is a prefix of what its author wrote, always."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.path = Path(self.directory.name) / "feeds.db"
        self.store = SqliteFeeds(self.path)
        self.end = 0
        self.own: list[Message] = []

    @rule(first=st.integers(0, LENGTH - 1), count=st.integers(1, LENGTH))
    def append(self, first: int, count: int) -> None:
        if first <= self.store.tips().get(ALICE.ref, 0):
            assert not self.store.append(FEED[first : first + count], 1).refused
            self.end = max(self.end, min(first + count, LENGTH))

    @rule(number=st.integers(0, LENGTH - 1), place=st.integers(0, 300))
    def damage(self, number: int, place: int) -> None:
        flip(self.path, FEED[number], place)

    @rule()
    def publish(self) -> None:
        message = self.store.publish(BOB, POST, len(self.own))
        assert message.previous == (self.own[-1].id if self.own else None)
        self.own.append(message)

    @rule(number=st.integers(0, 5))
    def damage_own(self, number: int) -> None:
        if number < len(self.own) - 1:
            flip(self.path, self.own[number])

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteFeeds(self.path)

    @invariant()
    def is_a_prefix(self) -> None:
        for author, line in ((ALICE.ref, FEED), (BOB.ref, self.own)):
            found = held(self.store, author)
            assert found == line[: len(found)]
            assert self.store.tips().get(author, 0) == len(found)
        assert not self.store.forks()

    def teardown(self) -> None:
        self.store.append([*FEED, *self.own], 1)
        self.store.append([*FEED, *self.own], 1)  # what was found damaged on the way
        assert (held(self.store), held(self.store, BOB.ref)) == (FEED, self.own)
        check_chains(self.store)
        self.store.close()
        self.directory.cleanup()


Damage.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
test_histories_of_damage = Damage.TestCase


# The drill


def test_flips(tmp_path: Path) -> None:
    found = list(Drill(tmp_path, seed=3).run(12))
    assert sum(flip.lost for flip in found) >= 6


def test_the_command() -> None:
    ran = CliRunner().invoke(main, ["--flips", "2"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.endswith("nothing altered was shown or served, and all messages came anew\n")


def believed(text: Any, start: Any, author: str, sequence: int, hmac_key: bytes | None) -> bool:
    """Believe every text that begins as it should."""
    return isinstance(text, bytes) and sound.named(text) == (author, sequence)


def raising(store: SqliteFeeds) -> Iterator[Any]:
    raise IndexError("no such luck")


@pytest.mark.parametrize(
    ("where", "name", "mutant", "said"),
    [
        (sound, "is_sound", believed, "shown|served|log: InvalidMessage|InvalidJson|Unicode|JSON"),
        (SqliteFeeds, "_check_rows", lambda store: None, "published|refused|after the check|anew"),
        (SqliteFeeds, "damaged", raising, "status: IndexError: no such luck"),
    ],
)
def test_faults_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mutant: Any, said: str
) -> None:
    drill = Drill(tmp_path, seed=3)
    monkeypatch.setattr(where, name, mutant)
    if name == "_check_rows":
        monkeypatch.setattr(drill, "_flip", lambda **_: damaged_row(drill._copy))
    with pytest.raises(flips.Fault, match=said):
        list(drill.run(60))


def damaged_row(account: Path) -> str:
    change(
        account / "feeds.sqlite", "UPDATE feeds SET author = substr(author, 1, 2) || 'A' || substr(author, 4)"
    )
    return "every row of feeds"
