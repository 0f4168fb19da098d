"""Both stores against an obvious model, and their rules one by one."""

import sqlite3
from collections import Counter
from contextlib import closing
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_ssb_export import ALICE, BOB, HMAC_KEY, REAL, feed

from ssb.canonical import parse, stringify
from ssb.export import entry_line, read_export
from ssb.keys import Identity, message_ref, parse_message
from ssb.message import ForkedFeed, InvalidMessage, Message, contradicts, proves_fork
from ssb.store import feeds, memory, sqlite
from ssb.store.feed_table import APPLICATION_ID
from ssb.store.feeds import FeedStore, StoreError, Tip, read_log
from ssb.store.memory import MemoryFeeds
from ssb.store.mend import check_chains
from ssb.store.sqlite import SqliteFeeds

FEED = feed(ALICE, 6)
OTHER = feed(ALICE, 6, text="another")
BRANCH = [*FEED[:3], Message.create(ALICE, FEED[2], {"type": "post", "text": "branch"}, 7)]
FORGED = Message.from_text(FEED[1].text.replace("hello 1", "hallo 1"))
POST = {"type": "post", "text": "mine"}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryFeeds() if request.param == "memory" else SqliteFeeds(tmp_path / "feeds.db")
    with made:
        yield made


def held(store, author=ALICE):
    return [stored.message for stored in store.after(author.ref, 0, 1000)]


def test_empty_store(store: FeedStore):
    assert store.tips() == {}
    assert store.forks() == {}
    assert store.tip(ALICE.ref) is None
    assert store.end == 0
    assert store.after(ALICE.ref, 0, 10) == store.log(0, 10) == store.log(0, 10, ["post"]) == []
    assert store.get(FEED[0].id) is store.get("nonsense") is None
    assert store.drop(ALICE.ref) == 0
    assert store.append([], 1) == (0, 0, {})


def test_appending(store):
    tips = store.tips()
    assert store.append(FEED[:4], 1234.5) == (4, 0, {})
    assert store.append(FEED[2:], 5678) == (2, 2, {})
    assert tips == {ALICE.ref: 6}
    assert store.tip(ALICE.ref) == Tip(6, FEED[5].id)
    assert held(store) == FEED
    assert [stored.sequence for stored in store.after(ALICE.ref, 2, 3)] == [3, 4, 5]
    assert [store.get(message.id) for message in FEED] == FEED
    begins_alike = message_ref(parse_message(FEED[0].id)[:-1] + b"?")
    assert store.get(begins_alike) is None
    assert [(s.position, s.received) for s in store.log(2, 3)] == [(3, 1234.5), (4, 1234.5), (5, 5678.0)]


def test_forms_of_what_is_stored(store):
    real = read_export(REAL)
    assert store.append(real, 7.5).stored == 235
    for stored, message in zip(store.log(0, 1000), real, strict=True):
        assert stored.text == message.encoded
        assert stored.id == message.id
        assert stored.message == message
        assert stored.compact.decode() == stringify(parse(message.text), indent=0)
        assert stored.entry + b"\n" == entry_line(message, 7.5)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (FEED[3], "sequence 4 does not come after 2"),
        (FORGED, "signature does not verify"),
        (feed(ALICE, 3, HMAC_KEY)[2], "signature does not verify"),
        (feed(BOB, 2)[1], "sequence 2 cannot come first"),
    ],
)
def test_what_does_not_come_next_is_refused(store, message, reason):
    store.append(FEED[:2], 1)
    appended = store.append([message], 1)
    assert appended[:2] == (0, 0)
    assert [type(error) for error in appended.refused.values()] == [InvalidMessage]
    assert reason in str(appended.refused[message.author])
    assert held(store) == FEED[:2]
    assert store.forks() == {}


def test_the_valid_prefix_of_each_feed_is_kept(store):
    bob = feed(BOB, 3)
    bad = Message.from_text(FEED[2].text.replace("hello 2", "hallo 2"))
    mixed = [FEED[0], bob[0], FEED[1], bad, bob[1], FEED[2], FEED[3], bob[2]]
    stored, skipped, refused = store.append(mixed, 1)
    assert (stored, skipped, list(refused)) == (5, 0, [ALICE.ref])
    assert held(store) == FEED[:2]
    assert held(store, BOB) == bob
    assert [stored.message for stored in store.log(0, 10)] == [FEED[0], bob[0], FEED[1], *bob[1:]]


