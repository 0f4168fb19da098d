"""The Scapy layers against two other readings of the same formats: forwarder.wire, and python-ndn."""

from typing import Any

from dissect_packets import FEED, KEY, blobs, components, interests, numbers, packets, sequence_numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from ndn import encoding
from ndn.encoding.ndnlp_v2 import make_network_nack, parse_lp_packet_v2
from ndn.security import DigestSha256Signer
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw

from captures.dissectors import (
    Data,
    FeedState,
    ForkProof,
    Interest,
    LpPacket,
    NativeItem,
    SignatureInfo,
    SsbItem,
)
from captures.dissectors.feed import open_content
from forwarder.wire import feed, lp, name, packet, parameters, persistent

NONCES = st.integers(0, (1 << 32) - 1)
WIRE_NAMES = st.lists(components, min_size=1, max_size=5).map(
    lambda parts: b"".join(name.component(kind, value) for kind, value in parts)
)

ITEM_NAMES = sequence_numbers.map(lambda seq: feed.item_name(FEED, seq))


@given(
    WIRE_NAMES | ITEM_NAMES, NONCES, st.booleans(), st.booleans(), st.none() | numbers,
    st.none() | st.integers(0, 255),
    st.none() | numbers, st.booleans(),
)  # fmt: skip
def test_interests_that_the_forwarder_builds(
    wire_name: bytes,
    nonce: int,
    prefix: bool,
    fresh: bool,
    lifetime: Any,
    hops: Any,
    credit: Any,
    lasting: bool,
) -> None:
    credit = credit if feed.is_item_name(wire_name) else None
    wire = packet.make_interest(
        wire_name, nonce=nonce, can_be_prefix=prefix, must_be_fresh=fresh, lifetime_ms=lifetime,
        hop_limit=hops, send_credit=credit,
    )  # fmt: skip
    if lasting:
        wire = persistent.make_persistent(wire)
    layer = Interest(wire)
    built = Interest(
        name=wire_name, nonce=nonce, can_be_prefix=prefix, must_be_fresh=fresh, lifetime=lifetime,
        hop_limit=hops, send_credit=credit, persistent=lasting,
    )  # fmt: skip
    assert layer == built
    assert bytes(built) == wire


@given(WIRE_NAMES, blobs, st.none() | numbers, st.none() | numbers, st.none() | WIRE_NAMES)
def test_data_that_the_forwarder_builds(
    wire_name: bytes, content: bytes, freshness: Any, content_type: Any, key: Any
) -> None:
    wire = packet.make_data(
        wire_name, content, freshness_ms=freshness, content_type=content_type, key_name=key
    )
    layer = Data(wire)
    assert name.from_uri(layer.name) == wire_name
    assert bytes(layer.content) == content
    meta = layer.meta_info
    assert (meta and meta.freshness, meta and meta.content_type) == (freshness, content_type)
    locator = layer.signature_info.key_locator
    assert (locator and name.from_uri(locator.key_name)) == key
    layer.clear_cache()
    layer.signature_value = None
    assert bytes(layer) == wire


def test_a_digest_of_parameters() -> None:
    wire = parameters.make_interest_with_parameters(
        name.from_uri("/a"), b"parameters", nonce=1, lifetime_ms=2, hop_limit=3
    )
    assert bytes(Interest(name="/a", parameters="parameters", nonce=1, lifetime=2, hop_limit=3)) == wire


@given(
    st.binary(min_size=1, max_size=30), st.none() | numbers, st.none() | st.sampled_from([0, 50, 150]),
    st.none() | st.binary(min_size=1, max_size=32), st.integers(0, 9), st.none() | numbers, numbers,
)  # fmt: skip
def test_link_packets_that_the_forwarder_builds(
    fragment: bytes, sequence: Any, reason: Any, token: Any, mark: int, tip: Any, limit: int
) -> None:
    wire = lp.make_lp(
        fragment, sequence=sequence, nack_reason=reason, pit_token=token, congestion_mark=mark, tip=tip,
        limit=limit, frag_index=1, frag_count=3,
    )  # fmt: skip
    state = None if tip is None else FeedState(tip=tip, limit=limit)
    built = LpPacket(
        sequence=sequence, nack_reason=reason, pit_token=token, congestion_mark=mark or None, frag_index=1,
        frag_count=3, feed_state=state,
    ) / fragment  # fmt: skip
    assert bytes(built) == wire
    assert LpPacket(wire) == built


