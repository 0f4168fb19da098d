"""A feed on disk: what comes back after a restart, a crash, a mix-up."""

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feednet import BadLog, Log
from forwarder.feedcache.items import open_item

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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.integers(1, 400))
def test_what_a_crash_has_left_half_written_is_cut_off(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "a.feed"
    path.unlink(missing_ok=True)
    log = Log(path, PREFIX)
    sizes = [len(log.append(message).data.wire) for message in (b"x", bytes(100), bytes(1000))]
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - missing, sizes[0] + 1)])
    again = Log(path, PREFIX)
    assert again.tip in (1, 2)
    assert whole.startswith(path.read_bytes())
    assert again.append(b"y").seq == again.tip
    tip = again.tip
    again.close()
    last = Log(path, PREFIX)
    assert last.tip == tip
    last.close()


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
