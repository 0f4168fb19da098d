"""Frames of any usual link type, decoded one at a time down to the payload of UDP, TCP or the link.

analysis/decode/batch.py decodes frames by the thousand; this module is its reference, and decodes unusual
frames. Nothing here raises: an unreadable frame has a `problem`.

Sources: the link types' descriptions at tcpdump.org; IEEE 802.1Q; RFC 791, 8200 (extension headers), 768,
9293, 1661 and 1662 (PPP). No standard assigns 0x0077 in PPP to NDN: ndnSIM writes its traces so
(`pppHeader.SetProtocol (0x0077)` in examples/ccnx-simple-with-pcap.cc), and the dissector of ndn-tools reads
them so (`ppp.protocol` in tools/dissect-wireshark/ndn.lua).
"""

import re
import struct
from socket import AF_INET, AF_INET6, inet_ntop
from typing import NamedTuple

from captures.layers import websocket
from captures.layers.link_types import not_read

ETHERNET, SLL, SLL2, NULL, LOOP = 1, 113, 276, 0, 108
RAW = (101, 12, 14)
RAW_IPV4, RAW_IPV6 = 228, 229
PPP = (9, 50)

IPV4, IPV6, NDN = 0x0800, 0x86DD, 0x8624
PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0077: NDN}
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
TCP, UDP = 6, 17
UDP_HEADER = 8
SLL_HEADER, SLL2_HEADER = 16, 20
FAMILIES = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}  # AF_INET, and AF_INET6 of Linux and three BSDs
_FRAGMENT, _AUTHENTICATION = 44, 51
_MORE = 0x2000
EXTENSIONS = (0, 43, 60, 135, 139, 140, _FRAGMENT, _AUTHENTICATION)

SHORT = "headers cut short"
FRAGMENT = "IP fragment"
BAD_IP = "IP header"
BAD_TRANSPORT = "UDP or TCP header"
CUT = "cut by the capture"

_WORD = struct.Struct("!H")
_PORTS = struct.Struct("!HHH")
_TCP_HEAD = struct.Struct("!HHIIBB")
TCP_HEADER = 20  # without options


class Ports(NamedTuple):
    """Port numbers of NDN."""

    udp: frozenset[int] = frozenset((6363, 56363))
    tcp: frozenset[int] = frozenset((6363, websocket.PORT))


class Tcp(NamedTuple):
    """A TCP header: sequence number, acknowledgement number, flags; without ports."""

    sequence: int
    acknowledged: int
    flags: int


class FramePayload(NamedTuple):
    """Payload of a frame: over UDP or TCP, or NDN directly over the link.

    transport: "udp", "tcp", "ethernet" or "ppp"; source, destination: IP addresses, MAC addresses over
    Ethernet, empty over PPP; link, ip, header: bytes of each layer's header, of padding too in `link`; at:
    position of the payload in the frame; length: its bytes on the wire; there: its captured bytes; vlan:
    outermost VLAN, or None. tcp: of a segment. whole: payload size of a datagram whose first IP fragment this
    is, while `length` is the fragment's; else None.
    """

    transport: str
    source: str
    destination: str
    source_port: int | None
    destination_port: int | None
    vlan: int | None
    link: int
    ip: int
    header: int
    at: int
    length: int
    there: int
    tcp: Tcp | None = None
    whole: int | None = None


def frame_payload(frame: bytes, original: int, link_type: int) -> FramePayload | str:
    """Return a frame's payload; a problem, if unreadable; or "" for other frames.

    `original` is the frame's length on the wire.
    """
    cut = original > len(frame)
    reached = _network(frame, link_type)
    if reached is None:
        return not_read(link_type)
    protocol, at, vlan = reached
    if protocol == IPV4:
        return _ipv4(frame, original, at, vlan)
    if protocol == IPV6:
        return _ipv6(frame, original, at, vlan)
    if protocol == NDN:
        return _ethernet(frame, original, link_type, at, vlan)
    return CUT if protocol < 0 and cut else ""


