"""The cache of Spark's classes: left by one run, used by the next, never in the way."""

import os

import pytest

from analysis.class_data import java_options

VERSION = 'openjdk version "17.0.15"'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def new_archive(cache):
    (new,) = cache.glob("*.new")
    return new


def test_one_run_leaves_it_and_later_ones_use_it(cache):
    leaves, _ = java_options(VERSION)
    new = new_archive(cache)
    assert leaves == f"-XX:ArchiveClassesAtExit={new}"
    os.utime(new, (1000, 1000))
    assert java_options(VERSION, 1010) == []  # it may still be written
    new.write_bytes(bytes(1 << 20))
    os.utime(new, (1000, 1000))
    archive = new.with_suffix(".jsa")
    for _ in range(2):
        assert java_options(VERSION, 1100)[0] == f"-XX:SharedArchiveFile={archive}"
    assert list(cache.iterdir()) == [archive]


def test_one_that_was_never_written_is_begun_again(cache):
    java_options(VERSION)
    os.utime(new_archive(cache), (1000, 1000))
    assert "ArchiveClassesAtExit" in java_options(VERSION, 2000)[0]


def test_another_java_has_another_archive(cache):
    java_options(VERSION)
    java_options('openjdk version "21"')
    assert len(list(cache.glob("*.new"))) == 2


def test_no_cache_where_it_is_not_wanted_or_cannot_be(tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDNET_CACHE", "")
    assert java_options(VERSION) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "file" / "cache"))
    assert java_options(VERSION) == []
    monkeypatch.setenv("FEEDNET_CACHE", str(tmp_path / "with space"))
    assert java_options(VERSION) == []
