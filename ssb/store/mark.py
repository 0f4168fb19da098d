"""How far a feed is that is written here, kept in a file beside the key that signs it: its mark.

**The invariant.** A feed has one end. Its next item is signed only where all items before it are, and where
nothing says that a later one may exist. The log of items alone cannot tell: one that was lost, cut off or
restored from a backup looks like one that never was longer. So the mark, in a file of its own, says

- the number of the last item that anybody may have seen. It is durable before the item is shown to anybody;
- where it is itself. A copy, such as a backup that was restored, is another file, or was changed later than
  the file beside it that is never written again. Later items may have been written since it was made;
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

_SLOT: Final = 512  # bytes: a sector, which disks write whole
_LONGEST_DOUBT: Final = 200


class Seen(NamedTuple):
    """What a mark says.

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
    and a full disk does not matter.

    Args:
        path: of the file. Methods raise OSError if the disk fails.
        steady: a file beside it that is not written again, once it is there.

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
                raw, here = file.read(), self._place(file.fileno())
        except FileNotFoundError:
            return None
        self._turn, place, seen = max(_slots(raw), default=(0, "", None), key=lambda slot: slot[0])
        self.is_copy = place not in ("", here)
        return seen

    def write(self, seen: Seen) -> None:
        """Replace what it says; it is durable on return."""
        self.check_process()
        turn = self._turn + 1
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._create(turn, seen)
        else:
            try:
                os.pwrite(file, _encode(turn, self._place(file), seen), turn % 2 * _SLOT)
                os.fdatasync(file)
            finally:
                os.close(file)
        self._turn, self.is_copy = turn, False

    def _create(self, turn: int, seen: Seen) -> None:
        """Make the file, whole or not at all."""
        partial = self.path.with_name(f".{self.path.name}.new")
        with suppress(FileNotFoundError):
            partial.unlink()
        try:
            file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(_encode(turn, self._place(file), seen) * 2)  # both have their space on disk now
                out.flush()
                os.fsync(out.fileno())
            partial.rename(self.path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync_directory(self.path.parent)

    def _place(self, file: int) -> str:
        """Return what tells a mark from a copy of it.

        No program can put back the time of a file's last change (ctime), as backups do that of its content.
        """
        try:
            steady = self._steady.stat()
        except FileNotFoundError:
            return ""
        return f"{os.fstat(file).st_ino} {steady.st_ino} {steady.st_ctime_ns}"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


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
