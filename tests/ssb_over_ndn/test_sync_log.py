"""Sync that knows that logs are extended: its packets, and its members' rules."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_network import feed_of

from base.units import MS, SECOND
from forwarder.wire.name import from_uri
from forwarder.wire.packet import Interest, make_data, parse_data, parse_interest
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.naming import extend_prefix, log_name, message_packet
from ssb_over_ndn.sync.log_sync import LogMember, decode_extension, encode_extension

MESSAGES = feed_of(5)
FEED = log_name(MESSAGES[0].author)
GROUP = extend_prefix(FEED) + from_uri("/v=1")


def member(*, writes: bool = False, seed: int = 1) -> LogMember:
    return LogMember(
        FEED, rng=Random(seed), is_writer=writes, first_ms=1000, longest_ms=30_000, suppression_ms=200
    )


def said(one: LogMember) -> list[tuple[int, bool]]:
    """What a member has sent: the number, and whether its item came along."""
    outputs, one.outputs = one.outputs, []
    decoded = [decode_extension(FEED, parameters_of(parse_interest(wire)) or b"") for wire in outputs]
    return [(seq, item is not None) for seq, item in decoded]


def heard(seq: int, item: bytes = b"") -> Interest:
    content = encode_extension(seq, item)
    return parse_interest(
        make_interest_with_parameters(GROUP, content, nonce=1, lifetime_ms=100, hop_limit=32)
    )


def packet(seq: int) -> bytes:
    return message_packet(MESSAGES[seq - 1])


def test_an_announcement_on_the_wire() -> None:
    assert encode_extension(300) == bytes.fromhex("d602012c")
    assert decode_extension(FEED, encode_extension(300)) == (300, None)
    seq, item = decode_extension(FEED, encode_extension(2, packet(2)))
    assert (seq, item and item.wire) == (2, packet(2))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xd6\x03abc",
        b"\xd7\x01\x01",
        encode_extension(3, packet(2)),
        encode_extension(2, packet(2) + b"\x00"),
        encode_extension(1, make_data(from_uri("/other/seq=1"), b"")),
        encode_extension(1, b"\x05\x00"),
    ],
)
def test_what_is_no_announcement_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedPacket):
        decode_extension(FEED, content)


@given(st.binary(max_size=100))
def test_any_bytes_are_an_announcement_or_malformed(content: bytes) -> None:
    with suppress(MalformedPacket):
        decode_extension(FEED, content)
    one = member()
    one.on_interest(heard(0, content), 0)
    one.on_interest(
        parse_interest(make_interest_with_parameters(GROUP, content, nonce=1, lifetime_ms=1, hop_limit=1)), 0
    )


def test_a_writer_tells_an_item_once_and_its_number_less_and_less_often() -> None:
    writer = member(writes=True)
    writer.published(1, parse_data(packet(1)), 0)
    assert said(writer) == [(1, True)]
    times = []
    while (due := writer.next_deadline()) is not None and due < 120 * SECOND:
        writer.wake(due)
        times.append(due / SECOND)
        assert said(writer) == [(1, False)]
    pauses = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert [round(pause / wanted, 1) for pause, wanted in zip(pauses, (1, 4, 16, 30, 30), strict=False)] == [
        pytest.approx(1, abs=0.11)
    ] * 5


def test_a_reader_asks_until_somebody_has_something() -> None:
    reader = member()
    reader.begin(0)
    assert said(reader) == [(0, False)]
    due = reader.next_deadline()
    assert due is not None
    reader.wake(due)
    assert said(reader) == [(0, False)]
    reader.on_interest(heard(2), due)
    assert (reader.newest, reader.held, reader.next_deadline()) == (2, 0, None)


def test_who_has_more_answers_unless_another_does_first() -> None:
    for other, answers in ((None, [(3, False)]), (3, []), (4, []), (2, [(3, False)])):
        one = member()
        one.held = 3
        one.on_interest(heard(1), 0)
        due = one.next_deadline()
        assert due is not None
        assert 0 < due <= 200 * MS
        if other is not None:
            one.on_interest(heard(other), 1)
        one.wake(due)
        assert said(one) == answers


def test_a_lie_is_looked_for_and_not_passed_on() -> None:
    one = member()
    one.held = 3
    one.on_interest(heard(1_000_000), 0)
    assert one.newest == 1_000_000
    one.on_interest(heard(1), 0)
    one.wake(one.next_deadline() or 0)
    assert said(one) == [(3, False)]


def test_items_come_with_announcements() -> None:
    one = member()
    one.on_interest(heard(2, packet(2)), 0)
    assert [item.wire for item in one.found] == [packet(2)]
    elsewhere = make_interest_with_parameters(from_uri("/x"), b"", nonce=1, lifetime_ms=1, hop_limit=1)
    one.on_interest(parse_interest(elsewhere), 0)
    assert len(one.found) == 1


def test_who_has_left_says_nothing() -> None:
    one = member()
    one.begin(0)
    one.held = 3
    one.on_interest(heard(1), 0)
    one.stop()
    assert one.next_deadline() is None
