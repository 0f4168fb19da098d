"""pcapng as arrays: a captures.records.RecordReader.

Sections below are the draft's. Blocks are a multiple of 4 bytes, so a window is walked as 32-bit words; a
block's length stands at both its ends, which tells a broken chain from a whole one for all blocks at once.
"""

import struct
import sys
from itertools import pairwise

import numpy as np

from captures.pcapng import (
    BYTE_ORDER_MAGIC,
    DECRYPTION_SECRETS,
    END_OF_OPTIONS,
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    PACKET_FLAGS,
    SECOND,
    SECTION_HEADER,
    CaptureError,
    Direction,
    Interface,
    Source,
    read_source,
)
from captures.records import (
    LARGEST_TIME,
    MOST_EMPTY,
    Damage,
    Flags,
    Ints,
    Octets,
    Records,
    join_records,
    no_records,
    note_empty,
)

_OBSOLETE, _SIMPLE = 2, 3
_DESCRIBING = (SECTION_HEADER, INTERFACE_DESCRIPTION, DECRYPTION_SECRETS)
_VERSIONS = ((1, 0), (1, 2))  # a minor version of 2 MUST be read as 0 (section 4.1)
_NATIVE = "<" if sys.byteorder == "little" else ">"
_LARGEST_BLOCK = 1 << 24  # Wireshark's limit too
_MISFIT = "a packet does not fit its block"
_UNDESCRIBED = "a packet of an interface that is not described"


