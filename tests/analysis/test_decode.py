"""Frames to rows: hand-made frames of every kind, fragments, and bytes that mean nothing."""

import pytest
from crafted import MALFORMED_PACKETS, WRAPS
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP as IPV4
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether

from analysis.decode.reading import node_of
from analysis.decode.reference import LARGEST, decode_frame
from analysis.packet_schema import PACKETS
from captures.layers.frames import udp_frame
from forwarder.wire.feed import item_name, native_content, ssb_content
from forwarder.wire.lp import NO_ROUTE, make_lp
from forwarder.wire.name import component, from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.persistent import make_persistent
from forwarder.wire.tlv import element, nni

KEY = bytes(range(32))
FEED = from_uri("/ssb/logs") + component(8, KEY)
COLUMNS = PACKETS.names[PACKETS.names.index("protocol") :]
ETHERNET, IP, UDP = 14, 20, 8


def ndn_frame(payload: bytes, port: int = 6363) -> bytes:
    return udp_frame(bytes(6), bytes(6), "10.0.0.1", "10.0.0.2", port, port, payload)


def row(frame: bytes) -> dict:
    values = dict(zip(COLUMNS, decode_frame(frame, len(frame)), strict=True))
    layers = [values[f"{layer}_bytes"] for layer in ("eth", "ip", "udp", "carried", "lp", "ndn")]
    assert sum(layers) == len(frame)
    return values


def ndn(payload: bytes) -> dict:
    return row(ndn_frame(payload))


def test_the_node_is_what_comes_before_eth():
    assert node_of("r1-eth0") == "r1"
    assert node_of("my-eth-eth12") == "my-eth"
    assert node_of("wlan0") == "wlan0"


def test_an_interest():
    packet = make_interest(
        from_uri("/a/b"), nonce=7, can_be_prefix=True, must_be_fresh=True, lifetime_ms=250, hop_limit=8
    )
    got = ndn(packet)
    assert got == dict.fromkeys(COLUMNS) | {
        "protocol": "ndn",
        "transport": "udp",
        "src": "10.0.0.1",
        "dst": "10.0.0.2",
        "src_port": 6363,
        "dst_port": 6363,
        "eth_bytes": ETHERNET,
        "ip_bytes": IP,
        "udp_bytes": UDP,
        "carried_bytes": 0,
        "lp_bytes": 0,
        "ndn_bytes": len(packet),
        "frag_index": 0,
        "frag_count": 1,
        "kind": "interest",
        "name": "/a/b",
        "name_length": 6,
        "can_be_prefix": True,
        "must_be_fresh": True,
        "nonce": 7,
        "lifetime_ns": 250_000_000,
        "hop_limit": 8,
        "is_persistent": False,
    }


def test_a_persistent_interest():
    got = ndn(make_persistent(make_interest(from_uri("/a"), nonce=1)))
    assert (got["kind"], got["is_persistent"]) == ("interest", True)


def test_an_interest_lives_4_seconds_unless_it_says_otherwise():
    assert ndn(make_interest(from_uri("/a"), nonce=1))["lifetime_ns"] == 4_000_000_000


def test_an_lli():
    got = ndn(make_interest(item_name(FEED, 300), nonce=7, lifetime_ms=1000, send_credit=64))
    feed = "/ssb/logs/" + "".join(chr(b) if chr(b) in "-." else f"%{b:02X}" for b in KEY)
    assert (got["kind"], got["send_credit"], got["seq"], got["feed"]) == ("lli", 64, 300, feed)
    assert got["name"] == feed + "/seq=300"
    assert got["name_length"] == len(FEED) + 4


def test_what_looks_like_send_credit_in_an_interest_for_anything_else_is_somebody_else_s():
    got = ndn(make_interest(from_uri("/a"), nonce=1, send_credit=3))
    assert (got["kind"], got["name"], got["send_credit"]) == ("interest", "/a", None)
    item = element(7, item_name(FEED, 3)) + element(10, bytes(4))
    got = ndn(element(5, item + element(240, b"no number")))
    assert (got["kind"], got["seq"], got["send_credit"]) == ("interest", 3, None)


def test_an_interest_without_a_nonce():
    got = ndn(element(5, element(7, from_uri("/a"))))
    assert (got["kind"], got["name"], got["nonce"]) == ("interest", "/a", None)


