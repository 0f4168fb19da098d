"""Frames of all kinds, crafted with Scapy: NDN packets, what carries them, and damage; strategies for
Hypothesis."""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback

from forwarder.wire.feed import fork_name, item_name, native_content, ssb_content
from forwarder.wire.lp import NO_ROUTE, make_feed_state, make_lp
from forwarder.wire.name import component, from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.parameters import make_interest_with_parameters
from forwarder.wire.persistent import make_persistent
from forwarder.wire.tlv import element, nni, number

KEY = bytes(range(32))
FEED = from_uri("/ssb/logs") + component(8, KEY)


class Frame(NamedTuple):
    """A frame, its length on the wire, and its link type."""

    octets: bytes
    original: int
    link_type: int = 1


Wrap = Callable[[bytes], bytes]
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
V4, V6 = IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fe80::1", dst="ff02::1234")
NDN_UDP = UDP(sport=6363, dport=6363)
ETHER = Ether(src=A, dst=B)


def first_fragment(payload: bytes) -> bytes:
    """Return a frame with the first half of a datagram."""
    udp = UDP(sport=6363, dport=6363, len=len(payload) + 8)
    return bytes(ETHER / IP(src="10.0.0.1", dst="10.0.0.2", flags="MF") / udp / payload[: len(payload) // 2])


WRAPS: dict[str, tuple[int, Wrap]] = {
    "udp4": (1, lambda p: bytes(ETHER / V4 / NDN_UDP / p)),
    "udp6": (1, lambda p: bytes(ETHER / V6 / NDN_UDP / p)),
    "multicast": (1, lambda p: bytes(ETHER / V4 / UDP(sport=49152, dport=56363) / p)),
    "other port": (1, lambda p: bytes(ETHER / V4 / UDP(sport=53, dport=53) / p)),
    "vlan": (1, lambda p: bytes(ETHER / Dot1Q(vlan=5) / V4 / NDN_UDP / p)),
    "qinq": (1, lambda p: bytes(ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=5) / V6 / NDN_UDP / p)),
    "old qinq": (1, lambda p: bytes(Ether(src=A, dst=B, type=0x9100) / Dot1Q(vlan=9) / V4 / NDN_UDP / p)),
    "padded": (1, lambda p: bytes(ETHER / V4 / NDN_UDP / p) + bytes(6)),
    "ethernet": (1, lambda p: bytes(Ether(src=A, dst=B, type=0x8624)) + p),
    "ethernet, padded": (1, lambda p: bytes(Ether(src=A, dst=B, type=0x8624)) + p.ljust(46, b"\0")),
    "ethernet, vlan": (1, lambda p: bytes(ETHER / Dot1Q(vlan=3, type=0x8624)) + p),
    "options": (1, lambda p: bytes(ETHER / IP(options=b"\x01" * 8) / NDN_UDP / p)),
    "fragment": (1, lambda p: bytes(ETHER / IP(flags="MF") / NDN_UDP / p)),
    "later fragment": (1, lambda p: bytes(ETHER / IP(frag=100, proto=17) / p)),
    "extensions": (1, lambda p: bytes(ETHER / V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / NDN_UDP / p)),
    "routing": (1, lambda p: bytes(ETHER / V6 / IPv6ExtHdrRouting(addresses=["::1"]) / NDN_UDP / p)),
    "fragment6": (1, lambda p: bytes(ETHER / V6 / IPv6ExtHdrFragment(m=1) / NDN_UDP / p)),
    "atomic": (1, lambda p: bytes(ETHER / V6 / IPv6ExtHdrFragment() / NDN_UDP / p)),
    "tcp": (1, lambda p: bytes(ETHER / V4 / TCP(sport=50000, dport=6363, seq=7) / p)),
    "tcp6": (1, lambda p: bytes(ETHER / V6 / TCP(sport=6363, options=[("NOP", None)] * 4) / p)),
    "other tcp": (1, lambda p: bytes(ETHER / V4 / TCP(sport=80, dport=8080) / p)),
    "arp": (1, lambda p: bytes(ETHER / ARP())),
    "sll": (
        113,
        lambda p: bytes(CookedLinux(pkttype=4, src=b"\x02\0\0\0\0\x0a\0\0", lladdrlen=6) / V4 / NDN_UDP / p),
    ),
    "sll ndn": (113, lambda p: bytes(CookedLinux(pkttype=0, src=b"\x02\0\0\0\0\x0a\0\0", proto=0x8624)) + p),
    "sll vlan": (113, lambda p: bytes(CookedLinux(proto=0x8100) / Dot1Q(vlan=5) / V4 / NDN_UDP / p)),
    "sll2": (276, lambda p: bytes(CookedLinuxV2(pkttype=4, ifindex=3) / V6 / NDN_UDP / p)),
    "sll2 ndn": (276, lambda p: bytes(CookedLinuxV2(proto=0x8624, src=b"\x02\0\0\0\0\x0b\0\0")) + p),
    "null": (0, lambda p: bytes(Loopback(type=2) / V4 / NDN_UDP / p)),
    "null, big-endian": (0, lambda p: b"\0\0\0\x1e" + bytes(V6 / NDN_UDP / p)),
    "loop": (108, lambda p: b"\0\0\0\2" + bytes(V4 / NDN_UDP / p)),
    "raw4": (101, lambda p: bytes(V4 / NDN_UDP / p)),
    "raw6": (12, lambda p: bytes(V6 / NDN_UDP / p)),
    "ipv4": (228, lambda p: bytes(V4 / NDN_UDP / p)),
    "ipv6": (229, lambda p: bytes(V6 / NDN_UDP / p)),
    "tso": (1, lambda p: bytes(ETHER / IP(len=0) / NDN_UDP / p)),
    "tso6": (1, lambda p: bytes(ETHER / IPv6(plen=0) / NDN_UDP / p)),
    "first fragment": (1, first_fragment),
    "first fragment6": (
        1,
        lambda p: bytes(ETHER / V6 / IPv6ExtHdrFragment(m=1) / UDP(len=len(p) + 108, sport=6363) / p),
    ),
    "ppp": (9, lambda p: b"\0\x77" + p),
    "ppp4": (9, lambda p: b"\0\x21" + bytes(V4 / NDN_UDP / p)),
    "ppp6, framed": (9, lambda p: b"\xff\x03\0\x57" + bytes(V6 / NDN_UDP / p)),
    "ppp, compressed": (50, lambda p: b"\x77" + p),
    "ppp, other": (9, lambda p: b"\xc0\x21" + p),
    "wireless": (105, lambda p: bytes(24) + p),
}
"""Ways to carry a payload: link type, and a function that builds the frame."""

_components = st.one_of(
    st.builds(component, st.just(8), st.binary(max_size=6)),
    st.builds(component, st.just(8), st.sampled_from([b"a", b"ssb", b"...", b".", b"x" * 260, KEY])),
    st.builds(component, st.sampled_from([50, 52, 54, 56, 58]), st.integers(0, 2**64 - 1).map(nni)),
    st.builds(component, st.sampled_from([50, 58]), st.binary(max_size=9)),
    st.builds(component, st.sampled_from([1, 2]), st.binary(min_size=31, max_size=33)),
    st.builds(component, st.integers(1, 70000), st.binary(max_size=3)),
)
names = st.one_of(
    st.sampled_from([item_name(FEED, each) for each in (1, 2, 255, 256, 70000, 2**63, 2**64 - 2)]),
    st.sampled_from([FEED, fork_name(FEED, 3), FEED + component(58, b"\0\1"), FEED + component(58, b"\0")]),
    st.just(component(8, b"z" + component(8, KEY)) + component(58, b"\x05")),
    st.just(item_name(component(8, KEY[:26] + component(32, b"fork")), 4)),
    st.lists(_components, min_size=1, max_size=5).map(b"".join),
)
_numbers = st.sampled_from([0, 1, 255, 256, 65535, 65536, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
_some_numbers = st.none() | _numbers

interests = st.builds(
    make_interest,
    names,
    nonce=st.integers(0, 2**32 - 1),
    can_be_prefix=st.booleans(),
    must_be_fresh=st.booleans(),
    lifetime_ms=_some_numbers,
    hop_limit=st.none() | st.integers(0, 255),
    send_credit=_some_numbers,
)
_contents = st.one_of(
    st.binary(max_size=20),
    st.builds(ssb_content, st.binary(max_size=300)),
    st.builds(native_content, st.sampled_from([b"", bytes(32)]), st.binary(max_size=300)),
    st.just(bytes(70000)[:9000]),
)
data_packets = st.builds(
    make_data,
    names,
    _contents,
    freshness_ms=_some_numbers,
    content_type=_some_numbers,
    signature_type=st.sampled_from([0, 1, 3, 5, 300]),
    key_name=st.none() | names,
)
_tails = st.sampled_from(
    [
        b"",
        element(250),
        element(240, nni(3)),
        element(10, bytes(4)),
        element(252, b"x"),
        element(251),
        element(36, b"p"),
    ]
)
_old_interests = st.builds(
    lambda name, selectors, rest: element(5, element(7, name) + element(9, b"".join(selectors)) + rest),
    names,
    st.lists(
        st.sampled_from(
            [element(13, b"\1"), element(14, b"\1"), element(14, b"\2"), element(16, b"\x13\0"), element(18)]
        ),
        max_size=3,
    ),
    st.sampled_from([b"", element(10, bytes(4)), element(10, bytes(4)) + element(12, b"\1\2"), element(33)]),
)
_bodies = st.lists(
    st.one_of(
        st.builds(element, st.just(7), names),
        st.sampled_from(
            [element(33), element(18), element(10, bytes(4)), element(12, b"\1\2"), element(34, b"\7")]
        ),
        st.builds(
            element,
            st.sampled_from([20, 21, 22, 23, 24, 25, 27, 30, 36, 44, 46, 240, 250, 99]),
            st.binary(max_size=5),
        ),
        st.just(element(22, element(27, b"\0"))),
        st.just(element(20, element(24, b"\0") + element(25, b"\1\2") + element(26, b"\x08\x01x"))),
    ),
    max_size=7,
).map(b"".join)
packets = st.one_of(
    interests,
    _old_interests,
    interests.map(make_persistent),
    data_packets,
    st.builds(
        lambda packet, tail: element(packet[0], packet[2:] + tail) if packet[1] < 250 else packet,
        interests,
        _tails,
    ),
    st.builds(element, st.sampled_from([5, 6]), _bodies),
    st.builds(
        make_interest_with_parameters,
        st.just(from_uri("/svs")),
        st.binary(max_size=9),
        nonce=st.just(1),
        lifetime_ms=st.just(1000),
        hop_limit=st.just(2),
    ),
)
_fields = st.lists(
    st.one_of(
        st.builds(element, st.just(0x51), st.sampled_from([bytes(8), b"\xff" * 8, bytes(7)])),
        st.builds(element, st.sampled_from([0x52, 0x53, 0x340]), _numbers.map(nni) | st.binary(max_size=3)),
        st.sampled_from(
            [element(0x52, b"\0"), element(0x53, b"\1"), element(0x53, b"\2"), element(0x52, b"\1")]
        ),
        st.builds(element, st.just(0x62), st.binary(max_size=34)),
        st.builds(
            element,
            st.sampled_from([0x344, 0x344, 0x348, 0x32C, 0x330, 0x331, 800, 956, 960, 1200, 70000]),
            st.binary(max_size=300),
        ),
        st.builds(
            lambda *each: element(0x370, b"".join(each)),
            *[_numbers.map(lambda n, k=k: element(k, nni(n))) for k in (0x371, 0x372)],
        ),
        st.builds(
            lambda *each: element(0x370, b"".join(each)),
            *[_numbers.map(lambda n, k=k: element(k, nni(n))) for k in (0x371, 0x372, 0x373)],
        ),
        st.builds(element, st.just(0x370), st.binary(max_size=9)),
        st.just(element(0x320, element(0x321, b"\x32"))),
    ),
    max_size=4,
)


def _lp(fields: list[bytes], fragment: bytes, is_sorted: bool) -> bytes:
    if is_sorted:
        fields = sorted(fields, key=lambda field: int.from_bytes(field[1:3]) if field[0] == 253 else field[0])
    return element(100, b"".join(fields) + fragment)


_fragments = st.one_of(
    packets.map(lambda packet: element(0x50, packet)),
    st.builds(lambda packet, size: element(0x50, packet[:size]), packets, st.integers(0, 120)),
    st.sampled_from([b"", element(0x50), element(0x50, b"\5\0") + b"\0"]),
)
payloads = st.one_of(
    packets,
    packets,
    packets.map(make_lp),
    st.builds(
        make_lp,
        packets,
        sequence=_some_numbers,
        congestion_mark=st.integers(0, 2),
        tip=_numbers,
        limit=_numbers,
    ),
    st.builds(
        make_lp, interests, nack_reason=st.sampled_from([0, 50, NO_ROUTE]), pit_token=st.just(b"token")
    ),
    st.builds(
        lambda p, i, n: make_lp(p[:300], sequence=9 + i, frag_index=i, frag_count=n),
        packets,
        st.integers(0, 2),
        st.integers(2, 3),
    ),
    st.builds(_lp, _fields, _fragments, st.booleans()),
    st.just(make_feed_state(FEED, tip=3, limit=9)),
    st.binary(max_size=60),
    st.builds(
        lambda kind, size, rest: number(kind) + number(size) + rest,
        st.integers(0, 300),
        st.integers(0, 300),
        st.binary(max_size=40),
    ),
)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Draw a frame: a payload in a wrap, perhaps with bytes changed, cut short, or cut by the capture."""
    payload = draw(payloads)
    link_type, wrap = (
        WRAPS[draw(st.sampled_from(sorted(WRAPS)))] if draw(st.integers(0, 2)) else WRAPS["udp4"]
    )
    octets = bytearray(wrap(payload))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if octets:
            octets[draw(st.integers(0, len(octets) - 1))] = draw(st.integers(0, 255))
    original = len(octets)
    if draw(st.integers(0, 4)) == 0:
        del octets[draw(st.integers(0, len(octets))) :]
        original = draw(st.sampled_from([original, len(octets)]))
    return Frame(bytes(octets), original, link_type)


MALFORMED_PACKETS = {
    "empty Name": element(5, element(7)),
    "without Name": element(6, element(22)),
    "unrecognised critical element of type 99": element(5, element(7, b"\x08\1a") + element(99)),
    "element of type 10 out of order or repeated": element(
        5, element(7, b"\x08\1a") + element(34, b"\1") + element(10, bytes(4))
    ),
    "Nonce of 3 bytes": element(5, element(7, b"\x08\1a") + element(10, bytes(3))),
    "HopLimit of 2 bytes": element(5, element(7, b"\x08\1a") + element(34, bytes(2))),
    "NonNegativeInteger of 3 bytes": element(5, element(7, b"\x08\1a") + element(12, bytes(3))),
    "CanBePrefix of 1 bytes": element(5, element(7, b"\x08\1a") + element(33, b"x")),
    "an element runs past the end": element(5, b"\x07\x09\x08\1a"),
    "number not in its shortest form": element(5, b"\x07\xfd\0\3\x08\1a"),
    "name component of type 0": element(5, element(7, b"\0\1a")),
    "digest component of 2 bytes": element(5, element(7, b"\1\2ab")),
    "without SignatureInfo": element(6, element(7, b"\x08\1a") + element(23)),
    "without SignatureValue": element(6, element(7, b"\x08\1a") + element(22, element(27, b"\0"))),
    "without SignatureType": element(6, element(7, b"\x08\1a") + element(22) + element(23)),
    "bytes after the packet": element(5, element(7, b"\x08\1a")) + b"\0",
    "neither Interest, Data nor LpPacket": element(9, b"x"),
    "unrecognised LpPacket field of type 99": element(100, element(99)),
    "LpPacket field of type 82 out of order or repeated": element(
        100, element(83, b"\2") + element(82, b"\1")
    ),
    "FragIndex is not below FragCount": element(100, element(82, b"\3") + element(83, b"\2")),
    "Sequence of 7 bytes": element(100, element(81, bytes(7))),
    "PitToken of 33 bytes": element(100, element(98, bytes(33))),
    "without Limit": element(100, element(0x370, element(0x371, b"\1"))),
}
"""A packet for each reason to be malformed."""
