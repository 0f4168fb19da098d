"""The Scapy layers by themselves: what is built is dissected to the same, and damage is Raw."""

import hashlib

import pytest
from dissect_packets import EXAMPLES, FEED, packets
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Padding, Raw
from scapy.sessions import TCPSession
from scapy.volatile import RandInt

from captures.dissectors import (
    ETHERTYPE,
    NDN,
    Data,
    FeedState,
    ForkProof,
    Interest,
    LpPacket,
    MetaInfo,
    NativeItem,
    NdnStream,
    SignatureInfo,
    SsbItem,
)
from captures.dissectors.summary import describe, fields_of, short_name
from forwarder.wire.feed import item_name
from forwarder.wire.name import to_uri
from forwarder.wire.tlv import element


@pytest.fixture(autouse=True)
def _raise_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let our own exceptions through, which Scapy would turn into Raw."""
    monkeypatch.setattr(conf, "debug_dissector", True)


@given(packets)
@settings(max_examples=300, deadline=None)
def test_what_is_built_is_dissected_to_the_same(packet: Packet) -> None:
    wire = bytes(packet)
    again = NDN(wire)
    assert again == packet
    assert bytes(again) == wire
    # And by way of the fields alone, without the bytes that the layer keeps.
    again.clear_cache()
    assert bytes(again) == wire
    assert again.show(dump=True)


@given(packets, st.data())
@settings(max_examples=300, deadline=None)
def test_damage_is_raw_and_never_an_exception(packet: Packet, data: st.DataObject) -> None:
    wire = bytearray(bytes(packet))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(wire) - 1))
        wire[at] = data.draw(st.integers(0, 255))
    cut = bytes(wire[: data.draw(st.integers(1, len(wire)))])
    for damaged in (bytes(wire), cut):
        for layer in (NDN, Interest, Data, LpPacket):
            got = layer(damaged)
            assert bytes(got) == damaged
            got.show(dump=True)
            describe(got)
            fields_of(got)
        frame = Ether(bytes(Ether() / IP() / UDP(sport=6363, dport=6363) / damaged))
        assert bytes(frame[UDP].payload) == damaged


@given(st.binary(max_size=200))
def test_any_bytes_are_dissected(wire: bytes) -> None:
    got = UDP(bytes(UDP(dport=6363) / wire))
    assert bytes(got.payload) == wire
    assert bytes(TCP(bytes(TCP(dport=6363) / wire)).payload) == wire


def test_a_hostile_nest_costs_no_more_than_its_bytes() -> None:
    """Proofs within proofs: each level would be read again by the one above it."""
    name = to_uri(FEED) + "/32=fork/seq=2"
    content = b"?"
    for _ in range(40):
        half = bytes(Data(name=name, content=content))
        content = element(0xF8, half + half if len(half) < 2000 else half)
    packet = Data(bytes(Data(name=name, content=content)))
    assert isinstance(packet, Data)
    proof = Data(bytes(Data(name=name, content=element(0xF8, 2 * bytes(Data(name=name))))))
    assert isinstance(proof.content, ForkProof)
    assert proof.content.halves[0].content is None


@pytest.mark.parametrize("line", EXAMPLES)
def test_a_line_for_each_kind_of_packet(line: str) -> None:
    again = NDN(bytes(EXAMPLES[line]))
    assert describe(again) == line
    assert line in again.summary() or line in EXAMPLES[line].summary()


def test_lengths_digests_and_ports_are_computed() -> None:
    frame = Ether() / IP(dst="10.0.0.2") / UDP() / Interest(name="/a/b", can_be_prefix=True)
    wire = bytes(frame)
    assert wire.endswith(bytes.fromhex("050a 0706 080161 080162 2100"))
    again = Ether(wire)
    assert (again[UDP].sport, again[UDP].dport, again[UDP].len) == (6363, 6363, 8 + 12)
    assert again[Interest].name == "/a/b"

    digest = hashlib.sha256(bytes.fromhex("240178")).hexdigest()
    assert Interest(bytes(Interest(name="/a", parameters=b"x"))).name == f"/a/params-sha256={digest}"

    data = Data(bytes(Data(name="/a", content=b"hi")))
    body = bytes.fromhex("0703080161 15026869 16031b0100")
    assert data.signature_value == hashlib.sha256(body).digest()

    signed = Interest(bytes(Interest(name="/a", signature_info=SignatureInfo())))
    covered = bytes.fromhex("080161 2400 2c031b0100")
    assert signed.signature_value == hashlib.sha256(covered).digest()
    tail = bytes.fromhex("2400 2c031b0100 2e20") + signed.signature_value
    assert signed.name == f"/a/params-sha256={hashlib.sha256(tail).hexdigest()}"


def test_a_field_that_is_changed_is_built_anew() -> None:
    packet = LpPacket(bytes(LpPacket(pit_token=b"t") / Data(name="/a", meta_info=MetaInfo(freshness=1))))
    packet[Data].meta_info.freshness = 1000
    packet[Data].name = "/longer"
    packet[Data].signature_value = None
    again = LpPacket(bytes(packet))
    assert again.pit_token == b"t"
    assert (again[Data].name, again[Data].meta_info.freshness) == ("/longer", 1000)

    again.congestion_mark = 1
    assert LpPacket(bytes(again))[Data].name == "/longer"


def test_another_form_than_ours_is_kept_byte_for_byte() -> None:
    # An InterestLifetime of 2 bytes where 1 would do, ignorable elements in between.
    wire = bytes.fromhex("0516 0703080161 f00105 fc0201ff 0a0400000001 0c020005")
    packet = Interest(wire)
    assert (packet.lifetime, packet.nonce) == (5, 1)
    assert packet.ignored == [(0xF0, b"\5"), (0xFC, b"\1\xff")]
    assert bytes(packet) == wire


@pytest.mark.parametrize(
    "wire",
    [
        "0500",  # no name
        "05020700",  # an empty one
        "0507 0703080161 0b00",  # an element of type 9, which is critical
        "0507 0703080161 2101",  # cut short
        "0508 0703080161 210100",  # a flag that is not empty
        "050a 0703080161 0a03000000",  # a nonce of 3 bytes
        "050a 0703080161 0c03000000",  # a number of 3 bytes
        "0509 0703080161 1200 2100",  # out of order: CanBePrefix, which is odd, after MustBeFresh
        "fd0005 05 0703080161",  # a type that is not in its shortest form
        "0605 0703080161",  # Data without a signature
        "6404 50020500 00",  # bytes after an LpPacket, and within
        "6406 520101 530101",  # the second fragment of one
        "6403 620100 00",
        "6404 55020000",  # no field of an LpPacket
        "6407 5000 5200 5201",
        "640a fd037006 fd0371020001",  # FeedState without a Limit
    ],
)
def test_malformed(wire: str) -> None:
    damaged = bytes.fromhex(wire)
    assert isinstance(UDP(bytes(UDP(dport=6363) / damaged)).payload, Raw)


def test_in_ethernet_what_follows_is_padding_and_in_udp_it_is_damage() -> None:
    interest = Interest(name="/a")
    frame = Ether(bytes(Ether() / interest) + bytes(20))
    assert frame.type == ETHERTYPE
    assert frame[Interest].name == "/a"
    assert frame[Padding].load == bytes(20)
    assert isinstance(UDP(bytes(UDP(dport=56363) / interest / b"\0")).payload, Raw)
    assert isinstance(UDP(bytes(UDP(dport=56363) / interest)).payload, Interest)


def test_packets_in_a_stream() -> None:
    one, two = Interest(name="/a", nonce=1), LpPacket(congestion_mark=1) / Data(name="/b", content=b"x")
    both = bytes(one) + bytes(two)
    assert TCP(bytes(TCP() / one)).payload == one
    segment = TCP(bytes(TCP(dport=6363) / (both + bytes(one)[:5])))
    stream = segment[NdnStream]
    assert stream.packets[0] == one
    assert bytes(stream.packets[1]) == bytes(two)
    assert stream.payload.load == bytes(one)[:5]
    assert bytes(segment[NdnStream]) == both + bytes(one)[:5]

    session = TCPSession()
    whole = both + bytes(one)
    got = []
    for at in range(0, len(whole), 7):
        header = IP(src="1.1.1.1", dst="2.2.2.2") / TCP(dport=6363, seq=1 + at, flags="A")
        passed = session.process(IP(bytes(header / whole[at : at + 7])))
        layer = passed and passed.getlayer(NdnStream)
        while layer:
            got += layer.packets
            layer = layer.payload.getlayer(NdnStream)
    assert b"".join(map(bytes, got)) == whole


def test_no_field_has_a_name_that_scapy_uses_for_itself() -> None:
    for layer in (
        Interest,
        Data,
        LpPacket,
        SignatureInfo,
        MetaInfo,
        NativeItem,
        SsbItem,
        FeedState,
        ForkProof,
    ):
        taken = {field.name for field in layer.fields_desc} & (set(layer.__all_slots__) | {"payload"})
        assert taken <= {"name"}


def test_names_are_given_in_any_form_and_shown_in_one() -> None:
    for form in ("/a/b%41", "ndn:/a/bA", b"\x08\1a\x08\2bA", "/8=a/bA/"):
        assert Interest(name=form).name == "/a/bA"
    assert Data(meta_info=MetaInfo(final_block=b"\x32\1\5")).meta_info.final_block == "seg=5"
    with pytest.raises(ValueError, match="unknown component type"):
        Interest(name="/x=y")
    with pytest.raises(ValueError, match="none of"):
        LpPacket(nack_reason="Bogus")


def test_random_values_are_drawn_when_a_packet_is_built() -> None:
    packet = UDP() / Interest(name="/a", nonce=RandInt())
    assert len({bytes(packet) for _ in range(10)}) > 1
    built = LpPacket() / Interest(name="/a", nonce=RandInt())
    assert LpPacket(bytes(built))[Interest].nonce is not None


def test_show_says_what_a_person_wants_to_read() -> None:
    packet = LpPacket(nack_reason=150) / Interest(name=item_name(FEED, 3), nonce=7, send_credit=4)
    shown = LpPacket(bytes(packet)).show(dump=True)
    for text in ("###[ LpPacket ]###", "150 (NoRoute)", "###[ Interest ]###", "0x00000007", "/seq=3"):
        assert text in shown
    assert "hop_limit" not in shown
    assert "32=" not in short_name(to_uri(FEED))
    assert Interest(name="/a").name == "/a"


def test_content_is_a_layer_only_where_the_name_is_that_of_an_item() -> None:
    content = bytes(NativeItem(body=b"x"))
    assert Data(bytes(Data(name="/a", content=content))).content == content
    item = Data(bytes(Data(name=item_name(FEED, 1), content=content)))
    assert item.content == NativeItem(body=b"x")
    # Two payloads, one too many.
    assert Data(bytes(Data(name=item_name(FEED, 1), content=2 * content))).content == 2 * content
