"""Captures to record batches of packets, shared by all entry points of the analysis, with or without Spark.

    for batch in read_packets(Reading("mine", piece), findings): ...

A batch is a window's frames, with the columns of analysis.packet_schema and texts as Arrow dictionaries.
Memory is bounded by a window, whatever the capture's size.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.decode.batch import DECODED, decode_records
from analysis.decode.protocols.registry import TCP_OTHER
from analysis.decode.reading import CAPTURE, FRAME_HASH, PAYLOAD, READABLE, SIGHTINGS, Reading, node_of
from analysis.decode.tlv_batch import Octets
from analysis.packet_schema import PACKETS
from captures.formats.files import read_piece
from captures.formats.pcapng import CaptureError, Direction, Interface
from captures.formats.records import Damage, Flags, Ints, Records, Window
from captures.layers.layers import (
    ETHERNET,
    SLL,
    SLL2,
    STATIONS,
    FramePayload,
    frame_payload,
    sll_direction,
)

LATEST = 1 << 62
"""Upper bound on capture times (ns; in the year 2116), so that adding a lifetime cannot overflow."""

NO_TIME = "time stamp out of range"

_DIRECTIONS = pa.array(["in", "out"])
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
COOKED = (SLL, SLL2)
_NODE_INTERFACE = re.compile(r".+-(eth|wlan)\d+")


@dataclass
class ReadStatistics:
    """Statistics of a reading: damage, frame problems by reason, rows by kind, frames with NDN by direction
    (`in`, `out`, `unknown`), frames by protocol, TCP frames, key logs.
    """

    damages: list[Damage] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    directions: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    segments: int = 0
    key_logs: list[bytes] = field(default_factory=list)


def strictly(path: str, damages: Sequence[tuple[int, int, str]]) -> None:
    """Raise CaptureError if a capture is damaged; `damages` are captures.formats.records.Damage."""
    for offset, _, reason in damages:
        raise CaptureError(path, offset, reason)


def read_packets(
    reading: Reading, findings: ReadStatistics, columns: Sequence[str] = tuple(PACKETS.names)
) -> Iterator[pa.RecordBatch]:
    """Yield the packets of a piece of a capture in its order, with some columns of READABLE, texts as
    dictionaries. Frames are decoded, and counted in `findings`, if SIGHTINGS lacks one of the columns, or the
    capture does not tell the direction of all frames.

    A frame with a negative time, or a time from LATEST on, gets the time of the frame before it. Raises
    OSError, and captures.formats.pcapng.CaptureError for a file that is no capture.
    """
    number = reading.piece.first
    for window, interfaces in read_piece(reading.piece, findings.damages, findings.key_logs):
        count = len(window.records.at)
        if count:
            yield _batch(reading, window, interfaces, number, findings, columns)
        number += count


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with texts as plain strings, as Spark requires."""
    return pa.RecordBatch.from_arrays(
        [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ],
        schema=pa.schema([READABLE.field(name) for name in batch.schema.names]),
    )


def _batch(
    reading: Reading,
    window: Window,
    interfaces: list[Interface],
    number: int,
    findings: ReadStatistics,
    wanted: Sequence[str],
) -> pa.RecordBatch:
    records, count = window.records, len(window.records.at)
    absurd = np.flatnonzero((records.time < 0) | (records.time >= LATEST))
    if len(absurd):
        window = window._replace(records=records._replace(time=_without(records.time, absurd)))
    place, names = _interfaces(reading, window, interfaces)
    columns = {
        "layering": _dictionary(np.zeros(count, np.int64), [reading.run]),
        "interface": _dictionary(place, names),
        "frame": pa.array(np.arange(number, number + count)),
        "time": pa.array(window.records.time),
        "frame_bytes": pa.array(records.original),
    }
    direction = records.direction
    if not {*wanted} <= {*SIGHTINGS.names} or (direction == Direction.UNKNOWN).any():
        links = [interface.link_type for interface in interfaces]
        decoded = decode_records(window.data, records, links, reading.ports)
        if len(absurd):
            decoded.put_texts("problem", absurd, 0, [NO_TIME])
        columns |= zip(DECODED, decoded.arrays(), strict=True)
        direction = _directions(reading, window, interfaces, columns["src"], columns["dst"])
        columns["node"] = _nodes(reading, interfaces, records, place, names, direction, columns)
        segments = np.flatnonzero(columns["tcp_seq"].is_valid().to_numpy(zero_copy_only=False))
        _count_rows(findings, columns, direction, len(segments))
        if PAYLOAD in wanted:
            columns[PAYLOAD] = _payloads(window, links, segments, columns["protocol"])
    columns["direction"] = pa.DictionaryArray.from_arrays(
        pa.array((direction - 1).astype(np.int32), mask=direction == Direction.UNKNOWN), _DIRECTIONS
    )
    if CAPTURE in wanted:
        columns[CAPTURE] = _dictionary(np.zeros(count, np.int64), [reading.piece.path])
    if FRAME_HASH in wanted:
        columns[FRAME_HASH] = pa.array(_hashes(window))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in wanted})


