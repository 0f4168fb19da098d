"""Fragmentation and reassembly: any order, duplicates, losses, and any packet that a link has to take."""

from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from packet_makers import NNI

from base.units import MS
from forwarder.links.link import MIN_MTU, LinkService
from forwarder.wire.lp import LpPacket, make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest, parse_data
from forwarder.wire.tlv import MalformedPacket

TIMEOUT = 500 * MS
HEADERS = 28  # UDP and IPv4

MTUS = st.sampled_from([MIN_MTU, 300, 576, 1280, 1480, 1500, 9000])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "pit_token": st.binary(min_size=1, max_size=32),
        "nack_reason": NNI,
        "congestion_mark": NNI,
    },
)


def packet_of(size: int) -> bytes:
    """A Data packet of that many bytes; of somewhat fewer up to 305, and of 42 at least."""
    return make_data(from_uri("/a"), Random(size).randbytes(max(size - 52, 0)))


def fields(lp: LpPacket) -> tuple[object, ...]:
    return lp.pit_token, lp.nack_reason, lp.congestion_mark, lp.tip, lp.limit


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    MTUS, st.integers(0, 12_000), FIELDS, st.none() | st.tuples(NNI, NNI), st.randoms(use_true_random=False)
)
@example(
    MIN_MTU, 12_000, {"pit_token": bytes(32), "nack_reason": 1 << 40}, ((1 << 64) - 1, 1 << 63), Random(1)
)
def test_round_trip_in_any_order_with_duplicates(
    mtu: int, size: int, header: dict[str, int | bytes], state: tuple[int, int] | None, rng: Random
) -> None:
    if state is not None:
        header = header | {"tip": state[0], "limit": state[1]}
    data = packet_of(size)
    packet = make_lp(data, **header) if header else data
    sender, receiver = LinkService(mtu), LinkService(mtu)
    frames = sender.send(packet)
    assert all(len(frame) <= mtu - HEADERS for frame in frames)
    assert (len(frames) > 1) == (len(packet) > mtu - HEADERS)
    last = frames.pop(rng.randrange(len(frames)))
    early = frames * 2
    rng.shuffle(early)
    assert all(receiver.receive(frame, 0) is None for frame in early)
    whole = receiver.receive(last, 0)
    assert whole is not None
    lp = parse_lp(whole)
    assert lp.fragment == data
    assert fields(lp) == fields(parse_lp(packet))
    assert (lp.frag_index, lp.frag_count, lp.sequence) == (0, 1, None)
    assert receiver.reassembly_failures == sender.oversized == 0
    assert not len(receiver.reassembler)


