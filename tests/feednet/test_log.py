"""A feed on disk: what comes back after a restart, a crash, a mix-up."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feednet import BadLog, Log
from forwarder.feedcache.items import open_item
from testbed.verify.crash.drill import kill_writer
from topologies.mininet import sandbox

PREFIX = "/unibas/camera"


def test_a_log_goes_on_where_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "camera.feed"
    log = Log(path, PREFIX)
    first, second = log.append(b"one"), log.append(b"two")
    assert (first.seq, second.seq, second.previous) == (1, 2, first.id)
    log.close()
    again = Log(path, PREFIX)
    assert again.name == log.name
    assert [item and item.data.wire for item in map(again.get, (0, 1, 2, 3))] == [
        None,
        first.data.wire,
        second.data.wire,
        None,
    ]
    third = again.append(b"three")
    assert third.previous == second.id
    for item in (first, second, third):
        assert open_item(log.name, item.seq, item.data).id == item.id


def test_the_key_is_for_its_owner_only(tmp_path: Path) -> None:
    Log(tmp_path / "a.feed", PREFIX).close()
    assert (tmp_path / "a.feed.key").stat().st_mode & 0o777 == 0o600


def log_of(path: Path, *sizes: int) -> list[bytes]:
    """Make a log, or go on with it; return its items."""
    log = Log(path, PREFIX)
    for size in sizes:
        log.append(bytes(size))
    wires = [item.data.wire for item in map(log.get, range(1, log.tip + 1)) if item is not None]
    log.close()
    return wires


def next_item(path: Path, message: bytes) -> bytes:
    """Return the item that a log would write next, and leave the log alone."""
    with TemporaryDirectory() as place:
        for name in WHOLE:
            shutil.copy2(path.with_name(name), place)
        log = Log(Path(place) / path.name, PREFIX, is_newest=True)
        wire = log.append(message).data.wire
        log.close()
    return wire


WHOLE = ("a.feed", "a.feed.key", "a.feed.mark")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.integers(0, 3_000), st.sampled_from([b"", bytes(100), b"\xff" * 9]), st.booleans())
def test_what_a_crash_has_left_half_written_is_cut_off(
    tmp_path: Path, kept: int, more: bytes, is_whole: bool
) -> None:
    """The item is on disk before the mark counts it: until then nobody has seen it."""
    path = tmp_path / "a.feed"
    for name in WHOLE:
        (tmp_path / name).unlink(missing_ok=True)
    shown = log_of(path, 1, 100)
    next_one = next_item(path, bytes(1000))
    kept = len(next_one) if is_whole else min(kept, len(next_one) - 1)
    is_whole = (next_one[:kept] + more).startswith(next_one)  # its last byte may be the first one of `more`
    path.write_bytes(b"".join(shown) + next_one[:kept] + more)
    again = Log(path, PREFIX)
    assert again.tip == 2 + is_whole
    assert path.read_bytes() == b"".join([*shown, *[next_one] * is_whole])
    assert again.append(b"y").seq == again.tip
    tip = again.tip
    again.close()
    last = Log(path, PREFIX)
    assert last.tip == tip
    last.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_an_item_that_was_shown_is_there_or_the_log_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Any byte of any item changed, and any end cut off: by a length that is too long, for example."""
    path = tmp_path / "a.feed"
    if not path.exists():
        log_of(path, 1, 100, 1000)
    raw = path.read_bytes()
    damaged = bytearray(raw)
    place = data.draw(st.integers(0, len(raw) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del damaged[place:]
    path.write_bytes(damaged)
    with pytest.raises(BadLog, match="put the newest whole copy back"):
        Log(path, PREFIX)
    assert path.read_bytes() == damaged
    path.write_bytes(raw)
    assert len(log_of(path)) == 3


@pytest.mark.parametrize("restored", [WHOLE, WHOLE[:2], WHOLE[:1], ("a.feed", "a.feed.mark")])
@pytest.mark.parametrize("way", ["anew", "over", "replacing"])
def test_a_log_that_was_restored_or_copied_is_not_written_on(
    tmp_path: Path, restored: tuple[str, ...], way: str
) -> None:
    path, copy = tmp_path / "a.feed", tmp_path / "copy"
    log_of(path, 1, 2)
    copy.mkdir()
    for name in WHOLE:
        shutil.copy2(tmp_path / name, copy / name)
    log_of(path, 3)
    for name in restored:
        if way == "anew":
            (tmp_path / name).unlink()
        elif way == "replacing":
            (tmp_path / name).rename(tmp_path / f"old{name}")
        shutil.copy2(copy / name, tmp_path / name)
    with pytest.raises(BadLog, match="if nobody has seen more than is here, open it with is_newest=True"):
        Log(path, PREFIX)
    log = Log(path, PREFIX, is_newest=True)
    tip = log.tip
    log.close()
    assert len(log_of(path, 4)) == tip + 1


def test_a_crash_while_the_mark_is_written_leaves_an_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key has its new times by then, and the mark does not know of them."""
    path = tmp_path / "a.feed"
    log_of(path, 1, 2)
    item = next_item(path, bytes(3))

    class Killed(BaseException):
        pass

    def kill(*_: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", kill)
        with pytest.raises(Killed):
            log_of(path, 3)
    path.write_bytes(path.read_bytes() + item)  # which the log has taken back, and a kill would not
    assert len(log_of(path, 4)) == 4


def test_a_log_that_was_removed_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "a.feed"
    log_of(path, 1)
    path.unlink()
    for reason in ("1 items of .* bytes were written", "no mark tells how many"):
        for _ in range(2):
            with pytest.raises(BadLog, match=reason):
                Log(path, PREFIX)
        (tmp_path / "a.feed.mark").unlink(missing_ok=True)
    (tmp_path / "a.feed.key").unlink()
    assert len(log_of(path, 1)) == 1, "another feed, as the message says"


def test_a_log_that_is_put_back_whole_is_as_before(tmp_path: Path) -> None:
    """The mark has stayed where it was, and vouches for it."""
    path = tmp_path / "a.feed"
    items = log_of(path, 1, 2)
    shutil.copy2(path, tmp_path / "copy")
    path.unlink()
    with pytest.raises(BadLog):
        Log(path, PREFIX)
    path.unlink()
    shutil.copy2(tmp_path / "copy", path)
    assert log_of(path, 3)[:2] == items


def test_a_process_that_was_forked_off_appends_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.feed", PREFIX)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            log.append(b"two writers")
            os.write(writing, b"appended")
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"this one was forked off" in os.read(reading, 1000)
    assert log.append(b"one").seq == 1
    log.close()


def write_on(path: Path, tip: int, say: int) -> NoReturn:
    """Be the child: append until the kill."""
    try:
        log = Log(path, PREFIX)
        while True:
            tip += 1
            log.append(bytes(tip % 50 * 20))
            os.write(say, f"{tip}\n".encode())
    except BaseException as error:
        os.write(say, f"failed {type(error).__name__} {error}\n".encode())
    finally:
        os._exit(1)


def test_killed_writers(tmp_path: Path) -> None:
    rng = Random(3)
    path, shown = tmp_path / "a.feed", 0
    for kill in range(30):
        if kill % 6 == 0:
            path, shown = tmp_path / f"{kill}.feed", 0
        before = shown
        lines = kill_writer(lambda say: write_on(path, before, say), rng)  # noqa: B023 - it is called here
        items = len(log_of(path))
        told = int(lines[-1]) if lines else before
        assert told <= items <= told + 1
        shown = items


FULL = """
import os, sys
from pathlib import Path
from feednet import Log
here = Path(sys.argv[1])
def attempt():
    try:
        log = Log(here / "a.feed", "/x")
    except OSError:
        return 0
    try:
        for _ in range(9):
            log.append(bytes(3000))
    except OSError:
        pass
    log.close()
    return log.tip
for pages in range(6):
    for file in here.iterdir():
        file.unlink()
    with (here / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass
    os.truncate(here / "ballast", (here / "ballast").stat().st_size - 4096 * pages)
    had = attempt()
    (here / "ballast").unlink()
    print(had, attempt() - had)
"""


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_a_first_log_on_a_full_disk(tmp_path: Path) -> None:
    disk, program = tmp_path / "disk", tmp_path / "full.py"
    disk.mkdir()
    program.write_text(FULL)
    ran = subprocess.run(
        sandbox.command(
            ["sh", "-c", f"mount -t tmpfs -o size=1m none {disk} && {sys.executable} {program} {disk}"]
        ),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert ran.returncode == 0, ran.stderr
    rows = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
    assert [added for _, added in rows] == [9] * 6, "it goes on when there is space"
    assert [had for had, _ in rows] == sorted(had for had, _ in rows)
    assert rows[0][0] == 0 < rows[-1][0]


@pytest.mark.parametrize("at", [5, 60, 150, 250])
def test_a_damaged_log_is_refused_and_left_as_it_is(tmp_path: Path, at: int) -> None:
    path = tmp_path / "a.feed"
    log = Log(path, PREFIX)
    for message in (b"one", b"two", b"three"):
        log.append(message)
    log.close()
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    with pytest.raises(BadLog, match=str(path)):
        Log(path, PREFIX)
    assert path.read_bytes() == raw


def test_a_log_without_its_key_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.feed", PREFIX)
    log.append(b"one")
    log.close()
    key = tmp_path / "a.feed.key"
    key.write_text("00ff")
    with pytest.raises(BadLog, match="32 bytes, not 2"):
        Log(tmp_path / "a.feed", PREFIX)
    key.write_text("the key")
    with pytest.raises(BadLog, match="hexadecimal"):
        Log(tmp_path / "a.feed", PREFIX)
    key.unlink()
    with pytest.raises(BadLog, match="missing"):
        Log(tmp_path / "a.feed", PREFIX)
    assert not key.exists()


def test_another_prefix_is_another_feed(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.feed", PREFIX)
    log.append(b"one")
    log.close()
    with pytest.raises(BadLog, match="has the name"):
        Log(tmp_path / "a.feed", "/elsewhere")


def test_a_message_that_no_packet_holds(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.feed", PREFIX)
    with pytest.raises(ValueError, match="9000 bytes"):
        log.append(bytes(9000))
    assert log.append(b"one").seq == 1


def try_open(path: Path) -> str:
    try:
        Log(path, PREFIX).close()
    except BadLog as error:
        return str(error)
    return "open"


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    """Two would fork the feed."""
    path = tmp_path / "a.feed"
    log = Log(path, PREFIX)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "another program" in pool.apply(try_open, (path,))
        log.close()
        assert pool.apply(try_open, (path,)) == "open"