def _network(frame: bytes, link_type: int) -> tuple[int, int, int | None] | None:
    """Return (protocol as an Ethertype, -1 without one, start of its header, VLAN)."""
    if link_type == ETHERNET:
        at = 14
    elif link_type == SLL:
        at = SLL_HEADER
    elif link_type == SLL2:
        if len(frame) < SLL2_HEADER:
            return -1, 0, None
        return _untagged(frame, _WORD.unpack_from(frame)[0], SLL2_HEADER)
    elif link_type in (NULL, LOOP):
        family = min(
            int.from_bytes(frame[:4], "little"), int.from_bytes(frame[:4], "big")
        )  # NULL has the byte order of the capturing machine
        return (FAMILIES.get(family, 0) if len(frame) >= 4 else -1), 4, None
    elif link_type in RAW:
        return (-1 if not frame else {4: IPV4, 6: IPV6}.get(frame[0] >> 4, 0)), 0, None
    elif link_type in (RAW_IPV4, RAW_IPV6):
        return (IPV4 if link_type == RAW_IPV4 else IPV6), 0, None
    elif link_type in PPP:
        at = 2 if frame[:2] == b"\xff\x03" else 0
        end = at + (1 if len(frame) > at and frame[at] & 1 else 2)  # a compressed protocol field is odd
        return (PPP_PROTOCOLS.get(int.from_bytes(frame[at:end]), 0) if len(frame) >= end else -1), end, None
    else:
        return None
    if len(frame) < at:
        return -1, at, None
    return _untagged(frame, _WORD.unpack_from(frame, at - 2)[0], at)


def _untagged(frame: bytes, protocol: int, at: int) -> tuple[int, int, int | None]:
    vlan = None
    while protocol in VLAN_TAGS:
        if len(frame) < at + 4:
            return -1, at, vlan
        tag, protocol = struct.unpack_from("!HH", frame, at)
        vlan = tag & 0xFFF if vlan is None else vlan
        at += 4
    return protocol, at, vlan


def _ethernet(frame: bytes, original: int, link_type: int, at: int, vlan: int | None) -> FramePayload:
    """NDN directly over Ethernet, or PPP: bytes after the packet are padding, so its length is its TLV's."""
    length = min(_tlv_size(frame, at), original - at)
    sender, receiver = STATIONS.get(link_type, (_NOWHERE, _NOWHERE))
    source, target = bytes(frame[sender]), bytes(frame[receiver])
    there = min(length, len(frame) - at)
    link = original - length
    name = "ppp" if link_type in PPP else "ethernet"
    return FramePayload(name, mac(source), mac(target), None, None, vlan, link, 0, 0, at, length, there)


_NOWHERE = slice(0)
STATIONS: dict[int, tuple[slice, slice]] = {
    ETHERNET: (slice(6, 12), slice(0, 6)),
    SLL: (slice(6, 12), slice(0)),  # Linux's cooked captures keep the sender only
    SLL2: (slice(12, 18), slice(0)),
}


GROUP = r"^(22[4-9]|23[0-9])\.|^ff[0-9a-f]{2}:|^[0-9a-f][13579bdf]:"
"""Patterns of group addresses: IPv4, IPv6, and Ethernet."""


def is_group(address: str) -> bool:
    """Return whether an address is a multicast or broadcast address."""
    return re.match(GROUP, address) is not None


def mac(address: bytes) -> str:
    """Format a MAC address."""
    return ":".join(f"{octet:02x}" for octet in address)


_SLL_KIND = {SLL: slice(0, 2), SLL2: slice(10, 11)}
_SLL_DIRECTIONS = {0: 1, 1: 1, 2: 1, 4: 2}  # to us, broadcast, multicast; sent by us


def sll_direction(frame: bytes, link_type: int) -> int:
    """Return the captures.formats.pcapng.Direction in a cooked capture's frame; 0 without one."""
    where = _SLL_KIND.get(link_type)
    whole = where is not None and len(frame) >= (SLL_HEADER if link_type == SLL else SLL2_HEADER)
    return _SLL_DIRECTIONS.get(int.from_bytes(frame[where]), 0) if where and whole else 0


