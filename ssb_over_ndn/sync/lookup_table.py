"""An invertible Bloom lookup table, which tells in what two sets of keys differ (PSync's)."""

import struct
import zlib
from typing import Final, NamedTuple

from mmh3 import hash as murmur3

from forwarder.wire.tlv import MalformedPacket

CHECK_SEED: Final = 11
"""The seed of the hash by which a cell with a single key is known."""

_HASHES = 3
_CELL = struct.Struct(">iII")
_KEY = struct.Struct("<I")


class Difference(NamedTuple):
    """What two tables differ in.

    Attributes:
        is_whole: the keys below are all.
        ours, theirs: keys that only the first, or the second, has.
    """

    is_whole: bool
    ours: set[int]
    theirs: set[int]


class Table:
    """An invertible Bloom lookup table of 32-bit keys (Eppstein et al., "What's the difference?", 2011).

    Args:
        entries: keys in which two tables may differ for the difference to be found, most times.
    """

    def __init__(self, entries: int) -> None:
        cells = entries + entries // 2
        cells += -cells % _HASHES
        self._counts = [0] * cells
        self._keys = [0] * cells
        self._checks = [0] * cells

    def add(self, key: int, times: int = 1) -> None:
        """Add a key; `times` -1: remove it."""
        wire = _KEY.pack(key)
        check = murmur3(wire, CHECK_SEED, signed=False)
        part = len(self._counts) // _HASHES
        for n in range(_HASHES):
            at = n * part + murmur3(wire, n, signed=False) % part
            self._counts[at] += times
            self._keys[at] ^= key
            self._checks[at] ^= check

    def difference(self, other: "Table") -> Difference:
        """Return the difference to another table of the same size."""
        rest = Table(0)
        rest._counts = [a - b for a, b in zip(self._counts, other._counts, strict=True)]
        rest._keys = [a ^ b for a, b in zip(self._keys, other._keys, strict=True)]
        rest._checks = [a ^ b for a, b in zip(self._checks, other._checks, strict=True)]
        found: dict[int, int] = {}
        while (pure := rest._pure()) is not None:
            key, times = pure
            if key in found:  # no sum of keys
                break
            found[key] = times
            rest.add(key, -times)
        ours = {key for key, times in found.items() if times == 1}
        return Difference(not rest, ours, found.keys() - ours)

    def _pure(self) -> tuple[int, int] | None:
        """Return the key of a cell with a single one, and how often it is there: 1 or -1."""
        for count, key, check in zip(self._counts, self._keys, self._checks, strict=True):
            if count in (1, -1) and murmur3(_KEY.pack(key), CHECK_SEED, signed=False) == check:
                return key, count
        return None

    def __bool__(self) -> bool:
        return any(self._counts) or any(self._keys) or any(self._checks)

    def encode(self) -> bytes:
        """Return its cells in order, compressed."""
        cells = zip(self._counts, self._keys, self._checks, strict=True)
        return zlib.compress(b"".join(_CELL.pack(*cell) for cell in cells), 9)

    def decode(self, value: bytes) -> "Table":
        """Return an encoded table of the same size; raise MalformedPacket if there is none."""
        wire = decompress(value, _CELL.size * len(self._counts))
        if len(wire) != _CELL.size * len(self._counts):
            raise MalformedPacket("a table of another size")
        table = Table(0)
        cells = [*_CELL.iter_unpack(wire)]
        table._counts = [count for count, _, _ in cells]
        table._keys = [key for _, key, _ in cells]
        table._checks = [check for _, _, check in cells]
        return table

    def size(self) -> int:
        """Return its bytes."""
        return _CELL.size * len(self._counts)


def decompress(value: bytes, most: int) -> bytes:
    """Decompress by zlib; raise MalformedPacket if that fails, or for more than `most` bytes."""
    inflater = zlib.decompressobj()
    try:
        wire = inflater.decompress(value, most + 1)
    except zlib.error as error:
        raise MalformedPacket("not compressed by zlib") from error
    if not inflater.eof or len(wire) > most:
        raise MalformedPacket("compressed content that is cut off, or too large")
    return wire
