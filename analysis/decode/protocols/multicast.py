"""Multicast with repair: each datagram is a packet between neighbours in a tree (`ssb.multicast.packets`).

A segment has the name /SOURCE/GROUP/NUMBER, a heartbeat or a request that of its channel. A message says in
its first segment whose it is, and its number.
"""

import re
from ipaddress import IPv4Address
from typing import Final

from analysis.decode.protocols.protocol import Datagram, Declaration, Layer
from forwarder.wire.name import to_uri
from ssb.multicast import packets
from ssb_over_ndn.naming import log_name

_AUTHOR: Final = re.compile(rb'"author": ?"(@[A-Za-z0-9+/]{43}=\.ed25519)"')
_SEQUENCE: Final = re.compile(rb'"sequence": ?([1-9][0-9]{0,15}),')
_HEAD_BYTES: Final = 250
"""Previous, author and sequence are within so many bytes of a message's text, the content is behind them."""

SEGMENTS: Final = ("pushed", "resent")
"""Kinds of packets with a segment of an item: as it is new, and as it was asked for."""
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
_KIND_OF: Final[dict[type[packets.Packet], str]] = {
    packets.Heartbeat: "heartbeat",
    packets.Request: "request",
    packets.Join: "join",
    packets.Prune: "prune",
    packets.Restart: "restart",
}


def _read(payload: bytes) -> Datagram:
    try:
        packet = packets.parse(payload)
    except packets.InvalidPacket as error:
        return Datagram("malformed", str(error))
    if isinstance(packet, packets.Item):
        kind = SEGMENTS[packet.is_repair]
        said = f"{_name(packet.channel)}/{packet.number}"
        return Datagram(kind, None, said, len(packet.segment.content), *_item(packet.segment))
    name = _name(packet.channel) if isinstance(packet, packets.Heartbeat | packets.Request) else None
    return Datagram(_KIND_OF[type(packet)], name=name)


def _item(segment: packets.Segment) -> tuple[str | None, int | None]:
    """Return the feed and number of the message that begins with a segment, if one does."""
    head = segment.content[:_HEAD_BYTES]
    if not segment.place & packets.FIRST or not (author := _AUTHOR.search(head)):
        return None, None
    if not (sequence := _SEQUENCE.search(head)):
        return None, None
    return to_uri(log_name(author[1].decode())), int(sequence[1])


def _name(channel: packets.Channel) -> str:
    return f"/{IPv4Address(channel.source)}/{IPv4Address(channel.group)}"


DECLARATION: Final = Declaration(
    "multicast",
    udp_ports=frozenset((packets.PORT,)),
    kinds=_KINDS,
    layers=tuple(Layer(kind, title) for kind, title in _KINDS.items()),
    control=frozenset(_KINDS.keys() - SEGMENTS),
    datagram=_read,
)
