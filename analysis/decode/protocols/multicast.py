"""Multicast with repair: each datagram is a packet between neighbours in a tree (`ssb.multicast.packets`).

A segment has the name /SOURCE/GROUP/NUMBER, a heartbeat or a request that of its channel.
"""

from ipaddress import IPv4Address
from typing import Final

from analysis.decode.protocols.protocol import Datagram, Declaration, Layer
from ssb.multicast.packets import (
    PORT,
    Channel,
    Heartbeat,
    InvalidPacket,
    Item,
    Join,
    Packet,
    Prune,
    Request,
    Restart,
    parse,
)

_KINDS: Final = {
    "pushed": "segments of items",
    "resent": "segments that were asked for",
    "heartbeat": "heartbeats of sources",
    "request": "requests for segments",
    "join": "joins of trees",
    "prune": "prunes of trees",
    "restart": "routers that have lost their state",
}
"""Kinds of packets, each of which is also a layer."""
_KIND_OF: Final[dict[type[Packet], str]] = {
    Heartbeat: "heartbeat",
    Request: "request",
    Join: "join",
    Prune: "prune",
    Restart: "restart",
}


def _read(payload: bytes) -> Datagram:
    try:
        packet = parse(payload)
    except InvalidPacket as error:
        return Datagram("malformed", str(error))
    if isinstance(packet, Item):
        kind = "resent" if packet.is_repair else "pushed"
        said = f"{_name(packet.channel)}/{packet.number}"
        return Datagram(kind, name=said, payload=len(packet.segment.content))
    name = _name(packet.channel) if isinstance(packet, Heartbeat | Request) else None
    return Datagram(_KIND_OF[type(packet)], name=name)


def _name(channel: Channel) -> str:
    return f"/{IPv4Address(channel.source)}/{IPv4Address(channel.group)}"


DECLARATION: Final = Declaration(
    "multicast",
    udp_ports=frozenset((PORT,)),
    kinds=_KINDS,
    layers=tuple(Layer(kind, title) for kind, title in _KINDS.items()),
    control=frozenset(_KINDS.keys() - {"pushed", "resent"}),
    datagram=_read,
)