def _tlv_size(frame: bytes, at: int) -> int:
    """Return the size of the TLV element at `at`; all captured bytes if it is unreadable."""
    start = at
    numbers = []
    for _ in range(2):
        first = frame[at] if at < len(frame) else 255
        size = 0 if first < 253 else 2 << (first - 253)
        if at + 1 + size > len(frame):
            return 1 << 62
        numbers.append(int.from_bytes(frame[at + 1 : at + 1 + size], "big") if size else first)
        at += 1 + size
    return at - start + numbers[1]


def _ipv4(frame: bytes, original: int, at: int, vlan: int | None) -> FramePayload | str:
    short = CUT if original > len(frame) else SHORT
    if len(frame) < at + 20:
        return short
    header = (frame[at] & 15) * 4
    # 0 stands for all bytes: the network card was to cut it (segmentation offload).
    total = _WORD.unpack_from(frame, at + 2)[0] or original - at
    if frame[at] >> 4 != 4 or header < 20 or total < header:
        return BAD_IP
    protocol = frame[at + 9]
    if protocol not in (UDP, TCP):
        return ""
    fragment = _WORD.unpack_from(frame, at + 6)[0] & 0x3FFF
    if fragment and not (fragment == _MORE and protocol == UDP):
        return FRAGMENT
    if at + total > original:
        return SHORT
    ends = inet_ntop(AF_INET, frame[at + 12 : at + 16]), inet_ntop(AF_INET, frame[at + 16 : at + 20])
    place = (at + header, at + total, header)
    return _transport(frame, original, protocol, place, ends, vlan, bool(fragment))


def _ipv6(frame: bytes, original: int, at: int, vlan: int | None) -> FramePayload | str:
    short = CUT if original > len(frame) else SHORT
    if len(frame) < at + 40:
        return short
    if frame[at] >> 4 != 6:
        return BAD_IP
    length = _WORD.unpack_from(frame, at + 4)[0]
    end = at + 40 + length if length else original  # as in IPv4
    protocol, place, is_first = frame[at + 6], at + 40, False
    while protocol in EXTENSIONS:
        if place + 8 > end:
            return BAD_IP
        if place + 8 > len(frame):
            return short
        if protocol == _FRAGMENT and (fragment := _WORD.unpack_from(frame, place + 2)[0] & 0xFFF9):
            if fragment != 1 or frame[place] != UDP:
                return FRAGMENT
            is_first = True
        size = 8 if protocol == _FRAGMENT else (frame[place + 1] + 1) * 8
        if protocol == _AUTHENTICATION:
            size = (frame[place + 1] + 2) * 4
        protocol, place = frame[place], place + size
    if protocol not in (UDP, TCP):
        return ""
    if place > end:
        return BAD_IP
    if end > original:
        return SHORT
    ends = inet_ntop(AF_INET6, frame[at + 8 : at + 24]), inet_ntop(AF_INET6, frame[at + 24 : at + 40])
    return _transport(frame, original, protocol, (place, end, place - at), ends, vlan, is_first)


def _transport(
    frame: bytes,
    original: int,
    protocol: int,
    place: tuple[int, int, int],
    ends: tuple[str, str],
    vlan: int | None,
    is_first: bool,
) -> FramePayload | str:
    """Read UDP or TCP; `is_first`: the first fragment of a datagram."""
    at, end, ip = place
    size = UDP_HEADER if protocol == UDP else TCP_HEADER
    if end - at < size:
        return BAD_TRANSPORT
    if at + size > len(frame):
        return CUT
    source, target, length = _PORTS.unpack_from(frame, at)
    tcp = whole = None
    if protocol == UDP:
        if length < UDP_HEADER or (at + length > end and not is_first):
            return BAD_TRANSPORT
        length -= UDP_HEADER
        if is_first:
            length, whole = min(length, end - at - UDP_HEADER), length
    else:
        _, _, sequence, acknowledged, offset, flags = _TCP_HEAD.unpack_from(frame, at)
        size = (offset >> 4) * 4
        if size < TCP_HEADER or at + size > end:
            return BAD_TRANSPORT
        length = end - at - size
        tcp = Tcp(sequence, acknowledged, flags)
    start = at + size
    there = max(0, min(length, len(frame) - start))
    link = original - ip - size - length
    name = "udp" if protocol == UDP else "tcp"
    return FramePayload(name, *ends, source, target, vlan, link, ip, size, start, length, there, tcp, whole)