@pytest.mark.parametrize(
    ("before", "then", "proof"),
    [
        (FEED, [OTHER[1]], (FEED[1], OTHER[1])),  # at a held place
        (FEED, [BRANCH[3]], (FEED[3], BRANCH[3])),
        (FEED[:2], [OTHER[2]], (FEED[1], OTHER[2])),  # next by its number, after another message
        ([], [*FEED[:3], OTHER[1]], (FEED[1], OTHER[1])),  # within one batch
        ([], [*FEED[:3], OTHER[3]], (FEED[2], OTHER[3])),
    ],
)
def test_fork(store, before, then, proof):
    store.append(before, 1)
    whole = before or then[:-1]
    refused = store.append(then, 1).refused[ALICE.ref]
    assert isinstance(refused, ForkedFeed)
    assert refused.proof == proof
    assert proves_fork(*proof)
    assert dict(store.forks()) == {ALICE.ref: proof}
    assert held(store) == whole
    # It is frozen, and keeps its proof, unless there is an earlier one.
    earliest = (FEED[0], OTHER[0])
    for message, expected in ((OTHER[5], proof), (OTHER[0], earliest), (OTHER[5], earliest)):
        again = store.append([message], 1)
        assert again.stored == 0
        assert again.refused[ALICE.ref].proof == expected
    with pytest.raises(ForkedFeed):
        store.publish(ALICE, POST, 1)
    assert held(store) == whole
    # Other feeds go on, and the proof outlives the feed.
    assert store.append(feed(BOB, 2), 1).stored == 2
    assert store.drop(ALICE.ref) == len(whole)
    assert dict(store.forks()) == {ALICE.ref: earliest}
    assert store.append(FEED, 1)[:2] == (0, 0)


def test_who_did_not_sign_proves_no_fork(store):
    store.append(FEED, 1)
    assert isinstance(store.append([FORGED], 1).refused[ALICE.ref], InvalidMessage)
    with pytest.raises(InvalidMessage):
        store.add_out_of_order(FORGED, 1)
    assert store.forks() == {}
    assert not proves_fork(FEED[1], FORGED)
    assert not proves_fork(FEED[0], FEED[1])
    assert not proves_fork(FEED[1], FEED[1])
    assert not proves_fork(FEED[1], feed(BOB, 2)[1])
    assert not proves_fork(FEED[1], OTHER[1], HMAC_KEY)
    assert not proves_fork(FEED[1], OTHER[3])


def test_out_of_order(store):
    store.add_out_of_order(FEED[4], 1)
    store.add_out_of_order(FEED[4], 2)
    assert store.get(FEED[4].id) == FEED[4]
    assert store.tips() == {}
    assert store.log(0, 10) == []
    store.append(FEED, 1)
    assert store.get(FEED[4].id) == FEED[4]
    store.add_out_of_order(FEED[4], 3)
    store.drop(ALICE.ref)
    assert store.get(FEED[4].id) is None  # it had become one of the feed's


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([OTHER[1]], FEED[:2]),
        ([OTHER[1]], [FEED[0], OTHER[1]][:1]),
        ([OTHER[4], FEED[4]], []),
        ([OTHER[4], FEED[3]], []),
        ([FEED[3], OTHER[4]], []),
    ],
)
def test_messages_out_of_order_prove_forks(store, first, then):
    try:
        for message in first:
            store.add_out_of_order(message, 1)
        store.append(then, 1)
    except ForkedFeed:
        pass
    proof = store.forks()[ALICE.ref]
    assert proves_fork(*proof)
    assert set(proof) <= {*first, *then}


