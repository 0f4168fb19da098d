"""FeedState on the wire: with an item, alone, and with what an upstream no longer has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lli_maker import NAME, idle, packet

from forwarder.wire.lp import FEED_STATE, LP_PACKET, make_feed_state, make_lp, parse_lp
from forwarder.wire.tlv import MalformedPacket, element, nni

NUMBERS = st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 255, 256, 65536, 1 << 32, (1 << 64) - 1])
TIP, LIMIT, FIRST = (element(kind, b"\5") for kind in (0x0371, 0x0372, 0x0373))
FEED = element(7, NAME)


def test_the_bytes_of_an_idle_answer() -> None:
    assert make_feed_state(b"\x08\x01a", tip=5, limit=300, first=4) == bytes.fromhex(
        "6419 fd0370 15 0703080161 fd03710105 fd037202012c fd03730104".replace(" ", "")
    )


@given(NUMBERS, NUMBERS, st.none() | NUMBERS, st.binary(max_size=300))
def test_an_idle_answer_reads_as_it_was_built(tip: int, limit: int, first: int | None, feed: bytes) -> None:
    header = parse_lp(make_feed_state(feed, tip=tip, limit=limit, first=first))
    assert (header.feed, header.tip, header.limit, header.first) == (feed, tip, limit, first)
    assert (header.fragment, header.nack_reason, header.congestion_mark) == (b"", None, 0)


@given(NUMBERS, NUMBERS)
def test_an_item_with_state_reads_as_it_was_built(tip: int, limit: int) -> None:
    header = parse_lp(make_lp(packet(1), tip=tip, limit=limit))
    assert (header.feed, header.tip, header.limit, header.first) == (None, tip, limit, None)
    assert header.fragment == packet(1)


def state(*parts: bytes) -> bytes:
    return element(LP_PACKET, element(FEED_STATE, b"".join(parts)))


@pytest.mark.parametrize("parts", [(FEED,), (FEED, TIP), (FEED, LIMIT), (FEED, LIMIT, TIP), (FIRST,), ()])
def test_a_state_without_tip_and_limit_is_malformed(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(MalformedPacket):
        parse_lp(state(*parts))


def test_what_a_state_has_besides_is_ignored_if_it_may_be() -> None:
    extra = element(0x037C, b"later versions have more")
    header = parse_lp(state(FEED, TIP, LIMIT, FIRST, extra))
    assert (header.feed, header.tip, header.limit, header.first) == (NAME, 5, 5, 5)
    with pytest.raises(MalformedPacket):
        parse_lp(state(FEED, TIP, LIMIT, element(0x037D, b"")))


@pytest.mark.parametrize("number", [b"", b"\1\2\3", bytes(9)])
def test_a_number_has_one_two_four_or_eight_bytes(number: bytes) -> None:
    with pytest.raises(MalformedPacket):
        parse_lp(state(FEED, TIP, LIMIT, element(0x0373, number)))


@given(st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
def test_an_altered_state_is_read_or_malformed(at: int, put: bytes, cut: int) -> None:
    wire = bytearray(idle(3, 300, first=2))
    at %= len(wire) + 1
    wire[at : at + cut] = put
    try:
        header = parse_lp(bytes(wire))
    except MalformedPacket:
        return
    assert (header.tip is None) == (header.limit is None)
    assert header.feed is None or header.tip is not None
    assert header.first is None or header.tip is not None


@given(st.binary(max_size=60))
def test_any_bytes_of_a_state_are_read_or_malformed(inner: bytes) -> None:
    try:
        header = parse_lp(element(LP_PACKET, element(FEED_STATE, inner) + element(0x50, packet(1))))
    except MalformedPacket:
        return
    assert header.tip is not None
    assert header.limit is not None
    assert nni(header.tip) in inner
