"""The cache of Spark's classes: left by one run, used by the next, never in the way."""

import os
import subprocess

import pytest

from analysis.spark.class_data import java_options

VERSION = 'openjdk version "17.0.15"'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def new_archive(cache):
    (new,) = cache.glob("*.new")
    return new


def ended(new, now=1000, head=b"\xa8\xab\x0b\xf0"):
    """Do as a JVM that leaves its archive, the head last."""
    new.write_bytes(head + bytes(1 << 20))
    os.utime(new, (now, now))


def test_one_run_leaves_it_and_later_ones_use_it(cache):
    leaves, _ = java_options(VERSION)
    new = new_archive(cache)
    assert leaves == f"-XX:ArchiveClassesAtExit={new}"
    os.utime(new, (1000, 1000))
    assert java_options(VERSION, 1010) == []  # it may still be written
    ended(new)
    archive = new.with_suffix(".jsa")
    for _ in range(2):
        assert java_options(VERSION, 1001)[0] == f"-XX:SharedArchiveFile={archive}"
    assert list(cache.iterdir()) == [archive]


@pytest.mark.parametrize("size", [0, 5 << 20])
def test_one_that_was_never_finished_is_never_used(cache, size):
    """The JVM that made it was killed, or its disk was full."""
    java_options(VERSION)
    new = new_archive(cache)
    new.write_bytes(bytes(size))
    os.utime(new, (1000, 1000))
    assert java_options(VERSION, 1600) == []
    assert "ArchiveClassesAtExit" in java_options(VERSION, 6000)[0]
    assert [(path, path.stat().st_size) for path in cache.iterdir()] == [(new, 0)]


def test_there_is_one_archive_however_many_javas(cache):
    for number in range(4):
        version = f'openjdk version "{number}"'
        assert "ArchiveClassesAtExit" in java_options(version)[0]
        assert java_options("another") == []  # one is being made
        ended(new_archive(cache), now=1000 + number)
        assert "SharedArchiveFile" in java_options(version)[0]
        assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(("blocks", "is_whole"), [(40, False), (10_000, True)])
def test_what_a_jvm_leaves_is_known_to_be_whole_or_not(cache, blocks, is_whole):
    """A small bound on the size of files cuts it short."""
    options = java_options(VERSION)
    limited = ["sh", "-c", f'ulimit -f {blocks}; exec java "$@"', "java", *options, "--version"]
    subprocess.run(limited, check=False, capture_output=True)
    assert any("SharedArchiveFile" in option for option in java_options(VERSION)) == is_whole


def test_no_cache_where_it_is_not_wanted_or_cannot_be(tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDNET_CACHE", "")
    assert java_options(VERSION) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "file" / "cache"))
    assert java_options(VERSION) == []
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "with space"))
    assert java_options(VERSION) == []
