"""Capture files of any known format, compressed or not: opened, and cut into pieces for parallel reading.

The format follows from a file's first bytes, not from its name. A file is cut between records. A compressed
one is decompressed for that, and again from the beginning of a gzip, bzip2 or xz member or of a zstd frame; if
it has one member only, as most have, it is one piece.
"""

import bz2
import hashlib
import io
import lzma
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import BinaryIO, NamedTuple, Protocol

from base.key_log import Secrets, from_lines
from captures.formats.blocks import BlockReader
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
"""Pieces after which a compressed file is no more searched for another member: most have one only."""

EMPTY_FILE = "empty"
"""Reason why an empty file is no capture."""

_STEP = 1 << 18
_FIRST, _FIRST_BYTES = 20, 1 << 21
"""Frames that identify a capture, and their bytes at most."""
_PCAPNG = b"\n\r\r\n"


class Member(NamedTuple):
    """The beginning of a part of a compressed file that can be decompressed alone: its first byte, and that of
    its content.
    """

    packed: int
    content: int


class Piece(NamedTuple):
    """Some records of a file, which can be read alone: bytes `start` to `end` (None: the file's end) of it or,
    if it is compressed, of its content.

    context: the state after the records before; first: number of the first frame, from 1; member: where
    decompressing begins.
    """

    path: str
    start: int
    end: int | None
    context: bytes
    first: int
    member: Member = Member(0, 0)


class _Decompressor(Protocol):
    """Interface of bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _GzipDecompressor:
    """zlib's decompressor of a gzip member with the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


_COMPRESSED: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": _GzipDecompressor,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
}
_ZSTD, _LZ4 = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"
"""The magic number of a skippable frame, after its first byte, 50 to 5f."""


class _Decompressed(io.RawIOBase):
    """Content of a compressed file from a member on: all, or all before the damage; `reason` is the damage,
    `members` are those that have begun.
    """

    def __init__(self, file: BinaryIO, magic: bytes, member: Member) -> None:
        self.reason = ""
        self.members = [member]
        self._made = self._at = member.content
        file.seek(member.packed)
        if magic == _ZSTD:
            self._chunks = self._frames(file)
        elif magic == _LZ4:
            self._chunks = self._by_arrow(file, "lz4")
        else:
            self._chunks = self._members(file, magic)
        self._rest = b""

    def _members(self, file: BinaryIO, magic: bytes) -> Iterator[bytes]:
        """Yield the content of each member of a file, one after the other."""
        packed = b""
        while True:
            unpack = _COMPRESSED[magic]()
            while not unpack.eof:
                if not packed and unpack.needs_input:
                    packed = file.read(_STEP)
                    if not packed:
                        self.reason = "compressed data cut off"
                        return
                try:
                    yield unpack.decompress(packed, _STEP)  # bounded, however well it was compressed
                except (zlib.error, OSError, lzma.LZMAError, EOFError):
                    self.reason = "compressed data damaged"
                    return
                packed = b""
            packed = unpack.unused_data.lstrip(b"\0") or file.read(_STEP).lstrip(b"\0")
            if not packed.startswith(magic):  # padding, or nothing
                return
            self.members.append(Member(file.tell() - len(packed), self._made))

    def _frames(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the content of each zstd frame."""
        while not self.reason:
            begin = file.tell()
            end = zstd_end(file)
            if begin == end:
                return
            if begin != self.members[-1].packed:
                self.members.append(Member(begin, self._made))
            file.seek(begin)
            yield from self._by_arrow(file, "zstd", None if end is None else end - begin)
            if end is None:
                return
            file.seek(end)

    def _by_arrow(self, file: BinaryIO, how: str, size: int | None = None) -> Iterator[bytes]:
        import pyarrow as pa

        try:
            raw = pa.PythonFile(file if size is None else _Part(file, size), mode="r")
            with pa.CompressedInputStream(raw, how) as stream:
                while chunk := stream.read(_STEP):
                    yield chunk
        except (OSError, pa.ArrowInvalid):
            self.reason = "compressed data damaged or cut off"

    def seek(self, place: int, whence: int = os.SEEK_SET, /) -> int:
        """Go forward to a byte of the content."""
        assert whence == os.SEEK_SET
        assert place >= self._at
        buffer = bytearray(_STEP)
        while self._at < place and self.readinto(memoryview(buffer)[: place - self._at]):
            pass
        return self._at

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer with the result of one step."""
        room = memoryview(buffer)  # type: ignore[arg-type]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
            self._made += len(chunk)
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self._at += size
        return size


class _Part:
    """The next bytes of a file as a file."""

    closed = False

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        found = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(found)
        return found

    def close(self) -> None:
        """Leave the file open."""


def zstd_end(file: BinaryIO) -> int | None:
    """Return the end of the zstd frame, or skippable frame, at the position of a file; None if there is no
    whole one, and the position at the end of the file. Source: RFC 8878, section 3.1.
    """
    head = file.read(9)
    if not head:
        return file.tell()
    if len(head) < 9:
        return None
    if head[1:4] == _ZSTD_SKIPPED and head[0] & 0xF0 == 0x50:
        end = file.tell() - 1 + int.from_bytes(head[4:8], "little")
        return end if end <= os.fstat(file.fileno()).st_size else None
    if head[:4] != _ZSTD:
        return None
    flags = head[4]
    is_single = flags & 0x20
    size_of_size = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    at = file.tell() - 4 + (0 if is_single else 1) + (0, 1, 2, 4)[flags & 3] + size_of_size
    is_last = 0
    while not is_last:
        file.seek(at)
        block = file.read(3)
        if len(block) < 3:
            return None
        number = int.from_bytes(block, "little")
        is_last, is_repeated = number & 1, number >> 1 & 3 == 1
        at += 3 + (1 if is_repeated else number >> 3)
    at += 4 if flags & 4 else 0
    return at if at <= os.fstat(file.fileno()).st_size else None


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is compressed in a known format. Raises OSError."""
    with open(path, "rb") as file:
        return _compression(file) is not None


def _compression(file: BinaryIO) -> bytes | None:
    head = file.read(6)
    file.seek(0)
    return next((magic for magic in (*_COMPRESSED, _ZSTD, _LZ4) if head.startswith(magic)), None)


class Capture:
    """An open capture; once the windows are read, `reader` has its secrets and damages."""

    def __init__(self, path: str, file: BinaryIO, inflated: _Decompressed | None) -> None:
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
        members = self._inflated.members if self._inflated else [Member(0, 0)]
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
def open_capture(path: str | os.PathLike[str], member: Member = Member(0, 0)) -> Iterator[Capture]:
    """Open a capture, compressed or not; a compressed one from a member on. Raises OSError."""
    with open(path, "rb") as file:
        magic = _compression(file)
        inflated = None if magic is None else _Decompressed(file, magic, member)
        yield Capture(os.fspath(path), inflated or file, inflated)  # type: ignore[arg-type]


def cut(path: str | os.PathLike[str], size: int = PIECE_BYTES, frames: int = PIECE_FRAMES) -> Iterator[Piece]:
    """Cut a capture into pieces, each of which ends once it has `size` bytes or `frames` frames.

    Raises OSError, and CaptureError for a file that is no capture. Damage is found when the pieces are read.
    """
    name = os.fspath(path)
    begin, context, first, number, member = 0, b"", 1, 1, Member(0, 0)
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
    Capture.windows() does.
    """
    with open_capture(piece.path, piece.member) as capture:
        for window in capture.windows(piece.start, piece.end, piece.context):
            yield window, capture.reader.interfaces
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
