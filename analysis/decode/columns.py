"""Columns of a table under construction: arrays with a validity mask."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.packet_schema import COLUMNS
from captures.formats.records import Flags, Ints

_ARROW = {"string": pa.string(), "binary": pa.binary()}
_TYPES = {column.name: column.type for column in COLUMNS}


class Columns:
    """Columns of analysis.packet_schema for a number of rows; unset values are null.

    Each distinct text or binary value is stored once; rows hold its index, or -1.
    """

    def __init__(self, count: int, names: Sequence[str]) -> None:
        self.count = count
        self._names = names
        self._values: dict[str, Ints] = {}
        self._there: dict[str, Flags] = {}
        self._texts: dict[str, list[pa.Array]] = {}

    def put(self, name: str, rows: Ints, values: Ints | Flags | int) -> None:
        """Set numbers or flags of rows in ascending order (as in all methods)."""
        if len(rows) == self.count:  # ascending order: these are all rows
            self._values[name] = np.empty(self.count, np.int64)
            self._values[name][:] = values
            self._there[name] = np.ones(self.count, bool)
            return
        if name not in self._values:
            self._values[name] = np.zeros(self.count, np.int64)
            self._there[name] = np.zeros(self.count, bool)
        self._values[name][rows] = values
        self._there[name][rows] = True

    def put_where(self, name: str, rows: Ints, there: Flags, values: Ints) -> None:
        """Set numbers of the rows where `there` is true."""
        if there.all():
            self.put(name, rows, values)
        elif there.any():
            self.put(name, rows[there], values[there])

    def put_texts(self, name: str, rows: Ints, which: Ints | int, values: Sequence[Any] | pa.Array) -> None:
        """Set texts (or bytes) of rows, given as indices into `values`."""
        if name not in self._values:
            self._values[name] = np.full(self.count, -1, np.int64)
            self._texts[name] = []
        known = self._texts[name]
        self._values[name][rows] = which + sum(map(len, known))
        known.append(values if isinstance(values, pa.Array) else pa.array(values, _ARROW[_TYPES[name]]))

    def has_text(self, name: str) -> Flags:
        """Return a mask of the rows with a text."""
        there: Flags = self._values.get(name, np.full(self.count, -1)) >= 0
        return there

    def of(self, name: str) -> tuple[Ints, Flags]:
        """Return numbers and their validity mask."""
        if name not in self._values:
            return np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        return self._values[name], self._there[name]

    def replace(self, rows: Ints, records: Sequence[tuple[Any, ...]]) -> None:
        """Set every column of given rows."""
        for name, values in zip(self._names, zip(*records, strict=True), strict=True):
            if _TYPES[name] in ("string", "binary"):
                numbers: dict[Any, int] = {None: -1}
                which = [numbers.setdefault(value, len(numbers) - 1) for value in values]
                if name in self._values:
                    self._values[name][rows] = -1
                texts = list(numbers)[1:]
                if texts:
                    some = np.array(which)
                    self.put_texts(name, rows[some >= 0], some[some >= 0], texts)
                continue
            if name in self._there:
                self._there[name][rows] = False
            there = np.array([value is not None for value in values])
            if there.any():
                self.put(
                    name, rows[there], np.array([value for value in values if value is not None], np.int64)
                )

    def arrays(self) -> list[pa.Array]:
        """Return the columns, texts as dictionaries."""
        return [self._array(name, _TYPES[name]) for name in self._names]

    def _array(self, name: str, kind: str) -> pa.Array:
        if kind in ("string", "binary"):
            known = self._texts.get(name)
            texts = pa.concat_arrays(known) if known else pa.array([], _ARROW[kind])
            if name not in self._values:
                return pa.DictionaryArray.from_arrays(pa.nulls(self.count, pa.int32()), texts)
            which = self._values[name].astype(np.int32)
            indices = _nullable(pa.int32(), which, which >= 0)
            return pa.DictionaryArray.from_arrays(indices, texts)
        if name not in self._values:
            return pa.nulls(self.count, pa.int64() if kind == "int64" else pa.bool_())
        values, there = self._values[name], self._there[name]
        if kind == "bool":
            return _nullable(pa.bool_(), np.packbits(values != 0, bitorder="little"), there)
        return _nullable(pa.int64(), values, there)


def _nullable(kind: pa.DataType, values: npt.NDArray[Any], there: Flags) -> pa.Array:
    """Return an Arrow array that shares the memory of the values."""
    if there.all():
        return pa.Array.from_buffers(kind, len(there), [None, pa.py_buffer(values)], 0)
    bits = np.packbits(there, bitorder="little")
    return pa.Array.from_buffers(kind, len(there), [pa.py_buffer(bits), pa.py_buffer(values)])
