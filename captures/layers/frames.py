"""IPv4 in Ethernet II, built for the emulator's captures: UDP datagrams, and those of any protocol.

The Internet checksum (RFC 1071) is the complement of a one's-complement sum of 16-bit words. Such a sum is
the plain sum modulo 65535. As 65536 is 1 modulo 65535, so is a string of words taken as one big number: one
conversion and one remainder replace a loop. A sum of 65535 needs care, as its remainder is 0.
"""

import struct
from functools import lru_cache
from socket import AF_INET, inet_pton

ETHERNET_HEADER = 14
IPV4_HEADER = 20  # without options
UDP_HEADER = 8

_ETHERTYPE_IPV4 = 0x0800
_VERSION_4_LENGTH_5 = 0x4500  # with type of service 0
_DONT_FRAGMENT = 0x4000
_UDP = 17
_MOST_PAIRS = 1 << 14  # of addresses whose bytes are remembered

_ETHERNET_IPV4 = struct.Struct("!6s6sHHHHHHH8s")
_UDP_HEAD = struct.Struct("!HHHH")


@lru_cache(1 << 12)
def group_mac(group: str) -> bytes:
    """Return the MAC address of an IPv4 multicast or broadcast address (RFC 1112, section 6.4)."""
    if group == "255.255.255.255":
        return b"\xff" * 6
    address = inet_pton(AF_INET, group)
    return b"\x01\x00\x5e" + bytes([address[1] & 0x7F]) + address[2:]


@lru_cache(maxsize=_MOST_PAIRS)
def _addresses(src_ip: str, dst_ip: str) -> tuple[int, bytes]:
    """Return a source and a destination, one after the other: as a number, and as they are sent."""
    packed = inet_pton(AF_INET, src_ip) + inet_pton(AF_INET, dst_ip)
    return int.from_bytes(packed), packed


def udp_frame(
    src_mac: bytes,
    dst_mac: bytes,
    src_ip: str,
    dst_ip: str,
    src_port: int,
    dst_port: int,
    payload: bytes,
    ident: int = 0,
    ttl: int = 64,
) -> bytes:
    """Return an Ethernet frame with one UDP datagram, not padded to Ethernet's minimum, as on a veth.

    Raises the errors of udp_datagram(); otherwise like ipv4_frame().
    """
    datagram = udp_datagram(src_ip, dst_ip, src_port, dst_port, payload)
    return ipv4_frame(src_mac, dst_mac, src_ip, dst_ip, _UDP, datagram, ident, ttl)


def udp_datagram(src_ip: str, dst_ip: str, src_port: int, dst_port: int, payload: bytes) -> bytes:
    """Return a UDP datagram (RFC 768): header and payload.

    Raises ValueError for a payload above 65507 bytes, and OSError for an invalid address.
    """
    length = UDP_HEADER + len(payload)
    if length > 0xFFFF - IPV4_HEADER:
        raise ValueError(f"a UDP datagram over IPv4 carries at most 65507 bytes, not {len(payload)}")
    addresses, _ = _addresses(src_ip, dst_ip)
    # The length counts twice: in the pseudo-header and in the UDP header.
    words = addresses + _UDP + length + src_port + dst_port + length
    words += int.from_bytes(payload) << (len(payload) % 2 * 8)  # an odd payload is padded by a zero byte
    checksum = 0xFFFF - words % 0xFFFF  # 1 to 65535: zero is sent as all ones, since zero means "none"
    return _UDP_HEAD.pack(src_port, dst_port, length, checksum) + payload


def ipv4_frame(
    src_mac: bytes,
    dst_mac: bytes,
    src_ip: str,
    dst_ip: str,
    protocol: int,
    payload: bytes,
    ident: int = 0,
    ttl: int = 64,
) -> bytes:
    """Return an Ethernet frame with one IPv4 datagram of any protocol (RFC 791).

    MAC addresses are 6 bytes, IPv4 addresses text; `ident` is the IPv4 identification, taken modulo 65536;
    `protocol` is the number in the field of that name (6 for TCP). "Don't fragment" is set; the caller
    computes the payload's own checksum. Raises ValueError for a payload above 65515 bytes, and OSError for an
    invalid address.
    """
    total = IPV4_HEADER + len(payload)
    if total > 0xFFFF:
        raise ValueError(f"an IPv4 datagram carries at most 65515 bytes, not {len(payload)}")
    addresses, packed = _addresses(src_ip, dst_ip)
    ident, ttl_protocol = ident & 0xFFFF, ttl << 8 | protocol
    words = _VERSION_4_LENGTH_5 + total + ident + _DONT_FRAGMENT + ttl_protocol + addresses
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
        packed,
    )
    return headers + payload
