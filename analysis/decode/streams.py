"""TCP segments of captures to rows: NDN packets, messages of other protocols, connections, bytes by layer.

Connections between different ends do not depend on each other: segments may be divided by their ends, and
each part read alone.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from analysis.decode import messages
from analysis.decode.connections import CONNECTIONS, Row
from analysis.decode.protocols.protocol import NDN
from analysis.decode.protocols.registry import framed
from analysis.decode.reading import SEGMENTS
from analysis.decode.reference import Link, decode_payload
from analysis.files import Rows
from analysis.packet_schema import ARROW_TYPES, PACKETS, schema_of
from base.key_log import Secrets
from captures.layers import websocket
from captures.layers.packet_stream import PacketStream
from captures.layers.streams import RST

PACKETS_TABLE, CONNECTIONS_TABLE, STREAM_LAYERS_TABLE = "packets", "connections", "stream_layers"
COUNTS_TABLE = "counts"
COUNTS = schema_of("layering string, capture string, what string, label string, number int64")
"""What was counted: `kinds` and `problems` of NDN packets, by their words in `label`, `gaps` and `skipped`
bytes of streams, of each capture; of no capture, `connections`, and messages of the protocol `what`, by kind.
"""


def side_tables() -> dict[str, pa.Schema]:
    """Return the schemas of the tables of TCP, besides packets, by name."""
    of_protocols = {protocol.name: messages.schema(protocol) for protocol in framed()}
    connections = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in CONNECTIONS])
    return {CONNECTIONS_TABLE: connections, STREAM_LAYERS_TABLE: messages.STREAM_LAYERS, **of_protocols}


def stream_rows() -> pa.Schema:
    """Return the schema of rows of several tables: the name of the table, and all columns; those of other
    tables are null.
    """
    return pa.unify_schemas([schema_of("table string"), *_tables().values()])


def _tables() -> dict[str, pa.Schema]:
    return {PACKETS_TABLE: PACKETS, COUNTS_TABLE: COUNTS, **side_tables()}


def read_streams(segments: pa.Table, secrets: Mapping[str, Secrets]) -> pa.Table:
    """Return stream_rows() of some SEGMENTS: all between certain ends. `secrets` are those of each run."""
    segments = segments.select(SEGMENTS.names).sort_by([("capture", "ascending"), ("frame", "ascending")])
    by_run: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in map(Row._make, zip(*(column.to_pylist() for column in segments.columns), strict=True)):
        by_run[row.layering][row.capture].append(row)
    schemas = _tables()
    tables = [stream_rows().empty_table()]
    for run, captures in by_run.items():
        # A capture may continue in the next, or be of another node.
        rows = list(heapq.merge(*captures.values(), key=lambda row: row.time))
        for name, found in _of_run(run, rows, secrets.get(run, frozenset())).items():
            table = pa.Table.from_pylist(found, schemas[name])
            tables.append(table.append_column("table", pa.repeat(name, len(found))))
    return pa.concat_tables(tables, promote_options="default")


def _of_run(run: str, segments: list[Row], secrets: Secrets) -> dict[str, Rows]:
    """Return the rows of each table of a run's segments, in the order of time."""
    found: dict[str, Rows] = {name: [] for name in _tables()}
    found[PACKETS_TABLE], counts = _packets(segments)
    totals = messages.read(run, lambda: segments, secrets, lambda name, row: found[name].append(row))
    found[CONNECTIONS_TABLE], found[STREAM_LAYERS_TABLE] = totals.connections, totals.layers
    counts["", "connections", ""] = totals.count
    for (protocol, kind), times in totals.kinds.items():
        counts["", protocol, kind] = times
    found[COUNTS_TABLE] = [
        dict(zip(COUNTS.names, (run, *what, number), strict=True)) for what, number in counts.items()
    ]
    return found


class _Flow:
    """One direction of a connection at one interface, and the common columns of its packets."""

    def __init__(self, row: Row) -> None:
        self.stream = PacketStream(websocket.PORT in (row.src_port, row.dst_port))
        self.row = row


def _packets(segments: list[Row]) -> tuple[Rows, Counter[tuple[str, str, str]]]:
    """Return the NDN packets in streams, and counts by capture, what and label."""
    flows: dict[tuple[Any, ...], _Flow] = {}
    rows: Rows = []
    counts: Counter[tuple[str, str, str]] = Counter()

    def take(flow: _Flow, packets: Iterator[bytes]) -> None:
        for packet in packets:
            row = _packet(flow, packet)
            counts[flow.row.capture, "kinds", row["kind"]] += 1
            if row["problem"]:
                counts[flow.row.capture, "problems", row["problem"]] += 1
            rows.append(row)

    def end(flow: _Flow) -> None:
        take(flow, flow.stream.finish())
        counts[flow.row.capture, "gaps", ""] += flow.stream.gaps
        counts[flow.row.capture, "skipped", ""] += flow.stream.skipped

    for row in segments:
        if row.protocol != NDN:
            continue
        key = (row.node, row.interface, row.direction, row.src, row.src_port, row.dst, row.dst_port)
        flow = flows.get(key) or flows.setdefault(key, _Flow(row))
        flow.row = row
        take(flow, flow.stream.receive(row.segment(row.payload)))
        if row.tcp_flags & RST:
            end(flows.pop(key))
    for flow in flows.values():
        end(flow)
    return rows, counts


_OF_SEGMENT = frozenset(SEGMENTS.names) & frozenset(PACKETS.names) - {"tcp_seq", "tcp_ack", "tcp_flags"}
_OF_PACKET = PACKETS.names[PACKETS.names.index(Link._fields[0]) :]


def _packet(flow: _Flow, packet: bytes) -> dict[str, Any]:
    """Return the row of a packet completed by a flow's last segment."""
    nothing = dict.fromkeys(("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes", "carried_bytes"), 0)
    transport = {"transport": "websocket" if flow.stream.is_websocket else "tcp"}
    of_frame = {name: value for name, value in flow.row._asdict().items() if name in _OF_SEGMENT}
    return of_frame | nothing | transport | dict(zip(_OF_PACKET, decode_payload(packet), strict=True))
