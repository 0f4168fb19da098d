"""Decrypted stream packets of a capture, as a pcapng for Wireshark.

Each packet of a protocol with a dissector (Declaration.dissector) becomes an exported PDU with the addresses,
time and interface of the segment that completed it. A connection is read once, at its most complete place, as
elsewhere in the analysis.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from analysis.decode.connections import Row
from analysis.decode.messages import Streams
from analysis.decode.protocols.protocol import ENCRYPTED, UNREAD
from analysis.decode.protocols.registry import PROTOCOLS
from analysis.decode.reader import ReadStatistics, read_packets
from analysis.decode.reading import SEGMENTS, Reading
from base.files import whole_file
from base.key_log import Secrets
from captures.formats.exported_pdu import LINKTYPE, MOST_BYTES, tcp_tags
from captures.formats.files import cut
from captures.formats.pcapng import Direction, Interface, Writer
from captures.formats.records import Damage

_DIRECTIONS = {"in": Direction.IN, "out": Direction.OUT}


@dataclass
class ExportSummary:
    """Export statistics.

    Attributes:
        connections: of protocols with a dissector.
        packets: written, by dissector.
        unread: stream bytes in no packet, ENCRYPTED or UNREAD.
        damages: of the capture.
    """

    connections: int = 0
    packets: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    damages: list[Damage] = field(default_factory=list)


def write_plain_packets(capture: Path, secrets: Secrets, out: Path) -> ExportSummary:
    """Write the decrypted stream packets of a capture into the pcapng file `out`.

    Without packets no file is created. Raises OSError, and CaptureError for a file that is no capture.
    """
    written = ExportSummary()
    pieces = list(cut(capture))

    def rows() -> Iterator[Row]:
        written.damages.clear()
        for piece in pieces:
            findings = ReadStatistics(damages=written.damages)
            for batch in read_packets(Reading("", piece), findings, SEGMENTS.names):
                segments = batch.filter(batch["tcp_seq"].is_valid())
                columns = [column.to_pylist() for column in segments.columns]
                for row in map(Row._make, zip(*columns, strict=True)):
                    if row.protocol in PROTOCOLS and PROTOCOLS[row.protocol].dissector:
                        yield row

    streams = Streams(rows, secrets)
    written.connections = len(streams.connections)
    interfaces = [Interface(name, link_type=LINKTYPE) for name in streams.interfaces()]
    places = {interface.name: place for place, interface in enumerate(interfaces)}
    with suppress(_NothingToWrite), whole_file(out) as new, new.open("wb") as file:
        writer = Writer(file, interfaces, application="feednet")
        for row, message in streams.read():
            for layer, size in message.parts:
                if layer in (ENCRYPTED, UNREAD):
                    written.unread[layer] += size
            if not message.plain:
                continue
            dissector = PROTOCOLS[row.protocol].dissector
            tags = tcp_tags(dissector, (row.src, row.src_port), (row.dst, row.dst_port), row.frame)
            pdu = tags + message.plain
            direction = _DIRECTIONS.get(row.direction or "", Direction.UNKNOWN)
            writer.write(places[row.interface], row.time, pdu[:MOST_BYTES], direction, len(pdu))
            written.packets[dissector] += 1
        if not written.packets:
            raise _NothingToWrite
    return written


class _NothingToWrite(Exception):
    """There are no packets to write."""
