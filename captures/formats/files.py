"""Capture files of any known format, compressed or not: opened, and cut into pieces for parallel reading.

The format follows from a file's first bytes, not from its name. A file is cut between records. A compressed
one is decompressed for that, and each piece again from the beginning of a member. If there is one member
only, as in most files, it is one piece.
"""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from base.key_log import Secrets, from_lines
from captures.formats.blocks import BlockReader
from captures.formats.compressed import START, Decompressed, Member, compression
from captures.formats.key_log import SECRETS_TYPE
from captures.formats.pcapng import CaptureError, Interface
from captures.formats.records import (
    PCAP_HEADER,
    WINDOW,
    Damage,
    PcapReader,
    RecordReader,
    Window,
    pcap_order,
    windows,
)

PIECE_BYTES = 32 << 20
PIECE_FRAMES = 1 << 17
"""A piece ends with the record that reaches one of these bounds; they limit a reader's memory."""

_LONGEST_MEMBER = 4
"""After so many pieces a compressed file is searched for no further member: most have only one."""

EMPTY_FILE = "empty"
"""Reason why an empty file is no capture."""

_FIRST, _FIRST_BYTES = 20, 1 << 21
"""Frames that identify a capture; bytes that hold them, and that tell of the frames to come."""
_PCAPNG = b"\n\r\r\n"


class Piece(NamedTuple):
    """Some records of a file, which can be read alone: bytes `start` to `end` (None: the file's end), of the
    content if the file is compressed.

    context: the state after the records before; first: number of the first frame, from 1; member: where
    decompressing begins.
    """

    path: str
    start: int
    end: int | None
    context: bytes
    first: int
    member: Member = START


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is compressed in a known format. Raises OSError."""
    with open(path, "rb") as file:
        return compression(file) is not None


class Capture:
    """An open capture; once the windows are read, `reader` has its secrets and damages."""

    def __init__(self, path: str, file: BinaryIO, inflated: Decompressed | None) -> None:
        self.path = path
        self._file = file
        self._inflated = inflated
        self.reader: RecordReader = BlockReader()

    def windows(
        self, start: int = 0, end: int | None = None, context: bytes = b"", step: int | None = None
    ) -> Iterator[Window]:
        """Read windows from byte `start` to `end`; raises CaptureError for a file that is no capture."""
        file, head = self._file, context[:4]
        if not context:
            header = b""
            while len(header) < PCAP_HEADER and (more := file.read(PCAP_HEADER - len(header))):
                header += more
            head = header[:4]
            if head != _PCAPNG and not (len(header) == PCAP_HEADER and pcap_order(head)):
                what = EMPTY_FILE if not header else "no pcap or pcapng file"
                raise CaptureError(self.path, 0, (self._inflated and self._inflated.reason) or what)
            if self._inflated is None:
                file.seek(0)
            else:
                self._file = file = _Prefixed(header, file)  # type: ignore[assignment]
            context = header if head != _PCAPNG else b""
        self.reader = BlockReader(context) if head == _PCAPNG else PcapReader(context)
        yield from windows(file, self.reader, start, end, step)

    @property
    def is_compressed(self) -> bool:
        """Whether bytes are those of the content of a compressed file."""
        return self._inflated is not None

    def member(self, place: int) -> Member:
        """Return the member with a byte that has been read."""
        members = self._inflated.members if self._inflated else [START]
        return members[bisect_right(members, place, key=attrgetter("content")) - 1]

    def may_be_cut(self, member: Member, place: int) -> bool:
        """Return whether a piece may end, and the next one begin, at a byte: not with `member` again, which
        would have to be decompressed again.
        """
        return not self.is_compressed or self.member(place) != member

    @property
    def secrets(self) -> list[bytes]:
        """Key logs found so far (captures.formats.key_log)."""
        return [data for kind, data in self.reader.secrets if kind == SECRETS_TYPE]

    @property
    def damages(self) -> list[Damage]:
        """Unreadable parts so far."""
        reason = self._inflated.reason if self._inflated else ""
        return self.reader.damages + ([Damage(-1, 0, reason)] if reason else [])


class _Prefixed:
    """A file whose first bytes were read already."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        self._file = file

    def readinto(self, room: memoryview) -> int:
        """Fill a buffer with the result of one step."""
        if self._head:
            size = min(len(room), len(self._head))
            room[:size] = self._head[:size]
            self._head = self._head[size:]
            return size
        return self._file.readinto(room)  # type: ignore[attr-defined, no-any-return]


