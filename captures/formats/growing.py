"""A capture that is still being written: its new records, in pieces that end with a whole record.

Theory of operation. A growing file may end within a record, depending on its writer's buffer; a reader that
continued from its end would lose that record, and all after it. So a Position is the end of a record, and
only bytes before it are returned. It also has the number of frames so far and a checksum of the bytes before
it, which distinguishes a file that grew from one that was begun anew. Other reader state, such as pcapng's
interfaces, is in the file itself: to continue from another process's Position, the file is walked once more
from its beginning.

A capture may be renamed while it grows, together with its directory; so it has several paths, the final one
last.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple
from zlib import crc32

from captures.formats.blocks import BlockReader
from captures.formats.files import PIECE_BYTES, PIECE_FRAMES, Piece, is_compressed
from captures.formats.pcapng import CaptureError
from captures.formats.records import PCAP_HEADER, WINDOW, PcapReader, RecordReader, pcap_order, windows

_PCAPNG = b"\n\r\r\n"
_MARKED = 1024
_LEAST_STEP = 4096  # a reader needs the whole head of a file


class Position(NamedTuple):
    """The end of a record in a capture: `frames` before it; mark: a checksum of the bytes before it."""

    at: int
    frames: int
    mark: int


START = Position(0, 0, 0)
"""The beginning of a capture, even before it exists."""


def open_any(paths: Sequence[str]) -> BinaryIO:
    """Open the first existing path; raise FileNotFoundError without any.

    A file renamed from one of them to a later one is always found.
    """
    for path in paths[:-1]:
        with suppress(FileNotFoundError):
            return open(path, "rb")
    return open(paths[-1], "rb")


class GrowingCapture:
    """A growing capture, at one of some paths."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._position = START
        self._reader: RecordReader | None = None

    def pieces(
        self,
        start: Position,
        end: int | None = None,
        most: int | None = None,
        *,
        size: int = PIECE_BYTES,
        frames: int = PIECE_FRAMES,
    ) -> tuple[list[Piece], Position]:
        """Return the pieces added since `start`, and the end of the last whole record.

        Nothing from byte `end` on is read; reading stops after `most` bytes, or a quarter more. A piece has
        as many bytes or frames as captures.formats.files.cut() would give it. A missing file, or one too
        short to have a format, has no pieces.

        Raises CaptureError for a file that is no capture, damaged or compressed, or that changed since
        `start`; and OSError.
        """
        try:
            file = open_any(self._paths)
        except FileNotFoundError:
            if start == START:
                return [], START
            raise self._error(start.at, "is not there any more") from None
        with file:
            self._check(file, start)
            if self._position != start or self._reader is None:
                if not self._begin(file):
                    return [], START
                self._walk(file, start.at, None, start.at + 1, 1 << 62)
                if self._position[:2] != start[:2]:
                    raise self._error(start.at, "has been replaced by another capture")
            found = self._walk(file, end, most, size, frames)
            self._position = self._position._replace(mark=self._mark(file, self._position.at))
            return found, self._position

    def _begin(self, file: BinaryIO) -> bool:
        """Go to the beginning; return whether the file has one."""
        self._reader, self._position = None, START
        file.seek(0)
        head = file.read(PCAP_HEADER)
        if len(head) < PCAP_HEADER:
            return False
        if head[:4] == _PCAPNG:
            self._reader = BlockReader()
        elif pcap_order(head[:4]):
            self._reader = PcapReader(head)
        elif is_compressed(file.name):
            raise self._error(0, "compressed, so what is added cannot be read before it is complete")
        else:
            raise self._error(0, "no pcap or pcapng file")
        return True

    def _walk(self, file: BinaryIO, end: int | None, most: int | None, size: int, frames: int) -> list[Piece]:
        """Continue to the last whole record; return the new pieces."""
        reader, (begin, number, _) = self._reader, self._position
        assert reader is not None
        found: list[Piece] = []
        at, first, start = begin, number, begin
        context = reader.context if begin else b""
        if end is not None and end <= begin:
            return found
        # A window ends before the record that it cuts: `most` bytes would always need a second one.
        step = max(_LEAST_STEP, min(WINDOW, size, WINDOW if most is None else most // 4))
        file.seek(begin)
        for window in windows(file, reader, begin, end, step, grows=True):
            at, number = window.end, number + len(window.records.at)
            if reader.is_lost or reader.damages:
                raise self._damage(at)
            if at - begin >= size or number - first >= frames:
                found.append(Piece(file.name, begin, at, context, first + 1))
                begin, first, context = at, number, reader.context
            if most is not None and at - start >= most:
                break
        if at > begin:
            found.append(Piece(file.name, begin, at, context, first + 1))
        self._position = Position(at, number, 0)
        return found

    def _check(self, file: BinaryIO, position: Position) -> None:
        """Raise CaptureError unless the file still has a position."""
        if os.fstat(file.fileno()).st_size < position.at:
            raise self._error(position.at, "has become shorter than what was read of it")
        if position.at and self._mark(file, position.at) != position.mark:
            raise self._error(position.at, "has been replaced by another capture")

    @staticmethod
    def _mark(file: BinaryIO, at: int) -> int:
        file.seek(max(0, at - _MARKED))
        return crc32(file.read(min(at, _MARKED)))

    def _damage(self, at: int) -> CaptureError:
        self._position, reader, self._reader = START, self._reader, None
        for damage in reader.damages if reader else ():
            return self._error(damage.offset, damage.reason)
        return self._error(at, "no record begins here")

    def _error(self, offset: int, reason: str) -> CaptureError:
        return CaptureError(self._paths[-1], offset, reason)
