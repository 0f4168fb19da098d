"""A capture as tables in memory, read without Spark: for notebooks, and for some 100,000 frames."""

from collections import defaultdict
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analysis.decode import messages
from analysis.decode.connections import Row
from analysis.decode.reader import ReadStatistics, plain, read_packets, strictly
from analysis.decode.reading import READABLE, SEGMENTS, Reading
from analysis.packet_schema import PACKETS
from base.key_log import Secrets, from_lines
from captures.formats.files import Piece


class Whole(NamedTuple):
    """A whole capture.

    Attributes:
        packets: a row a frame, in the capture's order; the columns of analysis.packet_schema.PACKETS.
        messages: rows of the messages of each protocol over TCP; their columns are in docs/tables.md.
    """

    packets: pa.Table
    messages: dict[str, list[dict[str, Any]]]


def read_whole(run: str, capture: Path, secrets: Secrets = frozenset()) -> Whole:
    """Read a capture. Raises OSError, and captures.formats.pcapng.CaptureError if it is damaged."""
    found = ReadStatistics()
    reading = Reading(run, Piece(str(capture), 0, None, b"", 1))
    read = [plain(batch) for batch in read_packets(reading, found, READABLE.names)]
    strictly(str(capture), found.damages)
    known = secrets | from_lines(b"".join(found.key_logs))
    frames = pa.Table.from_batches(read, READABLE)
    segments = frames.filter(pc.is_valid(frames["tcp_seq"])).select(SEGMENTS.names)
    rows = [*map(Row._make, zip(*(column.to_pylist() for column in segments.columns), strict=True))]
    rows.sort(key=attrgetter("time"))
    kept: dict[str, list[dict[str, Any]]] = defaultdict(list)
    messages.read(run, lambda: rows, known, lambda protocol, row: kept[protocol].append(row))
    return Whole(frames.select(PACKETS.names), dict(kept))
