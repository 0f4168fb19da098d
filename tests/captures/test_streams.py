"""TCP streams: packets come out whole, whatever the segments; and what is missing is counted."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from captures.layers.packet_stream import PacketStream as Stream
from captures.layers.streams import HELD_BYTES, Segment
from forwarder.wire.lp import make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest

SYN, FIN = 2, 1
PACKETS = [
    make_interest(from_uri("/a/b"), nonce=1),
    make_data(from_uri("/a/b"), b"\x05\x06\x07" * 100),
    make_lp(make_data(from_uri("/a/c"), b"x" * 9), congestion_mark=1),
    make_data(from_uri("/a/d"), b"y" * 4000),
]


def segments(stream: bytes, cuts: list[int], first: int = 0xFFFFFF00) -> list[Segment]:
    bounds = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    return [Segment(first + a & 0xFFFFFFFF, 0, stream[a:b], b - a) for a, b in pairwise(bounds)]


def run(stream: Stream, some: list[Segment]) -> list[bytes]:
    return [packet for each in some for packet in stream.receive(each)] + list(stream.finish())


sent = st.lists(st.sampled_from(PACKETS), min_size=1, max_size=8)
cuts = st.lists(st.integers(0, 1 << 20), max_size=12)


@given(sent, cuts, st.randoms(use_true_random=False), st.booleans())
def test_packets_come_out_however_they_are_cut_doubled_and_shuffled(packets, where, rng, begun) -> None:
    stream = Stream()
    parts = segments(b"".join(packets), where)
    again = [rng.choice(parts) for _ in range(3)]
    if begun:  # the order is known from the start
        list(stream.receive(Segment(0xFFFFFF00 - 1, SYN, b"", 0)))
        parts = parts + again
        rng.shuffle(parts)
    else:
        parts = parts[:1] + again + parts[1:]
    assert run(stream, parts) == packets
    assert (stream.gaps, stream.skipped) == (0, 0)


@given(sent, cuts, st.data())
def test_without_a_segment_the_others_are_read(packets, where, data) -> None:
    parts = segments(b"".join(packets), [*where, len(packets[0]), len(b"".join(packets[:-1]))])
    lost = data.draw(st.integers(0, len(parts) - 1))
    stream = Stream()
    list(stream.receive(Segment(0xFFFFFF00 - 1, SYN, b"", 0)))
    found = run(stream, parts[:lost] + parts[lost + 1 :])
    assert stream.gaps <= 1
    assert [each for each in found if each not in b"".join(packets)] == []  # perhaps from inside an LpPacket
    assert sum(map(len, found)) + stream.skipped == sum(part.length for part in parts) - parts[lost].length


def test_a_capture_that_begins_in_the_middle() -> None:
    whole = b"".join(PACKETS * 3)
    for begin in range(1, len(PACKETS[0]) + len(PACKETS[1])):
        stream = Stream()
        found = run(stream, segments(whole[begin:], [100, 700]))
        assert found == (PACKETS * 3)[1 if begin <= len(PACKETS[0]) else 2 :]
        assert stream.skipped == len(whole) - begin - sum(map(len, found))


def test_a_gap_is_given_up_when_too_much_is_held() -> None:
    stream = Stream()
    list(stream.receive(Segment(9, SYN, b"", 0)))
    found: list[bytes] = []
    packet = PACKETS[3]
    count = HELD_BYTES // len(packet) + 5
    for index in range(1, count):
        found += stream.receive(Segment(10 + index * len(packet), 0, packet, len(packet)))
    assert stream.gaps == 1
    assert len(found) == count - 1


def test_segments_that_the_capture_cut() -> None:
    stream = Stream()
    whole = PACKETS[0] + PACKETS[3]
    list(stream.receive(Segment(9, SYN, b"", 0)))
    cut = Segment(10, 0, whole[:200], len(whole))
    after = Segment(10 + len(whole), FIN, PACKETS[2], len(PACKETS[2]))
    assert run(stream, [cut, after]) == [PACKETS[0], PACKETS[2]]
    assert (stream.gaps, stream.skipped) == (1, 200 - len(PACKETS[0]))


@given(
    st.lists(
        st.builds(
            Segment, st.integers(0, 2**32 - 1), st.integers(0, 63), st.binary(max_size=50), st.integers(0, 60)
        ),
        max_size=20,
    )
)
def test_garbage_yields_bytes_that_came(some: list[Segment]) -> None:
    some = [each._replace(length=max(each.length, len(each.payload))) for each in some]
    stream = Stream()
    found = run(stream, some)
    assert sum(map(len, found)) + stream.skipped <= sum(len(each.payload) for each in some)
