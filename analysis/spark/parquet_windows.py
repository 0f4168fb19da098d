"""Parquet in windows of ascending time, whatever the order of rows in the files.

Row groups are read by their least times. Rows before the least time of all unread groups are complete: no
later group can add to them. So memory is bounded by a few row groups, and no file has to be sorted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.spark.parquet import directories

WINDOW = 1 << 19
"""Minimum number of rows per window."""

_TEXTS = ("node", "interface", "direction", "kind", "name", "feed")


class Group(NamedTuple):
    """A row group of a file, with its least time; `texts` are the values of its directories; has_prefixes:
    whether it may contain CanBePrefix.
    """

    least: int
    path: str
    number: int
    rows: int
    texts: Mapping[str, str | None]
    has_prefixes: bool = True


def in_windows(
    groups: Sequence[Group], columns: Sequence[str], keep: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> Iterator[pa.Table]:
    """Yield the rows of row groups in windows of ascending times; `keep` selects rows of each group."""
    waiting: list[pa.Table] = []
    held = 0
    ordered = sorted(groups, key=lambda group: group.least)
    files: dict[str, pq.ParquetFile] = {}
    left = {path: sum(group.path == path for group in ordered) for path in {g.path for g in ordered}}
    for place, group in enumerate(ordered):
        if group.path not in files:
            coded = [name for name in _TEXTS if name in columns and name not in group.texts]
            files[group.path] = pq.ParquetFile(group.path, read_dictionary=coded)
        waiting.append(keep(_read(files[group.path], group, columns)))
        held += len(waiting[-1])
        left[group.path] -= 1
        if not left[group.path]:
            files.pop(group.path).close()
        if held < WINDOW and place + 1 < len(ordered):
            continue
        whole = pa.concat_tables(waiting)
        if place + 1 < len(ordered):
            is_complete = pc.less(whole["time"], ordered[place + 1].least)
            ready, whole = whole.filter(is_complete), whole.filter(pc.invert(is_complete))
            waiting, held = [whole], len(whole)
        else:
            ready = whole
        if len(ready):
            order = [("time", "ascending")] + [("frame", "ascending")] * ("frame" in columns)
            yield ready.take(pc.sort_indices(ready, order))
    for file in files.values():
        file.close()


def _read(file: pq.ParquetFile, group: Group, columns: Sequence[str]) -> pa.Table:
    there = [name for name in columns if name not in group.texts]
    table = file.read_row_group(group.number, columns=there)
    arrays = []
    for name in columns:
        if name in group.texts:
            indices = pa.array(np.zeros(len(table), np.int32))
            value = group.texts[name]
            if value is None:
                indices = pa.nulls(len(table), pa.int32())
            arrays.append(
                pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array([value or ""]))])
            )
        else:
            arrays.append(table[name])
    return pa.Table.from_arrays(arrays, names=list(columns))


def files_in(table: Path) -> Iterator[tuple[dict[str, str | None], Path]]:
    """Yield the files of a table, in order, each with its partition values."""
    for path in sorted(table.rglob("*.parquet")):
        place = path.relative_to(table)
        if not any(part.startswith(("_", ".")) for part in place.parts):
            yield directories(place), path


def row_groups(path: Path, texts: Mapping[str, str | None]) -> Iterator[tuple[Group, int]]:
    """Yield the row groups of a file, each with its greatest time."""
    with pq.ParquetFile(path) as file:
        meta = file.metadata
        place = file.schema_arrow.get_field_index("time")
        for number in range(meta.num_row_groups):
            found = meta.row_group(number)
            if not found.num_rows:
                continue
            statistics = found.column(place).statistics
            if statistics is None or not statistics.has_min_max:
                times = file.read_row_group(number, columns=["time"])["time"]
                span = pc.min_max(times).as_py()
                low, high = span["min"], span["max"]
            else:
                low, high = statistics.min, statistics.max
            yield Group(low, str(path), number, found.num_rows, texts, _has_prefixes(found, file)), high


def _has_prefixes(group: pq.RowGroupMetaData, file: pq.ParquetFile) -> bool:
    """Return whether Interests of a row group may have CanBePrefix."""
    place = file.schema_arrow.get_field_index("can_be_prefix")
    statistics = group.column(place).statistics if place >= 0 else None
    return statistics is None or (
        bool(statistics.max) if statistics.has_min_max else statistics.null_count < group.num_rows
    )
