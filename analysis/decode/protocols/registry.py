"""The registry of protocols, and the classification of frames by port."""

from analysis.decode.protocols import lan, moq, mqtt, multicast, ndn, ssb, tiny
from analysis.decode.protocols.protocol import NDN, Declaration
from captures.layers.layers import FramePayload, Ports

TCP_OTHER, UDP_OTHER = "tcp", "udp"
"""Protocols of frames with unknown ports."""

PROTOCOLS: dict[str, Declaration] = {
    each.name: each
    for each in (
        ndn.DECLARATION,
        ssb.DECLARATION,
        tiny.DECLARATION,
        mqtt.DECLARATION,
        multicast.DECLARATION,
        moq.DECLARATION,
        lan.DECLARATION,
    )
}
"""Protocols by name."""


def protocol_of(found: FramePayload, ports: Ports) -> str:
    """Return the name of a frame's protocol; `ports` are those of NDN."""
    if found.source_port is None:
        return NDN
    ends = (found.source_port, found.destination_port)
    if found.tcp is None:
        if any(port in ports.udp for port in ends):
            return NDN
        return next(
            (name for name, one in PROTOCOLS.items() if not one.udp_ports.isdisjoint(ends)), UDP_OTHER
        )
    if any(port in ports.tcp for port in ends):
        return NDN
    for name, protocol in PROTOCOLS.items():
        if any(port in protocol.tcp_ports for port in ends):
            return name
    return TCP_OTHER


def tcp_ports() -> frozenset[int]:
    """Return the TCP ports of all protocols except NDN."""
    return frozenset[int]().union(*(protocol.tcp_ports for protocol in PROTOCOLS.values()))


def udp_ports() -> frozenset[int]:
    """Return the UDP ports of all protocols except NDN."""
    return frozenset[int]().union(*(protocol.udp_ports for protocol in PROTOCOLS.values()))


def in_datagrams() -> list[Declaration]:
    """Return the protocols with datagram packets, except NDN."""
    return [protocol for protocol in PROTOCOLS.values() if protocol.datagram is not None]


def framed() -> list[Declaration]:
    """Return the protocols with message tables of their own."""
    return [protocol for protocol in PROTOCOLS.values() if protocol.framer is not None]
