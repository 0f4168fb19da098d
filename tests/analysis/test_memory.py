"""The memory that analysis may take."""

from pathlib import Path

import pytest

from analysis.spark import memory
from analysis.spark.memory import available_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("limit", "taken", "found"),
    [
        ("max", GIB, 8 * GIB),
        (3 * GIB, GIB, 2 * GIB),
        (GIB, 2 * GIB, 0),
        (64 * GIB, GIB, 8 * GIB),
    ],
)
def test_it_is_what_the_machine_and_the_container_leave(tmp_path, monkeypatch, limit, taken, found):
    (tmp_path / "meminfo").write_text(f"MemTotal: {16 << 20} kB\nMemAvailable:   {8 << 20} kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{taken}\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert available_bytes() == found


def test_where_the_system_does_not_tell_it_is_half_of_the_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "_GROUP", Path(tmp_path / "none"))
    assert GIB < available_bytes() < 1 << 50
