"""The frames of a capture as arrays: their positions in a buffer, and their records' fields.

Theory of operation. A capture is read in windows of some megabytes. Records are a chain (each has the start
of the next), so a short loop walks their beginnings, and numpy gathers everything else for all records of the
window at once. A record cut by a window's end is kept for the next window.

A reader never gives up: where the chain breaks, it searches for the next plausible whole record, continues
there, and records the Damage. `context` lets another reader of the same kind start at a record in the middle
of the file.

This module has the parts common to both formats, and pcap; captures/formats/blocks.py has pcapng. Source:
draft-ietf-opsawg-pcap, "PCAP Capture File Format"; the patched format of A. Kuznetsov's libpcap.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from captures.formats.pcapng import Interface

Ints: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]

SLACK = 64
"""Zero bytes after a window's own, so that a gather of a few bytes stays within the array."""
WINDOW = 1 << 23
LARGEST_TIME = (1 << 63) - 1
"""Largest time: times are signed 64-bit numbers; later ones are replaced by this one."""

MOST_EMPTY = 4096
"""Accepted consecutive empty records. Compressed files may hold any number; more are damage."""
EMPTY = "records without a byte"

_LARGEST_FRAME = 1 << 18  # also Wireshark's limit
_LARGEST_RECORD = 1 << 24
_LEAST_STEP, _MOST_STEP = 1 << 8, 1 << 20  # bytes searched at once


class Records(NamedTuple):
    """The frames of one window, in file order; arrays of one length.

    at: position of the frame's first byte in the window; captured: its captured bytes; original: its bytes on
    the wire; time: ns; source: index into the reader's `interfaces`; direction: a
    captures.formats.pcapng.Direction.
    """

    at: Ints
    captured: Ints
    original: Ints
    time: Ints
    source: Ints
    direction: Ints


class Damage(NamedTuple):
    """Unreadable bytes of a file: `size` of them from `offset` on, and the reason."""

    offset: int
    size: int
    reason: str


def add_empty_records(damages: list[Damage], offset: int, size: int) -> None:
    """Record empty records, as one damage with those right before them."""
    if damages and damages[-1].reason == EMPTY and damages[-1].offset + damages[-1].size == offset:
        offset, size = damages[-1].offset, damages.pop().size + size
    damages.append(Damage(offset, size, EMPTY))


class Window(NamedTuple):
    """A part of a file: its bytes (and SLACK more), its records, and the file offset of the record after
    them."""

    data: Octets
    records: Records
    end: int


class RecordReader(Protocol):
    """Reads the windows of one file in order."""

    interfaces: list[Interface]
    damages: list[Damage]
    secrets: list[tuple[int, bytes]]
    """Of Decryption Secrets Blocks: type and data."""

    @property
    def is_lost(self) -> bool:
        """Whether it is searching for a record, since there is none at its position."""
        ...

    @property
    def context(self) -> bytes:
        """State of a reader that starts after the last record read."""
        ...

    def parse(self, data: Octets, size: int, offset: int, final: bool) -> tuple[Records, int]:
        """Read the records in `data[:size]`, which is at `offset` in the file.

        Return them, and the number of bytes consumed. `final`: no bytes follow.
        """
        ...


def no_records() -> Records:
    """Return empty Records."""
    return Records(*(np.empty(0, np.int64) for _ in Records._fields))


def join_records(parts: list[Records]) -> Records:
    """Return the records of several parts of one window."""
    return parts[0] if len(parts) == 1 else Records(*map(np.concatenate, zip(*parts, strict=True)))


def windows(
    file: BinaryIO,
    reader: RecordReader,
    start: int = 0,
    end: int | None = None,
    step: int | None = None,
    *,
    grows: bool = False,
) -> Iterator[Window]:
    """Read a file from byte `start` to `end` (to its end if None), `step` new bytes for each window (WINDOW
    if None). `grows`: more may follow, so a record cut by the file's end is no damage.

    The bytes of a window are valid until the next one: windows share a buffer, since allocation costs more
    than reading.
    """
    step = step or WINDOW
    offset, left = start, 0
    if start:
        file.seek(start)
    buffer = np.empty(step + SLACK, np.uint8)
    final = False
    while not final:
        size = left + (step if end is None else min(step, end - offset - left))
        if len(buffer) < size + SLACK:
            buffer = np.concatenate([buffer[:left], np.empty(size + SLACK, np.uint8)])
        read = left
        while read < size and (got := file.readinto(buffer.data[read:size])):  # type: ignore[attr-defined]
            read += got
        final = read < size or (end is not None and offset + read >= end)
        buffer[read : read + SLACK] = 0
        records, used = reader.parse(buffer, read, offset, final and not grows)
        offset += used
        yield Window(buffer[: read + SLACK], records, offset)
        left = read - used
        buffer[:left] = buffer[used:read].copy()


_MAGICS = {0xA1B2C3D4: (1000, 16), 0xA1B23C4D: (1, 16), 0xA1B2CD34: (1000, 24)}
"""pcap's magic numbers: nanoseconds per unit of a stamp's fraction, bytes of a record's header."""
PCAP_HEADER = 24


def pcap_order(magic: bytes) -> str | None:
    """Return the byte order, "<" or ">", of a pcap file with these first 4 bytes; None for other files."""
    for order in "<>":
        if struct.unpack(order + "I", magic)[0] in _MAGICS:
            return order
    return None


