"""Damaged captures, from the file to tables: no exceptions, both decoders agree, counts add up.

An input is a capture file. A chain of pcap records or pcapng blocks is split into units: the file's header, a
record or a block; the bytes after a frame's headers are the packet. A rebuilt unit has correct lengths, so
that damage to a packet is not masked by damage around it; byte-wise mutations damage the file itself.
"""

import json
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from analysis.decode.batch import DECODED
from analysis.decode.reader import NO_TIME, ReadStatistics, plain, read_packets
from analysis.decode.reading import READABLE, Reading
from analysis.decode.reference import decode_frame, decode_payload
from analysis.decode.streams import PACKETS_TABLE, read_streams
from analysis.spark.batch_reader import FINDINGS, CaptureReader
from base.files import memory_directory
from captures.formats.files import cut, read_piece
from captures.formats.pcapng import CaptureError
from captures.formats.records import pcap_order
from captures.layers.frames import udp_frame
from testbed.verify.fuzz.subjects.wire import expect

LONGEST = 8192
_PIECE = 700
"""Bytes per piece: a capture of this size has several."""

_PCAP_HEADER, _RECORD = 24, 16
_BLOCK = 28
_UDP_AT = 34
_ENDS = bytes(6), bytes(6), "10.0.0.1", "10.0.0.2"


def check(data: bytes) -> None:
    """Decode a capture in every way without Spark; raise Finding."""
    decode_payload.cache_clear()  # so that an input's result is independent of earlier ones
    with tempfile.TemporaryDirectory(dir=memory_directory()) as name:
        place = Path(name)
        path = place / "a-eth0.pcap"
        path.write_bytes(data)
        try:
            pieces = list(cut(path, size=_PIECE))
        except CaptureError:
            return  # refused in one line
        readings = [Reading("run", piece) for piece in pieces]
        decoded = [row for reading in readings for row in _both_decoders(reading)]
        if readings:
            _check_tables(readings, decoded)


def _both_decoders(reading: Reading) -> Iterator[dict[str, object]]:
    """Yield the rows of a piece from the window decoder; the reference decoder must agree."""
    found = ReadStatistics()
    batches = list(read_packets(reading, found))
    dictionaries = [each.dictionary for batch in batches for each in batch if hasattr(each, "dictionary")]
    # Arrow cannot unify such dictionaries.
    expect("no null among the texts", holds=not any(each.null_count for each in dictionaries))
    rows = [row for batch in batches for row in plain(batch).to_pylist()]
    frames = list(_frames(reading))
    expect("a row a frame", holds=len(rows) == len(frames))
    for row, (frame, original, link_type) in zip(rows, frames, strict=True):
        careful = dict(zip(DECODED, decode_frame(frame, original, link_type), strict=True))
        if row["problem"] == NO_TIME:
            careful["problem"] = NO_TIME
        for column in DECODED:
            expect(f"{column} is {careful[column]!r}", holds=row[column] == careful[column])
        layers = sum(row[f"{layer}_bytes"] for layer in ("eth", "ip", "udp", "carried", "lp", "ndn"))
        expect("the bytes of all layers are the frame's", holds=layers == row["frame_bytes"])
    yield from rows


def _frames(reading: Reading) -> Iterator[tuple[bytes, int, int]]:
    for window, interfaces in read_piece(reading.piece, []):
        records = window.records
        columns = (records.at, records.captured, records.original, records.source)
        for at, captured, original, source in zip(*(each.tolist() for each in columns), strict=True):
            yield window.data[at : at + captured].tobytes(), original, interfaces[source].link_type


