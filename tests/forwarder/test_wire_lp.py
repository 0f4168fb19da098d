"""NDNLPv2: fields in order, what may be ignored, and what fields hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_makers import ANY_BYTES, NNI, data, interests, lp_packets

from forwarder.wire.lp import LpPacket, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.tlv import MalformedPacket, element

INTEREST = make_interest(from_uri("/A"), nonce=1)
FRAGMENT = element(0x50, INTEREST)
FIELDS = [
    element(0x51, bytes(7) + b"\x09"),  # Sequence
    element(0x52, b"\x01"),  # FragIndex
    element(0x53, b"\x03"),  # FragCount
    element(0x62, b"token"),  # PitToken
    element(0x0320, element(0x0321, b"\x64")),  # Nack
    element(0x0340, b"\x02"),  # CongestionMark
    element(0x0370, element(0x0371, b"\x05") + element(0x0372, b"\x08")),  # FeedState
    FRAGMENT,
]
KINDS = [0x51, 0x52, 0x53, 0x62, 0x0320, 0x0340, 0x0370, 0x50]
ALL_READ = (INTEREST, 9, 1, 3, b"token", 100, 2, 5, 8)


def lp_of(parts: list[bytes]) -> LpPacket:
    return parse_lp(element(100, b"".join(parts)))


def read(lp: LpPacket) -> tuple[object, ...]:
    return (
        lp.fragment,
        lp.sequence,
        lp.frag_index,
        lp.frag_count,
        lp.pit_token,
        lp.nack_reason,
        lp.congestion_mark,
        lp.tip,
        lp.limit,
    )


def test_all_fields() -> None:
    assert read(lp_of(FIELDS)) == ALL_READ


@given(st.sets(st.sampled_from([0, 3, 4, 5, 6, 7])))
def test_fields_are_optional(left_out: set[int]) -> None:
    found = read(lp_of([field for place, field in enumerate(FIELDS) if place not in left_out]))
    absent = {0: (1, None), 3: (4, None), 4: (5, None), 5: (6, 0), 6: (7, None), 7: (0, b"")}
    expected = list(ALL_READ)
    for place in left_out:
        at, value = absent[place]
        expected[at] = value
    if 6 in left_out:
        expected[8] = None
    assert found == tuple(expected)


def test_a_whole_packet_is_fragment_0_of_1() -> None:
    lp = lp_of([FRAGMENT])
    assert (lp.frag_index, lp.frag_count) == (0, 1)


@given(interests() | data())
def test_a_bare_packet_is_its_own_fragment(wire: bytes) -> None:
    assert read(parse_lp(wire)) == (wire, None, 0, 1, None, None, 0, None, None)


@given(lp_packets())
def test_what_was_read_builds_the_same_packet(wire: bytes) -> None:
    lp = parse_lp(wire)
    again = make_lp(
        lp.fragment,
        sequence=lp.sequence,
        frag_index=lp.frag_index,
        frag_count=lp.frag_count,
        nack_reason=lp.nack_reason,
        pit_token=lp.pit_token,
        congestion_mark=lp.congestion_mark,
        tip=lp.tip,
        limit=lp.limit,
    )
    assert again == wire


@given(st.permutations(range(8)))
def test_fields_stand_in_the_order_of_their_types_and_the_fragment_last(order: list[int]) -> None:
    parts = [FIELDS[place] for place in order]
    if order == sorted(order):
        assert read(lp_of(parts)) == ALL_READ
    else:
        with pytest.raises(MalformedPacket):
            lp_of(parts)


@given(st.integers(0, 7), st.integers(0, 8))
def test_no_field_is_repeated(repeated: int, place: int) -> None:
    with pytest.raises(MalformedPacket):
        lp_of([*FIELDS[:place], FIELDS[repeated], *FIELDS[place:]])


def test_acks_are_repeated() -> None:
    """The one field of NDNLPv2 that may be; this implementation has no use for it."""
    ack = element(0x0344, bytes(8))
    assert read(lp_of([*FIELDS[:6], ack, ack, *FIELDS[6:]])) == ALL_READ


def in_its_place(kind: int, value: bytes) -> list[bytes]:
    place = sum(known < kind for known in KINDS[:-1])
    return [*FIELDS[:place], element(kind, value), *FIELDS[place:]]


OTHERS = {0x032C, 0x0330, 0x0334, 0x0344, 0x0348, 0x034C, 0x0350}
"""Fields that are known and have tests of their own."""


@given(
    st.integers(800, 959).filter(lambda kind: kind % 4 == 0 and kind not in {*KINDS, *OTHERS}),
    st.binary(max_size=9),
)
def test_unknown_fields_that_may_be_ignored(kind: int, value: bytes) -> None:
    """NDNLPv2: those of 800 to 959 whose two lowest bits are clear."""
    assert read(lp_of(in_its_place(kind, value))) == ALL_READ


@given(
    st.one_of(
        st.integers(800, 959).filter(lambda kind: kind % 4 != 0),
        st.integers(1, 799),
        st.integers(960, 70_000),
    ).filter(lambda kind: kind not in KINDS),
    st.binary(max_size=9),
)
def test_unknown_fields_that_may_not(kind: int, value: bytes) -> None:
    with pytest.raises(MalformedPacket):
        lp_of(in_its_place(kind, value))


@pytest.mark.parametrize(
    "parts",
    [
        [element(0x51, bytes(4)), FRAGMENT],
        [element(0x51, bytes(9)), FRAGMENT],
        [element(0x52, b""), FRAGMENT],
        [element(0x52, b"\x01"), FRAGMENT],
        [element(0x52, b"\x02"), element(0x53, b"\x02"), FRAGMENT],
        [element(0x53, b"\x00"), FRAGMENT],
        [element(0x62, b""), FRAGMENT],
        [element(0x62, bytes(33)), FRAGMENT],
        [element(0x0320, element(0x0321, b"")), FRAGMENT],
        [element(0x0320, element(0x0323, b"")), FRAGMENT],
        [element(0x0320, b"\xfd\x03\x21\x02\x01"), FRAGMENT],
        [element(0x0340, b"123"), FRAGMENT],
        [element(0x0370, element(0x0371, b"\x05")), FRAGMENT],
        [element(0x0370, element(0x0372, b"\x05")), FRAGMENT],
        [element(0x0370, element(0x0372, b"\x05") + element(0x0371, b"\x05")), FRAGMENT],
        [element(0x0370, b""), FRAGMENT],
        [FRAGMENT, element(0x62, b"token")],
        [FRAGMENT[:-1]],
        [b"\x50"],
    ],
    ids=[
        "Sequence of 4 bytes",
        "Sequence of 9 bytes",
        "empty FragIndex",
        "FragIndex without FragCount",
        "FragIndex not below FragCount",
        "no fragments",
        "empty PitToken",
        "PitToken of 33 bytes",
        "empty NackReason",
        "unknown critical element in Nack",
        "NackReason that overruns",
        "CongestionMark of 3 bytes",
        "FeedState without Limit",
        "FeedState without Tip",
        "Limit before Tip",
        "empty FeedState",
        "field after the Fragment",
        "Fragment that overruns",
        "half a field",
    ],
)
def test_malformed(parts: list[bytes]) -> None:
    with pytest.raises(MalformedPacket):
        lp_of(parts)


@pytest.mark.parametrize(
    "wire", [b"", b"\x64", b"\x07\x00", INTEREST + b"\x00", b"\x64\x00\x00", b"\x00\x00"]
)
def test_not_an_lp_packet(wire: bytes) -> None:
    with pytest.raises(MalformedPacket):
        parse_lp(wire)


def test_an_idle_packet() -> None:
    assert read(parse_lp(b"\x64\x00")) == (b"", None, 0, 1, None, None, 0, None, None)


def test_a_nack_that_gives_no_reason() -> None:
    assert lp_of([element(0x0320), FRAGMENT]).nack_reason == 0
    assert make_lp(INTEREST, nack_reason=0) == element(100, element(0x0320) + FRAGMENT)


@given(NNI, NNI)
def test_more_in_a_feed_state_than_we_know(tip: int, limit: int) -> None:
    known = parse_lp(make_lp(INTEREST, tip=tip, limit=limit))
    assert (known.tip, known.limit) == (tip, limit)
    inner = element(0x0371, b"\x05") + element(0x0372, b"\x08") + element(0x037C, b"later")
    lp = lp_of([element(0x0370, inner), FRAGMENT])
    assert (lp.tip, lp.limit) == (5, 8)


DATA = make_data(from_uri("/A"), b"x")


@pytest.mark.parametrize("wrapped", [False, True])
def test_opening_what_arrives(wrapped: bool) -> None:
    data_packet = make_lp(DATA, tip=3, limit=9) if wrapped else DATA
    interest_packet = make_lp(INTEREST, pit_token=b"t") if wrapped else INTEREST
    opened = open_data(data_packet)
    assert opened is not None
    assert opened[0].wire == DATA
    assert (opened[1].tip, opened[1].limit) == ((3, 9) if wrapped else (None, None))
    asked = open_interest(interest_packet)
    assert asked is not None
    assert asked.wire == INTEREST
    assert open_data(interest_packet) is None
    assert open_interest(data_packet) is None


@pytest.mark.parametrize(
    "packet",
    [
        make_lp(INTEREST, nack_reason=150),
        make_lp(DATA, nack_reason=0),
        b"\x64\x00",
        b"",
        INTEREST[:-1],
        DATA[:-1],
    ],
    ids=["Nack", "Nack of Data", "idle packet", "nothing", "cut Interest", "cut Data"],
)
def test_nothing_to_open(packet: bytes) -> None:
    assert open_data(packet) is None
    assert open_interest(packet) is None


@given(ANY_BYTES)
def test_anything_opens_or_does_not(packet: bytes) -> None:
    assert open_data(packet) is None or open_interest(packet) is None
