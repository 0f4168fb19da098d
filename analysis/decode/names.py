"""Names of many packets: each distinct name is formatted once as a URI.

The same names occur at every hop and in both directions, and distinct names often differ in a numeric last
component only. So a name is split into prefix and last component: Arrow hashes names and prefixes, Python
formats each distinct prefix, and Arrow formats the numbers of all names at once.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.decode.reference import LARGEST
from analysis.decode.tlv_batch import Octets, headers, is_nni, numbers
from captures.formats.records import Ints
from forwarder.wire.feed import KEY_BYTES, LAST_ITEM, item_name, split_item
from forwarder.wire.name import (
    BYTE_OFFSET,
    GENERIC,
    PARAMETERS_DIGEST,
    SEGMENT,
    SEQUENCE,
    TIMESTAMP,
    VERSION,
    to_uri,
)
from forwarder.wire.tlv import MalformedPacket

_MARKS = {SEGMENT: "/seg=", BYTE_OFFSET: "/off=", VERSION: "/v=", TIMESTAMP: "/t=", SEQUENCE: "/seq="}
_PLAIN = re.compile(rb"(?=[^.])[A-Za-z0-9\-_.~]+")
_SLACK = bytes(64)
DIGEST_BYTES = 32


class Names(NamedTuple):
    """Distinct names.

    of: for each packet, the index of its name; uri: the names, a string array; feed: index into `feeds`, -1
    unless a feed item; seq: the item's number; good: whether the name is well formed.
    """

    of: Ints
    uri: pa.Array
    feed: Ints
    feeds: list[str]
    seq: Ints
    good: np.ndarray[tuple[int], np.dtype[np.bool_]]


def distinct(octets: Octets, start: Ints, length: Ints) -> tuple[Ints, pa.Array]:
    """Return for each place the index of its byte string, and the distinct byte strings.

    Places must be ascending and must not overlap.
    """
    # Zero-copy: strings and the gaps between them; then every other one.
    bounds = np.empty(2 * len(start) + 1, np.int32)
    bounds[:-1:2], bounds[1::2] = start, start + length
    bounds[-1] = start[-1] + length[-1] if len(start) else 0
    parts = pa.Array.from_buffers(
        pa.binary(), 2 * len(start), [None, pa.py_buffer(bounds), pa.py_buffer(octets.data)]
    )
    found = parts.take(pa.array(np.arange(0, 2 * len(start), 2))).dictionary_encode()
    return found.indices.to_numpy().astype(np.int64), found.dictionary


def read_names(octets: Octets, start: Ints, length: Ints) -> Names:
    """Read the names at ascending places; `length` is of their TLV-VALUE, at least 1."""
    of, names = distinct(octets, start, length)
    count = len(names)
    if not count:
        nothing = np.zeros(0, np.int64)
        return Names(of, pa.array([], pa.string()), nothing, [], nothing, nothing > 0)
    begin, stop, bare = _spans(names)
    last, before, good = _last_components(bare, begin, stop)
    kind, value, size, _ = headers(bare, last)
    number = numbers(bare, value, size)
    # Shortest form of a number, and a type formatted as a number.
    shortest = (size == 1) | ((size == 2) & (number > 0xFF)) | ((size == 4) & (number > 0xFFFF))
    shortest |= (size == 8) & (number > 0xFFFF_FFFF)
    marked = np.zeros(256, bool)
    marked[list(_MARKS)] = True
    is_number = good & marked[kind] & is_nni(size) & shortest

    prefix_of, prefixes = distinct(bare, begin, last - begin)
    uris = [_prefix(prefix) for prefix in prefixes.to_pylist()]
    good &= np.array([uri is not None for uri in uris])[prefix_of]
    is_number &= good
    marks = np.array([_MARKS.get(each, "") for each in range(256)], object)
    digits = pa.array(number).cast(pa.string())
    stem = pa.array([text or "" for text in uris], pa.string()).take(pa.array(prefix_of))
    uri = pc.binary_join_element_wise(stem, pa.array(marks[kind], pa.string()), digits, "")
    others = np.flatnonzero(~is_number)
    feed, seq = np.full(count, -1, np.int64), np.zeros(count, np.int64)

    # An item: a sequence number after a 32-byte key.
    is_key = np.array([_is_feed(prefix) for prefix in prefixes.to_pylist()])[prefix_of]
    has_key = (before >= begin) & (last - before == KEY_BYTES + 2)
    is_item = is_number & (kind == SEQUENCE) & is_key & has_key & (number > 0) & (number <= LAST_ITEM)
    feed[is_item] = prefix_of[is_item]
    seq[is_item] = np.minimum(number[is_item], np.uint64(LARGEST)).view(np.int64)
    if len(others):
        rest = names.take(pa.array(others)).to_pylist()
        written = [_uri(name) for name in rest]
        good[others] &= np.array([text is not None for text in written])
        mask = np.zeros(count, bool)
        mask[others] = True
        # A placeholder for malformed names, which no packet keeps; Parquet would refuse a null.
        filled = pa.array([text or "" for text in written], pa.string())
        uri = pc.replace_with_mask(uri, pa.array(mask), filled)
    return Names(of, uri, feed, [text or "" for text in uris], seq, good)


def _spans(names: pa.Array) -> tuple[Ints, Ints, Octets]:
    """Return begin and end of each byte string, and all bytes."""
    _, bounds, values = names.buffers()
    bounds = np.frombuffer(bounds, np.int32)[names.offset : names.offset + len(names) + 1].astype(np.int64)
    bare = np.frombuffer(values, np.uint8)[: bounds[-1]]
    return bounds[:-1], bounds[1:], Octets(np.concatenate([bare, np.frombuffer(_SLACK, np.uint8)]))


def _last_components(octets: Octets, begin: Ints, stop: Ints) -> tuple[Ints, Ints, np.ndarray]:
    """Return the offsets of each name's last component and of the one before, and whether all are well
    formed.

    Names with a component type above 252 count as malformed: they are left to the reference decoder.
    """
    last, before = begin.copy(), np.full(len(begin), -1, np.int64)
    good = np.ones(len(begin), bool)
    rows, at, end = np.arange(len(begin)), begin, stop
    while len(rows):
        kind, start, length, fine = headers(octets, at)
        following = start + length
        fine &= ((kind > PARAMETERS_DIGEST) | (kind > 0) & (length == DIGEST_BYTES)) & (following <= end)
        if not fine.all():
            good[rows[~fine]] = False
        before[rows], last[rows] = last[rows], at
        keep = np.flatnonzero(fine & (following < end))
        rows, at, end = rows[keep], following[keep], end[keep]
    return last, before, good


@lru_cache(maxsize=1 << 16)
def _prefix(name: bytes) -> str | None:
    """Return a prefix's URI, "" for no component; None if malformed."""
    return _uri(name) if name else ""


def _uri(name: bytes) -> str | None:
    parts, at = [], 0
    while at + 2 <= len(name) and name[at] == GENERIC and name[at + 1] < 253:
        value = name[at + 2 : at + 2 + name[at + 1]]
        if not _PLAIN.fullmatch(value) or len(value) != name[at + 1]:
            break
        parts.append(value.decode())
        at += 2 + len(value)
    try:
        rest = to_uri(name[at:]) if at < len(name) else ""
    except MalformedPacket:
        return None
    return "/" + "/".join(parts) + rest if parts else rest


@lru_cache(maxsize=1 << 16)
def _is_feed(prefix: bytes) -> bool:
    """Return whether a prefix that ends with a component of 32 bytes is a feed's name."""
    return split_item(item_name(prefix, 1)) is not None
