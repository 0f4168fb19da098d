"""Captures read by Scapy, one row per frame: pcap and pcapng, also compressed by gzip."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scapy.error import Scapy_Exception
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.layers.ppp import PPP
from scapy.packet import NoPayload, Packet, Raw
from scapy.utils import PcapReader

from captures.dissectors.binding import ETHERTYPE, MULTICAST_PORT, NDN, PORT, PPP_PROTOCOL, NdnStream
from captures.dissectors.fields import printable
from captures.dissectors.lp import LpPacket
from captures.dissectors.ndn import Data, Interest
from captures.dissectors.summary import Fields, Reassembled, describe, fields_of, short_name
from captures.dissectors.tiny import tiny_fields
from captures.layers.reassembly import Reassembler
from forwarder.wire.lp import FRAGMENT, LP_PACKET
from forwarder.wire.name import NAME, to_uri
from forwarder.wire.packet import DATA, INTEREST
from forwarder.wire.tlv import MalformedPacket, read_header, read_number

_NANOSECONDS = 10**9
_FOREIGN_SECRETS = "Unknown DSB secrets type"


class UnreadableCapture(ValueError):
    """The file is no capture, or is damaged from some frame on; the message has the frame."""


@dataclass(frozen=True, slots=True)
class Row:
    """One frame.

    Attributes:
        number: from 1, as in Wireshark.
        time: ns, since the capture's own epoch.
        since: ns after the first frame.
        interface: its name; empty if unknown.
        direction: "in", "out", or empty.
        src, dst: addresses, of IP if present.
        line: summary of the frame.
        fields: the fields of its NDN packets, and `frame.*` and `ip.*`, under Wireshark's names.
        frame: the frame, dissected.
        reassembled: packets completed by this frame as their last fragment.
        is_ndn: whether it contains NDN packets.
    """

    number: int
    time: int
    since: int
    interface: str
    direction: str
    src: str
    dst: str
    line: str
    fields: Fields
    frame: Packet
    reassembled: tuple[Reassembled, ...]
    is_ndn: bool


def read_rows(path: Path) -> Iterator[Row]:
    """Read a capture; raise OSError, or UnreadableCapture after the readable rows."""
    warnings = _Warnings()
    log = logging.getLogger("scapy.runtime")
    propagates, log.propagate = log.propagate, False
    handlers, log.handlers = log.handlers, [warnings]
    number = start = 0
    reassembler: Reassembler[bytes] = Reassembler()
    try:
        with PcapReader(str(path)) as reader:
            for number, frame in enumerate(reader, 1):
                time = int(frame.time * _NANOSECONDS)
                start = time if number == 1 else start
                yield _row(number, time, time - start, frame, reassembler)
    except Scapy_Exception as error:
        raise UnreadableCapture(f"{path}: {_after(number)}{str(error).lower()}") from error
    except (EOFError, ValueError, LookupError) as error:
        raise UnreadableCapture(f"{path}: {_after(number)}damaged") from error
    finally:
        log.propagate, log.handlers = propagates, handlers
    if warnings.text:
        raise UnreadableCapture(f"{path}: {_after(number)}{warnings.text}")


def _after(number: int) -> str:
    return f"after frame {number}: " if number else ""


class _Warnings(logging.Handler):
    """Collects warnings of Scapy's readers, which do not raise.

    Secrets of an unknown type do not damage a capture.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith(("PcapNg: ", "Pcap: ")) and _FOREIGN_SECRETS not in text:
            self.text = text.partition(": ")[2].rstrip(" !")