def secrets_in(path: str | os.PathLike[str]) -> Secrets:
    """Return the secrets in a capture.

    Raises OSError, and CaptureError for a file that is no capture.
    """
    with open_capture(path) as capture:
        for _ in capture.windows():
            pass
        return from_lines(b"".join(capture.secrets))


@contextmanager
def open_capture(path: str | os.PathLike[str], member: Member = START) -> Iterator[Capture]:
    """Open a capture, compressed or not; a compressed one from a member on. Raises OSError."""
    with open(path, "rb") as file:
        yield _opened(path, file, member)


def _opened(path: str | os.PathLike[str], file: BinaryIO, member: Member = START) -> Capture:
    magic = compression(file)
    inflated = None if magic is None else Decompressed(file, magic, member)
    return Capture(os.fspath(path), inflated or file, inflated)  # type: ignore[arg-type]


def estimated_frames(path: str | os.PathLike[str]) -> int:
    """Return about how many frames a capture has, judged by its first ones; 0 if it is no capture.

    Raises OSError.
    """
    count = read = 0
    with open(path, "rb") as file, suppress(CaptureError):
        size = os.fstat(file.fileno()).st_size
        for window in _opened(path, file).windows(step=_FIRST_BYTES):
            count += len(window.records.at)
            read = file.tell()
            if read < size:
                break
    return count * size // read if read else 0


def cut(path: str | os.PathLike[str], size: int = PIECE_BYTES, frames: int = PIECE_FRAMES) -> Iterator[Piece]:
    """Cut a capture into pieces, each of which ends once it has `size` bytes or `frames` frames.

    Raises OSError, and CaptureError for a file that is no capture. Damage is found when the pieces are read.
    """
    name = os.fspath(path)
    begin, context, first, number, member = 0, b"", 1, 1, START
    with open_capture(path) as capture:
        for window in capture.windows(step=min(WINDOW, size)):
            number += len(window.records.at)
            # A record begins between windows, and the context is that of the next record.
            is_enough = window.end - begin >= size or number - first >= frames
            if is_enough and not capture.reader.is_lost and capture.may_be_cut(member, window.end):
                yield Piece(name, begin, window.end, context, first, member)
                begin, context, first = window.end, capture.reader.context, number
                member = capture.member(begin)
            elif is_enough and window.end - begin >= _LONGEST_MEMBER * size:
                break
        is_compressed = capture.is_compressed
    if window.end > begin or is_compressed:  # its last piece tells of damage
        yield Piece(name, begin, None if is_compressed else window.end, context, first, member)


def read_piece(
    piece: Piece, damages: list[Damage], key_logs: list[bytes] | None = None
) -> Iterator[tuple[Window, list[Interface]]]:
    """Yield the windows of a piece, each with the interfaces of its records.

    Appends unreadable parts to `damages`, and key logs to `key_logs`. Raises OSError, and CaptureError as
    Capture.windows() does, or if the file ends before the piece.
    """
    with open_capture(piece.path, piece.member) as capture:
        read = piece.start
        for window in capture.windows(piece.start, piece.end, piece.context):
            read = window.end
            yield window, capture.reader.interfaces
        if piece.end is not None and read < piece.end and not capture.damages:
            raise CaptureError(piece.path, read, "has become shorter than what was read of it")
        damages += capture.damages
        if key_logs is not None:
            key_logs += capture.secrets


def fingerprint(path: str | os.PathLike[str]) -> bytes:
    """Return a digest of a capture's first frames and their times in microseconds, whatever its format.

    Raises OSError, and CaptureError for a file that is no capture.
    """
    digest = hashlib.blake2b(digest_size=16)
    with open_capture(path) as capture:
        window = next(capture.windows(step=_FIRST_BYTES))
        columns = (window.records.at, window.records.captured, window.records.time)
        for at, captured, time in zip(*(each[:_FIRST].tolist() for each in columns), strict=True):
            digest.update(b"%d %d " % (time // 1000, captured) + window.data[at : at + captured].tobytes())
    return digest.digest()
