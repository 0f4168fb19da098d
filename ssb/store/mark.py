"""High-water mark of an own feed, in a file beside its key.

**The invariant.** A feed has one end. Its next item is signed only where the item before it is, and where
nothing says that a later one may exist. The log of items alone cannot tell: one that was lost, cut off or
restored from a backup looks like one that never was longer. So the mark, in a file of its own, says

- the number of the last item that anybody may have seen. It is durable before the item is shown to anybody;
- where it is itself, and when the steady file beside it was last changed. Each writing changes the steady
  file's times first. So a mark that was put back from a backup, alone or with all else, under a new inode or
  over the old one, does not fit the steady file: later items may have been written since it was copied;
- a *doubt*: why later items may be elsewhere, until somebody has found out.

What a file system itself undoes (a snapshot of a virtual machine or a volume) leaves no trace in files.
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
        number: of the last item that anybody may have seen; 0 for none.
        size: bytes of the log up to that item, where the log is a plain file; else 0.
        doubt: why there may be later items elsewhere; "" if nothing says so.
    """

    feed: str
    number: int = 0
    size: int = 0
    doubt: str = ""


class Mark:
    """A mark's file, for the one process that opened it.

    It has two slots of one sector, which are written in turn and in place: a power cut leaves one of them,
    and a full disk does not matter. The number of a turn is a time, too: that of the steady file, in seconds
    since 1970. It begins with the time at which the mark is made.

    Args:
        path: of the file. Methods raise OSError if the disk fails.
        steady: a file beside it whose content does not change, once it is there; its times are the mark's.

    Attributes:
        is_copy: the file that was read is a copy; it is none any more when it is written.
    """

    def __init__(self, path: Path, steady: Path) -> None:
        self.path = path
        self.is_copy = False
        self._steady = steady
        self._process = os.getpid()
        self._turn = 0

    def check_process(self) -> None:
        """Raise OSError in a process that was forked off: it would be a second writer."""
        if os.getpid() != self._process:
            raise OSError(
                f"{self.path}: process {self._process} writes this feed, and this one was forked off; "
                "open it after forking, in one process only"
            )

    def read(self) -> Seen | None:
        """Return what it says; None if there is no file, or a damaged one."""
        try:
            with self.path.open("rb") as file:
                raw = file.read()
                self._turn, place, seen = max(_slots(raw), default=(0, "", None), key=lambda slot: slot[0])
                self.is_copy = place != "" and self._is_elsewhere(file.fileno(), place)
        except FileNotFoundError:
            return None
        return seen

    def write(self, seen: Seen) -> None:
        """Replace what it says; it is durable on return."""
        self.check_process()
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            turn = self._create(seen)
        else:
            try:
                turn = self._begin(file)
                os.pwrite(file, _encode(turn, self._place(file), seen), turn % 2 * _SLOT)
                os.fsync(file)  # which journals the steady file's times with it
            finally:
                os.close(file)
        self._turn, self.is_copy = turn, False

    def _create(self, seen: Seen) -> int:
        """Make the file, whole or not at all; return its turn."""
        with whole_file(self.path, mode=0o600, is_durable=True, is_sole=True) as new:
            turn = self._begin(new)
            # Both slots have their space on disk then.
            new.write_bytes(_encode(turn, self._place(new), seen) * 2)
        return turn

    def _begin(self, file: int | Path) -> int:
        """Begin a turn: change the steady file's times; return the turn's number."""
        turn = (self._turn or int(os.stat(file).st_mtime)) + 1
        with suppress(FileNotFoundError):
            os.utime(self._steady, ns=(turn * SECOND, turn * SECOND))
        return turn

    def _place(self, file: int | Path) -> str:
        """Return what tells a mark from a copy of it.

        No program can put back the time of a file's last change (ctime), as backups do that of its content.
        """
        try:
            steady = self._steady.stat()
        except FileNotFoundError:
            return ""
        return f"{os.stat(file).st_ino} {steady.st_ino} {steady.st_ctime_ns}"

    def _is_elsewhere(self, file: int, place: str) -> bool:
        """Return whether a mark is not where it was written, but for a next turn that was begun only."""
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
    """Yield the slots that are whole: turn, place and what they say."""
    for start in range(0, len(raw), _SLOT):
        checksum, _, text = raw[start : start + _SLOT].rstrip(b" \n").partition(b" ")
        if text and checksum == b"%08x" % crc32(text):
            turn, place, *seen = json.loads(text)
            yield turn, place, Seen(*seen)
