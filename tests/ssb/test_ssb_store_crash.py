"""Writing that is cut short: by a kill, by a power cut, by a full disk."""

import subprocess
import sys
from contextlib import contextmanager
from random import Random

import pytest
from click.testing import CliRunner
from full_disk_drill import POST, messages
from processes import ROOT
from test_ssb_export import ALICE, BOB, feed

from ssb.daemon.views import Views
from ssb.store.admission import Changes
from ssb.store.mend import check_chains
from ssb.store.sqlite import SqliteFeeds
from testbed.verify.crash.__main__ import main
from testbed.verify.crash.drill import Fault
from testbed.verify.crash.feeds import FeedsDrill
from testbed.verify.crash.views import ViewsDrill
from topologies.mininet import sandbox


def test_killed_writers(tmp_path):
    drill = FeedsDrill(tmp_path, seed=2)
    drill.run(25)
    assert drill.counts["kills"] == 25
    assert drill.counts["in the midst of a change"] > 5


def test_the_command():
    ran = CliRunner().invoke(main, ["--kills", "2", "--seed", "3"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.endswith("nothing acknowledged was lost, nothing is torn or doubled\n")


def test_killed_keepers_of_views(tmp_path):
    drill = ViewsDrill(tmp_path, seed=2)
    drill.run(15)
    assert drill.counts["messages acknowledged"] > 100


def test_a_cursor_ahead_of_its_views_is_found(tmp_path, monkeypatch):
    def save(views):
        views._cursor = (views._feeds.end, views._feeds.newest(1)[0].id)
        views._catch_up = lambda: None
        real(views)

    real = Views.save
    monkeypatch.setattr(Views, "save", save)
    with pytest.raises(Fault, match=r"^kill \d+: (follows|names) are not those of the messages"):
        ViewsDrill(tmp_path, seed=2).run(200)


class Lazy(SqliteFeeds):
    """Commits later than it says: what it has acknowledged can be lost."""

    calls = 0

    @contextmanager
    def _transaction(self, *, is_final=False):
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        yield
        self.calls += 1
        if self.calls % 20 == 1:
            self._database.execute("COMMIT")


class Piecemeal(SqliteFeeds):
    """Commits message by message: a batch can be torn."""

    def _commit(self, changes):
        for message in changes.messages:
            super()._commit(Changes(changes.received, [message], own=changes.own))
        super()._commit(Changes(changes.received, forks=changes.forks, out_of_order=changes.out_of_order))


class Forgetful(SqliteFeeds):
    """Loses messages out of order when it is opened again."""

    def _count_out_of_order(self):
        self._database.execute("DELETE FROM out_of_order")
        return 0


@pytest.mark.parametrize(
    ("opening", "said"),
    [
        (Lazy, "(the log|doubts of the own feed)"),
        (Piecemeal, "the log"),
        (Forgetful, "(messages out of order|the log)"),
    ],
)
def test_faults_are_found(tmp_path, opening, said):
    with pytest.raises(Fault, match=rf"^kill \d+: {said}: found"):
        FeedsDrill(tmp_path, seed=2, opening=opening).run(200)


def test_a_writer_that_fails_is_a_fault(tmp_path):
    def opening(path):
        raise OSError("no such luck")

    with pytest.raises(Fault, match="no such luck"):
        FeedsDrill(tmp_path, seed=2, opening=opening).run(20)


def test_power_cut_at_any_byte(tmp_path):
    """What had not reached the disk is lost from the end of SQLite's log: whole transactions."""
    batches = [feed(ALICE, 40)[begin : begin + 5] for begin in range(0, 40, 5)]
    path = tmp_path / "feeds.db"
    rng = Random(5)
    with SqliteFeeds(path) as store:
        store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number, batch in enumerate(batches):
            store.append(batch, 1)
            store.publish(BOB, POST, number)
        log = [stored.message for stored in store.log(0, 1000)]
        main_file, tail = path.read_bytes(), (tmp_path / "feeds.db-wal").read_bytes()
    borders = {len(log[: begin * 6 + extra]) for begin in range(9) for extra in (0, 5)}
    found = set()
    for cut in sorted(rng.sample(range(len(tail)), 60)):
        copy = tmp_path / f"copy-{cut}"
        copy.mkdir()
        (copy / "feeds.db").write_bytes(main_file)
        (copy / "feeds.db-wal").write_bytes(tail[:cut] + rng.choice((b"", rng.randbytes(5000), bytes(9000))))
        with SqliteFeeds(copy / "feeds.db") as store:
            check_chains(store)
            held = [stored.message for stored in store.log(0, 1000)]
            assert held == log[: len(held)]
            assert len(held) in borders
            found.add(len(held))
            store.append([message for message in log if message.author == ALICE.ref], 1)
            assert store.tips()[ALICE.ref] == 40
    assert len(found) > 10


def test_what_is_on_disk_when_a_call_returns(tmp_path, monkeypatch):
    """Own messages are synchronised to the disk, those of others are not."""
    synced = []
    trace = "PRAGMA synchronous"
    with SqliteFeeds(tmp_path / "feeds.db") as store:
        store._database.set_trace_callback(
            lambda statement: synced.append(statement) if statement.startswith((trace, "COMMIT")) else None
        )
        store.append(feed(ALICE, 2), 1)
        assert synced == ["COMMIT"]
        store.publish(BOB, POST, 1)
        assert synced == ["COMMIT", f"{trace} = FULL", "COMMIT", f"{trace} = NORMAL"]
        (journal,) = store._query("PRAGMA journal_mode")
        assert journal == ("wal",)


DRILL = [sys.executable, ROOT / "tests" / "ssb" / "full_disk_drill.py"]
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


def test_files_that_cannot_grow(tmp_path):
    ran = subprocess.run(
        [*DRILL, "limit", tmp_path], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "True",
        f"{tmp_path}/blobs: File too large",
        f"{tmp_path}/feeds.db: the disk fails (SQLITE_IOERR_WRITE); nothing was stored",
    ]


def drill_on_full_disk(how, disk):
    """Return the lines that the drill prints; the disk is a small one of its own."""
    disk.mkdir()
    script = f"mount -t tmpfs -o size=32m none {disk} && {' '.join(map(str, DRILL))} {how} {disk}"
    ran = subprocess.run(
        sandbox.command(["sh", "-c", script]),
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_full_disk(tmp_path):
    disk = tmp_path / "disk"
    assert drill_on_full_disk("disk", disk) == [
        "True",
        f"{disk}/blobs: No space left on device",
        f"{disk}/feeds.db: the disk is full; make space and try again",
    ]


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_a_peer_whose_disk_is_full_for_a_while_goes_on(tmp_path):
    assert drill_on_full_disk("peer", tmp_path / "disk") == ["True 600 3145728 True"]


def test_messages_of_the_drill_are_large():
    assert all(len(message.encoded) > 7000 for message in messages(2))