def _count_rows(
    findings: ReadStatistics, columns: dict[str, pa.Array], direction: Ints, segments: int
) -> None:
    """Count the rows of a batch."""
    _count(findings.problems, columns["problem"])
    _count(findings.kinds, columns["kind"])
    _count(findings.protocols, columns["protocol"])
    with_ndn = ~among(columns["kind"], "other".__eq__)
    for each, times in enumerate(np.bincount(direction[with_ndn], minlength=3).tolist()):
        findings.directions[("unknown", "in", "out")[each]] += times
    findings.segments += segments


def _hashes(window: Window) -> Ints:
    """Return a hash of the captured bytes of each record, the same in every process."""
    records, octets = window.records, window.data.data
    return np.frombuffer(
        b"".join(
            blake2b(octets[at : at + size], digest_size=8).digest()
            for at, size in zip(records.at.tolist(), records.captured.tolist(), strict=True)
        ),
        np.int64,
    )


def _without(times: Ints, absurd: Ints) -> Ints:
    """Replace absurd times by the last good time before, else by the first good time."""
    place = np.arange(len(times))
    place[absurd] = -1
    first = int(times[place[place >= 0][0]]) if len(absurd) < len(times) else 0
    before = np.maximum.accumulate(place)
    return np.where(before >= 0, times[before], first)


def _dictionary(which: Ints, texts: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), pa.array(texts, pa.string()))


def _count(counter: Counter[str], texts: pa.DictionaryArray) -> None:
    there = texts.indices.drop_null().to_numpy()
    for text, times in zip(
        texts.dictionary.to_pylist(),
        np.bincount(there, minlength=len(texts.dictionary)).tolist(),
        strict=True,
    ):
        if times:
            counter[text] += times


def _interfaces(reading: Reading, window: Window, interfaces: list[Interface]) -> tuple[Ints, list[str]]:
    """Return the interface index of each record, and the interface names."""
    source = window.records.source
    names = [reading.name_of(interface) for interface in interfaces]
    cooked = np.array([interface.link_type == SLL2 for interface in interfaces] or [False])[source]
    if not cooked.any():
        return source, names
    # A capture of all interfaces separates them by number.
    index = (Octets(window.data).words(window.records.at) & np.uint64(0xFFFFFFFF)).view(np.int64)
    keys = source << 33 | np.where(cooked & (window.records.captured >= 8), index + 1, 0)
    distinct, place = np.unique(keys, return_inverse=True)
    named = [(names[key >> 33], key & (1 << 33) - 1) for key in distinct.tolist()]
    return place.astype(np.int64), [f"{name}%{index - 1}" if index else name for name, index in named]


