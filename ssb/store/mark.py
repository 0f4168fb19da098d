"""High-water mark of an own feed, in a file beside its key.

**The invariant.** A feed has one end. Its next item is signed only where the preceding item is, and where
nothing indicates that a later one may exist. The log of items alone is not enough: one that was lost,
truncated or restored from a backup looks like one that never was longer. So the mark, in a file of its own,
records

- the number of the last item that others may have seen. It is durable before the item is disclosed;
- its own location, and the last change of the steady file beside it. Each write changes the steady file's
  times first. So a mark that was restored from a backup, alone or with all else, under a new inode or over
  the old one, does not match the steady file: later items may have been written since the copy;
- a *doubt*: why later items may be elsewhere, until this is resolved.

A rollback by the file system itself (a snapshot of a virtual machine or a volume) leaves no trace in files.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from base.files import whole_file
from base.units import SECOND

_SLOT: Final = 512  # bytes: a sector, which disks write whole
_LONGEST_DOUBT: Final = 200


class Seen(NamedTuple):
    """Contents of a mark.

    Attributes:
        feed: the feed.
        number: of the last item that others may have seen; 0 for none.
        size: bytes of the log up to that item, where the log is a plain file; else 0.
        doubt: why there may be later items elsewhere; "" for no doubt.
    """

    feed: str
    number: int = 0
    size: int = 0
    doubt: str = ""


class Mark:
    """A mark's file, for the one process that opened it.

    It has two slots of one sector, which are written alternately and in place: a power cut leaves one of
    them, and a full disk does not matter. The number of a write is also a time: that of the steady file, in
    seconds since 1970. It begins with the time of the mark's creation.

    Args:
        path: of the file. Methods raise OSError if the disk fails.
        steady: a file beside it whose content is constant, once it exists; its times are the mark's.

    Attributes:
        is_copy: the file that was read is a copy; cleared by a write.
    """

    def __init__(self, path: Path, steady: Path) -> None:
        self.path = path
        self.is_copy = False
        self._steady = steady
        self._process = os.getpid()
        self._turn = 0

    def check_process(self) -> None:
        """Raise OSError in a forked process: it would be a second writer."""
        if os.getpid() != self._process:
            raise OSError(
                f"{self.path}: process {self._process} writes this feed, and this one was forked off; "
                "open it after forking, in one process only"
            )

    def read(self) -> Seen | None:
        """Return the contents; None if the file is missing or damaged."""
        try:
            with self.path.open("rb") as file:
                raw = file.read()
                self._turn, place, seen = max(_slots(raw), default=(0, "", None), key=lambda slot: slot[0])
                self.is_copy = place != "" and self._is_elsewhere(file.fileno(), place)
        except FileNotFoundError:
            return None
        return seen

    def write(self, seen: Seen) -> None:
        """Replace the contents; durable on return."""
        self.check_process()
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            turn = self._create(seen)
        else:
            try:
                turn = self._begin(file)
                os.pwrite(file, _encode(turn, self._place(file), seen), turn % 2 * _SLOT)
                os.fsync(file)  # journals the steady file's times with it
            finally:
                os.close(file)
        self._turn, self.is_copy = turn, False

    def _create(self, seen: Seen) -> int:
        """Create the file atomically; return its turn."""
        with whole_file(self.path, mode=0o600, is_durable=True, is_sole=True) as new:
            turn = self._begin(new)
            # This allocates both slots on disk.
            new.write_bytes(_encode(turn, self._place(new), seen) * 2)
        return turn

    def _begin(self, file: int | Path) -> int:
        """Begin a turn: change the steady file's times; return the turn's number."""
        turn = (self._turn or int(os.stat(file).st_mtime)) + 1
        with suppress(FileNotFoundError):
            os.utime(self._steady, ns=(turn * SECOND, turn * SECOND))
        return turn

    def _place(self, file: int | Path) -> str:
        """Return the identity of a mark's location, different for a copy.

        No program can restore the time of a file's last change (ctime), as backups do that of its content.
        """
        try:
            steady = self._steady.stat()
        except FileNotFoundError:
            return ""
        return f"{os.stat(file).st_ino} {steady.st_ino} {steady.st_ctime_ns}"

    def _is_elsewhere(self, file: int, place: str) -> bool:
        """Return whether a mark was moved since it was written, apart from a begun next turn."""
        here = self._place(file)
        if place == here:
            return False
        if not here or place.split()[:2] != here.split()[:2]:
            return True
        steady = self._steady.stat()
        was_begun = steady.st_mtime_ns == (self._turn + 1) * SECOND
        return not was_begun or os.fstat(file).st_ctime_ns > steady.st_ctime_ns


def _encode(turn: int, place: str, seen: Seen) -> bytes:
    short = seen._replace(doubt=seen.doubt[:_LONGEST_DOUBT])
    text = json.dumps([turn, place, *short]).encode()
    line = b"%08x %b\n" % (crc32(text), text)
    if len(line) > _SLOT:
        raise ValueError(f"{len(line)} bytes do not fit into a mark")
    return line.ljust(_SLOT)


def _slots(raw: bytes) -> Iterator[tuple[int, str, Seen]]:
    """Yield the intact slots: turn, place and contents."""
    for start in range(0, len(raw), _SLOT):
        checksum, _, text = raw[start : start + _SLOT].rstrip(b" \n").partition(b" ")
        if text and checksum == b"%08x" % crc32(text):
            turn, place, *seen = json.loads(text)
            yield turn, place, Seen(*seen)