def _row(number: int, time: int, since: int, frame: Packet, reassembler: Reassembler[bytes]) -> Row:
    interface = printable(frame.sniffed_on) if isinstance(frame.sniffed_on, str) else ""
    src, dst = _addresses(frame)
    packets = _ndn_packets(frame)
    fields: Fields = [("frame.number", number)]
    if interface:
        fields.append(("frame.interface_name", interface))
    if IP in frame:
        fields += [("ip.src", src), ("ip.dst", dst), ("ip.addr", src), ("ip.addr", dst)]
    fields += tiny_fields(frame)
    lines, reassembled = [], []
    for packet in packets:
        whole = None
        if isinstance(packet, LpPacket):
            pieces = reassembler.add(
                (interface, src, dst, _ports(frame)),
                packet.sequence,
                packet.frag_index or 0,
                packet.frag_count or 1,
                bytes(packet.payload),
            )
            if pieces is not None:
                whole = Reassembled(_network_layer(b"".join(pieces)), len(pieces))
                reassembled.append(whole)
        cut = _truncated(packet, frame)
        lines.append(cut.line if cut else describe(packet, whole))
        fields += cut.fields if cut else fields_of(packet, whole)
    return Row(
        number,
        time,
        since,
        interface,
        {1: "in", 2: "out"}.get(getattr(frame, "direction", None) or 0, ""),
        src,
        dst,
        "; ".join(lines) or printable(frame.lastlayer().summary()),
        fields,
        frame,
        tuple(reassembled),
        bool(packets),
    )


class _Truncated(NamedTuple):
    """Fields readable from a truncated packet."""

    line: str
    fields: Fields


def _truncated(packet: Packet, frame: Packet) -> _Truncated | None:
    """Return the fields of a packet continued in another IP fragment, or truncated by the capture."""
    first = (IP in frame and frame[IP].flags.MF) or (
        IPv6ExtHdrFragment in frame and frame[IPv6ExtHdrFragment].m
    )
    problem = "IP fragment" if first else "cut by the capture" if (frame.wirelen or 0) > len(frame) else ""
    if not (problem and isinstance(packet, Raw)):
        return None
    wire = bytes(packet)
    try:
        kind, at = _element_at(wire, 0)
        if kind == LP_PACKET:
            while _element_at(wire, at)[0] != FRAGMENT:
                _, _, at = read_header(wire, at, len(wire))
            kind, at = _element_at(wire, _element_at(wire, at)[1])
        named, start, end = read_header(wire, at, len(wire))
        uri = to_uri(wire[start:end])
    except MalformedPacket:
        return None
    if named != NAME or kind not in (INTEREST, DATA):
        return None
    what = "Interest" if kind == INTEREST else "Data"
    fields: Fields = [("ndn.type", what), ("ndn.name", uri), ("ndn.problem", problem)]
    return _Truncated(f"{what} {short_name(uri)} [{problem}]", fields)


def _element_at(wire: bytes, at: int) -> tuple[int, int]:
    """Return the type of an element and the start of its value, which may be truncated."""
    kind, at = read_number(wire, at)
    _, at = read_number(wire, at)
    return kind, at


def _network_layer(wire: bytes) -> Packet:
    packet: Packet = NDN(wire)
    # Padding means bytes after the packet; a fragmented packet must not have any.
    return packet if isinstance(packet, Interest | Data) and not packet.payload else Raw(wire)


def _ndn_packets(frame: Packet) -> list[Packet]:
    """Return the NDN packets of a frame; Raw for a damaged one."""
    layer = frame
    while not isinstance(layer, NoPayload):
        if isinstance(layer, NdnStream):
            packets: list[Packet] = layer.packets
            return packets
        if isinstance(layer, LpPacket | Interest | Data):
            return [layer]
        if isinstance(layer, Raw) and _is_for_ndn(layer.underlayer):
            return [layer]
        layer = layer.payload
    return []


def _is_for_ndn(below: Packet | None) -> bool:
    if isinstance(below, UDP):
        return not {below.sport, below.dport}.isdisjoint((PORT, MULTICAST_PORT))
    if isinstance(below, PPP):
        return bool(below.proto == PPP_PROTOCOL)
    return isinstance(below, Ether) and below.type == ETHERTYPE


def _addresses(frame: Packet) -> tuple[str, str]:
    for layer in (IP, IPv6, Ether):
        found = frame.getlayer(layer)
        if found is not None:
            return str(found.src), str(found.dst)
    return "", ""


def _ports(frame: Packet) -> tuple[int, int]:
    for layer in (UDP, TCP):
        found = frame.getlayer(layer)
        if found is not None:
            return found.sport, found.dport
    return 0, 0
