"""IPv4 in Ethernet II: built for the emulator's captures; of UDP datagrams, taken apart for the analysis.

The Internet checksum (RFC 1071) is the complement of a one's-complement sum of 16-bit words. Such a sum is
the plain sum modulo 65535; and as 65536 leaves 1, so is a whole string of words read as one big number. One
conversion and one remainder do, in place of a loop. Zero is the case to mind: a sum of 65535 leaves 0.
"""

import struct
from socket import AF_INET, inet_ntop, inet_pton
from typing import NamedTuple

ETHERNET_HEADER = 14
IPV4_HEADER = 20  # without options
UDP_HEADER = 8

_ETHERTYPE_IPV4 = 0x0800
_ETHERTYPES_VLAN = (0x8100, 0x88A8)  # IEEE 802.1Q customer and service tags
_VLAN_TAG = 4
_VERSION_4_LENGTH_5 = 0x4500  # with type of service 0
_DONT_FRAGMENT = 0x4000
_FRAGMENT = 0x3FFF  # more fragments, or an offset
_UDP = 17
_TTL_64_UDP = 64 << 8 | _UDP

_ETHERNET_IPV4 = struct.Struct("!6s6sHHHHHHH4s4s")
_HEADERS = struct.Struct("!6s6sHHHHHHH4s4sHHHH")  # Ethernet, then IPv4, then UDP
_IPV4_READ = struct.Struct(
    "!BxH2xHxB2x4s4s"
)  # version and length, total length, fragment, protocol, addresses
_UDP_READ = struct.Struct("!HHH")


def udp_frame(
    src_mac: bytes,
    dst_mac: bytes,
    src_ip: str,
    dst_ip: str,
    src_port: int,
    dst_port: int,
    payload: bytes,
    ident: int = 0,
) -> bytes:
    """Return an Ethernet frame with one UDP datagram, not padded to Ethernet's minimum, as a veth carries it.

    MAC addresses are 6 bytes, IPv4 addresses text; `ident` is the IPv4 identification, taken modulo 65536.
    TTL is 64 and "don't fragment" is set. Raises ValueError for a payload above 65507 bytes, and OSError
    for an address that is none.
    """
    length = UDP_HEADER + len(payload)
    if length > 0xFFFF - IPV4_HEADER:
        raise ValueError(f"a UDP datagram over IPv4 carries at most 65507 bytes, not {len(payload)}")
    src, dst = inet_pton(AF_INET, src_ip), inet_pton(AF_INET, dst_ip)
    total, ident = IPV4_HEADER + length, ident & 0xFFFF
    addresses = int.from_bytes(src + dst)
    ipv4_words = _VERSION_4_LENGTH_5 + total + ident + _DONT_FRAGMENT + _TTL_64_UDP + addresses
    # The length counts twice: in the pseudo-header and in the UDP header (RFC 768).
    udp_words = addresses + _UDP + length + src_port + dst_port + length
    udp_words += int.from_bytes(payload) << (len(payload) % 2 * 8)  # an odd payload is padded by a zero byte
    return (
        _HEADERS.pack(
            dst_mac,
            src_mac,
            _ETHERTYPE_IPV4,
            _VERSION_4_LENGTH_5,
            total,
            ident,
            _DONT_FRAGMENT,
            _TTL_64_UDP,
            -ipv4_words % 0xFFFF,  # 0 to 65534: a zero is sent as it is
            src,
            dst,
            src_port,
            dst_port,
            length,
            0xFFFF - udp_words % 0xFFFF,  # 1 to 65535: a zero is sent as all ones, as zero means "none"
        )
        + payload
    )


def ipv4_frame(
    src_mac: bytes, dst_mac: bytes, src_ip: str, dst_ip: str, protocol: int, payload: bytes, ident: int = 0
) -> bytes:
    """Return an Ethernet frame with one IPv4 datagram of any protocol (RFC 791): what udp_frame() is for UDP.

    `protocol` is a number of the field of that name (6 for TCP); the payload's own checksum is the caller's.
    Raises ValueError for a payload above 65515 bytes, and OSError for an address that is none.
    """
    total = IPV4_HEADER + len(payload)
    if total > 0xFFFF:
        raise ValueError(f"an IPv4 datagram carries at most 65515 bytes, not {len(payload)}")
    src, dst = inet_pton(AF_INET, src_ip), inet_pton(AF_INET, dst_ip)
    ident, ttl_protocol = ident & 0xFFFF, 64 << 8 | protocol
    words = _VERSION_4_LENGTH_5 + total + ident + _DONT_FRAGMENT + ttl_protocol + int.from_bytes(src + dst)
    headers = _ETHERNET_IPV4.pack(
        dst_mac,
        src_mac,
        _ETHERTYPE_IPV4,
        _VERSION_4_LENGTH_5,
        total,
        ident,
        _DONT_FRAGMENT,
        ttl_protocol,
        -words % 0xFFFF,
        src,
        dst,
    )
    return headers + payload


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
