"""Whatever the bytes: a packet or MalformedPacket, nothing else."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packet_makers import ANY_BYTES, NAMES, PACKETS, mutations

from forwarder.forwarder import Forwarder
from forwarder.links.link import LinkService
from forwarder.wire.feed import split_item
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import components, from_uri, prefix_ends, to_uri
from forwarder.wire.packet import parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket

MANY = settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("parse", [parse_interest, parse_data, parse_lp], ids=lambda parse: parse.__name__)
@MANY
@given(ANY_BYTES)
def test_any_bytes_are_a_packet_or_malformed(parse: Callable[[bytes], object], wire: bytes) -> None:
    try:
        packet = parse(wire)
    except MalformedPacket:
        return
    for field in dir(packet):
        getattr(packet, field)


@pytest.mark.parametrize("read", [components, prefix_ends, to_uri], ids=lambda read: read.__name__)
@MANY
@given(st.binary(max_size=100) | mutations(NAMES) | ANY_BYTES)
def test_any_bytes_are_a_name_or_malformed(read: Callable[[bytes], object], name: bytes) -> None:
    try:
        read(name)
    except MalformedPacket:
        return


@MANY
@given(st.binary(max_size=100) | mutations(NAMES) | ANY_BYTES)
def test_any_bytes_split_into_an_item_or_do_not(name: bytes) -> None:
    parts = split_item(name)
    assert parts is None or name.startswith(parts[0])


@MANY
@given(ANY_BYTES)
def test_what_is_passed_on_is_still_a_packet(wire: bytes) -> None:
    """Rewriting an Interest that was understood gives one that reads the same, but for what was changed."""
    try:
        before = parse_interest(wire)
    except MalformedPacket:
        return
    if before.nonce is None:
        before = parse_interest(before.with_nonce(7))
        assert before.nonce == 7
    if before.hop_limit != 0:
        after = parse_interest(before.next_hop_wire())
        assert (after.name, after.nonce, after.lifetime_ms) == (before.name, before.nonce, before.lifetime_ms)
        assert (after.can_be_prefix, after.must_be_fresh) == (before.can_be_prefix, before.must_be_fresh)
        assert after.send_credit == before.send_credit
        assert after.hop_limit == (None if before.hop_limit is None else before.hop_limit - 1)


@MANY
@given(st.lists(ANY_BYTES, min_size=1, max_size=4))
def test_a_link_gives_a_packet_or_malformed(frames: list[bytes]) -> None:
    link = LinkService()
    for now, frame in enumerate(frames):
        try:
            packet = link.receive(frame, now)
        except MalformedPacket:
            continue
        if packet is not None and packet != frame:
            assert parse_lp(packet).frag_count == 1


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 3), ANY_BYTES | PACKETS), min_size=1, max_size=8))
def test_a_forwarder_takes_anything_and_sends_packets(packets: list[tuple[int, bytes]]) -> None:
    node = Forwarder(rng=Random(1), cs_capacity=4)
    for face in (1, 2, 3):
        node.add_face(face, local=face == 3)
    node.fib.add(from_uri("/"), 2)
    node.fib.add(from_uri("/"), 3, cost=1)
    now = 0
    for face, packet in packets:
        node.receive(face, packet, now)
        for _, sent in node.take_outputs():
            fragment = parse_lp(sent).fragment
            if fragment:
                (parse_interest if fragment[0] == 5 else parse_data)(fragment)
        node.pit_bytes()
        now += 1_000_000
    node.wake(now)
    node.next_deadline()
