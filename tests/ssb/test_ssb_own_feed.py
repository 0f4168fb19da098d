"""A user's own feed: whatever happens to the files, no number is signed twice."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from test_ssb_hostile_peers import BAD, GOOD, VICTIM, Client, World, compact

from ssb.daemon.account import Account
from ssb.daemon.importing import import_lines
from ssb.daemon.local_peer import LocalPeer
from ssb.daemon.recovery import PATIENCE, QUIET
from ssb.export import entry_line
from ssb.key_file import KeyFileError
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.options import PeerOptions
from ssb.replication.ebt import REPLICATE, REQUEST
from ssb.replication.history import NAME
from ssb.replication.session import Note
from ssb.store.feeds import StoreError
from ssb.store.own_feed import UnsureFeed
from ssb.transport.calls import Called

POST = {"type": "post", "text": "x"}


def written(account: Account, count: int) -> list[Message]:
    return [account.publish(POST, float(number)) for number in range(count)]


# Whatever happens to the files

WAYS = ("anew", "over", "replacing", "in place", "store", "store and mark", "identity")
LOSSES = ("feeds.sqlite*", "secret.mark", "feeds.sqlite.lock", "*")


def put_back(copy: Path, path: Path, way: str) -> None:
    """Restore a directory, or parts of it, from a copy."""
    if way == "anew":
        shutil.rmtree(path)
        shutil.copytree(copy, path)
    elif way == "over":  # as `cp -a` does: into the files that are there
        shutil.copytree(copy, path, dirs_exist_ok=True)
    elif way == "replacing":  # as `rsync -a` does: what differs, by new files under the old names
        for file in copy.glob("*.*"):
            there = path / file.name
            if not there.exists() or file.read_bytes() != there.read_bytes():
                shutil.copy2(file, path / "new")
                (path / "new").rename(there)
    elif way == "in place":  # as `rsync -a --inplace` does: what differs in size or second of change
        for file in copy.glob("*.*"):
            there, then = path / file.name, file.stat()
            now = there.stat() if there.exists() else None
            if now is None or (now.st_size, int(now.st_mtime)) != (then.st_size, int(then.st_mtime)):
                shutil.copy2(file, there)
    elif way.startswith("store"):
        for name in ("feeds.sqlite", "secret.mark")[: len(way.split(" and "))]:
            if (copy / name).exists():
                shutil.copy2(copy / name, path / name)
    else:
        shutil.copy2(copy / "secret", path / "secret")


def remove(path: Path, which: str) -> None:
    """Lose files, but not the identity."""
    for file in path.glob(which):
        if file.is_file() and file.name != "secret":
            file.unlink()


class Mishaps(RuleBasedStateMachine):
    """A user who publishes, and whose files are copied, restored, lost and put back in any order.

    The world has seen every message whose publication returned. Once a number was signed, no other message
    with that number may ever be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = TemporaryDirectory()
        self.path = Path(self.place.name) / "ann"
        self.backups: list[Path] = []
        self.world: list[Message] = []
        self.identity = ""

    def teardown(self) -> None:
        self.place.cleanup()

    @initialize()
    def begin(self) -> None:
        with_account(self.path, lambda account: setattr(self, "identity", account.identity.ref))
        self.publish(1)

    @rule(count=st.integers(1, 3))
    def publish(self, count: int) -> None:
        def write(account: Account) -> None:
            assert account.identity.ref == self.identity
            for _ in range(count):
                message = account.publish(POST, float(len(self.world)))
                assert message.sequence == len(self.world) + 1, "the feed is forked"
                self.world.append(message)

        with_account(self.path, write)

    @rule()
    def back_up(self) -> None:
        copy = Path(self.place.name) / f"backup{len(self.backups)}"
        shutil.copytree(self.path, copy)
        self.backups.append(copy)

    @precondition(lambda self: self.backups)
    @rule(data=st.data(), way=st.sampled_from(WAYS))
    def restore(self, data: st.DataObject, way: str) -> None:
        put_back(data.draw(st.sampled_from(self.backups)), self.path, way)
        self.publish(1)

    @rule(which=st.sampled_from(LOSSES))
    def lose(self, which: str) -> None:
        remove(self.path, which)
        self.publish(1)

    @rule(is_moved=st.booleans())
    def move(self, is_moved: bool) -> None:
        other = self.path.with_name("elsewhere")
        if is_moved:
            self.path.rename(other)
            other.rename(self.path)
        else:
            shutil.move(shutil.copytree(self.path, other), self.path.with_name("copy"))
            shutil.rmtree(self.path)
            self.path.with_name("copy").rename(self.path)

    @rule(count=st.integers(0, 30))
    def import_some(self, count: int) -> None:
        file = Path(self.place.name) / "lines"
        file.write_bytes(b"".join(entry_line(message, 1.0) for message in self.world[:count]))
        with_account(self.path, lambda account: import_lines(account, file, 1.0))

    @rule()
    def get_all_back(self) -> None:
        """As Recovery does, when peers have answered."""

        def fetch(account: Account) -> None:
            account.feeds.append(self.world, 1.0)
            account.own.advance()
            account.own.settle()

        with_account(self.path, fetch)
        self.publish(1)


