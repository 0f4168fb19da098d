"""Capture files of any known format, compressed or not: opened, and cut into pieces for parallel reading.

The format follows from a file's first bytes, not from its name. A compressed file can only be read from its
beginning, so it is one piece; any other is cut between records.
"""

import bz2
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

EMPTY_FILE = "empty"
"""Reason why an empty file is no capture."""

_STEP = 1 << 18
_FIRST, _FIRST_BYTES = 20, 1 << 21
"""Frames that identify a capture, and their bytes at most."""
_PCAPNG = b"\n\r\r\n"


class Piece(NamedTuple):
    """Some records of a file, which can be read alone: bytes `start` to `end` (None: the file's end).

    context: the state after the records before; first: number of the first frame, from 1.
    """

    path: str
    start: int
    end: int | None
    context: bytes
    first: int


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
_BY_ARROW = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}


class _Decompressed(io.RawIOBase):
    """Content of a compressed file: all, or all before the damage; `reason` is the damage."""

    def __init__(self, file: BinaryIO, magic: bytes) -> None:
        self.reason = ""
        self._chunks = self._by_arrow(file, magic) if magic in _BY_ARROW else self._members(file, magic)
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

    def _by_arrow(self, file: BinaryIO, magic: bytes) -> Iterator[bytes]:
        import pyarrow as pa

        try:
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), _BY_ARROW[magic]) as stream:
                while chunk := stream.read(_STEP):
                    yield chunk
        except (OSError, pa.ArrowInvalid):
            self.reason = "compressed data damaged or cut off"

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
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is compressed in a known format. Raises OSError."""
    with open(path, "rb") as file:
        return _compression(file) is not None


def _compression(file: BinaryIO) -> bytes | None:
    head = file.read(6)
    file.seek(0)
    return next((magic for magic in (*_COMPRESSED, *_BY_ARROW) if head.startswith(magic)), None)


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
def open_capture(path: str | os.PathLike[str]) -> Iterator[Capture]:
    """Open a capture, compressed or not. Raises OSError."""
    with open(path, "rb") as file:
        magic = _compression(file)
        inflated = None if magic is None else _Decompressed(file, magic)
        yield Capture(os.fspath(path), inflated or file, inflated)  # type: ignore[arg-type]


def cut(path: str | os.PathLike[str], size: int = PIECE_BYTES, frames: int = PIECE_FRAMES) -> Iterator[Piece]:
    """Cut a capture into pieces, each of which ends once it has `size` bytes or `frames` frames.

    Raises OSError, and CaptureError for a file that is no capture. Damage is found when the pieces are read.
    """
    name = os.fspath(path)
    begin, context, first, number = 0, b"", 1, 1
    if is_compressed(path):
        with open_capture(path) as capture:
            next(capture.windows(step=_STEP), None)  # invalid otherwise
        yield Piece(name, 0, None, b"", 1)
        return
    with open_capture(path) as capture:
        for window in capture.windows(step=min(WINDOW, size)):
            number += len(window.records.at)
            # A record begins between windows, and the context is that of the next record.
            if not capture.reader.is_lost and (window.end - begin >= size or number - first >= frames):
                yield Piece(name, begin, window.end, context, first)
                begin, context, first = window.end, capture.reader.context, number
    if window.end > begin:
        yield Piece(name, begin, window.end, context, first)


def read_piece(
    piece: Piece, damages: list[Damage], key_logs: list[bytes] | None = None
) -> Iterator[tuple[Window, list[Interface]]]:
    """Yield the windows of a piece, each with the interfaces of its records.

    Appends unreadable parts to `damages`, and key logs to `key_logs`. Raises OSError, and CaptureError as
    Capture.windows() does, or if the file ends before the piece.
    """
    with open_capture(piece.path) as capture:
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