def test_items_and_their_payloads():
    native = ndn(make_data(item_name(FEED, 2), native_content(bytes(32), b"x" * 50)))
    assert (native["kind"], native["seq"], native["payload_bytes"]) == ("data", 2, 50)
    assert native["content_bytes"] == 34 + 52
    first = ndn(make_data(item_name(FEED, 1), native_content(b"", b"x" * 50)))
    assert (first["content_bytes"], first["payload_bytes"]) == (52, 50)
    classic = ndn(make_data(item_name(FEED, 2), ssb_content(b"y" * 300)))
    assert (classic["content_bytes"], classic["payload_bytes"]) == (304, 300)
    assert classic["nonce"] is None


def test_other_data_is_payload_as_a_whole():
    got = ndn(make_data(from_uri("/a/b"), native_content(b"", b"x" * 50)))
    assert (got["content_bytes"], got["payload_bytes"], got["feed"], got["seq"]) == (52, 52, None, None)


def test_content_of_an_item_that_is_in_no_known_format_is_payload():
    assert ndn(make_data(item_name(FEED, 1), b"\xfd"))["payload_bytes"] == 1
    assert ndn(make_data(item_name(FEED, 1), b""))["payload_bytes"] == 0


def test_a_name_that_only_ends_like_an_item_is_none():
    # The bytes of a key component, but inside the value of a longer component.
    name = component(8, b"z" + component(8, KEY)) + component(58, b"\x05")
    got = ndn(make_data(name, b""))
    assert (got["kind"], got["feed"], got["seq"]) == ("data", None, None)


def test_a_nack_carries_its_interest():
    packet = make_interest(from_uri("/a"), nonce=5, lifetime_ms=100)
    got = ndn(make_lp(packet, nack_reason=NO_ROUTE))
    assert (got["kind"], got["nack_reason"], got["name"], got["nonce"]) == ("nack", 150, "/a", 5)
    assert got["ndn_bytes"] == len(packet)
    refused = ndn(make_lp(make_interest(item_name(FEED, 3), nonce=5, send_credit=2), nack_reason=50))
    assert (refused["kind"], refused["seq"], refused["send_credit"]) == ("nack", 3, 2)


def test_a_nack_of_data_is_malformed():
    assert ndn(make_lp(make_data(from_uri("/a"), b""), nack_reason=50))["kind"] == "malformed"


def test_ndnlp_headers_are_counted_apart():
    packet = make_data(item_name(FEED, 1), native_content(b"", b"x" * 50))
    lp = make_lp(packet, tip=9, limit=20, congestion_mark=1)
    got = ndn(lp)
    assert (got["kind"], got["lp_bytes"], got["ndn_bytes"]) == ("data", len(lp) - len(packet), len(packet))


def test_fragments_of_data():
    packet = make_data(item_name(FEED, 2), native_content(bytes(32), b"x" * 3000))
    first, middle, last = (
        ndn(make_lp(part, sequence=40 + k, frag_index=k, frag_count=3))
        for k, part in enumerate((packet[:1400], packet[1400:2800], packet[2800:]))
    )
    assert (first["kind"], first["seq"], first["frag_index"], first["frag_count"]) == ("data", 2, 0, 3)
    assert (first["content_bytes"], first["payload_bytes"]) == (34 + 3004, 3000)
    assert (first["ndn_bytes"], last["ndn_bytes"]) == (1400, len(packet) - 2800)
    for later in (middle, last):
        assert (later["kind"], later["name"], later["payload_bytes"]) == ("fragment", None, None)
    assert last["lp_sequence"] - last["frag_index"] == first["lp_sequence"] == 40


def test_the_first_fragment_of_an_interest():
    packet = make_interest(from_uri("/a"), nonce=5, lifetime_ms=100) + b""
    cut = ndn(make_lp(packet[:-1], sequence=1, frag_index=0, frag_count=2))
    # Of name, nonce and lifetime the last is cut off.
    assert (cut["kind"], cut["name"], cut["nonce"], cut["lifetime_ns"]) == ("interest", "/a", 5, 4 * 10**9)


