"""TCP connections out of captured segments: the messages of both directions, and what became of each.

A connection is seen at an interface. Its two directions are put together by captures.streams and cut by the
protocol of its ports: NDN, or one of analysis.decode.protocols.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from analysis.decode.protocols.registry import PROTOCOLS
from analysis.decode.protocols.stream_protocol import Conversation, StreamMessage
from analysis.decode.reference import Link, decode_payload
from analysis.decode.schema import COLUMNS, message_columns
from captures import websocket
from captures.ndn_stream import NdnFraming
from captures.streams import Segment, Stream

FLOWS = 4096
"""Directions of connections that are followed at once; the one that was silent longest makes room."""

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_BACK = {"in": "out", "out": "in", None: None}
_WHERE = ("layering", "node", "interface")
_OF_PACKET = tuple(column.name for column in COLUMNS)[
    [column.name for column in COLUMNS].index(Link._fields[0]) :
]
_NO_HEADERS = dict.fromkeys(("frame_bytes", "eth_bytes", "ip_bytes", "udp_bytes"), 0)

Row = dict[str, Any]


class _End(NamedTuple):
    """Who has sent a segment: at an interface, in a direction, from an address and port to another."""

    node: str
    interface: str
    direction: str | None
    source: tuple[str, int]
    target: tuple[str, int]

    @property
    def other(self) -> "_End":
        return self._replace(direction=_BACK[self.direction], source=self.target, target=self.source)


@dataclass
class _Way:
    """What was seen of one direction."""

    segments: int = 0
    bytes: int = 0
    repeated: int = 0
    reached: int | None = None
    has_ended: bool = False

    def count(self, sequence: int, flags: int, length: int) -> None:
        self.segments += 1
        self.bytes += length
        self.has_ended |= bool(flags & _FIN)
        if flags & _SYN:
            sequence += 1
        end = sequence + length & 0xFFFFFFFF
        ahead = 1 if self.reached is None else (end - self.reached + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        if ahead > 0:
            self.reached = end
        elif length:
            self.repeated += 1


@dataclass
class _Connection:
    """A connection as one interface sees it; `client` has opened it, as far as that can be told."""

    client: _End
    first: Row
    initial: int | None
    conversation: Conversation | None
    opened: int | None = None
    answered: int | None = None
    closed: int | None = None
    is_reset: bool = False
    ways: dict[bool, _Way] = field(default_factory=lambda: {True: _Way(), False: _Way()})

    def see(self, row: Row, from_client: bool) -> None:
        way, time = self.ways[from_client], row["time"]
        flags = row["flags"]
        way.count(row["sequence"], flags, row["length"])
        if flags & _SYN and from_client and self.opened is None:
            self.opened = time
        elif flags & _SYN and not from_client and self.answered is None:
            self.answered = time
        if flags & (_FIN | _RST):
            self.closed = time
            self.is_reset |= bool(flags & _RST)

    def row(self) -> Row:
        ended = sum(way.has_ended for way in self.ways.values())
        handshake = None
        if self.opened is not None and self.answered is not None:
            handshake = self.answered - self.opened
        found = {name: self.first[name] for name in (*_WHERE, "protocol")} | {
            "direction": self.client.direction,
            "client": self.client.source[0],
            "client_port": self.client.source[1],
            "server": self.client.target[0],
            "server_port": self.client.target[1],
            "opened": self.opened,
            "handshake_ns": handshake,
            "closed": self.closed,
            "outcome": "reset" if self.is_reset else ("open", "half-closed", "closed")[ended],
        }
        for name, from_client in (("up", True), ("down", False)):
            way = self.ways[from_client]
            found |= {
                f"segments_{name}": way.segments,
                f"bytes_{name}": way.bytes,
                f"repeated_{name}": way.repeated,
            }
        return found


class _Flow:
    """One direction of a connection, and the columns that its messages share."""

    def __init__(self, connection: _Connection, stream: "Stream[bytes] | Stream[StreamMessage]") -> None:
        self.connection = connection
        self.stream = stream
        self.row: Row = {}
        self.capture = ""


class ConnectionReader:
    """Reads the connections of one run from its segments, rows of analysis.decode.reader.SEGMENTS in order.

    Args:
        secrets: the keys of the run, as its protocols have noted them.

    Attributes:
        packets: rows of analysis.decode.schema.PACKETS, of NDN.
        messages: rows of a protocol's messages, by its name.
        connections: rows of analysis.decode.schema.CONNECTIONS, of connections that are over.
        found: by capture: `kinds` and `problems` of packets, `gaps` in streams, and bytes `skipped`.
    """

    def __init__(self, secrets: Sequence[bytes] = ()) -> None:
        self._secrets = secrets
        self._flows: OrderedDict[_End, _Flow] = OrderedDict()
        self.packets: list[Row] = []
        self.messages: dict[str, list[Row]] = {}
        self.connections: list[Row] = []
        self.found: dict[str, dict[str, Any]] = {}

    def receive(self, row: Mapping[str, Any], capture: str) -> None:
        """Take a segment in; a capture may go on in the next, at the same interface of the same node."""
        self.found.setdefault(capture, {"kinds": Counter(), "problems": Counter(), "gaps": 0, "skipped": 0})
        end = _End(
            row["node"],
            row["interface"],
            row["direction"],
            (row["src"], row["src_port"]),
            (row["dst"], row["dst_port"]),
        )
        flags, sequence = row["flags"], row["sequence"]
        is_opening = flags & (_SYN | _ACK) == _SYN
        flow = self._flows.get(end)
        if flow is not None and is_opening and flow.connection.initial != sequence:
            self._end(end)  # the same addresses and ports, another connection
            self._end(end.other)
            flow = None
        if flow is None:
            flow = self._open(end, dict(row), sequence if is_opening else None)
        self._flows.move_to_end(end)
        flow.row, flow.capture = dict(row), capture
        flow.connection.see(flow.row, end == flow.connection.client)
        self._take(flow, flow.stream.receive(Segment(sequence, flags, row["payload"], row["length"])))
        if flags & _RST:
            self._end(end)
            self._end(end.other)

    def finish(self) -> None:
        """Take note that no segment follows."""
        for end in list(self._flows):
            self._end(end)

    def _open(self, end: _End, row: Row, initial: int | None) -> _Flow:
        if len(self._flows) >= FLOWS:
            self._end(next(iter(self._flows)))
        known = self._flows.get(end.other)
        if known is not None:
            connection = known.connection
        else:
            protocol = PROTOCOLS.get(row["protocol"])
            ports = frozenset() if protocol is None else protocol.ports
            is_server = row["flags"] & _SYN and initial is None
            is_server |= initial is None and end.source[1] in ports and end.target[1] not in ports
            client = end.other if is_server else end
            conversation = None if protocol is None else protocol.conversation(self._secrets)
            connection = _Connection(client, row, initial, conversation)
        if connection.conversation is None:
            on_port = websocket.PORT in (end.source[1], end.target[1])
            flow = _Flow(connection, Stream(NdnFraming(on_port)))
        else:
            flow = _Flow(connection, Stream(connection.conversation.framing(end == connection.client)))
        self._flows[end] = flow
        return flow

    def _end(self, end: _End) -> None:
        flow = self._flows.pop(end, None)
        if flow is None:
            return
        self._take(flow, flow.stream.finish())
        counts = self.found[flow.capture]
        counts["gaps"] += flow.stream.gaps
        counts["skipped"] += flow.stream.skipped
        if end.other not in self._flows:
            self.connections.append(flow.connection.row())

    def _take(self, flow: _Flow, found: Iterator[bytes] | Iterator[StreamMessage]) -> None:
        for message in found:
            if isinstance(message, bytes):
                self._take_packet(flow, message)
            else:
                self._take_message(flow, message)

    def _take_packet(self, flow: _Flow, packet: bytes) -> None:
        framing = flow.stream.framing
        is_websocket = isinstance(framing, NdnFraming) and framing.is_websocket
        row = flow.row | _NO_HEADERS | {"transport": "websocket" if is_websocket else "tcp"}
        row |= dict(zip(_OF_PACKET, decode_payload(packet), strict=True))
        counts = self.found[flow.capture]
        counts["kinds"][row["kind"]] += 1
        if row["problem"]:
            counts["problems"][row["problem"]] += 1
        self.packets.append(row)

    def _take_message(self, flow: _Flow, message: StreamMessage) -> None:
        name = flow.row["protocol"]
        columns = message_columns(PROTOCOLS[name].layers)
        sizes = (*message.sizes, message.payload_bytes)
        told = (message.kind, *sizes, message.feed, message.seq)
        shared = [flow.row[column.name] for column in columns[: -len(told)]]
        rows = self.messages.setdefault(name, [])
        rows.append(dict(zip([column.name for column in columns], (*shared, *told), strict=True)))
