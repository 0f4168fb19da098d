"""A class-data archive for Spark's JVM: loaded classes, memory-mapped by later runs.

Loading and checking Spark's classes takes much of its cold start. The first run leaves an archive of them
when its JVM ends (some 190 MB, in the background, a few seconds); later runs use it. It is a cache and may be
deleted. It is stored in FEEDNET_CACHE, by default feednet/ in XDG_CACHE_HOME; empty FEEDNET_CACHE disables
it. There is one archive at a time: of several Java versions or Spark locations, the latest.

The JVM itself checks an archive's version and class path, and otherwise ignores it. Source: JEP 350, "Dynamic
CDS Archives"; the options are those of java(1).
"""

import hashlib
import os
import time
from pathlib import Path

import pyspark

_MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""Magic number of a dynamic archive (CDS_DYNAMIC_ARCHIVE_MAGIC in the JVM's cds.h). The JVM writes the header
last, so a file without it is incomplete.
"""
_GIVEN_UP_S = 3600
"""Age from which an incomplete archive is abandoned."""
_QUIET = "-Xlog:disable"


def cache_directory() -> Path | None:
    """Return the archive's directory; None if disabled."""
    chosen = os.environ.get("FEEDNET_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "feednet"


def java_options(java_version: str, now_s: float | None = None) -> list[str]:
    """Return the JVM options to use or create an archive; none where impossible.

    `java_version` is the output of `java -version`; `now_s`, seconds since 1970, is the time.
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
            return []  # another JVM is creating it
        new.touch()
    except OSError:
        return []  # the cache is optional
    return [f"-XX:ArchiveClassesAtExit={new}", _QUIET]


def _tidy(directory: Path, now_s: float) -> None:
    """Keep the newest complete archive, and incomplete ones in progress."""
    for new in directory.glob("*.new"):
        with new.open("rb") as file:
            is_whole = file.read(len(_MAGIC)) == _MAGIC
        if is_whole:
            new.replace(new.with_suffix(".jsa"))
        elif now_s - new.stat().st_mtime > _GIVEN_UP_S:
            new.unlink()
    for old in sorted(directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-1]:
        old.unlink()