def test_the_first_fragment_says_what_it_can():
    packet = make_data(item_name(FEED, 2), native_content(bytes(32), b"x" * 3000))

    def first(size):
        return ndn(make_lp(packet[:size], sequence=1, frag_index=0, frag_count=90))

    header_and_name = 4 + 2 + len(FEED) + 3
    assert first(header_and_name - 1)["kind"] == "malformed"
    bare = first(header_and_name)
    assert (bare["kind"], bare["seq"], bare["content_bytes"], bare["payload_bytes"]) == ("data", 2, 0, 0)
    assert first(header_and_name + 4 + 34 + 4)["payload_bytes"] == 3000


def test_a_fragment_without_a_sequence_is_malformed():
    packet = make_data(from_uri("/a"), b"")
    assert ndn(make_lp(packet[:5], frag_index=0, frag_count=2))["kind"] == "malformed"


def test_numbers_that_spark_cannot_hold():
    got = ndn(
        make_interest(item_name(FEED, 2**64 - 2), nonce=1, lifetime_ms=2**64 - 1, send_credit=2**64 - 1)
    )
    assert (got["seq"], got["lifetime_ns"], got["send_credit"]) == (LARGEST, LARGEST, LARGEST)
    wrapped = ndn(make_lp(make_data(from_uri("/a"), b""), sequence=2**64 - 1))
    assert wrapped["lp_sequence"] == -1


def test_frames_that_are_not_ndn():
    for frame in (b"", bytes(10), bytes(60), b"\xff" * 12 + b"\x08\x06" + bytes(28)):
        got = row(frame)
        assert (got["kind"], got["src"], got["eth_bytes"]) == ("other", None, len(frame))
    assert row(ndn_frame(b"\x05\x00", port=53))["kind"] == "other"


def test_an_lp_packet_without_a_fragment_is_idle():
    got = ndn(element(100, element(0x0340, nni(1))))
    assert (got["kind"], got["ndn_bytes"], got["lp_bytes"]) == ("idle", 0, 7)


def test_padding_counts_as_ethernet():
    frame = ndn_frame(make_interest(from_uri("/a"), nonce=1)) + bytes(6)
    assert row(frame)["eth_bytes"] == ETHERNET + 6


def test_garbage_in_a_datagram_is_malformed():
    for payload in (
        b"",
        b"\x05",
        b"\x05\x02\x07\x00",
        b"\x06\x05\x07\x09",
        b"\x64\x02\x50\x01",
        b"\xff" * 40,
    ):
        got = ndn(payload)
        assert got["kind"] == "malformed"
        assert got["name"] is None


SAMPLES = [
    make_interest(item_name(FEED, 7), nonce=7, lifetime_ms=1000, send_credit=64),
    make_data(item_name(FEED, 7), native_content(bytes(32), b"x" * 40)),
    make_lp(make_interest(from_uri("/a"), nonce=5), nack_reason=NO_ROUTE),
    make_lp(
        make_data(item_name(FEED, 7), ssb_content(b"y" * 40))[:90], sequence=3, frag_index=0, frag_count=2
    ),
]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row(payload):
    assert ndn(payload)["kind"] in {
        "interest",
        "lli",
        "data",
        "nack",
        "idle",
        "fragment",
        "other",
        "malformed",
    }


@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_packets_are_rows(sample, data):
    at = data.draw(st.integers(0, len(sample) - 1))
    damaged = sample[:at] + bytes([data.draw(st.integers(0, 255))]) + sample[at + 1 :]
    got = ndn(damaged[: data.draw(st.integers(0, len(sample)))])
    assert len(got) == len(COLUMNS)


@given(st.binary(max_size=120), st.sampled_from((1, 2, 3)))
def test_any_first_fragment_is_a_row(fragment, count):
    assert ndn(make_lp(fragment, sequence=1, frag_index=0, frag_count=count))["frag_count"] == count


def cut(payload: bytes, size: int) -> dict:
    """Decode a payload of which the capture kept `size` bytes."""
    frame = ndn_frame(payload)
    values = dict(zip(COLUMNS, decode_frame(frame[: 42 + size], len(frame)), strict=True))
    layers = [values[f"{layer}_bytes"] for layer in ("eth", "ip", "udp", "carried", "lp", "ndn")]
    assert sum(layers) == len(frame)
    return values


