"""pcapng as arrays: a captures.formats.records.RecordReader.

Section numbers are the draft's. captures/formats/chain.py follows the chain of blocks; packets between two
describing blocks are read all at once, whatever damage is between them.
"""

import struct
from itertools import pairwise

import numpy as np

from base.units import SECOND
from captures.formats.chain import LARGEST_BLOCK, Chain
from captures.formats.pcapng import (
    BYTE_ORDER_MAGIC,
    DECRYPTION_SECRETS,
    END_OF_OPTIONS,
    ENHANCED_PACKET,
    PACKET_FLAGS,
    SECTION_HEADER,
    CaptureError,
    Direction,
    Interface,
    Source,
    read_source,
)
from captures.formats.records import (
    LARGEST_TIME,
    MOST_EMPTY,
    Damage,
    Flags,
    Ints,
    Octets,
    Records,
    add_empty_records,
    join_records,
    no_records,
)

_OBSOLETE, _SIMPLE = 2, 3
_VERSIONS = ((1, 0), (1, 2))  # a minor version of 2 MUST be read as 0 (section 4.1)
_MISFIT = "a packet does not fit its block"
_UNDESCRIBED = "a packet of an interface that is not described"


class BlockReader:
    """A RecordReader of pcapng; `context` has the blocks that describe the section to start in, if any."""

    def __init__(self, context: bytes = b"") -> None:
        self.interfaces: list[Interface] = []
        self.damages: list[Damage] = []
        self.secrets: list[tuple[int, bytes]] = []
        self._order = "<"
        self._readable = False
        self._header = bytearray()
        self._sources: list[Source] = []  # of all sections; those of the current section are from _first on
        self._first = 0
        self._lost: int | None = None  # file offset of the damage being skipped
        self._reason = ""
        if context:
            data = np.frombuffer(context + bytes(64), np.uint8)
            self.parse(data, len(context), -1, True)

    @property
    def is_lost(self) -> bool:
        """Whether it is searching for a record."""
        return self._lost is not None

    @property
    def context(self) -> bytes:
        """The blocks that describe the current section."""
        return bytes(self._header)

    def parse(self, data: Octets, size: int, offset: int, final: bool) -> tuple[Records, int]:
        """Read the blocks in `data[:size]`; see captures.formats.records.RecordReader."""
        chain = Chain(data, size)
        parts: list[Records] = []
        runs: list[Ints] = []
        skipped: list[Damage] = []
        before = len(self.damages)
        at = 0
        while at < size:
            if self._lost is not None:
                place, at = chain.find(at, self._order, final)
                if place is None:
                    break
                skipped.append(Damage(self._lost, offset + place - self._lost, self._reason))
                self._lost = None
            found, at, kind = chain.follow(at, self._order)
            if self._readable:
                runs += found
            if kind:
                self._flush(data, runs, offset, parts)
                at += self._describe(data, at, kind, offset)
                continue
            if at == size:
                break
            order = chain.byte_order(at) if bytes(data[at : at + 4]) == b"\n\r\r\n" else None
            if order is not None and order != self._order and size - at >= 12:
                self._flush(data, runs, offset, parts)
                self._order = order  # the chain continues in the other byte order
                continue
            wait, reason = self._obstacle(data, at, size, final)
            if wait:
                break
            self._lost, self._reason = offset + at, reason
            at = min(at + 4, size)
        if final and self._lost is not None:
            skipped.append(Damage(self._lost, offset + size - self._lost, self._reason))
            self._lost = None
        self._flush(data, runs, offset, parts)
        self.damages[before:] = sorted([*self.damages[before:], *skipped], key=lambda each: each.offset)
        return self._joined(parts), at

    def _joined(self, parts: list[Records]) -> Records:
        parts = [part for part in parts if len(part.at)]
        return join_records(parts) if parts else no_records()

    def _obstacle(self, data: Octets, at: int, size: int, final: bool) -> tuple[bool, str]:
        """Return why the chain stops at `at`: more bytes are needed, or the damage."""
        left = size - at
        if left < 12:
            return not final, "cut off in a block"
        (total,) = struct.unpack_from(self._order + "I", data.data, at + 4)
        if bytes(data[at : at + 4]) == b"\n\r\r\n" and self._word(data, at + 8) != BYTE_ORDER_MAGIC:
            return False, "section header without a byte-order magic"
        if total < 12 or total & 3 or total > LARGEST_BLOCK:
            return False, "impossible block length"
        if total > left:
            return not final, "cut off in a block"
        return False, "the two lengths of a block disagree"

    def _word(self, data: Octets, at: int) -> int:
        (word,) = struct.unpack_from(self._order + "I", data.data, at)
        return int(word)

    def _flush(self, data: Octets, runs: list[Ints], offset: int, parts: list[Records]) -> None:
        """Read the packets in runs of blocks with the same description."""
        if runs:
            at = np.concatenate(runs)
            runs.clear()
            heads = np.ndarray(len(data) - 7, "V8", data, 0, (1,))[at].view(self._order + "u4").reshape(-1, 2)
            kinds, total = heads[:, 0].astype(np.int64), heads[:, 1].astype(np.int64)
            parts.append(self._packets(data, at, total, kinds, offset))

    def _describe(self, data: Octets, at: int, kind: int, offset: int) -> int:
        """Process a block of captures.formats.chain.DESCRIBING; return its size."""
        block = data[at : at + self._word(data, at + 4)].tobytes()
        offset += at
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
                # It counts as an interface all the same.
                source = Source(Interface("", link_type=-1), 10**6, 0)
            self._sources.append(source)
            self.interfaces.append(source.interface)
            self._header += block
        return len(block)

    def _packets(self, data: Octets, at: Ints, total: Ints, kinds: Ints, offset: int) -> Records:
        if (kinds == ENHANCED_PACKET).all():
            return self._enhanced(data, at, total, offset)
        parts = []
        for kind, read in (
            (ENHANCED_PACKET, self._enhanced),
            (_SIMPLE, self._simple),
            (_OBSOLETE, self._obsolete),
        ):
            of_kind = kinds == kind
            if of_kind.any():
                parts.append(read(data, at[of_kind], total[of_kind], offset))
        records = self._joined(parts)
        if len(parts) > 1:  # back into file order
            order = np.argsort(records.at)
            records = Records(*(column[order] for column in records))
        return records

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
            self._add_damages(~good, at, total, offset, _MISFIT)
            self._add_damages(good & ~known, at, total, offset, _UNDESCRIBED)
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
        self._add_damages(~good, at, total, offset, _MISFIT if known else _UNDESCRIBED)
        at, original, captured = at[good], original[good], captured[good]
        nothing = np.zeros(len(at), np.int64)
        return Records(at + 12, captured, original, nothing, nothing + self._first, nothing)

    def _with_bytes(self, at: Ints, total: Ints, captured: Ints, offset: int) -> Ints:
        """Return the rows without runs of more than MOST_EMPTY empty ones; record those as damage."""
        every = np.arange(len(at))
        if captured.all():
            return every
        edges = np.flatnonzero(np.diff(captured == 0, prepend=False, append=False)).reshape(-1, 2)
        runs = edges[edges[:, 1] - edges[:, 0] > MOST_EMPTY].tolist()
        for low, high in runs:
            ends = at[low:high] + total[low:high]
            gaps = (
                np.flatnonzero(ends[:-1] != at[low + 1 : high]) + 1
            )  # of blocks that are no packets, or damaged
            for first, last in pairwise([0, *gaps.tolist(), high - low]):
                begin = int(at[low + first])
                add_empty_records(self.damages, offset + begin, int(ends[last - 1]) - begin)
        return np.delete(every, np.concatenate([every[low:high] for low, high in runs])) if runs else every

    def _add_damages(self, bad: Flags, at: Ints, total: Ints, offset: int, reason: str) -> None:
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


def _nanoseconds(units: np.ndarray[tuple[int], np.dtype[np.uint64]], source: Source) -> Ints:
    """Return time stamps in nanoseconds; with Python's integers where 64 bits do not suffice."""
    largest = int(units.max(initial=0))
    rate, offset = source.per_second, source.offset_ns
    if SECOND % rate == 0 and largest * (SECOND // rate) + abs(offset) <= LARGEST_TIME:
        return units.astype(np.int64) * (SECOND // rate) + offset
    exact = (unit * SECOND // rate + offset for unit in units.tolist())
    return np.array([max(-LARGEST_TIME, min(time, LARGEST_TIME)) for time in exact], np.int64)