@given(numbers, numbers, st.none() | numbers)
def test_idle_answers(tip: int, limit: int, first: Any) -> None:
    wire = lp.make_feed_state(FEED, tip=tip, limit=limit, first=first)
    built = LpPacket(feed_state=FeedState(feed=FEED, tip=tip, limit=limit, first=first))
    assert bytes(built) == wire
    assert LpPacket(wire) == built


def test_contents_of_a_feed() -> None:
    item = feed.item_name(FEED, 3)
    native = open_content(item, feed.native_content(KEY, b"body"))
    assert native == NativeItem(backlink=KEY, body=b"body")
    assert open_content(feed.item_name(FEED, 1), feed.native_content(b"", b"")) == NativeItem(body=b"")
    assert open_content(item, feed.ssb_content(b"{}")) == SsbItem(message=b"{}")
    assert bytes(NativeItem(backlink=KEY, body="b")) == feed.native_content(KEY, b"b")
    assert bytes(SsbItem(message="{}")) == feed.ssb_content(b"{}")
    halves = sorted(packet.make_data(item, feed.native_content(KEY, body)) for body in (b"a", b"b"))
    proof = Data(name=feed.fork_name(FEED, 3), content=ForkProof(halves=[Data(half) for half in halves]))
    assert b"".join(halves) in bytes(proof)
    got = Data(bytes(proof)).content.halves
    assert [bytes(half) for half in got] == halves
    assert {half.content.body for half in got} == {b"a", b"b"}


def _read_by_forwarder(wire: bytes) -> tuple[lp.LpPacket, Any] | None:
    """Return what the forwarder reads: the header, and the Interest or Data if there is a whole one."""
    header = lp.parse_lp(wire)
    inside = None
    if header.fragment and header.frag_count == 1:
        parse = {5: packet.parse_interest, 6: packet.parse_data}.get(header.fragment[0])
        inside = parse(header.fragment) if parse else None
    return header, inside


def _assert_same(layer: Packet, wire: bytes) -> None:
    header, inside = _read_by_forwarder(wire)
    if isinstance(layer, LpPacket):
        assert layer.sequence == header.sequence
        assert (layer.frag_index or 0, layer.frag_count or 1) == (header.frag_index, header.frag_count)
        assert layer.nack_reason == header.nack_reason
        assert layer.pit_token == header.pit_token
        assert (layer.congestion_mark or 0) == header.congestion_mark
        state = layer.feed_state
        assert (state and (state.tip, state.limit)) == header.feed_state
        assert (state and state.first) == header.first
        feed_name = state and state.feed
        assert (None if feed_name is None else name.from_uri(feed_name)) == header.feed
        assert bytes(layer.payload) == header.fragment
        layer = layer.payload
    if isinstance(layer, Interest):
        assert name.from_uri(layer.name) == inside.name
        assert bool(layer.can_be_prefix) == inside.can_be_prefix
        assert bool(layer.must_be_fresh) == inside.must_be_fresh
        assert layer.nonce == inside.nonce
        assert (4000 if layer.lifetime is None else layer.lifetime) == inside.lifetime_ms
        assert layer.hop_limit == inside.hop_limit
        assert inside.send_credit == layer.send_credit
        assert bool(layer.persistent) == persistent.is_persistent(inside)
    elif isinstance(layer, Data):
        assert name.from_uri(layer.name) == inside.name
        assert bytes(layer.content or b"") == inside.content
        assert layer.signature_info.signature_type == inside.signature_type
        assert layer.signature_value == inside.signature
        meta = layer.meta_info
        assert ((meta and meta.freshness) or 0, (meta and meta.content_type) or 0) == (
            inside.freshness_ms,
            inside.content_type,
        )


@given(packets)
@settings(max_examples=200, deadline=None)
def test_what_the_layers_build_the_forwarder_reads_the_same(built: Packet) -> None:
    _assert_same(built, bytes(built))


@given(packets, st.data())
@settings(max_examples=300, deadline=None)
def test_what_a_layer_takes_for_whole_so_does_the_forwarder(built: Packet, data: st.DataObject) -> None:
    wire = bytearray(bytes(built))
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] ^= 1 << data.draw(st.integers(0, 7))
    layer = UDP(bytes(UDP(dport=6363) / bytes(wire))).payload
    # A header that is whole around a packet that is damaged: nothing to compare.
    is_refused = isinstance(layer.lastlayer(), Raw) and getattr(layer, "frag_count", None) in (None, 1)
    if not is_refused:
        _assert_same(layer, bytes(wire))