def test_what_the_capture_has_cut_is_read_as_far_as_it_goes():
    packet = make_data(item_name(FEED, 2), native_content(bytes(32), b"x" * 900))
    for whole in (packet, make_lp(packet, tip=3, limit=9)):
        head = len(whole) - len(packet)
        got = cut(whole, 120)
        assert (got["kind"], got["seq"], got["content_bytes"]) == ("data", 2, 34 + 904)
        assert (got["lp_bytes"], got["ndn_bytes"], got["problem"]) == (
            head,
            len(packet),
            "cut by the capture",
        )
    interest = make_interest(from_uri("/a"), nonce=5, lifetime_ms=100)
    got = cut(interest, len(interest) - 1)
    assert (got["kind"], got["name"], got["nonce"], got["lifetime_ns"]) == ("interest", "/a", 5, 4 * 10**9)
    nack = cut(make_lp(interest, nack_reason=50), 20)
    assert (nack["kind"], nack["nack_reason"], nack["name"]) == ("nack", 50, "/a")
    nothing = cut(interest, 0)
    assert (nothing["kind"], nothing["problem"]) == ("malformed", "cut by the capture")


@given(st.sampled_from(SAMPLES), st.data())
def test_any_cut_is_a_row(sample, data):
    cut(sample, data.draw(st.integers(0, len(sample) - 1)))


def test_ndnlp_fields_are_columns():
    got = ndn(make_lp(make_data(from_uri("/a"), b""), pit_token=b"tok", congestion_mark=2, tip=3, limit=9))
    assert (got["pit_token"], got["congestion_mark"], got["feed_tip"], got["feed_limit"]) == (b"tok", 2, 3, 9)


def test_what_data_says_of_itself():
    got = ndn(make_data(from_uri("/a"), b"", freshness_ms=10, content_type=3, signature_type=5))
    assert (got["content_type"], got["freshness_ns"], got["signature_type"]) == (3, 10_000_000, 5)


def test_ndn_over_tcp_is_a_segment():
    frame = bytes(
        Ether() / IPV4(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=6363, dport=50000) / b"\x05\x03\x07\x01a"
    )
    got = dict(zip(COLUMNS, decode_frame(frame, len(frame)), strict=True))
    assert (got["kind"], got["transport"], got["udp_bytes"], got["ndn_bytes"]) == ("segment", "tcp", 20, 0)


# --- what else captures hold -------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", MALFORMED_PACKETS)
def test_a_problem_says_why_a_packet_is_malformed(reason):
    packets = [MALFORMED_PACKETS[reason]]
    if packets[0][0] in (5, 6):
        packets.append(element(100, element(0x50, packets[0])))
    for packet in packets:
        told = ndn(packet)
        assert (told["kind"], told["problem"]) == ("malformed", f"malformed NDN packet: {reason}")


def test_an_interest_of_the_old_format_keeps_what_it_says():
    name = component(8, b"a") + component(8, b"b")
    head, tail = element(7, name), element(10, b"\0\0\0\x09") + element(12, b"\x03\xe8")
    for selectors, prefix, fresh in (
        (element(14, b"\1") + element(18), False, True),
        (element(13, b"\2") + element(16, element(8, b"x")), True, False),
        (b"", True, False),
    ):
        packet = element(5, head + element(9, selectors) + tail)
        for payload in (packet, make_lp(packet, congestion_mark=1)):
            told = ndn(payload)
            assert (told["kind"], told["name"], told["nonce"]) == ("interest", "/a/b", 9)
            assert (told["can_be_prefix"], told["must_be_fresh"]) == (prefix, fresh)
            assert told["lifetime_ns"] == 1_000_000_000
            assert told["problem"] == "old packet format (Selectors)"


def test_the_first_ip_fragment_tells_the_name_and_has_its_own_bytes():
    packet = make_data(from_uri("/a/b"), bytes(1000))
    for how in ("first fragment", "first fragment6"):
        for payload in (packet, make_lp(packet, congestion_mark=1)):
            told = row(WRAPS[how][1](payload))
            assert (told["kind"], told["name"], told["problem"]) == ("data", "/a/b", "IP fragment")
            assert told["content_bytes"] == 1000
            assert 0 < told["payload_bytes"] < told["ndn_bytes"]
