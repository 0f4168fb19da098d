"""A class-data archive for Spark's JVM: classes as they were loaded once, mapped into memory the next time.

Loading and checking Spark's classes is a good part of its cold start. The first run that may leaves an
archive of them when its JVM ends (some 190 MB, in the background, a few seconds); later ones use it. It is
a cache: whoever deletes it loses time only. It stands in FEEDNET_CACHE, by default feednet/ in
XDG_CACHE_HOME; empty FEEDNET_CACHE means none. There is one archive at a time: of another Java, or another
place of Spark's, the last that was left stays.

The JVM itself checks that an archive is of its own version and class path, and goes on without it if not.
Source: JEP 350, "Dynamic CDS Archives"; the options are those of java(1).
"""

import hashlib
import os
import time
from pathlib import Path

import pyspark

_MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""Begins a dynamic archive (CDS_DYNAMIC_ARCHIVE_MAGIC in the JVM's cds.h). The JVM writes the head last, so
a file without it is being made, or will never be."""
_GIVEN_UP_S = 3600
"""After so long nobody makes it any more."""
_QUIET = "-Xlog:disable"


def cache_directory() -> Path | None:
    """Return where the archive is kept; None if it is not wanted."""
    chosen = os.environ.get("FEEDNET_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "feednet"


def java_options(java_version: str, now_s: float | None = None) -> list[str]:
    """Return the options with which a JVM uses an archive, or leaves one; none where that is not possible.

    `java_version` is what `java -version` says; `now_s`, seconds since 1970, is the time.
    """
    directory = cache_directory()
    if directory is None:
        return []
    key = hashlib.sha256(f"{java_version} {pyspark.__file__}".encode()).hexdigest()[:12]
    archive = directory / f"spark-{pyspark.__version__}-{key}.jsa"
    if " " in str(archive):  # options are split at spaces
        return []
    new = archive.with_suffix(".new")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _tidy(directory, time.time() if now_s is None else now_s)
        if archive.exists():
            return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", _QUIET]
        if any(directory.glob("*.new")):
            return []  # somebody's JVM is about to leave it
        new.touch()
    except OSError:
        return []  # a cache that cannot be written is none
    return [f"-XX:ArchiveClassesAtExit={new}", _QUIET]


def _tidy(directory: Path, now_s: float) -> None:
    """Keep the newest archive that is whole, and what may become one."""
    for new in directory.glob("*.new"):
        with new.open("rb") as file:
            is_whole = file.read(len(_MAGIC)) == _MAGIC
        if is_whole:
            new.replace(new.with_suffix(".jsa"))
        elif now_s - new.stat().st_mtime > _GIVEN_UP_S:
            new.unlink()
    for old in sorted(directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-1]:
        old.unlink()
