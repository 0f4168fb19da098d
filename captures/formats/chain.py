"""The chain of blocks in a window of pcapng: traversal, and recovery where it is broken.

Blocks are a multiple of 4 bytes, so a window is walked as 32-bit words. A block's length is at both its ends,
which reveals a broken chain. Passes over the whole window are made once for each byte order and alignment,
and a search never goes back. So any number of breaks costs at most one pass over the window and a constant
for each break.
"""

import struct
import sys
from typing import Final, NamedTuple

import numpy as np

from captures.formats.pcapng import (
    BYTE_ORDER_MAGIC,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    SECTION_HEADER,
)
from captures.formats.records import Ints, Octets

DESCRIBING: Final = (SECTION_HEADER, INTERFACE_DESCRIPTION, DECRYPTION_SECRETS)
"""Blocks that change how later blocks are read."""
LARGEST_BLOCK: Final = 1 << 24
"""In bytes; also Wireshark's limit."""

_NATIVE = "<" if sys.byteorder == "little" else ">"
_LEAST = 12  # bytes of a block without a body
_LEAST_FOUND = 28  # bytes of a block found by a search


class _Words(NamedTuple):
    """A window as words of one byte order and alignment."""

    lengths: memoryview  # all words, for single access
    guess: Ints  # where packet blocks begin that are probably whole
    ends: Ints  # of these
    breaks: Ints  # indices in `guess` of blocks without a successor


class Chain:
    """The blocks in `data[:size]`, followed by captures.formats.records.SLACK more bytes."""

    def __init__(self, data: Octets, size: int) -> None:
        self._data = data
        self._size = size
        self._words: dict[tuple[int, str], _Words] = {}
        self._raw = b""
        self._next: dict[
            bytes, int
        ] = {}  # byte pattern -> its first position from the last search's start on

    def follow(self, start: int, order: str) -> tuple[list[Ints], int, int]:
        """Walk over whole blocks from a byte on; return their positions in runs, the walk's end, and the
        reason.

        The walk ends at a whole block of DESCRIBING, whose type is the reason, or where there is no whole
        block: then the reason is 0.
        """
        shift = start & 3
        lengths, guess, ends, breaks = self._in_words(shift, order)
        runs: list[Ints] = []
        at, count = start - shift >> 2, len(lengths)
        reason = 0
        while at < count - 2:
            first = int(guess.searchsorted(at))
            if first < len(guess) and guess[first] == at:
                stop = int(breaks.searchsorted(first))
                last = int(breaks[stop]) if stop < len(breaks) else len(guess) - 1
                runs.append(guess[first : last + 1] * 4 + shift)
                at = int(ends[last])
                continue
            kind, total = lengths[at], lengths[at + 1]
            end = at + (total >> 2)
            if total < _LEAST or total & 3 or end > count or lengths[end - 1] != total:
                break
            if kind in DESCRIBING:
                if kind != SECTION_HEADER or lengths[at + 2] == BYTE_ORDER_MAGIC:
                    reason = kind
                break
            runs.append(np.array([at * 4 + shift]))
            at = end
        return runs, at * 4 + shift, reason

    def find(self, start: int, order: str, final: bool) -> tuple[int | None, int]:
        """Search for a whole packet block or section header from a byte on.

        Return its position, None if there is none in this window, and the start of the next search. Unless
        the window is `final`, a block that continues in the next window may be whole.
        """
        self._raw = self._raw or self._data[: self._size].tobytes()
        packet, header = (struct.pack(order + "I", kind) for kind in (ENHANCED_PACKET, SECTION_HEADER))
        at = start
        while True:
            packets, headers = self._find(packet, at), self._find(header, at)
            place = min(packets, headers)
            if place == self._size:
                return None, self._size if final else max(start, self._size - 3)
            if self._size - place < 12:  # nor is any after it
                return None, self._size if final else place
            its_order = self.byte_order(place) if place == headers else order
            if its_order is not None:
                (total,) = struct.unpack_from(its_order + "I", self._raw, place + 4)
                if _LEAST_FOUND <= total <= LARGEST_BLOCK and not total & 3:
                    if place + total > self._size:
                        if not final:
                            return None, place
                    elif struct.unpack_from(its_order + "I", self._raw, place + total - 4)[0] == total:
                        return place, place
            at = place + 1

    def byte_order(self, at: int) -> str | None:
        """Return the byte order in a section header, None if invalid."""
        for order in "<>":
            if struct.unpack_from(order + "I", self._data.data, at + 8)[0] == BYTE_ORDER_MAGIC:
                return order
        return None

    def _find(self, sign: bytes, at: int) -> int:
        """Return the first position of a byte pattern from a byte on; the size without one."""
        place = self._next.get(sign, -1)
        if place < at:
            place = self._raw.find(sign, at)
            self._next[sign] = place = self._size if place < 0 else place
        return place

    def _in_words(self, shift: int, order: str) -> _Words:
        """Return the window as words. Nearly all blocks are consecutive packets, so words equal to their
        types, with equal lengths at both ends, are found all at once."""
        found = self._words.get((shift, order))
        if found is not None:
            return found
        octets = self._data[shift : shift + (max(0, self._size - shift) & ~3)]
        words = octets.view(np.uint32) if shift == 0 else octets.copy().view(np.uint32)
        if order != _NATIVE:
            words = words.byteswap()
        guess = np.flatnonzero(words[: max(0, len(words) - 2)] == ENHANCED_PACKET)
        length = words[guess + 1]
        ends = guess + (length >> 2)
        inside = (length >= _LEAST) & (length & 3 == 0) & (ends <= len(words))
        inside &= words[np.where(inside, ends, 1) - 1] == length
        guess, ends = guess[inside], ends[inside]
        breaks = np.flatnonzero(ends[:-1] != guess[1:])
        found = self._words[shift, order] = _Words(words.data, guess, ends, breaks)
        return found