def with_account(path: Path, act: Callable[[Account], object]) -> None:
    account = Account(path)
    try:
        with suppress(UnsureFeed):
            act(account)
    finally:
        account.close()


TestMishaps = Mishaps.TestCase
TestMishaps.settings = settings(max_examples=20, stateful_step_count=15)


@pytest.mark.parametrize("later", [1, 3])
@pytest.mark.parametrize("what", [*WAYS, *LOSSES])
def test_after_a_mishap_nothing_is_signed_twice(tmp_path: Path, what: str, later: int) -> None:
    path, copy = tmp_path / "ann", tmp_path / "copy"
    with_account(path, lambda account: written(account, 3))
    shutil.copytree(path, copy)
    with_account(path, lambda account: written(account, later))
    if what in WAYS:
        put_back(copy, path, what)
    else:
        remove(path, what)
    account = Account(path)
    if what == "identity":  # nothing else was lost
        assert written(account, 1)[0].sequence == 4 + later
    else:
        with pytest.raises(UnsureFeed, match=r"Run `feednet ssb --path .* peer`"):
            written(account, 1)
    account.close()


def test_a_directory_that_is_moved_or_opened_again_goes_on(tmp_path: Path) -> None:
    for count in range(3):
        account = Account(tmp_path / f"place{count}")
        assert [message.sequence for message in written(account, 2)] == [2 * count + 1, 2 * count + 2]
        account.close()
        (tmp_path / f"place{count}").rename(tmp_path / f"place{count + 1}")


@pytest.mark.parametrize("left", ["store", "mark"])
def test_no_identity_is_made_where_one_was_lost(tmp_path: Path, left: str) -> None:
    account = Account(tmp_path)
    written(account, 1)
    account.close()
    (tmp_path / "secret").unlink()
    for file in tmp_path.glob("feeds.sqlite*" if left == "mark" else "secret.mark"):
        file.unlink()
    for _ in range(2):
        with pytest.raises(KeyFileError, match="Put the identity back from a backup, or move"):
            Account(tmp_path)
    assert not (tmp_path / "secret").exists()


