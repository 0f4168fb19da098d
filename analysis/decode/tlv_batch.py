"""TLV elements of many packets, walked in parallel, one element of each packet per step.

Theory of operation. `Octets.words` gathers eight bytes at any places of a window at once; they hold type,
length and short values of an element. `walk` steps through the elements of all packets and records offset and
length of each known type's value. Packets with unknown, reordered, non-minimal or overlong elements lose
their mark and go to the reference decoder.

Source: NDN packet format 0.3, "Type-Length-Value (TLV) Encoding".
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from captures.formats.records import Flags, Ints

Words: TypeAlias = npt.NDArray[np.uint64]

LARGEST = np.uint64((1 << 63) - 1)
_LONG, _LONGER = 253, 254


class Octets:
    """The bytes of a window, for gathering. Places must be at least 64 bytes from the end."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self.data = data
        self._words = np.ndarray(len(data) - 7, "<u8", data, 0, (1,))

    def words(self, at: Ints) -> Words:
        """Return the eight bytes at each place as a big-endian number."""
        return self._words[at].byteswap()

    def rows(self, at: Ints, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the bytes at each place as records of a layout of at most 64 bytes."""
        size = layout.itemsize
        whole = np.ndarray(len(self.data) - size + 1, f"V{size}", self.data, 0, (1,))
        return whole[at].view(layout)


class Headers(NamedTuple):
    """TLV headers: type, offset of the value, length, and validity (type up to 252, length up to 65535)."""

    kind: Ints
    start: Ints
    length: Ints
    good: Flags


def headers(octets: Octets, at: Ints) -> Headers:
    """Read the TLV header at each place."""
    word = octets.words(at)
    kind = (word >> np.uint64(56)).view(np.int64)
    length = (word >> np.uint64(48)).view(np.int64) & 0xFF
    start = at + 2
    good = kind < _LONG
    large = np.flatnonzero(length >= _LONG)
    if len(large):
        form = length[large]
        long = (word[large] >> np.uint64(32)).view(np.int64) & 0xFFFF
        good[large] &= (form == _LONG) & (long >= _LONG)
        length[large] = long
        start[large] += 2
    return Headers(kind, start, length, good)


class Grammar:
    """The element types of a packet in their required order, each with its slot, from 1."""

    def __init__(self, *kinds: int) -> None:
        self.slots = {kind: slot for slot, kind in enumerate(kinds, 1)}
        self._of_kind = np.zeros(256, np.int64)
        for kind, slot in self.slots.items():
            self._of_kind[kind] = slot

    def walk(self, octets: Octets, at: Ints, end: Ints) -> "Walked":
        """Walk the elements between `at` and `end` of each packet."""
        count, slots = len(at), len(self.slots) + 1
        starts, lengths = np.zeros(slots * count, np.int64), np.zeros(slots * count, np.int64)
        good = at <= end
        rows = np.flatnonzero(at < end)
        at, end, last = at[rows], end[rows], np.zeros(len(rows), np.int64)
        while len(rows):
            kind, start, length, fine = headers(octets, at)
            slot = self._of_kind[kind]
            at = start + length
            fine &= (slot > last) & (at <= end)
            cell = slot * count + rows
            starts[cell], lengths[cell] = start, length
            if not fine.all():
                good[rows[~fine]] = False
            more = fine & (at < end)
            last = slot
            if not more.all():
                keep = np.flatnonzero(more)
                rows, at, end, last = rows[keep], at[keep], end[keep], last[keep]
        return Walked(self.slots, starts.reshape(slots, count), lengths.reshape(slots, count), good)


class Walked(NamedTuple):
    """Elements by type: offset of each value (0 if absent), and length."""

    slots: Mapping[int, int]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    good: Flags

    def start(self, kind: int) -> Ints:
        """Return the offsets of the values."""
        row: Ints = self.starts[self.slots[kind]]
        return row

    def length(self, kind: int) -> Ints:
        """Return the lengths; 0 for absent elements."""
        row: Ints = self.lengths[self.slots[kind]]
        return row

    def is_present(self, kind: int) -> Flags:
        """Return a mask of the packets with the element."""
        return self.start(kind) > 0

    def require(self, good: Flags, kind: int, *lengths: int) -> None:
        """Clear the mark of packets whose element has none of the given lengths."""
        length = self.length(kind)
        fits = length == lengths[0]
        for each in lengths[1:]:
            fits |= length == each
        good &= fits | ~self.is_present(kind)

    def number(self, octets: Octets, kind: int, default: int = 0, unit: int = 1) -> Ints:
        """Return NonNegativeIntegers of a type times `unit`, at most LARGEST."""
        start = self.start(kind)
        if not start.any():
            return np.full(len(start), default, np.int64)
        value = numbers(octets, start, self.length(kind))
        value = (
            np.minimum(value, LARGEST // np.uint64(unit) + np.uint64(1)) * np.uint64(unit)
            if unit > 1
            else value
        )
        return np.where(start > 0, np.minimum(value, LARGEST).view(np.int64), default)


def numbers(octets: Octets, start: Ints, length: Ints) -> Words:
    """Return big-endian numbers of 1 to 8 bytes; undefined for other lengths."""
    shift = (64 - 8 * np.clip(length, 1, 8)).astype(np.uint64)
    return octets.words(start) >> shift


NNI = (1, 2, 4, 8)
"""Valid lengths of a NonNegativeInteger."""


def is_nni(length: Ints) -> Flags:
    """Return a mask of valid NonNegativeInteger lengths."""
    fits: Flags = (length == 1) | (length == 2) | (length == 4) | (length == 8)
    return fits
