"""Bindings of NDN: UDP 6363 and 56363 (multicast), TCP 6363, WebSocket on TCP 9696, Ethertype 0x8624, PPP
0x0077.

Importing this module binds the layers, for dissection and, where unambiguous, for building: `Ether() / IP() /
UDP() / Interest(name="/a")` sets its ports by itself.
"""

from typing import Any

from scapy.config import conf
from scapy.fields import PacketListField
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import CookedLinux, Ether
from scapy.layers.ppp import PPP
from scapy.packet import Packet, Padding, bind_bottom_up, bind_top_down

from captures.dissectors.lp import LpPacket
from captures.dissectors.ndn import Data, Interest
from captures.layers import websocket
from forwarder.wire.lp import LP_PACKET
from forwarder.wire.packet import DATA, INTEREST
from forwarder.wire.tlv import MalformedPacket, read_header

PORT = 6363
MULTICAST_PORT = 56363
ETHERTYPE = 0x8624
PPP_PROTOCOL = 0x0077

_LAYERS: dict[int, type[Packet]] = {INTEREST: Interest, DATA: Data, LP_PACKET: LpPacket}


class NDN(Packet):
    """Any NDN packet: bytes become Interest, Data, LpPacket, NdnStream or NdnWebSocket (over TCP), or Raw."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **options: Any) -> Any:
        """Choose the layer for these bytes (Scapy's hook)."""
        if not _pkt:
            return cls
        under = options.get("_underlayer")
        if isinstance(under, TCP) and websocket.PORT in (under.sport, under.dport):
            return NdnWebSocket if _whole_frames(_pkt) else conf.raw_layer
        layer: Any = _LAYERS.get(_pkt[0], conf.raw_layer)
        if layer is conf.raw_layer or not isinstance(under, TCP):
            return layer if layer is conf.raw_layer else layer.dispatch_hook(_pkt, *args, **options)
        try:
            _, _, end = read_header(_pkt, 0, len(_pkt))
        except MalformedPacket:
            return conf.raw_layer
        return NdnStream if end < len(_pkt) else layer.dispatch_hook(_pkt, *args, **options)

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any], session: dict[str, Any]) -> Packet | None:
        """Return the packets at the beginning of a stream, for Scapy's TCPSession; None without any."""
        if data[0] not in _LAYERS:
            return conf.raw_layer(data)
        size = _whole(data)
        if not size:
            return None
        packet: Packet = NdnStream(data[:size])
        if size < len(data):
            packet.add_payload(Padding(data[size:]))
        return packet


def _whole(data: bytes) -> int:
    """Return the size of the whole NDN packets at the beginning of `data`."""
    at = 0
    while at < len(data) and data[at] in _LAYERS:
        try:
            _, _, at = read_header(data, at, len(data))
        except MalformedPacket:
            break
    return at


class _Packets(PacketListField):
    """The whole packets at the beginning of the bytes; Scapy's own field needs each packet's end."""

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, list[Any]]:
        packets, at, size = [], 0, _whole(s)
        while at < size:
            _, _, end = read_header(s, at, size)
            packets.append(NDN(s[at:end]))
            at = end
        return s[size:], packets


class NdnStream(Packet):
    """Consecutive NDN packets; the rest after the last whole one is the payload."""

    _name = "NdnStream"
    fields_desc = [_Packets("packets", [])]  # noqa: RUF012

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Choose Raw for the first part of a packet continued in another segment."""
        return conf.raw_layer


def _whole_frames(data: bytes) -> int:
    """Return the size of the whole WebSocket frames at the beginning of `data`."""
    at = 0
    while (frame := websocket.read_frame(data, at)) is not None and at < frame.end <= len(data):
        at = frame.end
    return at


class _Messages(PacketListField):
    """The packets in the whole WebSocket frames at the beginning of the bytes."""

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, list[Any]]:
        size = _whole_frames(s)
        return s[size:], [
            NDN(message) for message in websocket.WebSocket(in_step=True).read(bytearray(s[:size]))
        ]


class NdnWebSocket(NdnStream):
    """NDN packets in WebSocket frames; the rest after the last whole frame is the payload."""

    _name = "NdnWebSocket"
    fields_desc = [_Messages("packets", [])]  # noqa: RUF012

    def mysummary(self) -> str:
        """Return the summary of frames without a whole packet: a ping, or a part of a message."""
        return "WebSocket"


def bind() -> None:
    """Bind the layers to ports and Ethertype."""
    for port in (PORT, MULTICAST_PORT):
        bind_bottom_up(UDP, NDN, dport=port)
        bind_bottom_up(UDP, NDN, sport=port)
    bind_bottom_up(TCP, NDN, dport=PORT)
    bind_bottom_up(TCP, NDN, sport=PORT)
    bind_bottom_up(Ether, NDN, type=ETHERTYPE)
    bind_bottom_up(CookedLinux, NDN, proto=ETHERTYPE)
    bind_bottom_up(PPP, NDN, proto=PPP_PROTOCOL)
    bind_bottom_up(TCP, NDN, dport=websocket.PORT)
    bind_bottom_up(TCP, NDN, sport=websocket.PORT)
    for layer in (Interest, Data, LpPacket, NdnStream):
        if layer is not NdnStream:
            bind_top_down(UDP, layer, sport=PORT, dport=PORT)
            bind_top_down(Ether, layer, type=ETHERTYPE)
        bind_top_down(TCP, layer, sport=PORT, dport=PORT)


bind()
