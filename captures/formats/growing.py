"""A capture that is still being written: what has been added to it, in pieces that end with a whole record.

Theory of operation. The size of a growing file says nothing: it ends wherever its writer's buffer happened
to, and whoever goes on from there has lost the record in between, and all after it. So a Position is where a
record ends, and only the bytes before it are handed out. A Position also holds the number of frames and a
checksum of the bytes before it, which tells a file that went on from one that was begun anew. What a
reader needs besides, such as pcapng's interfaces, stands in the file itself: to go on from a Position that
another process has come to, the file is walked once more from its beginning.

A capture may be renamed while it grows, with the directory that it is in; so it has several paths, the
one to come last.
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
_LEAST_STEP = 4096  # a reader wants the head of a file whole


class Position(NamedTuple):
    """A byte of a capture where a record ends: `frames` stand before it; mark: a checksum of what does."""

    at: int
    frames: int
    mark: int


START = Position(0, 0, 0)
"""The beginning of a capture, whether there is one yet or not."""


def open_any(paths: Sequence[str]) -> BinaryIO:
    """Open the first of some paths that there is; raise FileNotFoundError if there is none.

    A file that is renamed from one of them to a later one is always found.
    """
    for path in paths[:-1]:
        with suppress(FileNotFoundError):
            return open(path, "rb")
    return open(paths[-1], "rb")


class GrowingCapture:
    """A capture that grows, at one of some paths."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._place = START
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
        """Return what has been added since `start`, in pieces, and where the last whole record ends.

        Nothing from byte `end` on is looked at; `most` bytes, or a quarter more, are enough. A piece has as
        many bytes or frames as captures.formats.files.cut() would give it. There is nothing yet in a file
        that is not there yet, or too short to tell what it is.

        Raises CaptureError for a file that is no capture, damaged or compressed, or that is not what it was
        at `start`; and OSError.
        """
        try:
            file = open_any(self._paths)
        except FileNotFoundError:
            if start == START:
                return [], START
            raise self._error(start.at, "is not there any more") from None
        with file:
            self._check(file, start)
            if self._place != start or self._reader is None:
                if not self._begin(file):
                    return [], START
                self._walk(file, start.at, None, start.at + 1, 1 << 62)
                if self._place[:2] != start[:2]:
                    raise self._error(start.at, "has been replaced by another capture")
            found = self._walk(file, end, most, size, frames)
            self._place = self._place._replace(mark=self._mark(file, self._place.at))
            return found, self._place

    def _begin(self, file: BinaryIO) -> bool:
        """Stand at the beginning; return whether there is one yet."""
        self._reader, self._place = None, START
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
        """Go on to the last whole record; return the way in pieces."""
        reader, (begin, number, _) = self._reader, self._place
        assert reader is not None
        found: list[Piece] = []
        at, first, start = begin, number, begin
        context = reader.context if begin else b""
        if end is not None and end <= begin:
            return found
        # A window ends before the record that it cuts: one of `most` bytes would always take a second one.
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
        self._place = Position(at, number, 0)
        return found

    def _check(self, file: BinaryIO, place: Position) -> None:
        """Raise CaptureError if the file is not the one that had a place."""
        if os.fstat(file.fileno()).st_size < place.at:
            raise self._error(place.at, "has become shorter than what was read of it")
        if place.at and self._mark(file, place.at) != place.mark:
            raise self._error(place.at, "has been replaced by another capture")

    @staticmethod
    def _mark(file: BinaryIO, at: int) -> int:
        file.seek(max(0, at - _MARKED))
        return crc32(file.read(min(at, _MARKED)))

    def _damage(self, at: int) -> CaptureError:
        self._place, reader, self._reader = START, self._reader, None
        for damage in reader.damages if reader else ():
            return self._error(damage.offset, damage.reason)
        return self._error(at, "no record begins here")

    def _error(self, offset: int, reason: str) -> CaptureError:
        return CaptureError(self._paths[-1], offset, reason)