def test_out_of_order_beside_a_feed(store):
    store.append(FEED[:2], 1)
    for message in (OTHER[1], OTHER[2]):
        with pytest.raises(ForkedFeed):
            store.add_out_of_order(message, 1)
        assert store.get(message.id) is None
    assert store.forks()[ALICE.ref] == (FEED[1], OTHER[1])
    assert held(store) == FEED[:2]


def test_out_of_order_has_a_bound(store, monkeypatch):
    for module in (memory, sqlite):
        monkeypatch.setattr(module, "MAX_OUT_OF_ORDER", 3)
    for message in FEED:
        store.add_out_of_order(message, 1)
    assert [store.get(message.id) is not None for message in FEED] == [False] * 3 + [True] * 3


def test_publishing(store):
    first = store.publish(ALICE, POST, 10)
    second = store.publish(ALICE, POST, 20)
    assert held(store) == [first, second]
    assert (second.previous, second.timestamp) == (first.id, 20)
    with pytest.raises(InvalidMessage):
        store.publish(ALICE, {"type": "x"}, 30)
    with pytest.raises(InvalidMessage):
        store.publish(ALICE, {"type": "post", "text": "x" * 9000}, 30)
    assert held(store) == [first, second]
    # What the identity has written elsewhere is continued.
    elsewhere = Message.create(ALICE, second, POST, 25)
    assert store.append([elsewhere], 26).stored == 1
    assert store.publish(ALICE, POST, 30).previous == elsewhere.id


def test_own_feed_is_not_dropped(store):
    store.publish(ALICE, POST, 10)
    with pytest.raises(ValueError, match="written here"):
        store.drop(ALICE.ref)
    assert len(held(store)) == 1


def test_dropping(store):
    store.append(FEED, 1)
    bob = feed(BOB, 2)
    store.append(bob, 1)
    assert store.drop(ALICE.ref) == 6
    assert store.tips() == {BOB.ref: 2}
    assert [stored.message for stored in store.log(0, 10)] == bob
    assert store.get(FEED[0].id) is None
    assert store.append(FEED, 2) == (6, 0, {})
    assert [stored.position for stored in store.log(0, 20)] == [7, 8, *range(9, 15)]
    assert store.end == 14
    # Not even the newest positions are used again.
    store.drop(ALICE.ref)
    assert store.end == 14
    store.append(FEED[:1], 3)
    assert store.log(8, 5)[0].position == 15


def test_log_by_type(store):
    contents = [POST, {"type": "contact"}, "aGVsbG8=.box", {"type": "a\ud800b"}, {"type": "vote"}, POST]
    for number, content in enumerate(contents):
        store.publish(ALICE, content, number)
    types = ["post", "vote"]
    assert [stored.position for stored in store.log(0, 10, types)] == [1, 5, 6]
    assert [stored.position for stored in store.log(1, 1, types)] == [5]
    assert store.log(0, 10, []) == store.log(0, 10, ["a\ufffdb"]) == []
    assert [stored.position for stored in store.log(0, 10)] == [1, 2, 3, 4, 5, 6]
    assert [stored.position for stored in read_log(store, 1, types)] == [5, 6]


def test_log_by_pages(store, monkeypatch):
    monkeypatch.setattr(feeds, "_PAGE", 2)
    store.append(FEED, 1)
    assert [stored.position for stored in read_log(store, 1)] == [2, 3, 4, 5, 6]


def test_hmac_key(tmp_path):
    messages = feed(ALICE, 3, HMAC_KEY)
    for store in (MemoryFeeds(HMAC_KEY), SqliteFeeds(tmp_path / "feeds.db", HMAC_KEY)):
        with store:
            assert store.append(messages, 1).stored == 3
            store.publish(ALICE, POST, 1).verify(HMAC_KEY)
            assert store.append(feed(BOB, 1), 1).stored == 0
    with pytest.raises(StoreError, match=r"feeds.db: belongs to a network with another HMAC key"):
        SqliteFeeds(tmp_path / "feeds.db")


# The file


