"""The capturing end of a link, inferred from addresses.

A plain pcap has no directions. But the capturing node takes part in all traffic of its interface, and if it
has several neighbours, it is the only node that does.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from analysis.decode.batch import DECODED, decode_records
from analysis.decode.reader import COOKED, among, is_loopback
from analysis.decode.reading import Reading
from captures.formats.files import read_piece
from captures.formats.pcapng import Direction
from captures.layers.layers import is_group

NEARLY_ALL = 0.95
"""Minimum share of frames that involve the local address."""

WINDOWS = 4
"""Windows (captures.formats.records) sampled from a capture."""

_Pairs = Counter[tuple[str, str]]


def infer_local_addresses(readings: Sequence[Reading]) -> dict[str, dict[str, str]]:
    """Return the inferred local address for each (capture path, interface).

    That is the unicast address with the largest share, at least NEARLY_ALL, of the frames with NDN and
    unknown direction. Raises OSError and captures.formats.pcapng.CaptureError.
    """
    seen: dict[tuple[str, str], _Pairs] = defaultdict(Counter)
    of: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        of[reading.piece.path].append(reading)
    for path, pieces in of.items():
        count = min(len(pieces), WINDOWS)
        for place in range(count):
            for interface, pairs in _pairs(pieces[place * len(pieces) // count], WINDOWS // count):
                seen[path, interface] += pairs
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for (path, interface), pairs in seen.items():
        if address := local_address(pairs):
            found[path][interface] = address
    return dict(found)


def local_address(pairs: Mapping[tuple[str, str], int]) -> str | None:
    """Return the address in nearly all frames, given the frame count of each address pair; None if there is
    none.
    """
    between = {ends: count for ends, count in pairs.items() if not is_group(ends[1]) and ends[0] != ends[1]}
    taken: Counter[str] = Counter()
    for ends, count in between.items():
        for address in ends:
            taken[address] += count
    ranked = taken.most_common(2)
    if len(ranked) < 2 or ranked[0][1] == ranked[1][1]:
        return None
    return ranked[0][0] if ranked[0][1] >= NEARLY_ALL * sum(between.values()) else None


def _pairs(reading: Reading, most: int) -> Iterator[tuple[str, _Pairs]]:
    for window, interfaces in islice(read_piece(reading.piece, []), most):
        records = window.records
        open_ends = [each.link_type not in COOKED and not each.ipv4 for each in interfaces]
        unknown = np.array([*open_ends, False])[records.source] & (records.direction == Direction.UNKNOWN)
        if not unknown.any():
            continue
        links = [each.link_type for each in interfaces]
        decoded = decode_records(window.data, records, links, reading.ports)
        columns = dict(zip(DECODED, decoded.arrays(), strict=True))
        ends = [_plain(columns[name]) for name in ("src", "dst")]
        unknown &= ~among(columns["kind"], "other".__eq__)
        for index, interface in enumerate(interfaces):
            here = np.flatnonzero(unknown & (records.source == index))
            if len(here):
                table = pa.table([each.take(pa.array(here)) for each in ends], ["src", "dst"]).drop_null()
                counted = table.group_by(["src", "dst"]).aggregate([([], "count_all")])
                pairs = {(row["src"], row["dst"]): row["count_all"] for row in counted.to_pylist()}
                kept = {each: count for each, count in pairs.items() if not all(map(is_loopback, each))}
                yield reading.name_of(interface), Counter(kept)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column.cast(pa.string())