def _directions(
    reading: Reading, window: Window, interfaces: list[Interface], src: pa.Array, dst: pa.Array
) -> Ints:
    """Return each frame's direction: as recorded, else from the cooked header or the node's addresses.

    Traffic of a node with itself has no direction.
    """
    records = window.records
    direction = records.direction
    unknown = direction == Direction.UNKNOWN
    if not unknown.any():
        return direction
    direction = direction.copy()
    for index, interface in enumerate(interfaces):
        here = unknown & (records.source == index)
        if not here.any():
            continue
        if interface.link_type in COOKED:
            at = records.at[here]
            heads = [
                window.data[place : place + size].tobytes()
                for place, size in zip(at, np.minimum(20, records.captured[here]), strict=True)
            ]
            direction[here] = [sll_direction(head, interface.link_type) for head in heads]
        for address in _own(reading, interface):
            sent, received = _at_ends(address, window, interface, src, dst)
            direction[here & (direction == Direction.UNKNOWN) & sent] = Direction.OUT
            direction[here & (direction == Direction.UNKNOWN) & received] = Direction.IN
    to_itself = unknown & among(src, is_loopback) & among(dst, is_loopback)
    direction[to_itself] = Direction.UNKNOWN
    return direction


def _own(reading: Reading, interface: Interface) -> Iterator[str]:
    """Yield the known addresses of the node at an interface."""
    if interface.ipv4:
        yield interface.ipv4.partition("/")[0]
    name = reading.name_of(interface)
    of = ("", name, node_of(name), reading.file_name, node_of(reading.file_name))
    yield from (address for where, address in reading.local if where in of)


def _at_ends(
    address: str, window: Window, interface: Interface, src: pa.Array, dst: pa.Array
) -> tuple[Flags, Flags]:
    """Return masks of the frames sent from, and to, an address."""
    if _MAC.fullmatch(address) is None:
        return among(src, address.__eq__), among(dst, address.__eq__)
    records = window.records
    ends = []
    for place in STATIONS[ETHERNET] if interface.link_type == ETHERNET else ():
        there = records.captured >= place.stop
        words = Octets(window.data).words(np.where(there, records.at + place.start, 0)) >> np.uint64(16)
        ends.append(there & (words == np.uint64(int(address.replace(":", ""), 16))))
    return (ends[0], ends[1]) if ends else (np.zeros(len(src), bool), np.zeros(len(dst), bool))


def among(addresses: pa.Array, belongs: Callable[[str], bool]) -> Flags:
    """Return a mask of the dictionary texts that satisfy a predicate."""
    is_such = np.array([*map(belongs, addresses.dictionary.to_pylist()), False])
    chosen: Flags = is_such[addresses.indices.fill_null(-1).to_numpy()]
    return chosen


def is_loopback(address: str) -> bool:
    """Return whether an address is a loopback address."""
    return address.startswith("127.") or address == "::1"


def _nodes(
    reading: Reading,
    interfaces: list[Interface],
    records: Records,
    place: Ints,
    names: list[str],
    direction: Ints,
    columns: dict[str, pa.Array],
) -> pa.DictionaryArray:
    file = node_of(reading.file_name)
    if reading.rule == "address":
        src, dst, kind = (columns[name].dictionary_decode() for name in ("src", "dst", "kind"))
        nodes = pc.if_else(pa.array(direction == Direction.IN), dst, src)
        # The number of strangers is unbounded.
        nodes = pc.if_else(pc.equal(kind, "other"), pa.scalar(None, pa.string()), nodes)
        return nodes.fill_null("unknown").dictionary_encode()
    if reading.rule == "file":
        return _dictionary(np.zeros(len(place), np.int64), [file])
    by_name = [node_of(name.partition("%")[0]) for name in names]
    if reading.rule == "auto":
        by_name = [
            node if _NODE_INTERFACE.fullmatch(name) else file
            for node, name in zip(by_name, names, strict=True)
        ]
    return _dictionary(place, by_name)


def _payloads(window: Window, links: list[int], rows: Ints, protocols: pa.DictionaryArray) -> pa.Array:
    """Return the payloads of the TCP frames among the records of a window; others have none."""
    records = window.records
    payloads: list[bytes | None] = [None] * len(records.at)
    known = protocols.take(pa.array(rows)).to_pylist()
    for row, protocol in zip(rows.tolist(), known, strict=True):
        payloads[row] = b""
        if protocol != TCP_OTHER:
            at, size = int(records.at[row]), int(records.captured[row])
            frame = window.data[at : at + size].tobytes()
            one = frame_payload(frame, int(records.original[row]), links[int(records.source[row])])
            assert isinstance(one, FramePayload)
            payloads[row] = frame[one.at : one.at + one.there]
    return pa.array(payloads, pa.binary())