@given(interests)
@settings(deadline=None)
def test_python_ndn_reads_our_interests(built: Interest) -> None:
    if built.ignored or built.parameters is not None:
        return
    read_name, params, _, _ = encoding.parse_interest(bytes(built))
    assert b"".join(map(bytes, read_name)) == name.from_uri(built.name)
    assert bool(built.can_be_prefix) == bool(params.can_be_prefix)
    assert bool(built.must_be_fresh) == bool(params.must_be_fresh)
    assert built.nonce == params.nonce
    assert built.hop_limit == params.hop_limit
    hints = [name.to_uri(b"".join(map(bytes, hint))) for hint in params.forwarding_hint or []]
    assert hints == (built.forwarding_hint or [])


def test_we_read_what_python_ndn_builds() -> None:
    wire = encoding.make_interest(
        "/a/32=b/seq=5", encoding.InterestParam(
            can_be_prefix=True, must_be_fresh=True, nonce=7, lifetime=1000, hop_limit=3,
            forwarding_hint=["/h/1", "/h/2"],
        ), app_param=b"parameters", signer=DigestSha256Signer(for_interest=True),
    )  # fmt: skip
    layer = Interest(bytes(wire))
    assert layer.name.startswith("/a/32=b/seq=5/params-sha256=")
    assert (layer.can_be_prefix, layer.must_be_fresh, layer.nonce) == (True, True, 7)
    assert (layer.lifetime, layer.hop_limit, layer.forwarding_hint) == (1000, 3, ["/h/1", "/h/2"])
    assert (layer.parameters, layer.signature_info.signature_type) == (b"parameters", 0)
    assert layer.signature_info.signature_time > 10**12
    ours = layer.copy()
    ours.clear_cache()
    ours.name = "/a/32=b/seq=5"
    ours.signature_value = None
    assert bytes(ours) == bytes(wire)  # the same digest and the same signature, computed by us

    meta = encoding.MetaInfo(freshness_period=5, final_block_id=encoding.Component.from_segment(9))
    wire = encoding.make_data("/a/v=1/seg=0", meta, content=b"content", signer=DigestSha256Signer())
    data = Data(bytes(wire))
    assert (data.name, data.content) == ("/a/v=1/seg=0", b"content")
    assert (data.meta_info.freshness, data.meta_info.final_block) == (5, "seg=9")
    data.clear_cache()
    data.signature_value = None
    assert bytes(data) == bytes(wire)

    interest = encoding.make_interest("/a", encoding.InterestParam(nonce=1))
    nack = LpPacket(bytes(make_network_nack(interest, 150)))
    assert nack.nack_reason == 150
    assert nack[Interest].name == "/a"


def test_python_ndn_reads_our_link_packets() -> None:
    inner = Interest(name="/a", nonce=1)
    packet_bytes = bytes(
        LpPacket(
            pit_token=b"token", nack_reason=50, incoming_face_id=256, next_hop_face_id=7, cache_policy=1,
            congestion_mark=1, tx_sequence=9, ack=[5], non_discovery=True,
            prefix_announcement=Data(name="/p/32=PA/v=1/seg=0"),
        ) / inner
    )  # fmt: skip
    read = parse_lp_packet_v2(packet_bytes)
    assert (bytes(read.pit_token), read.nack.nack_reason) == (b"token", 50)
    assert (read.incoming_face_id, read.next_hop_face_id) == (256, 7)
    assert (read.cache_policy.cache_policy_type, read.congestion_mark) == (1, 1)
    assert bytes(read.fragment) == bytes(inner)


@given(st.lists(components, min_size=1, max_size=4), blobs)
def test_python_ndn_reads_our_data(parts: list[tuple[int, bytes]], content: bytes) -> None:
    wire_name = b"".join(name.component(kind, value) for kind, value in parts)
    wire = bytes(Data(name=wire_name, content=content, signature_info=SignatureInfo(signature_type=0)))
    read_name, _, read_content, signature = encoding.parse_data(wire)
    assert b"".join(map(bytes, read_name)) == wire_name
    assert bytes(read_content) == content
    assert signature.signature_info.signature_type == 0
