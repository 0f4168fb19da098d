"""Arrow columns as numpy arrays of numbers, for computations over all rows at once."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from captures.formats.records import Flags, Ints


def with_codes(table: pa.Table) -> pa.Table:
    """Return a table with its texts as dictionaries; bytes stay as they are."""
    columns = [
        pc.dictionary_encode(column) if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def compact(table: pa.Table) -> pa.Table:
    """Return a table whose dictionaries hold only the values in use, as those of a slice do not."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return with_codes(pa.Table.from_arrays(columns, names=table.column_names))


def encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return texts as a dictionary array without duplicates."""
    whole = pc.dictionary_encode(column).unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return whole


def numbers(column: pa.Array) -> Ints:
    """Return the indices of a dictionary array, or plain numbers; -1 for null."""
    if pa.types.is_dictionary(column.type):
        column = column.indices
    found: Ints = np.asarray(pc.fill_null(column, -1)).astype(np.int64)
    return found


def values(column: pa.ChunkedArray, missing: int) -> Ints:
    """Return numbers or flags, with `missing` for null."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if column.null_count:
        column = pc.fill_null(column, missing)
    found: Ints = column.to_numpy().astype(np.int64, copy=False)
    return found


def coded(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return a number for each text, -1 for null, and the texts."""
    texts = encoded(column)
    return numbers(texts), texts.dictionary


def joint(*parts: Ints) -> Ints:
    """Return dense numbers from 0, equal where all parts are equal."""
    codes = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        of_part = _dense(part)
        codes = _dense(codes * (of_part.max(initial=0) + 1) + of_part)
    return codes


def _dense(part: Ints) -> Ints:
    return numbers(pa.array(part).dictionary_encode())


def groups_of(rows: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of each group of equal keys, in their order."""
    rows = rows.combine_chunks()
    group = joint(*(numbers(encoded(rows[key])) for key in keys))
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(starts(group[order])).tolist()
    for begin, end in pairwise([*begins, len(rows)]):
        yield rows if len(begins) == 1 else rows.take(pa.array(order[begin:end]))


def starts(*columns: Ints) -> Flags:
    """Return where stretches of rows begin that are equal in all columns."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(True, differs)[: len(columns[0])]


def highest_so_far(begins: Flags, column: Ints) -> Ints:
    """Return the running maximum of each stretch that begins where `begins` is set."""
    if not len(column):
        return column
    by_value = np.argsort(column, kind="stable")
    rank = np.empty_like(by_value)
    rank[by_value] = np.arange(len(column))
    base = (np.cumsum(begins) - 1) * len(column)
    highest: Ints = column[by_value][np.maximum.accumulate(base + rank) - base]
    return highest


def places_in_order(texts: pa.Array) -> Ints:
    """Return the place of each text in their order of bytes; the last number is that of null, -1."""
    places = np.empty(len(texts) + 1, np.int64)
    places[pc.sort_indices(texts).to_numpy()] = np.arange(len(texts))
    places[-1] = -1
    return places
