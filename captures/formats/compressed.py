"""Compressed files: decompressed from the beginning of a member on.

A member is one of gzip, bzip2 or xz, or a frame of zstd; LZ4 is decompressed as a whole. Members may follow
each other, and their contents too.
"""

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Protocol

_STEP = 1 << 18
"""Bytes at a time."""


class Member(NamedTuple):
    """The beginning of a part of a compressed file that can be decompressed alone: its first byte, and the
    first byte of its content.
    """

    packed: int
    content: int


START = Member(0, 0)


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


class Decompressed(io.RawIOBase):
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


def compression(file: BinaryIO) -> bytes | None:
    """Return the first bytes of a compressed file, which tell its format; None of another file."""
    head = file.read(6)
    file.seek(0)
    return next((magic for magic in (*_COMPRESSED, _ZSTD, _LZ4) if head.startswith(magic)), None)
