import struct

import pytest
from datagrams import Datagram, parse_udp
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from captures.layers.frames import ipv4_frame, udp_frame

MAC_A, MAC_B = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")

macs = st.binary(min_size=6, max_size=6)
addresses = st.ip_addresses(v=4).map(str)
ports = st.integers(0, 0xFFFF)
fields = st.tuples(macs, macs, addresses, addresses, ports, ports, st.binary(max_size=100), ports)


def ones_complement_sum(octets: bytes) -> int:
    """RFC 1071, word by word."""
    total = 0
    for (word,) in struct.iter_unpack("!H", octets + bytes(len(octets) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


@given(fields)
def test_scapy_builds_the_same_frame(
    fields: tuple[bytes, bytes, str, str, int, int, bytes, int],
) -> None:
    src_mac, dst_mac, src_ip, dst_ip, src_port, dst_port, payload, ident = fields
    theirs = (
        Ether(src=src_mac.hex(":"), dst=dst_mac.hex(":"), type=0x0800)
        / IP(src=src_ip, dst=dst_ip, ttl=64, flags="DF", id=ident, proto=17)
        / UDP(sport=src_port, dport=dst_port)
        / payload
    )
    assert udp_frame(*fields) == bytes(theirs)


@given(fields, st.integers(0, 255))
def test_scapy_builds_the_same_datagram_of_any_protocol(
    fields: tuple[bytes, bytes, str, str, int, int, bytes, int], protocol: int
) -> None:
    src_mac, dst_mac, src_ip, dst_ip, _, _, payload, ident = fields
    theirs = (
        Ether(src=src_mac.hex(":"), dst=dst_mac.hex(":"), type=0x0800)
        / IP(src=src_ip, dst=dst_ip, ttl=64, flags="DF", id=ident, proto=protocol)
        / Raw(payload)
    )
    assert ipv4_frame(src_mac, dst_mac, src_ip, dst_ip, protocol, payload, ident) == bytes(theirs)


def test_a_datagram_is_no_larger_than_its_length_field() -> None:
    assert len(ipv4_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 6, bytes(65515))) == 65549
    with pytest.raises(ValueError, match="at most 65515 bytes, not 65516"):
        ipv4_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 6, bytes(65516))


@given(ports)
def test_checksums_hold_and_are_never_left_out(port: int) -> None:
    frame = udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", port, 6363, b"odd", port)
    assert ones_complement_sum(frame[14:34]) == 0xFFFF
    pseudo_header = frame[26:34] + struct.pack("!HH", 17, 11)
    assert ones_complement_sum(pseudo_header + frame[34:]) == 0xFFFF


def test_a_udp_checksum_of_zero_is_sent_as_all_ones() -> None:
    # The source port is chosen so that pseudo-header, header and payload sum to a multiple of 65535.
    words = 0x0A00 + 0x0001 + 0x0A00 + 0x0002 + 17 + 10 + 10 + 6363 + 0x6162
    frame = udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", -words % 0xFFFF, 6363, b"ab")
    assert frame[40:42] == b"\xff\xff"


def test_an_ipv4_checksum_of_zero_is_sent_as_it_is() -> None:
    words = 0x4500 + 30 + 0x4000 + 0x4011 + 0x0A00 + 0x0001 + 0x0A00 + 0x0002
    frame = udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 6363, 6363, b"ab", -words % 0xFFFF)
    assert frame[24:26] == b"\0\0"


def test_identification_wraps() -> None:
    ends = ("10.0.0.1", "10.0.0.2", 6363, 6363, b"")
    assert udp_frame(MAC_A, MAC_B, *ends, 0x10005) == udp_frame(MAC_A, MAC_B, *ends, 5)


def test_the_largest_payload() -> None:
    frame = udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 1, 2, bytes(65507))
    view = parse_udp(frame)
    assert view is not None
    assert view.payload_length == 65507
    with pytest.raises(ValueError, match="65507 bytes, not 65508"):
        udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 1, 2, bytes(65508))


@given(fields, st.binary(max_size=20))
def test_what_is_built_is_parsed(
    fields: tuple[bytes, bytes, str, str, int, int, bytes, int], padding: bytes
) -> None:
    frame = udp_frame(*fields)
    payload = fields[6]
    assert parse_udp(frame + padding) == Datagram(*fields[:6], 42, len(payload), 14, 20)
    assert frame[42:] == payload


@given(fields)
def test_a_frame_cut_short_is_none(fields: tuple[bytes, bytes, str, str, int, int, bytes, int]) -> None:
    frame = udp_frame(*fields)
    assert all(parse_udp(frame[:size]) is None for size in range(len(frame)))


@pytest.mark.parametrize("tags", [0, 1, 2, 5])
def test_vlan_tags_and_ip_options_are_counted(tags: int) -> None:
    frame = Ether(src=MAC_A.hex(":"), dst=MAC_B.hex(":"))
    for vlan in range(tags):
        frame /= Dot1Q(vlan=vlan)
    frame /= IP(src="10.0.0.1", dst="10.0.0.2", options=b"\x01" * 8)
    octets = bytes(frame / UDP(sport=7, dport=9) / b"payload")
    view = parse_udp(octets)
    assert view is not None
    assert (view.link_header, view.ip_header) == (14 + 4 * tags, 28)
    assert octets[view.payload_offset : view.payload_offset + view.payload_length] == b"payload"
    assert (view.src_ip, view.dst_ip, view.src_port, view.dst_port) == ("10.0.0.1", "10.0.0.2", 7, 9)
    assert (view.src_mac, view.dst_mac) == (MAC_A, MAC_B)


def changed(at: int, octets: bytes) -> bytes:
    frame = udp_frame(MAC_A, MAC_B, "10.0.0.1", "10.0.0.2", 6363, 6363, b"payload")
    return frame[:at] + octets + frame[at + len(octets) :]


@pytest.mark.parametrize(
    ("at", "octets"),
    [
        (12, b"\x86\xdd"),  # IPv6
        (12, b"\x08\x06"),  # ARP
        (14, b"\x65"),  # version 6
        (14, b"\x44"),  # header of 16 bytes
        (14, b"\x4f"),  # header beyond the datagram
        (16, b"\0\x1b"),  # total length leaves no room for UDP's header
        (16, b"\0\x24"),  # total length beyond the frame
        (20, b"\x20\0"),  # more fragments
        (20, b"\0\x01"),  # a later fragment
        (23, b"\x06"),  # TCP
        (38, b"\0\x07"),  # UDP length below its header
        (38, b"\0\x10"),  # UDP length beyond the datagram
    ],
)
def test_what_is_not_a_whole_datagram_is_none(at: int, octets: bytes) -> None:
    assert parse_udp(changed(at, b"")) is not None
    assert parse_udp(changed(at, octets)) is None


@given(st.binary(max_size=80))
def test_garbage_is_none_or_within_the_frame(frame: bytes) -> None:
    view = parse_udp(frame)
    assert view is None or view.payload_offset + view.payload_length <= len(frame)


@given(st.data())
def test_a_damaged_frame_is_none_or_within_itself(data: st.DataObject) -> None:
    frame = bytearray(changed(0, b""))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(12, 41))] = data.draw(st.integers(0, 255))
    view = parse_udp(bytes(frame))
    assert view is None or 42 <= view.payload_offset <= view.payload_offset + view.payload_length <= len(
        frame
    )