@given(st.lists(st.integers(100, 4000), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_packets_that_overtake_each_other(sizes: list[int], rng: Random) -> None:
    sender, receiver = LinkService(576), LinkService(576)
    packets = [packet_of(size) for size in sizes]
    frames = [frame for packet in packets for frame in sender.send(packet)]
    rng.shuffle(frames)
    received = [receiver.receive(frame, 0) for frame in frames]
    assert sorted(parse_lp(packet).fragment for packet in received if packet) == sorted(packets)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(100, 6000), st.integers(0, 400 * MS)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_loss_gives_nothing_and_nothing_false(sent: list[tuple[int, int]], rng: Random) -> None:
    """What comes out was sent, whole; state is bounded; in the end nothing is left of the rest."""
    sender, receiver = LinkService(576), LinkService(576)
    packets = set()
    now = 0
    for size, pause in sent:
        now += pause
        packet = packet_of(size)
        packets.add(packet)
        frames = sender.send(packet)
        kept = [frame for frame in frames if rng.random() < 0.7]
        received = [receiver.receive(frame, now) for frame in kept]
        whole = [parse_lp(packet).fragment for packet in received if packet]
        assert whole == ([packet] if len(kept) == len(frames) else [])
        assert len(receiver.reassembler) <= 64
    unfinished = len(receiver.reassembler)
    before = receiver.reassembly_failures
    receiver.receive(sender.send(packet_of(1000))[0], now + TIMEOUT)
    assert len(receiver.reassembler) == 1
    assert receiver.reassembly_failures == before + unfinished


def test_a_packet_is_given_up_after_half_a_second() -> None:
    """When the next fragmented one comes: until then there is nobody to notice."""
    sender, receiver = LinkService(), LinkService()
    first, second = sender.send(packet_of(2000)), sender.send(packet_of(2100))
    receiver.receive(first[0], 0)
    receiver.receive(second[0], TIMEOUT - 1)
    assert receiver.reassembly_failures == 0
    receiver.receive(sender.send(packet_of(2200))[0], TIMEOUT)
    assert receiver.reassembly_failures == 1
    assert receiver.receive(first[1], TIMEOUT) is None
    assert receiver.receive(second[1], TIMEOUT) is not None


def test_the_oldest_goes_first_when_there_are_too_many() -> None:
    sender, receiver = LinkService(), LinkService()
    packets = [sender.send(packet_of(2000 + n)) for n in range(100)]
    for frames in packets:
        assert receiver.receive(frames[0], 0) is None
        assert len(receiver.reassembler) <= 64
    assert receiver.reassembly_failures == 36
    whole = [receiver.receive(frames[1], 0) is not None for frames in packets[-64:]]
    assert all(whole)


def test_a_packet_that_fits_is_sent_as_it_is() -> None:
    link = LinkService()
    for size in (100, 1000, 1472):
        packet = packet_of(size)
        assert link.send(packet) == [packet]
        assert link.receive(packet, 0) == packet
    lp = make_lp(make_interest(from_uri("/a"), nonce=1), nack_reason=50, pit_token=b"t")
    assert link.send(lp) == [lp]
    assert link.receive(lp, 0) == lp


@pytest.mark.parametrize("size", [1471, 1472, 1473])
def test_the_largest_that_fits(size: int) -> None:
    packet = packet_of(size)
    assert len(packet) == size
    frames = LinkService(1500).send(packet)
    assert len(frames) == (1 if size <= 1472 else 2)


def test_no_more_fragments_than_a_receiver_takes() -> None:
    sender, receiver = LinkService(MIN_MTU), LinkService(MIN_MTU)
    room = MIN_MTU - HEADERS - 34
    largest = packet_of(400 * room - 4)  # the header's lengths take two bytes more each from 65536 on
    assert len(largest) == 400 * room
    frames = sender.send(largest)
    assert len(frames) == 400
    received = [receiver.receive(frame, 0) for frame in frames]
    assert parse_data(parse_lp(received[-1] or b"").fragment).wire == largest
    assert sender.send(packet_of(400 * room - 3)) == []
    assert sender.oversized == 1


def test_an_ndn_packet_of_the_usual_limit_passes_every_link() -> None:
    """8800 bytes, NDN's customary maximum."""
    for mtu in (MIN_MTU, 1500):
        packet = packet_of(8800)
        sender, receiver = LinkService(mtu), LinkService(mtu)
        received = [receiver.receive(frame, 0) for frame in sender.send(packet)]
        assert parse_lp(received[-1] or b"").fragment == packet


@pytest.mark.parametrize("mtu", [0, 68, MIN_MTU - 1])
def test_a_link_that_is_too_small(mtu: int) -> None:
    with pytest.raises(ValueError, match=f"MTU {mtu}"):
        LinkService(mtu)


def test_a_stream_carries_no_fragments() -> None:
    """It takes any packet whole. NFD's Unix and TCP faces put nothing together, either."""
    stream = LinkService(None, overhead=0)
    with pytest.raises(MalformedPacket):
        stream.receive(fragment(1, 0, 2, b"x"), 0)
    assert stream.next_deadline() is None
    assert LinkService(64, overhead=0).receive(fragment(1, 0, 2, b"x"), 0) is None


def fragment(sequence: int | None, index: int, count: int, body: bytes = b"x") -> bytes:
    return make_lp(body, sequence=sequence, frag_index=index, frag_count=count)


def test_sequence_numbers_wrap() -> None:
    """NFD's first packet of two fragments has Sequence 2**64 - 1 and 0."""
    packet = packet_of(100)
    link = LinkService()
    assert link.receive(fragment((1 << 64) - 1, 0, 2, packet[:50]), 0) is None
    whole = link.receive(fragment(0, 1, 2, packet[50:]), 0)
    assert whole is not None
    assert parse_lp(whole).fragment == packet


def test_our_sequence_numbers_wrap_too() -> None:
    sender, receiver = LinkService(), LinkService()
    sender._sequence = (1 << 64) - 1
    packet = packet_of(4000)
    frames = sender.send(packet)
    assert [parse_lp(frame).sequence for frame in frames] == [(1 << 64) - 1, 0, 1]
    received = [receiver.receive(frame, 0) for frame in frames]
    assert parse_lp(received[-1] or b"").fragment == packet


def test_sequence_numbers_go_on_from_packet_to_packet() -> None:
    link = LinkService()
    frames = link.send(packet_of(4000)) + link.send(packet_of(2000))
    assert [parse_lp(frame).sequence for frame in frames] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "frame",
    [fragment(None, 0, 2), fragment(1, 0, 401), fragment(8, 1, 3), b"\x64\x05abcde", b"\x64"],
    ids=["no Sequence", "too many fragments", "another count", "nonsense", "half a header"],
)
def test_malformed_frames(frame: bytes) -> None:
    link = LinkService()
    assert link.receive(fragment(7, 0, 2), 0) is None
    with pytest.raises(MalformedPacket):
        link.receive(frame, 0)
    assert link.receive(fragment(8, 1, 2), 0) is not None
    assert link.reassembly_failures == 0


def test_what_is_no_lp_packet_is_for_the_core_to_judge() -> None:
    link = LinkService()
    for frame in (b"", b"\x05", b"\xff" * 9):
        assert link.receive(frame, 0) == frame