class BlockReader:
    """A RecordReader of pcapng; `context` is the blocks that describe the section to start in, if any."""

    def __init__(self, context: bytes = b"") -> None:
        self.interfaces: list[Interface] = []
        self.damages: list[Damage] = []
        self.secrets: list[tuple[int, bytes]] = []
        self._order = "<"
        self._readable = False
        self._header = bytearray()
        self._sources: list[Source] = []  # of all sections; those of this one are from _first on
        self._first = 0
        self._lost: int | None = None  # file offset of the damage that is being skipped
        self._reason = ""
        if context:
            data = np.frombuffer(context + bytes(64), np.uint8)
            self.take(data, len(context), -1, True)

    @property
    def is_lost(self) -> bool:
        """Whether it looks for a record."""
        return self._lost is not None

    @property
    def context(self) -> bytes:
        """The blocks that describe the current section."""
        return bytes(self._header)

    def take(self, data: Octets, size: int, offset: int, final: bool) -> tuple[Records, int]:
        """Read the blocks in `data[:size]`; see captures.records.RecordReader."""
        parts: list[Records] = []
        at = 0
        while at < size:
            if self._lost is not None:
                place = self._recover(data, at, size, final)
                if place is None:
                    if not final:
                        return self._joined(parts), max(at, size - _LARGEST_BLOCK)
                    at = size
                    break
                self._damaged(offset + place)
                at = place
            at = self._chain(data, at, size, offset, parts)
            if at == size:
                break
            wait, reason = self._obstacle(data, at, size, final)
            if wait:
                break
            if reason:
                self._lost, self._reason = offset + at, reason
                at = min(at + 4, size)
        if final and self._lost is not None:
            self._damaged(offset + size)
        return self._joined(parts), at

    def _joined(self, parts: list[Records]) -> Records:
        parts = [part for part in parts if len(part.at)]
        return join_records(parts) if parts else no_records()

    def _obstacle(self, data: Octets, at: int, size: int, final: bool) -> tuple[bool, str]:
        """Say why the chain stops at `at`: whether to wait for more bytes, or what is wrong, or nothing."""
        left = size - at
        if left < 12:
            return not final, "cut off in a block"
        if bytes(data[at : at + 4]) == b"\n\r\r\n":
            order = self._byte_order(data, at)
            if order is None:
                return False, "section header without a byte-order magic"
            if order != self._order:
                self._order = order  # the chain goes on in the other order
                return False, ""
        (total,) = struct.unpack_from(self._order + "I", data.data, at + 4)
        if total < 12 or total & 3 or total > _LARGEST_BLOCK:
            return False, "impossible block length"
        if total > left:
            return not final, "cut off in a block"
        return False, "the two lengths of a block disagree"

    @staticmethod
    def _byte_order(data: Octets, at: int) -> str | None:
        for order in "<>":
            if struct.unpack_from(order + "I", data.data, at + 8)[0] == BYTE_ORDER_MAGIC:
                return order
        return None

    def _recover(self, data: Octets, at: int, size: int, final: bool) -> int | None:
        """Return the first place from `at` on where there is a whole packet block or section header."""
        raw = data[:size].tobytes()
        signs = [struct.pack(self._order + "I", kind) for kind in (ENHANCED_PACKET, SECTION_HEADER)]
        best = None
        for sign in signs:
            place = raw.find(sign, at)
            while place >= 0 and (best is None or place < best):
                if size - place >= 32:
                    order = self._byte_order(data, place) if sign == signs[1] else self._order
                    total = struct.unpack_from((order or "<") + "I", raw, place + 4)[0]
                    whole = order and 28 <= total <= size - place and not total & 3
                    if whole and struct.unpack_from(f"{order}I", raw, place + total - 4)[0] == total:
                        best = place
                        break
                place = raw.find(sign, place + 1)
        return best

    def _damaged(self, end: int) -> None:
        assert self._lost is not None
        self.damages.append(Damage(self._lost, end - self._lost, self._reason))
        self._lost = None

    def _chain(self, data: Octets, start: int, size: int, offset: int, parts: list[Records]) -> int:
        """Read whole blocks from `start` on, and return where the first that is not whole begins."""
        end = start + (size - start & ~3)
        words = data[start:end].view(np.uint32) if start % 4 == 0 else data[start:end].copy().view(np.uint32)
        if self._order != _NATIVE:
            words = words.byteswap()
        places, at = _walk(words)
        total = words[places + 1].astype(np.int64)
        kinds = words[places].astype(np.int64)
        broken = (total < 12) | (total & 3 != 0) | (words[places + (total >> 2) - 1] != total)
        heads = np.flatnonzero(kinds == SECTION_HEADER)
        broken[heads] |= words[np.minimum(places[heads] + 2, len(words) - 1)] != BYTE_ORDER_MAGIC
        stops = np.flatnonzero(broken)
        count = int(stops[0]) if len(stops) else len(places)
        stop = start + 4 * (int(places[count]) if count < len(places) else at)
        places, total, kinds = places[:count] * 4 + start, total[:count], kinds[:count]
        # A block that describes the section changes how those after it are read.
        marks = np.flatnonzero(np.isin(kinds, _DESCRIBING)).tolist()
        for low, high in pairwise([-1, *marks, count]):
            if low >= 0:
                at, length = int(places[low]), int(total[low])
                self._describe(data[at : at + length].tobytes(), int(kinds[low]), offset + at)
            if high > low + 1 and self._readable:
                here = slice(low + 1, high)
                parts.append(self._packets(data, places[here], total[here], kinds[here], offset))
        return stop

    def _describe(self, block: bytes, kind: int, offset: int) -> None:
        if kind == SECTION_HEADER:
            version = struct.unpack_from(self._order + "HH", block, 12) if len(block) >= 28 else (0, 0)
            self._readable = version in _VERSIONS
            self._header = bytearray(block)
            self._first = len(self._sources)
            if not self._readable:
                self.damages.append(
                    Damage(offset, len(block), f"section of version {version[0]}.{version[1]}")
                )
        elif self._readable and kind == DECRYPTION_SECRETS:
            secrets, length = struct.unpack_from(self._order + "II", block, 8) if len(block) >= 20 else (0, 0)
            if length > len(block) - 20:
                self.damages.append(Damage(offset, len(block), "secrets do not fit their block"))
            else:
                self.secrets.append((secrets, block[16 : 16 + length]))
        elif self._readable:
            try:
                source = read_source(block, 0, len(block), self._order)
            except CaptureError as error:
                self.damages.append(Damage(offset, len(block), f"interface description: {error.reason}"))
                # It has a number all the same.
                source = Source(Interface("", link_type=-1), 10**6, 0)
            self._sources.append(source)
            self.interfaces.append(source.interface)
            self._header += block

    def _packets(self, data: Octets, at: Ints, total: Ints, kinds: Ints, offset: int) -> Records:
        if (kinds == ENHANCED_PACKET).all():
            return self._enhanced(data, at, total, offset)
        packets = np.isin(kinds, (ENHANCED_PACKET, _SIMPLE, _OBSOLETE))
        at, total, kinds = at[packets], total[packets], kinds[packets]
        # Runs of one kind, to keep the order of the file.
        cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
        parts = []
        for low, high in pairwise(cuts):
            here = slice(low, high)
            if high > low:
                read = {ENHANCED_PACKET: self._enhanced, _OBSOLETE: self._obsolete, _SIMPLE: self._simple}
                parts.append(read[int(kinds[low])](data, at[here], total[here], offset))
        return self._joined(parts)

    def _fields(self, data: Octets, at: Ints, count: int) -> list[Ints]:
        """Return the 32-bit numbers after each block's type and length."""
        rows = np.ndarray(len(data) - 27, "V28", data, 0, (1,))
        fields = rows[at].view(self._order + "u4").reshape(-1, 7)
        return [fields[:, 2 + column].astype(np.int64) for column in range(count)]

    def _obsolete(self, data: Octets, at: Ints, total: Ints, offset: int) -> Records:
        return self._enhanced(data, at, total, offset, is_obsolete=True)

    def _enhanced(
        self, data: Octets, at: Ints, total: Ints, offset: int, is_obsolete: bool = False
    ) -> Records:
        """Read Enhanced Packet Blocks (4.3), or obsolete Packet Blocks, whose interface has half the bits."""
        index, high, low, captured, original = self._fields(data, at, 5)
        if is_obsolete:
            index = index >> 16 if self._order == ">" else index & 0xFFFF
        options = at + 28 + (captured + 3 & ~3)
        limit = at + total - 4
        good = (total >= 32) & (options <= limit)
        known = index < len(self._sources) - self._first
        if not (good & known).all():
            self._note(~good, at, total, offset, _MISFIT)
            self._note(good & ~known, at, total, offset, _UNDESCRIBED)
            good &= known
            at, total, index, high, low = at[good], total[good], index[good], high[good], low[good]
            captured, original, options, limit = captured[good], original[good], options[good], limit[good]
        if len(kept := self._with_bytes(at, total, captured, offset)) < len(at):
            at, index, high, low = at[kept], index[kept], high[kept], low[kept]
            captured, original, options, limit = captured[kept], original[kept], options[kept], limit[kept]
        source = index + self._first
        time = self._times(source, high, low)
        direction = self._directions(data, options, limit)
        return Records(at + 28, captured, np.maximum(original, captured), time, source, direction)

    def _simple(self, data: Octets, at: Ints, total: Ints, offset: int) -> Records:
        """Read Simple Packet Blocks (4.4): of the first interface, without a time."""
        (original,) = self._fields(data, at, 1)
        known = len(self._sources) > self._first
        snaplen = (self._sources[self._first].interface.snaplen if known else 0) or LARGEST_TIME
        captured = np.minimum(original, snaplen)
        good = (total >= 16) & (captured <= total - 16) & known
        self._note(~good, at, total, offset, _MISFIT if known else _UNDESCRIBED)
        at, original, captured = at[good], original[good], captured[good]
        nothing = np.zeros(len(at), np.int64)
        return Records(at + 12, captured, original, nothing, nothing + self._first, nothing)

    def _with_bytes(self, at: Ints, total: Ints, captured: Ints, offset: int) -> Ints:
        """Return the rows that are not among more than MOST_EMPTY empty ones; note those as damage."""
        every = np.arange(len(at))
        if captured.all():
            return every
        edges = np.flatnonzero(np.diff(captured == 0, prepend=False, append=False)).reshape(-1, 2)
        runs = edges[edges[:, 1] - edges[:, 0] > MOST_EMPTY].tolist()
        for low, high in runs:
            begin, end = int(at[low]), int(at[high - 1] + total[high - 1])
            note_empty(self.damages, offset + begin, end - begin)
        return np.delete(every, np.concatenate([every[low:high] for low, high in runs])) if runs else every

    def _note(self, bad: Flags, at: Ints, total: Ints, offset: int, reason: str) -> None:
        for row in np.flatnonzero(bad).tolist():
            self.damages.append(Damage(offset + int(at[row]), int(total[row]), reason))

    def _times(self, source: Ints, high: Ints, low: Ints) -> Ints:
        units = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        used = np.flatnonzero(np.bincount(source)).tolist()
        meanings = {(self._sources[each].per_second, self._sources[each].offset_ns) for each in used}
        if meanings == {(SECOND, 0)}:
            same: Ints = np.minimum(units, np.uint64(LARGEST_TIME)).astype(np.int64)
            return same
        time = np.empty(len(units), np.int64)
        for each in used:
            rows = np.flatnonzero(source == each)
            time[rows] = _nanoseconds(units[rows], self._sources[each])
        return time

    def _directions(self, data: Octets, options: Ints, limit: Ints) -> Ints:
        """Return the direction in each block's epb_flags (4.3.1), nearly always the first option."""
        rows = np.ndarray(len(data) - 7, "V8", data, 0, (1,))
        room = limit - options
        heads = rows[np.minimum(options, len(data) - 8)].view(self._order + "u2").reshape(-1, 4)
        flags = heads[:, 2 if self._order == "<" else 3] & 3
        is_flags = (heads[:, 0] == PACKET_FLAGS) & (heads[:, 1] == 4) & (room >= 8)
        direction = np.where(is_flags & (flags < 3), flags, 0).astype(np.int64)
        for row in np.flatnonzero(~is_flags & (room >= 8) & (heads[:, 0] != END_OF_OPTIONS)).tolist():
            direction[row] = self._later_flags(data, int(options[row]), int(limit[row]))
        return direction

    def _later_flags(self, data: Octets, at: int, limit: int) -> int:
        while at + 8 <= limit:
            code, length, flags = struct.unpack_from(self._order + "HHI", data.data, at)
            if code == PACKET_FLAGS and length == 4:
                return int(flags & 3) if flags & 3 < 3 else Direction.UNKNOWN
            if code == END_OF_OPTIONS:
                break
            at += 4 + length + (-length & 3)
        return Direction.UNKNOWN