def _check_tables(readings: list[Reading], decoded: list[dict[str, object]]) -> None:
    """Read pieces as Spark's tasks do, reassemble streams, and compare with what was found."""
    reader = CaptureReader(readings, READABLE.names, "findings")
    batches = chain.from_iterable(map(reader.read, reader.partitions()))
    rows = pa.Table.from_batches(batches, READABLE)
    is_told = pc.equal(rows["kind"], FINDINGS)
    found = [*map(json.loads, rows.filter(is_told)["problem"].to_pylist())]
    frames = rows.filter(pc.invert(is_told))
    streams = read_streams(frames.filter(frames["tcp_seq"].is_valid()), {})
    for what, column in (("kinds", "kind"), ("problems", "problem")):
        counted = Counter(frames[column].drop_null().to_pylist())
        said = sum((Counter(each[what]) for each in found), Counter[str]())
        expect(f"{what} add up", holds=counted == said)
    expect("every frame is a row", holds=len(frames) == len(decoded))
    of_streams = streams.filter(pc.equal(streams["table"], PACKETS_TABLE)).to_pylist()
    counts = streams.filter(pc.equal(streams["what"], "kinds"))
    kinds = dict(zip(counts["label"].to_pylist(), counts["number"].to_pylist(), strict=True))
    expect("packets of streams add up", holds=Counter(row["kind"] for row in of_streams) == Counter(kinds))
    malformed = sum(1 for row in [*decoded, *of_streams] if row["kind"] == "malformed" and not row["problem"])
    expect("what is malformed says why", holds=not malformed)


def split(data: bytes) -> list[bytes]:
    """Split a capture into its header and records or blocks; a single unit if impossible."""
    if len(data) >= _PCAP_HEADER and pcap_order(data[:4]) == "<":
        units, at = [data[:_PCAP_HEADER]], _PCAP_HEADER
        while at + _RECORD <= len(data):
            end = at + _RECORD + struct.unpack_from("<I", data, at + 8)[0]
            units.append(data[at:end])
            at = end
        return units + ([data[at:]] if at < len(data) else [])
    units, at = [], 0
    while at + 12 <= len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        if size < 12 or at + size > len(data):
            break
        units.append(data[at : at + size])
        at += size
    return units + ([data[at:]] if at < len(data) else [])


def frame(unit: bytes) -> tuple[bytes, bytes]:
    """Return the bytes before a unit's packet, and the packet; for every fourth unit, the frame is the
    packet.
    """
    start = _place(unit)
    if start is None or len(unit) < start + 14:
        return b"", unit
    size = struct.unpack_from("<I", unit, start - 8)[0]
    whole = unit[start : start + size]
    at = start
    if zlib.crc32(unit) % 4:
        is_udp = whole[12:14] == b"\x08\0" and whole[23:24] == b"\x11"
        at += _UDP_AT + 8 if is_udp else 14 if whole[12:14] == b"\x86\x24" else 0
    return unit[:at], unit[at : start + size]


def unit(head: bytes, packet: bytes) -> bytes:
    """Make a unit of a head and a packet, with correct lengths."""
    start = _place(head)
    if start is None:
        return head + packet
    made = bytearray(head + packet)
    size = len(made) - start
    if len(head) == start + _UDP_AT + 8 and len(packet) < 60_000:
        struct.pack_into("!H", made, start + 16, size - 14)
        struct.pack_into("!H", made, start + _UDP_AT + 4, 8 + len(packet))
    struct.pack_into("<II", made, start - 8, size, size)
    if start == _BLOCK:
        made += bytes(-len(made) % 4)
        made += struct.pack("<I", len(made) + 4)
        struct.pack_into("<I", made, 4, len(made))
    return bytes(made)


def _place(unit: bytes) -> int | None:
    """Return the offset of the frame in a record or an Enhanced Packet Block; None otherwise."""
    if len(unit) >= _BLOCK and unit[:4] == b"\x06\0\0\0":
        return _BLOCK
    is_header = unit[:4] in (b"\n\r\r\n", b"\x01\0\0\0") or len(unit) < _RECORD or pcap_order(unit[:4])
    return None if is_header else _RECORD


def head(rng: Random) -> bytes:
    """Draw a head: a record's header and those of a frame."""
    carrier = rng.choice((udp_frame(*_ENDS, 6363, 6363, b"", 1), udp_frame(*_ENDS, 9, 56363, b"", 1)))
    if not rng.randrange(3):
        carrier = bytes(12) + b"\x86\x24"
    time = rng.choice((rng.randrange(100), rng.randrange(1 << 32)))
    return struct.pack("<4I", time, 0, len(carrier), len(carrier)) + carrier