def test_it_is_all_there_after_reopening(tmp_path):
    path = tmp_path / "feeds.db"
    with SqliteFeeds(path) as store:
        store.append(FEED, 1)
        own = store.publish(BOB, POST, 1)
        store.add_out_of_order(feed(Identity.from_seed(bytes(32)), 3)[2], 1)
        store.append([OTHER[1]], 1)
    with SqliteFeeds(path) as store:
        check_chains(store)
        assert store.tips() == {ALICE.ref: 6, BOB.ref: 1}
        assert store.tip(BOB.ref) == Tip(1, own.id)
        assert dict(store.forks()) == {ALICE.ref: (FEED[1], OTHER[1])}
        assert store.get(feed(Identity.from_seed(bytes(32)), 3)[2].id) is not None
        assert held(store) == FEED
        assert store.append([FEED[5]], 1).stored == 0
        with pytest.raises(ValueError, match="written here"):
            store.drop(BOB.ref)
        assert store.publish(BOB, POST, 1).sequence == 2


def test_one_writer_and_many_readers(tmp_path):
    path = tmp_path / "feeds.db"
    with SqliteFeeds(path) as store:
        with pytest.raises(StoreError) as error:
            SqliteFeeds(path)
        assert str(error.value) == f"{path}: another program writes to it; stop that one first"
        with SqliteFeeds(path, read_only=True) as one, SqliteFeeds(path, read_only=True) as two:
            store.append(FEED[:2], 1)
            assert one.tips() == {ALICE.ref: 2}
            store.append(FEED[2:], 1)
            store.append([OTHER[0]], 1)
            for reader in (one, two):
                assert reader.tips() == {ALICE.ref: 6}
                assert held(reader) == FEED
                assert list(reader.forks()) == [ALICE.ref]
                assert reader.end == 6
            with pytest.raises(StoreError, match="readonly"):
                one.append(feed(BOB, 1), 1)
    with SqliteFeeds(path, read_only=True) as reader:  # nobody writes
        assert held(reader) == FEED
    SqliteFeeds(path).close()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b"a text of some other program\n" * 100), "not a store of feeds"),
        (
            lambda path: change(path, "CREATE TABLE t (x)"),
            "not a store of feeds; it belongs to another program",
        ),
        (lambda path: change(path, "PRAGMA application_id = 7"), "not a store of feeds; it belongs to"),
        (
            lambda path: change(path, f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 9"),
            "has version 9, but this program knows 1 only; update it",
        ),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_files_that_are_no_store(tmp_path, make, reason, read_only):
    path = tmp_path / "feeds.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError) as error:
        SqliteFeeds(path, read_only=read_only)
    assert str(error.value).startswith(f"{path}: {reason}")
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(StoreError, match=r"none/feeds.db: No such file or directory"):
        SqliteFeeds(tmp_path / "none" / "feeds.db")
    with pytest.raises(StoreError, match=r"feeds.db: no such file"):
        SqliteFeeds(tmp_path / "feeds.db", read_only=True)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match=r"empty.db: not a store of feeds"):
        SqliteFeeds(tmp_path / "empty.db", read_only=True)
    SqliteFeeds(tmp_path / "empty.db").close()
    with SqliteFeeds(tmp_path / "name with ? and # and %41.db") as store:
        store.append(FEED, 1)
    assert (tmp_path / "name with ? and # and %41.db").exists()


def test_damage_is_found(tmp_path):
    path = tmp_path / "feeds.db"
    with SqliteFeeds(path) as store:
        store.append(FEED, 1)
    change(path, "DELETE FROM messages WHERE sequence = 3")
    with SqliteFeeds(path) as store, pytest.raises(StoreError, match="damaged"):
        check_chains(store)


# Random histories

AUTHORS = [Identity.from_seed(bytes([number]) * 32) for number in range(3)]
LINES = [feed(author, 8) for author in AUTHORS[:2]]
BRANCHES = [
    [*line[:4], *feed_on]
    for line, feed_on in zip(
        LINES,
        ([Message.create(a, line[3], {"type": "vote"}, 5)] for a, line in zip(AUTHORS, LINES, strict=False)),
        strict=True,
    )
]
ALL = [message for line in [*LINES, *BRANCHES] for message in line]
BAD = [Message.from_text(m.text.replace("hello", "hallo")) for line in LINES for m in line]


