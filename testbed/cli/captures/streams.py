"""TCP protocol messages for `feednet dissect`: read in capture order, at each interface separately."""

from dataclasses import replace
from typing import TYPE_CHECKING

from scapy.layers.inet import IP, TCP

from analysis.decode.connections import Connection, Row, Tracker
from analysis.decode.protocols.protocol import UNREAD, Framer, Message
from analysis.decode.protocols.registry import PROTOCOLS, protocol_of
from analysis.decode.reading import NDN_PORTS
from base.key_log import Secrets
from captures.dissectors.summary import short_name
from captures.layers.layers import FramePayload, Tcp
from captures.layers.streams import Stream

if TYPE_CHECKING:
    from captures.dissectors.reading import Row as Dissected

_SAID = 3
"""Maximum number of feeds described in a message's line."""


class StreamLines:
    """Describes TCP segments by the messages that they complete, or by their length.

    Args:
        secrets: decryption keys.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tracker = Tracker({})
        self._framers: dict[tuple[Connection, str], Framer | None] = {}
        self._streams: dict[tuple[Connection, str, bool], Stream] = {}
        self._ends: dict[tuple[Connection, str, bool], int] = {}
        self._unreadable: set[tuple[Connection, str, bool]] = set()

    def describe(self, row: "Dissected") -> "Dissected":
        """Return a row with a line about its frame's messages, for known protocols."""
        segment = _segment(row)
        if segment is None or segment.protocol not in PROTOCOLS:
            return row
        connection, way, _ = self._tracker.find(segment)
        told = [message for message in self._read(connection, way, segment) if message.kind != UNREAD]
        if not segment.carried_bytes or PROTOCOLS[segment.protocol].framer is None:
            return row
        lines = [_line(segment.protocol, message) for message in told] or [f"{segment.carried_bytes} bytes"]
        return replace(row, line=f"{segment.protocol} {'; '.join(lines)}")

    def _read(self, connection: Connection, way: bool, segment: Row) -> list[Message]:
        place = connection, segment.interface
        declaration = PROTOCOLS[segment.protocol]
        if place not in self._framers:
            made = declaration.framer(connection.ends, self._secrets) if declaration.framer else None
            self._framers[place] = made
        framer = self._framers[place]
        key = *place, way
        if framer is None or key in self._unreadable:
            return []
        stream = self._streams.setdefault(key, Stream())
        found: list[Message] = []
        for chunk in stream.receive(segment.segment(segment.payload)):
            try:
                if chunk.at != self._ends.get(key, 0):
                    framer.on_gap(way)
                self._ends[key] = chunk.at + len(chunk.data)
                found += framer.receive(way, chunk.data)
            except ValueError:
                self._unreadable.add(key)
                return found
        return found


def _segment(row: "Dissected") -> Row | None:
    """Return a dissected frame as a segment; None for other frames."""
    frame = row.frame
    if TCP not in frame or IP not in frame:
        return None
    ip, tcp = frame[IP], frame[TCP]
    length = ip.len - ip.ihl * 4 - tcp.dataofs * 4
    numbers = Tcp(tcp.seq, tcp.ack, int(tcp.flags) & 0xFF)
    found = FramePayload(
        "tcp", row.src, row.dst, tcp.sport, tcp.dport, None, 0, 0, 0, 0, length, length, numbers
    )
    return Row(
        layering="",
        interface=row.interface,
        node="",
        direction=row.direction or None,
        frame=row.number,
        time=row.time,
        src=row.src,
        dst=row.dst,
        src_port=tcp.sport,
        dst_port=tcp.dport,
        vlan=None,
        protocol=protocol_of(found, NDN_PORTS),
        frame_bytes=frame.wirelen or len(frame),
        carried_bytes=length,
        tcp_seq=tcp.seq,
        tcp_ack=tcp.ack,
        tcp_flags=numbers.flags,
        payload=bytes(tcp.payload)[:length],
        capture="",
    )


def _line(protocol: str, message: Message) -> str:
    words = [PROTOCOLS[protocol].kinds.get(message.kind, message.kind)]
    if message.feed is not None:
        words.append(short_name(message.feed))
    if message.seq is not None:
        words.append(str(message.seq))
    words += [f"{name} {value}" for name, value in message.fields.items() if value is not None]
    words += [f"[{short_name(feed)} {said}]" for feed, said in message.said[:_SAID]]
    if len(message.said) > _SAID:
        words.append(f"[{len(message.said) - _SAID} more]")
    return " ".join([*words, f"({message.size} bytes)"])