def _walk(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> tuple[Ints, int]:
    """Follow the chain of blocks from the first word on; return where blocks begin, and where the chain
    stops.

    A length may be wrong in any way but one: it leads on. Nearly all blocks are packets that follow each
    other, so words that look like their type, with a length that is there at both ends, are found first, and
    runs of them that lead from one to the next are taken as they are.
    """
    guess = np.flatnonzero(words[: max(0, len(words) - 2)] == ENHANCED_PACKET)
    length = words[guess + 1]
    ends = guess + (length >> 2)
    inside = (length >= 12) & (ends <= len(words))
    inside &= words[np.where(inside, ends, 1) - 1] == length
    guess, ends = guess[inside], ends[inside]
    breaks = np.flatnonzero(ends[:-1] != guess[1:])
    lengths, runs = words.data, []
    at, last = 0, len(words) - 2
    while at < last:
        first = int(guess.searchsorted(at))
        if first < len(guess) and guess[first] == at:
            stop = int(breaks.searchsorted(first))
            end = int(breaks[stop]) + 1 if stop < len(breaks) else len(guess)
            runs.append(guess[first:end])
            at = int(ends[end - 1])
        else:
            runs.append(np.array([at]))
            at += lengths[at + 1] >> 2 or len(words)
    places = np.concatenate(runs) if runs else np.zeros(0, np.int64)
    if at > len(words):  # the last one is not whole, or has no length
        at, places = int(places[-1]), places[:-1]
    return places, at


def _nanoseconds(units: np.ndarray[tuple[int], np.dtype[np.uint64]], source: Source) -> Ints:
    """Return stamps in nanoseconds; by Python's integers where 64 bits do not do."""
    largest = int(units.max(initial=0))
    rate, offset = source.per_second, source.offset_ns
    if SECOND % rate == 0 and largest * (SECOND // rate) + abs(offset) <= LARGEST_TIME:
        return units.astype(np.int64) * (SECOND // rate) + offset
    exact = (unit * SECOND // rate + offset for unit in units.tolist())
    return np.array([max(-LARGEST_TIME, min(time, LARGEST_TIME)) for time in exact], np.int64)