class Model:
    """What a store is, in a few lines: lists, searched from end to end."""

    def __init__(self):
        self.log = []  # (position, message)
        self.end = 0
        self.loose = []
        self.forks = {}

    def feed(self, author):
        return [message for _, message in self.log if message.author == author]

    def known(self):
        return [message for _, message in self.log] + self.loose

    def append(self, message):
        """Take one; return whether it was refused."""
        author = message.author
        if message in self.feed(author):
            return False
        if author in self.forks or message in BAD:
            return True
        near = [*self.feed(author), *self.loose]
        clash = [
            (a, b) for other in near for a, b in ((other, message), (message, other)) if contradicts(a, b)
        ]
        follows = message.sequence == len(self.feed(author)) + 1
        if clash and (follows or message.sequence <= len(self.feed(author))):
            self.forks[author] = True
            return True
        if not follows:
            return True
        self.end += 1
        self.log.append((self.end, message))
        if message in self.loose:
            self.loose.remove(message)
        return False

    def add_loose(self, message):
        """Take one out of order; return whether it was refused."""
        if message in self.known():
            return False
        if message in BAD:
            return True
        for other in self.known():
            if contradicts(other, message) or contradicts(message, other):
                self.forks[message.author] = True
                return True
        self.loose.append(message)
        return False


class Histories(RuleBasedStateMachine):
    @initialize(which=st.sampled_from(["memory", "sqlite"]))
    def begin(self, which):
        self.file = None
        self.model = Model()
        self.own = []
        if which == "sqlite":
            self.file = TemporaryFile()
            self.store = SqliteFeeds(self.file.path)
        else:
            self.store = MemoryFeeds()

    @rule(messages=st.lists(st.sampled_from(ALL + BAD), max_size=6))
    def append(self, messages):
        expected_refused, stored = set(), self.model.end
        for message in messages:
            if message.author not in expected_refused and self.model.append(message):
                expected_refused.add(message.author)
        appended = self.store.append(messages, 1)
        assert set(appended.refused) == expected_refused
        assert appended.stored == self.model.end - stored

    @rule(line=st.sampled_from(LINES), first=st.integers(0, 7), count=st.integers(1, 8))
    def append_run(self, line, first, count):
        self.append(line[first : first + count])

    @rule(message=st.sampled_from(ALL + BAD))
    def add_out_of_order(self, message):
        try:
            self.store.add_out_of_order(message, 1)
        except (InvalidMessage, ForkedFeed):
            refused = True
        else:
            refused = False
        assert refused == self.model.add_loose(message)

    @rule()
    def publish(self):
        message = self.store.publish(AUTHORS[2], POST, len(self.own))
        self.own.append(message)
        self.model.end += 1
        self.model.log.append((self.model.end, message))

    @rule(author=st.sampled_from(AUTHORS[:2]))
    def drop(self, author):
        assert self.store.drop(author.ref) == len(self.model.feed(author.ref))
        self.model.log = [entry for entry in self.model.log if entry[1].author != author.ref]

    @precondition(lambda self: self.file is not None)
    @rule()
    def reopen(self):
        self.store.close()
        self.store = SqliteFeeds(self.file.path)

    @invariant()
    def agree(self):
        store, model = self.store, self.model
        entries = store.log(0, 1000)
        assert [(stored.position, stored.message) for stored in entries] == model.log
        assert store.end == model.end
        assert dict(store.tips()) == Counter(message.author for _, message in model.log)
        for author in AUTHORS:
            assert held(store, author) == model.feed(author.ref)
        assert store.forks().keys() == model.forks.keys()
        assert all(proves_fork(*proof) for proof in store.forks().values())
        known = model.known()
        for message in [*ALL, *BAD]:
            assert store.get(message.id) == (message if message in known else None)

    def teardown(self):
        self.store.close()
        if self.file is not None:
            self.file.remove()


class TemporaryFile:
    def __init__(self):
        self._directory = TemporaryDirectory()
        self.path = f"{self._directory.name}/feeds.db"

    def remove(self):
        self._directory.cleanup()


Histories.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
test_histories = Histories.TestCase
