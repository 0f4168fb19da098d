"""State Vector Sync: encoding to the specification, and its state machine."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ndn.encoding import Component, Name, parse_interest, parse_tl_num
from small_network import feed_of

from base.units import MS, SECOND
from forwarder.wire import packet as packets
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket, element
from ssb_over_ndn.naming import log_name, sync_prefix
from ssb_over_ndn.sync.state_vector import FeedMember, bootstrap_time, decode_vector, encode_vector

FEED = log_name(feed_of(1)[0].author)
GROUP = sync_prefix(FEED) + from_uri("/v=3")
VECTORS = st.dictionaries(
    st.tuples(st.sampled_from([from_uri("/a"), from_uri("/b/c"), FEED]), st.integers(0, 1 << 40)),
    st.integers(0, (1 << 64) - 1),
    max_size=6,
)


def member(seed: int = 1) -> FeedMember:
    return FeedMember(FEED, rng=Random(seed), periodic_ms=30_000, suppression_ms=200)


def sent_by(one: FeedMember) -> list[bytes]:
    outputs, one.outputs = one.outputs, []
    return outputs


def sync_interest(seqs: dict[int, int], name: bytes = FEED) -> packets.Interest:
    content = encode_vector({(name, bootstrap): seq for bootstrap, seq in seqs.items()})
    return packets.parse_interest(
        make_interest_with_parameters(
            GROUP, make_data(GROUP, content), nonce=1, lifetime_ms=1000, hop_limit=32
        )
    )


def test_a_vector_on_the_wire() -> None:
    vector = {(from_uri("/b"), 256): 2, (from_uri("/a"), 7): 300, (from_uri("/a"), 6): 1}
    a = bytes.fromhex("0703080161 d206 d40106 d60101 d207 d40107 d602012c".replace(" ", ""))
    b = bytes.fromhex("0703080162 d207 d4020100 d60102".replace(" ", ""))
    entries = bytes((202, len(a))) + a + bytes((202, len(b))) + b
    assert encode_vector(vector) == bytes((201, len(entries))) + entries
    assert decode_vector(encode_vector(vector)) == (vector, True)


@given(VECTORS)
def test_what_is_encoded_is_decoded(vector: dict[tuple[bytes, int], int]) -> None:
    assert decode_vector(b"\xf0\x00" + encode_vector(vector)) == (vector, True)


@given(st.binary(max_size=80) | VECTORS.map(encode_vector), st.data())
def test_any_bytes_are_a_vector_or_malformed(content: bytes, data: st.DataObject) -> None:
    changed = bytearray(content)
    if changed:
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(0, 255))
    with suppress(MalformedPacket):
        decode_vector(bytes(changed))
    one = member()
    interest = make_interest_with_parameters(
        GROUP, make_data(GROUP, bytes(changed)), nonce=1, lifetime_ms=1, hop_limit=1
    )
    one.on_interest(packets.parse_interest(interest), 0)
    assert all(name == FEED for name, _ in one.vector)


def test_python_ndn_reads_a_sync_interest() -> None:
    one = member()
    one.update(FEED, 1_600_000_000, 5, 0)
    (wire,) = sent_by(one)
    name, fields, parameters, digests = parse_interest(wire, with_tl=True)
    assert Name.to_bytes(name)[2:] == packets.parse_interest(wire).name
    assert Component.get_type(name[-1]) == Component.TYPE_PARAMETERS_SHA256
    assert bytes(digests.digest_value_buf) == Component.get_value(name[-1])
    assert parse_tl_num(bytes(parameters))[0] == 6
    assert fields.lifetime == 1000
    assert to_uri(packets.parse_interest(wire).name).split("/")[-2] == "v=3"


def test_parameters_count_only_under_their_digest() -> None:
    good = make_interest_with_parameters(from_uri("/a"), b"xy", nonce=1, lifetime_ms=1, hop_limit=1)
    assert parameters_of(packets.parse_interest(good)) == b"xy"
    assert parameters_of(packets.parse_interest(good.replace(b"xy", b"xz"))) is None
    assert parameters_of(packets.parse_interest(packets.make_interest(from_uri("/a"), nonce=1))) is None


def test_a_publication_is_told_at_once_and_then_every_30_s() -> None:
    one = member()
    one.update(FEED, 7, 1, 0)
    assert len(sent_by(one)) == 1
    for _ in range(20):
        before = one.next_deadline()
        assert before is not None
        one.wake(before - 1)
        assert sent_by(one) == []
        one.wake(before)
        assert len(sent_by(one)) == 1
        after = one.next_deadline()
        assert after is not None
        assert 27 * SECOND <= after - before <= 33 * SECOND


def test_news_are_taken_and_put_the_timer_off() -> None:
    one = member()
    one.send(0)
    one.on_interest(sync_interest({7: 3}), 20 * SECOND)
    assert one.newest == 3
    assert one.next_deadline() is not None
    assert 47 * SECOND <= (one.next_deadline() or 0) <= 53 * SECOND
    one.on_interest(sync_interest({7: 3}), 40 * SECOND)
    assert 67 * SECOND <= (one.next_deadline() or 0) <= 73 * SECOND


def test_who_knows_less_is_told_after_a_random_time() -> None:
    delays = []
    for seed in range(200):
        one = member(seed)
        one.update(FEED, 7, 3, 0)
        sent_by(one)
        one.on_interest(sync_interest({7: 2}), SECOND)
        due = one.next_deadline()
        assert due is not None
        one.wake(due)
        assert len(sent_by(one)) == 1
        delays.append(due - SECOND)
        assert 27 * SECOND <= (one.next_deadline() or 0) - due <= 33 * SECOND
    assert 0 <= min(delays) < max(delays) <= 200 * MS
    assert sorted(delays)[100] > 150 * MS  # most wait nearly as long as they can


def test_who_is_told_by_another_is_not_told_again() -> None:
    one = member()
    one.update(FEED, 7, 3, 0)
    sent_by(one)
    one.on_interest(sync_interest({7: 2}), SECOND)
    one.on_interest(sync_interest({7: 3}), SECOND + 1)
    one.wake(one.next_deadline() or 0)
    assert sent_by(one) == []
    one.on_interest(sync_interest({7: 2}), 2 * SECOND)
    one.on_interest(sync_interest({7: 1}), 2 * SECOND + 1)
    one.wake(one.next_deadline() or 0)
    assert len(sent_by(one)) == 1


def test_what_is_behind_what_is_only_just_news_is_let_be() -> None:
    one = member()
    one.on_interest(sync_interest({7: 3}), SECOND)
    due = one.next_deadline()
    one.on_interest(sync_interest({7: 2}), SECOND + 200 * MS - 1)
    assert one.next_deadline() == due
    one.on_interest(sync_interest({7: 2}), SECOND + 200 * MS)
    assert (one.next_deadline() or 0) <= SECOND + 400 * MS


def test_a_feed_that_began_again_goes_on_from_the_higher_number() -> None:
    one = member()
    one.on_interest(sync_interest({7: 3}), 0)
    one.on_interest(sync_interest({7: 3, 9: 2}), 0)
    assert one.newest == 3
    assert one.vector == {(FEED, 7): 3, (FEED, 9): 2}


@pytest.mark.parametrize(
    "interest",
    [
        sync_interest({7: 3}, from_uri("/other")),
        sync_interest(dict.fromkeys(range(9), 1)),
        packets.parse_interest(packets.make_interest(GROUP, nonce=1)),
        packets.parse_interest(
            make_interest_with_parameters(GROUP, b"\x06\x00", nonce=1, lifetime_ms=1, hop_limit=1)
        ),
        packets.parse_interest(
            make_interest_with_parameters(
                GROUP, make_data(GROUP, element(201))[:-1] + b"\0", nonce=1, lifetime_ms=1, hop_limit=1
            )
        ),
        packets.parse_interest(
            make_interest_with_parameters(
                GROUP, make_data(FEED, element(201)), nonce=1, lifetime_ms=1, hop_limit=1
            )
        ),
    ],
    ids=["other names", "too many beginnings", "no parameters", "no Data", "wrong digest", "other group"],
)
def test_what_is_no_vector_of_the_group_changes_nothing(interest: packets.Interest) -> None:
    one = member()
    one.update(FEED, 7, 1, 0)
    sent_by(one)
    one.on_interest(interest, SECOND)
    assert one.vector == {(FEED, 7): 1}


def test_a_feed_began_with_its_first_message() -> None:
    assert bootstrap_time(feed_of(1)[0]) == feed_of(1)[0].timestamp // 1000
