"""Reads pieces of captures for Spark: some columns of the rows that filters do not exclude."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from analysis.decode.reading import READABLE, NodeRule, Reading
from analysis.spark.parallel import raise_if_stopping
from captures.formats.files import PIECE_BYTES, cut

if TYPE_CHECKING:
    from analysis.decode.reader import ReadStatistics

SMALLEST_PIECE = 1 << 20
FINDINGS = "findings"
"""The kind of rows that tell what was found in a piece."""

Mode = Literal["failfast", "permissive", "findings"]
"""What damage does: it raises CaptureError; it is passed over; it is told. In the last mode each piece has a
row more, of kind FINDINGS, without a layering: its `problem` is JSON, the piece's run, path and start, and
the fields of analysis.decode.reader.ReadStatistics.
"""


def readings(paths: Mapping[str, str], parallelism: int, rule: NodeRule = "interface") -> list[Reading]:
    """Cut captures into pieces of similar size for `parallelism` tasks."""
    share = sum(map(os.path.getsize, paths.values())) // parallelism + 1
    size = max(SMALLEST_PIECE, min(share, PIECE_BYTES))
    return [Reading(name, piece, rule) for name, path in paths.items() for piece in cut(path, size)]


class CapturePieces(InputPartition):
    """Pieces of captures, one after the other."""

    def __init__(self, pieces: Sequence[Reading]) -> None:
        super().__init__(tuple(pieces))
        self.pieces = pieces


class CaptureReader(DataSourceReader):
    """Decodes pieces of captures: some columns of the rows that filters do not exclude."""

    def __init__(
        self,
        pieces: Sequence[Reading],
        names: Sequence[str],
        mode: Mode = "failfast",
        partitions: int | None = None,
    ) -> None:
        self._pieces = pieces
        self._partitions = partitions
        self._names = list(names)
        self._mode = mode
        self._filters: list[Any] = []

    def pushFilters(self, filters: list[Any]) -> Iterable[Filter]:  # noqa: N802
        """Take the filters that this reader can apply; return the others."""
        for each in filters:
            if type(each) in _APPLIED and len(each.attribute) == 1:
                self._filters.append(each)
            else:
                yield each

    def partitions(self) -> list[InputPartition]:
        """Return the pieces of the runs that filters do not exclude, in one partition at least."""
        pieces = list(self._pieces)
        for each in self._filters:
            if each.attribute == ("layering",) and self._mode != "findings":
                runs = pa.array([piece.run for piece in pieces], pa.string())
                chosen = _APPLIED[type(each)](runs, each).to_pylist()
                pieces = [piece for piece, is_chosen in zip(pieces, chosen, strict=True) if is_chosen]
        count = min(len(pieces), self._partitions or len(pieces))
        borders = [len(pieces) * place // count for place in range(count + 1)] if pieces else [0, 0]
        return [CapturePieces(pieces[begin:end]) for begin, end in pairwise(borders)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of pieces."""
        assert isinstance(partition, CapturePieces)
        for reading in partition.pieces:
            yield from self._read(reading)

    def _read(self, reading: Reading) -> Iterator[pa.RecordBatch]:
        # Not for processes that plan: see analysis.decode.reading.
        from analysis.decode.reader import ReadStatistics, plain, read_packets, strictly

        found = ReadStatistics()
        needed = dict.fromkeys([*self._names, *(each.attribute[0] for each in self._filters)])
        for batch in read_packets(reading, found, list(needed)):
            raise_if_stopping()
            yield from self._selected(plain(batch))
        if self._mode == "failfast":
            strictly(reading.piece.path, found.damages)
        elif self._mode == "findings":
            yield from self._selected(self._findings(reading, found, needed))

    def _findings(self, reading: Reading, found: "ReadStatistics", needed: Iterable[str]) -> pa.RecordBatch:
        said = vars(found) | {"key_logs": [lines.decode("ascii", "replace") for lines in found.key_logs]}
        said |= {"run": reading.run, "path": reading.piece.path, "start": reading.piece.start}
        row = dict.fromkeys(needed) | {"kind": FINDINGS, "problem": json.dumps(said)}
        return pa.RecordBatch.from_pylist([row], pa.schema([READABLE.field(name) for name in needed]))

    def _selected(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for each in self._filters:
            batch = batch.filter(_APPLIED[type(each)](batch[each.attribute[0]], each))
        if len(batch):  # the JVM takes an empty batch for the last
            yield batch.select(self._names)


_APPLIED: dict[type[Filter], Any] = {
    EqualTo: lambda column, this: pc.equal(column, this.value),
    GreaterThan: lambda column, this: pc.greater(column, this.value),
    GreaterThanOrEqual: lambda column, this: pc.greater_equal(column, this.value),
    LessThan: lambda column, this: pc.less(column, this.value),
    LessThanOrEqual: lambda column, this: pc.less_equal(column, this.value),
    In: lambda column, this: pc.is_in(column, pa.array(this.value, column.type), skip_nulls=True),
    IsNull: lambda column, this: pc.is_null(column),
    IsNotNull: lambda column, this: pc.is_valid(column),
    StringStartsWith: lambda column, this: pc.starts_with(column, this.value),
    StringEndsWith: lambda column, this: pc.ends_with(column, this.value),
    StringContains: lambda column, this: pc.match_substring(column, this.value),
}
"""A mask of rows for each kind of filter; null excludes."""
