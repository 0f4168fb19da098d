"""UDP datagrams in IPv4 in Ethernet II, taken apart: a careful reader of single frames, for tests."""

import struct
from socket import AF_INET, inet_ntop
from typing import NamedTuple

ETHERNET_HEADER = 14
IPV4_HEADER = 20  # without options
UDP_HEADER = 8

_ETHERTYPE_IPV4 = 0x0800
_ETHERTYPES_VLAN = (0x8100, 0x88A8)  # IEEE 802.1Q customer and service tags
_VLAN_TAG = 4
_FRAGMENT = 0x3FFF  # more fragments, or an offset
_UDP = 17

# version and length, total length, fragment, protocol, addresses
_IPV4_READ = struct.Struct("!BxH2xHxB2x4s4s")
_UDP_READ = struct.Struct("!HHH")


class Datagram(NamedTuple):
    """Where things are in a frame that holds a whole UDP datagram over IPv4.

    The payload is `frame[payload_offset : payload_offset + payload_length]`. Header sizes are in bytes:
    `link_header` counts VLAN tags and `ip_header` options; the UDP header is always 8.
    """

    src_mac: bytes
    dst_mac: bytes
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int
    payload_offset: int
    payload_length: int
    link_header: int
    ip_header: int


def parse_udp(frame: bytes) -> Datagram | None:
    """Return the view of a frame, or None if it is not a whole UDP datagram over IPv4; never raises.

    None too for a fragment and for a frame cut short. Bytes after the datagram (Ethernet's padding) are left
    out. Checksums are not checked: with checksum offloading the sender's capture holds them unfinished.
    """
    size = len(frame)
    at = ETHERNET_HEADER
    while size >= at + IPV4_HEADER + UDP_HEADER:
        ethertype = frame[at - 2] << 8 | frame[at - 1]
        if ethertype not in _ETHERTYPES_VLAN:
            break
        at += _VLAN_TAG
    else:
        return None
    if ethertype != _ETHERTYPE_IPV4:
        return None
    version_length, total, fragment, protocol, src, dst = _IPV4_READ.unpack_from(frame, at)
    ip_header = (version_length & 0x0F) * 4
    udp, end = at + ip_header, at + total
    if (
        version_length >> 4 != 4
        or ip_header < IPV4_HEADER
        or protocol != _UDP
        or fragment & _FRAGMENT
        or end > size
        or udp + UDP_HEADER > end
    ):
        return None
    src_port, dst_port, length = _UDP_READ.unpack_from(frame, udp)
    if length < UDP_HEADER or udp + length > end:
        return None
    return Datagram(
        frame[6:12],
        frame[:6],
        inet_ntop(AF_INET, src),
        inet_ntop(AF_INET, dst),
        src_port,
        dst_port,
        udp + UDP_HEADER,
        length - UDP_HEADER,
        at,
        ip_header,
    )