def test_an_identity_whose_making_was_cut_short_is_made_the_next_time(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.close()
    (tmp_path / "secret").unlink()  # it comes after the store and the mark
    account = Account(tmp_path)
    assert written(account, 1)
    account.close()


def test_a_fork_of_the_process_writes_nothing(tmp_path: Path) -> None:
    account = Account(tmp_path)
    written(account, 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            account.publish(POST, 1.0)
            os.write(writing, b"published")
        except StoreError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"this one was forked off" in os.read(reading, 1000)
    assert written(account, 1)[0].sequence == 2
    account.close()


# What peers answer


class Friend(Client):
    """A client that has some of the user's messages, and gives them by `createHistoryStream` if it is asked.

    `answers` is how: "history", "error" (it has no such call) or "never".
    """

    def __init__(self, world: "Home", number: int, identity: Identity, network: bytes) -> None:
        super().__init__(world, number, identity, network)
        self.has: list[Message] = []
        self.answers = "history"

    def receive(self, data: bytes) -> None:
        for event in self.calls.receive(self.channel.receive(data)):
            if not isinstance(event, Called) or event.name != NAME or self.answers == "never":
                continue
            (options,) = event.arguments
            assert isinstance(options, dict)
            assert (options["id"], options["live"]) == (VICTIM.ref, False)
            if self.answers == "history":
                for message in self.has[int(str(options["seq"])) - 1 :]:
                    self.calls.answer(event.call, json.loads(compact(message)))
            self.calls.end(event.call, "no such method" if self.answers == "error" else "")

    def claim(self, sequence: int) -> None:
        """Say by EBT how far it is."""
        self.replication = self.calls.call(REPLICATE, [dict(REQUEST)], "duplex")
        self.say({VICTIM.ref: Note(sequence, True).number})
        self.world.settle()


class Home(World):
    """The user's peer, whose store holds the first messages of a feed."""

    client_type = Friend

    def __init__(self, path: Path, held: int, *, is_sure: bool) -> None:
        self.account = Account(path, identity=VICTIM)
        self.account.feeds.append(LOG[:held], 0.0)
        if is_sure:
            self.account.own.settle()
        self.now = 0
        self.sent = Counter()
        self.clients = {}
        self.closed = set()
        self.peer = LocalPeer(self.account, PeerOptions(), Random(1), 0.0, 0)  # type: ignore[assignment]

    def friend(
        self, identity: Identity, has: int, answers: str = "history", claims: int | None = None
    ) -> Friend:
        client = self.client(identity)
        assert isinstance(client, Friend)
        client.has, client.answers = LOG[:has], answers
        self.settle()
        if claims is not None:
            client.claim(claims)
        return client

    def wait(self, duration: int) -> None:
        """Let time go by, as far as anybody waits for it."""
        end = self.now + duration
        while (due := self.peer.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.peer.wake(self.now)
            self.settle()
        self.now = end

    def publish(self) -> int:
        """Return the number of the message, 0 if it was refused."""
        try:
            return self.peer.publish(POST, self.now).sequence  # type: ignore[attr-defined, no-any-return]
        except UnsureFeed:
            return 0


def _log() -> Iterator[Message]:
    tip = None
    for number in range(16):
        tip = Message.create(VICTIM, tip, POST, float(number))
        yield tip


LOG = [*_log()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "victim"


@pytest.mark.parametrize("held", [0, 6, 16])
def test_the_feed_comes_back_and_goes_on(path: Path, held: int) -> None:
    home = Home(path, held, is_sure=False)
    assert home.publish() == 0
    home.friend(GOOD, has=16)
    assert home.account.own.tip == 16
    assert home.publish() == 0, "others may answer"
    home.wait(QUIET)
    assert home.publish() == 17
    assert Account.publish(home.account, POST, 1.0).sequence == 18


def test_the_longest_answer_counts(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    home.friend(GOOD, has=8)
    home.wait(QUIET - 1)
    home.friend(BAD, has=16)
    home.wait(QUIET - 1)
    assert home.publish() == 0
    home.wait(1)
    assert home.publish() == 17


def test_a_peer_that_does_not_have_the_feed_settles_nothing(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    home.friend(GOOD, has=0)
    home.wait(10 * PATIENCE)
    assert home.publish() == 0
    home.account.close()
    again = Account(path)
    with pytest.raises(UnsureFeed):
        again.publish(POST, 1.0)
    again.own.settle()
    assert again.publish(POST, 1.0).sequence == 7


def test_messages_that_are_known_and_do_not_come_keep_it_in_doubt(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    home.account.own.question("the test", known=16)
    home.friend(GOOD, has=15)
    home.wait(10 * PATIENCE)
    assert (home.account.own.tip, home.publish()) == (15, 0)
    home.friend(BAD, has=16)
    home.wait(QUIET)
    assert home.publish() == 17


def test_one_that_is_slow_is_waited_for(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    home.friend(BAD, has=16, answers="never")
    home.friend(GOOD, has=6)
    home.wait(PATIENCE - 1)
    assert home.publish() == 0
    home.wait(1)
    assert home.publish() == 7


def test_a_long_feed_may_come_slowly(path: Path) -> None:
    home = Home(path, 6, is_sure=True)
    slow = home.friend(GOOD, has=16, answers="error", claims=16)
    for message in LOG[6:]:
        home.wait(PATIENCE - 1)
        assert home.publish() == 0
        slow.push(compact(message))  # by EBT
    home.wait(QUIET)
    assert home.publish() == 17


def test_one_without_history_is_taken_at_its_word(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    friend = home.friend(GOOD, has=16, answers="error", claims=16)
    home.wait(QUIET)
    assert home.publish() == 0
    friend.push(*map(compact, LOG[6:]))  # by EBT
    home.wait(QUIET)
    assert home.publish() == 17


def test_a_claim_stops_one_that_was_sure(path: Path) -> None:
    """As after a snapshot of the whole disk, which leaves no trace."""
    home = Home(path, 6, is_sure=True)
    assert home.publish() == 7
    home.account.close()
    shutil.rmtree(path)
    home = Home(path, 6, is_sure=True)
    home.friend(GOOD, has=16, claims=16)
    assert home.account.own.tip == 16
    home.wait(QUIET)
    assert home.publish() == 17


def test_a_claim_that_is_not_true_stops_it_for_a_moment_only(path: Path) -> None:
    home = Home(path, 6, is_sure=True)
    liar = home.friend(BAD, has=0, claims=1_000_000)
    assert home.publish() == 0
    home.wait(QUIET)
    assert home.publish() == 7
    liar.say({VICTIM.ref: Note(2_000_000, True).number})
    home.settle()
    assert home.publish() == 8, "its word counts no more"


@pytest.mark.parametrize("by", ["time", "the user"])
def test_a_claim_that_is_never_shown_stops_it_for_a_while_only(path: Path, by: str) -> None:
    home = Home(path, 6, is_sure=True)
    silent = home.friend(BAD, has=0, answers="never", claims=16)
    if by == "time":
        home.wait(PATIENCE - 1)
        assert home.publish() == 0
        home.wait(1)
    else:
        assert home.publish() == 0
        home.peer.settle()  # type: ignore[attr-defined]
    assert home.publish() == 7
    silent.say({VICTIM.ref: Note(17, True).number})
    home.settle()
    assert home.publish() == 8, "its word counts no more"


def test_an_invite_is_not_used_up_in_doubt(path: Path) -> None:
    home = Home(path, 6, is_sure=False)
    guest = home.client(GOOD)
    home.peer._access.admit_guest(GOOD.ref, 1)  # type: ignore[attr-defined]
    home.settle()
    guest.calls.call(("invite", "use"), [{"feed": GOOD.ref}], "async")
    home.settle()
    assert home.account.invites() == {GOOD.ref: 1}
    assert home.account.own.tip == 6


@pytest.mark.parametrize("is_running", [False, True])
def test_damage_before_its_end_stops_nobody_and_comes_again_from_those_who_are_asked(
    path: Path, is_running: bool
) -> None:
    """Stock peers send nobody his own feed by EBT."""
    home = Home(path, 6, is_sure=True)
    with sqlite3.connect(path / "feeds.sqlite") as database:
        database.execute("UPDATE messages SET text = replace(text, 'post', 'pOst') WHERE sequence = 3")
    database.close()
    if not is_running:
        home.account.feeds.after(VICTIM.ref, 0, 10)  # finds it
        home.account.close()
        home = Home(path, 6, is_sure=True)
    home.friend(GOOD, has=6, claims=6)
    home.friend(BAD, has=6, answers="never", claims=6)
    home.account.feeds.after(VICTIM.ref, 0, 10)
    assert home.publish() == 7
    home.peer.wake(home.now)
    home.settle()
    assert not home.account.feeds.damaged()
    assert home.account.feeds.tips()[VICTIM.ref] == 7


def test_the_mark_counts_what_was_published_behind_damage(tmp_path: Path) -> None:
    """Though a user has said that nobody has more: later, only the mark may be left."""
    with_account(tmp_path, lambda account: written(account, 3))
    with sqlite3.connect(tmp_path / "feeds.sqlite") as database:
        database.execute("UPDATE messages SET text = replace(text, 'post', 'pOst') WHERE sequence = 1")
    database.close()
    account = Account(tmp_path)
    account.feeds.after(account.own.feed, 0, 10)
    account.own.settle()
    assert written(account, 1)[0].sequence == 4
    account.close()
    remove(tmp_path, "feeds.sqlite*")
    account = Account(tmp_path)
    assert (account.own.known, account.own.tip) == (4, 0)
    with pytest.raises(UnsureFeed):
        written(account, 1)
    account.close()