class PcapReader:
    """A RecordReader of pcap; `header` is the file's, 24 bytes."""

    def __init__(self, header: bytes) -> None:
        order = pcap_order(header[:4])
        assert order is not None
        self.context = header
        magic, _, _, _, _, snaplen, link = struct.unpack(order + "IHHiIII", header)
        self._unit, self._header = _MAGICS[magic]
        # The upper bits of the link type may describe a frame check sequence.
        self.interfaces = [Interface("", "", None, link & 0xFFFF, snaplen)]
        self.damages: list[Damage] = []
        self.secrets: list[tuple[int, bytes]] = []  # pcap has none
        self._limit = max(snaplen, _LARGEST_FRAME) if snaplen < _LARGEST_RECORD else _LARGEST_FRAME
        self._order = order
        self._length = struct.Struct(order + "I")
        self._lost: int | None = None  # file offset of the damage being skipped

    @property
    def is_lost(self) -> bool:
        """Whether it is searching for a record."""
        return self._lost is not None

    def parse(self, data: Octets, size: int, offset: int, final: bool) -> tuple[Records, int]:
        """Read the records in `data[:size]`; see RecordReader."""
        found: list[int] = []
        at = 0
        if offset == 0 and self._lost is None:
            at = min(PCAP_HEADER, size)
        while True:
            if self._lost is not None:
                place = self._recover(data, at, size, final)
                if place is None:  # keep as many bytes as a whole record and the next one's header may need
                    at = size if final else max(at, size - 2 * (_LARGEST_FRAME + self._header))
                    if final:
                        self._damaged(offset + size, "no record after this place")
                    break
                self._damaged(offset + place, "impossible record header")
                at = place
            at = self._walk(data, at, size, offset, found)
            if at == size:
                break
            whole = at + self._header <= size
            captured = self._length.unpack_from(data.data, at + 8)[0] if whole else 0
            if captured <= self._limit:
                if final:
                    self.damages.append(Damage(offset + at, size - at, "cut off in a record"))
                    at = size
                break
            self._lost = offset + at
            at += 1
        return self._records(data, np.array(found, np.int64)), at

    def _walk(self, data: Octets, at: int, size: int, offset: int, found: list[int]) -> int:
        """Append the positions of whole records from `at` on; return the position after them."""
        append, length, header, limit = found.append, self._length.unpack_from, self._header, self._limit
        buffer = data.data
        last = size - header
        empty = 0
        while at <= last:
            captured = length(buffer, at + 8)[0]
            end = at + header + captured
            if end > size or captured > limit:
                break
            append(at)
            at = end
            if captured:
                empty = 0
                continue
            empty += 1
            if empty > MOST_EMPTY:
                del found[-empty:]
                begin = at - empty * header
                while at <= last:
                    headers = self._headers(
                        data, np.arange(at, min(last, at + MOST_EMPTY * header) + 1, header)
                    )[:, 2]
                    at += header * int(np.argmax(headers != 0) if headers.any() else len(headers))
                    if headers.any():
                        break
                add_empty_records(self.damages, offset + begin, at - begin)
                empty = 0
        return at

    def _recover(self, data: Octets, at: int, size: int, final: bool) -> int | None:
        """Return the first position from `at` on with two consecutive plausible records, or one that ends the
        file."""
        last, step = size - self._header, _LEAST_STEP
        while at <= last:  # in growing steps, so that a search costs no more than the bytes skipped
            places = np.arange(at, min(at + step, last + 1))
            at, step = at + step, min(2 * step, _MOST_STEP)
            places = places[self._plausible(data, places)]
            headers = self._headers(data, places).astype(np.int64)
            ends = places + self._header + headers[:, 2]
            good = (ends == size) & final
            inside = np.flatnonzero(ends <= last)
            inside = inside[self._plausible(data, ends[inside])]
            seconds = self._headers(data, ends[inside])[:, 0].astype(np.int64)
            good[inside] |= np.abs(headers[inside, 0] - seconds) <= 86400
            if good.any():
                return int(places[np.argmax(good)])
        return None

    def _plausible(self, data: Octets, places: Ints) -> npt.NDArray[np.bool_]:
        fields = self._headers(data, places)
        fraction, captured, original = (fields[:, column].astype(np.int64) for column in (1, 2, 3))
        good = (fraction * self._unit < 10**9) & (captured <= original) & (original <= self._limit)
        return good & (captured >= 14)

    def _headers(self, data: Octets, places: Ints) -> npt.NDArray[np.uint32]:
        rows = np.ndarray(len(data) - 15, "V16", data, 0, (1,))
        return rows[places].view(self._order + "u4").reshape(-1, 4)

    def _damaged(self, end: int, reason: str) -> None:
        assert self._lost is not None
        self.damages.append(Damage(self._lost, end - self._lost, reason))
        self._lost = None

    def _records(self, data: Octets, at: Ints) -> Records:
        if not len(at):
            return no_records()
        headers = self._headers(data, at)
        seconds, fraction, captured, original = (headers[:, column].astype(np.int64) for column in range(4))
        nothing = np.zeros(len(at), np.int64)
        time = seconds * 10**9 + fraction * self._unit
        return Records(at + self._header, captured, np.maximum(original, captured), time, nothing, nothing)
