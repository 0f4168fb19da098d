"""Exported PDUs of Wireshark: packets without the layers below, each with tags for the fields of these.

A PDU is tags, then the packet. A tag is its type and its value's length, two bytes each, and the value,
padded to a multiple of four bytes; all numbers are big-endian.

Source: "LINKTYPE_WIRESHARK_UPPER_PDU" (tcpdump.org) and its reference epan/exported_pdu.h of Wireshark.
"""

import struct
from ipaddress import IPv4Address, ip_address

LINKTYPE = 252
"""LINKTYPE_WIRESHARK_UPPER_PDU."""
MOST_BYTES = 262_144
"""Wireshark refuses a file with a longer packet."""

_END, _DISSECTOR = 0, 12
_IPV4_SOURCE, _IPV4_TARGET, _IPV6_SOURCE, _IPV6_TARGET = 20, 21, 22, 23
_PORT_TYPE, _SOURCE_PORT, _TARGET_PORT = 24, 25, 26
_FRAME = 30
_TCP = 2


def tcp_tags(dissector: str, source: tuple[str, int], target: tuple[str, int], frame: int) -> bytes:
    """Return the tags of a packet received over TCP.

    `dissector` is Wireshark's name of the packet's dissector; `source` and `target` are an IP address and a
    port each; `frame` is the number of the frame that completed the packet.
    """
    sender, receiver = ip_address(source[0]), ip_address(target[0])
    is_ipv4 = isinstance(sender, IPv4Address)
    tags = (
        (_DISSECTOR, dissector.encode()),
        (_IPV4_SOURCE if is_ipv4 else _IPV6_SOURCE, sender.packed),
        (_IPV4_TARGET if is_ipv4 else _IPV6_TARGET, receiver.packed),
        (_PORT_TYPE, struct.pack("!I", _TCP)),
        (_SOURCE_PORT, struct.pack("!I", source[1])),
        (_TARGET_PORT, struct.pack("!I", target[1])),
        (_FRAME, struct.pack("!I", frame)),
        (_END, b""),
    )
    return b"".join(_tag(kind, value) for kind, value in tags)


def _tag(kind: int, value: bytes) -> bytes:
    value += bytes(-len(value) % 4)
    return struct.pack("!HH", kind, len(value)) + value
