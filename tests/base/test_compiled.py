"""Compiled modules are used while their sources are as they were, together or not at all."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zipfile import ZipFile

import pytest

from base import compiled


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with the module room.table, and a wheel with it compiled."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room/table.py").write_text("X = 1\n")
    with ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr(f"room/table{EXTENSION_SUFFIXES[0]}", b"machine code")
        wheel.writestr(f"group__mypyc{EXTENSION_SUFFIXES[0]}", b"machine code")
        wheel.writestr("room/table.py", "X = 0\n")
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if not hasattr(each, "files")])
    monkeypatch.delenv(compiled.PLAIN, raising=False)
    return tmp_path


def used(tree: Path) -> tuple[bool, str]:
    return compiled.use(tree / "out"), compiled.state(tree / "out")


def test_they_are_found_before_their_sources(tree: Path) -> None:
    assert used(tree) == (False, "absent")
    compiled.extract(tree / "a.whl", tree / "out")
    assert not (tree / "out/room/table.py").exists()
    assert used(tree) == (True, "in use")
    for name in ("room.table", "group__mypyc"):
        spec = sys.meta_path[0].find_spec(name, None)
        assert spec is not None
        assert str(spec.origin).startswith(str(tree / "out"))
    assert sys.meta_path[0].find_spec("room.other", None) is None
    assert used(tree) == (True, "in use")


def test_not_when_a_source_has_changed_or_gone(tree: Path) -> None:
    compiled.extract(tree / "a.whl", tree / "out")
    (tree / "room/table.py").write_text("X = 2\n")
    assert used(tree) == (False, "out of date")
    (tree / "room/table.py").unlink()
    assert used(tree) == (False, "out of date")


def test_not_when_one_has_been_imported_already(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.extract(tree / "a.whl", tree / "out")
    monkeypatch.setitem(sys.modules, "room.table", compiled)
    assert used(tree)[0] is False


def test_not_when_they_are_another_python_s(tree: Path) -> None:
    compiled.extract(tree / "a.whl", tree / "out")
    [file] = (tree / "out/room").iterdir()
    file.rename(file.with_name("table.cpython-39-other.so"))
    assert used(tree)[0] is False


def test_not_when_turned_off(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.extract(tree / "a.whl", tree / "out")
    monkeypatch.setenv(compiled.PLAIN, "1")
    assert used(tree) == (False, "turned off")
