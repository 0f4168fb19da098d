"""Whole files: another process sees the old file or the new one, whenever the writer is killed."""

import errno
import os
import signal
import stat
from pathlib import Path

import pytest

from base.files import named, sync, whole_file, write_whole


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("is_sole", [False, True])
@pytest.mark.parametrize("is_durable", [False, True])
def test_a_file_is_replaced_in_one_step(tmp_path: Path, is_sole: bool, is_durable: bool) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with whole_file(path, is_sole=is_sole, is_durable=is_durable) as new:
        assert new.parent == tmp_path
        new.write_text("ne")
        assert path.read_text() == "old"
        new.write_text("new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [ValueError("mistake"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as new:
            new.write_text("half")
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("is_sole", [False, True])
def test_a_killed_writer_leaves_the_old_file(tmp_path: Path, is_sole: bool) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    child = os.fork()
    if child == 0:
        with whole_file(path, is_sole=is_sole) as new:
            new.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 2
    write_whole(path, "new", is_sole=is_sole)
    assert path.read_text() == "new"
    assert len(names(tmp_path)) == (1 if is_sole else 2)  # what a sole writer has left is overwritten


def test_two_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_file(path) as one, whole_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"  # the outer block ends last
    assert names(tmp_path) == ["a"]


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "first", is_new=True)
    with pytest.raises(FileExistsError) as error:
        write_whole(path, "second", is_new=True)
    assert error.value.filename == str(path)
    assert path.read_text() == "first"
    assert path.stat().st_nlink == 1
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(("mode", "umask", "found"), [(0o600, 0, 0o600), (0o666, 0o022, 0o644)])
def test_a_file_has_its_mode_from_the_first_byte(tmp_path: Path, mode: int, umask: int, found: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(umask)
    try:
        with whole_file(path, mode=mode) as new:
            assert stat.S_IMODE(new.stat().st_mode) == found
            new.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == found


def test_text_is_utf_8_and_bytes_are_as_they_are(tmp_path: Path) -> None:
    write_whole(tmp_path / "text", "é\r\n")
    write_whole(tmp_path / "bytes", b"\xff\0")
    assert (tmp_path / "text").read_bytes() == b"\xc3\xa9\r\n"
    assert (tmp_path / "bytes").read_bytes() == b"\xff\0"


def test_a_durable_file_is_synced_before_its_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "a", []

    def note(file: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{file}"))
        synced.append((place == tmp_path, path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(path, "not", is_durable=False)
    assert synced == []
    path.unlink()
    write_whole(path, "durable", is_durable=True)
    assert synced == [(False, False), (True, True)]


def test_errors_name_the_file_and_not_the_one_beside_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        write_whole(tmp_path / "none" / "a", "")
    assert error.value.filename == str(tmp_path / "none" / "a")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError) as is_directory:
        write_whole(tmp_path / "directory", "")
    assert is_directory.value.filename == str(tmp_path / "directory")
    with pytest.raises(OSError, match="No space left") as full, whole_file(tmp_path / "a"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(tmp_path / "a")
    assert names(tmp_path) == ["directory"]


def test_a_file_system_need_not_sync_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def refuse(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(file)

    monkeypatch.setattr(os, "fsync", refuse)
    write_whole(tmp_path / "a", "durable as far as it goes", is_durable=True)
    assert (tmp_path / "a").exists()


def test_a_file_needs_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named(Path()) == tmp_path
    assert named(Path("x/..")) == tmp_path
    assert named(Path("x")) == Path("x")
    with pytest.raises(IsADirectoryError):
        named(Path("/"))
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "none")
