"""Interest and Data: which elements, in which order, what becomes of the others (NDN packet format 0.3)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.name import from_uri
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket, element, elements

NAME = element(7, from_uri("/A/B"))
NONCE = element(10, b"\1\2\3\4")
INTEREST_ELEMENTS = [
    NAME,
    element(33),  # CanBePrefix
    element(18),  # MustBeFresh
    element(30, NAME),  # ForwardingHint
    NONCE,
    element(12, b"\x07"),  # InterestLifetime
    element(34, b"\x09"),  # HopLimit
    element(36, b"application"),
    element(44, b"\x1b\x01\x00"),
    element(46, bytes(32)),
]
CRITICAL = {33, 18, 30, 10, 12}

META_INFO_ELEMENTS = [element(24, b"\x02"), element(25, b"\x05"), element(26, b"\x08\x01Z")]
SIGNATURE_INFO_ELEMENTS = [element(27, b"\x05"), element(28, NAME), element(40, b"\x01")]
DATA_ELEMENTS = [
    NAME,
    element(20, b"".join(META_INFO_ELEMENTS)),
    element(21, b"content"),
    element(22, b"".join(SIGNATURE_INFO_ELEMENTS)),
    element(23, b"signature"),
]

UNKNOWN_CRITICAL = [
    element(0),
    element(9, b"x"),
    element(31),
    element(127, b"x"),
    element(241),
    element(1001),
]
UNKNOWN_IGNORABLE = [element(32, b"x"), element(126), element(128), element(242, b"xy"), element(1000, b"x")]


def interest_of(parts: list[bytes]) -> Interest:
    return parse_interest(element(5, b"".join(parts)))


def data_of(parts: list[bytes]) -> Data:
    return parse_data(element(6, b"".join(parts)))


def seen(interest: Interest) -> tuple[object, ...]:
    return (
        interest.name,
        interest.can_be_prefix,
        interest.must_be_fresh,
        interest.nonce,
        interest.lifetime_ms,
        interest.hop_limit,
        interest.send_credit,
    )


def read(data: Data) -> tuple[object, ...]:
    return (
        data.name,
        data.content_type,
        data.freshness_ms,
        data.content,
        data.signature_type,
        data.signature,
    )


ALL_SEEN = (from_uri("/A/B"), True, True, 0x01020304, 7, 9, None)
ALL_READ = (from_uri("/A/B"), 2, 5, b"content", 5, b"signature")


def kind_of(part: bytes) -> int:
    return next(elements(part, 0, len(part)))[0]


def test_all_elements() -> None:
    assert seen(interest_of(INTEREST_ELEMENTS)) == ALL_SEEN
    assert read(data_of(DATA_ELEMENTS)) == ALL_READ


@given(st.sets(st.integers(1, 9)))
def test_all_elements_of_an_interest_but_the_name_are_optional(left_out: set[int]) -> None:
    parts = [part for place, part in enumerate(INTEREST_ELEMENTS) if place not in left_out]
    interest = interest_of(parts)
    assert interest.can_be_prefix == (1 not in left_out)
    assert interest.must_be_fresh == (2 not in left_out)
    assert interest.nonce == (None if 4 in left_out else 0x01020304)
    assert interest.lifetime_ms == (4000 if 5 in left_out else 7)
    assert interest.hop_limit == (None if 6 in left_out else 9)


@given(st.integers(1, 10), st.sampled_from(UNKNOWN_IGNORABLE))
def test_an_unknown_ignorable_element_in_an_interest(place: int, unknown: bytes) -> None:
    assert seen(interest_of([*INTEREST_ELEMENTS[:place], unknown, *INTEREST_ELEMENTS[place:]])) == ALL_SEEN


@given(st.integers(0, 10), st.sampled_from(UNKNOWN_CRITICAL))
def test_an_unknown_critical_element_in_an_interest(place: int, unknown: bytes) -> None:
    with pytest.raises(MalformedPacket):
        interest_of([*INTEREST_ELEMENTS[:place], unknown, *INTEREST_ELEMENTS[place:]])


@pytest.mark.parametrize("unknown", UNKNOWN_IGNORABLE, ids=lambda part: str(kind_of(part)))
def test_nothing_comes_before_the_name(unknown: bytes) -> None:
    with pytest.raises(MalformedPacket):
        interest_of([unknown, *INTEREST_ELEMENTS])
    with pytest.raises(MalformedPacket):
        data_of([unknown, *DATA_ELEMENTS])


@given(st.integers(1, 9), st.integers(1, 9))
def test_an_element_of_an_interest_out_of_order_or_repeated_counts_as_unknown(moved: int, place: int) -> None:
    """Here in addition to the one in its place: behind that it is out of order, before it takes over."""
    late = moved < place or moved == place
    extra = INTEREST_ELEMENTS[moved]
    after = place + 1
    parts = [*INTEREST_ELEMENTS[:after], extra, *INTEREST_ELEMENTS[after:]]
    if late and kind_of(extra) in CRITICAL:
        with pytest.raises(MalformedPacket):
            interest_of(parts)
    elif late:
        assert seen(interest_of(parts)) == ALL_SEEN
    elif any(kind_of(part) in CRITICAL for part in INTEREST_ELEMENTS[after : moved + 1]):
        with pytest.raises(MalformedPacket):
            interest_of(parts)
    else:
        assert seen(interest_of(parts))[:5] == ALL_SEEN[:5]


def test_a_hop_limit_out_of_order_is_ignored() -> None:
    interest = interest_of([NAME, NONCE, element(36, b"p"), element(34, b"\x05")])
    assert interest.hop_limit is None
    assert interest.next_hop_wire() == interest.wire


def test_of_two_hop_limits_the_first_counts() -> None:
    interest = interest_of([NAME, NONCE, element(34, b"\x05"), element(34, b"\x09")])
    assert interest.hop_limit == 5
    assert parse_interest(interest.next_hop_wire()).hop_limit == 4


@given(st.integers(1, 10))
def test_send_credit_anywhere_after_the_name(place: int) -> None:
    item = item_name(feed_name(b"", bytes(32)), 1)
    elements = [element(7, item), *INTEREST_ELEMENTS[1:]]
    interest = interest_of([*elements[:place], element(240, b"\x03"), *elements[place:]])
    assert seen(interest) == (item, *ALL_SEEN[1:-1], 3)


def test_of_two_send_credits_the_first_counts() -> None:
    name = element(7, item_name(feed_name(b"", bytes(32)), 1))
    grants = [element(240, b"\x03"), element(240, b"\x09")]
    assert interest_of([name, NONCE, *grants]).send_credit == 3
    assert interest_of([name, NONCE, element(240, b"abc"), *grants]).send_credit is None
    assert interest_of([NAME, NONCE, *grants]).send_credit is None


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [element(7)],
        [NONCE],
        [NAME, NAME],
        [NAME, element(10, b"123")],
        [NAME, element(10, b"12345")],
        [NAME, element(33, b"x")],
        [NAME, element(18, b"x")],
        [NAME, element(12)],
        [NAME, element(12, b"123")],
        [NAME, element(34)],
        [NAME, element(34, b"12")],
        [NAME, NONCE[:-1]],
        [NAME, NONCE, b"\x0c"],
    ],
    ids=[
        "empty",
        "empty name",
        "no name",
        "two names",
        "short nonce",
        "long nonce",
        "CanBePrefix with a value",
        "MustBeFresh with a value",
        "empty lifetime",
        "lifetime of 3 bytes",
        "empty HopLimit",
        "HopLimit of 2 bytes",
        "element that overruns",
        "half an element",
    ],
)
def test_malformed_interests(parts: list[bytes]) -> None:
    with pytest.raises(MalformedPacket):
        interest_of(parts)


def test_next_hop_wire_changes_one_byte() -> None:
    wire = make_interest(from_uri("/A"), nonce=1, hop_limit=255, lifetime_ms=1, send_credit=3)
    changed = parse_interest(wire).next_hop_wire()
    assert [(a, b) for a, b in zip(wire, changed, strict=True) if a != b] == [(255, 254)]


@given(st.sets(st.integers(1, 9)), st.sampled_from([None, *UNKNOWN_IGNORABLE]), st.integers(1, 10))
def test_with_nonce(left_out: set[int], unknown: bytes | None, place: int) -> None:
    parts = [b"" if i in left_out or i == 4 else part for i, part in enumerate(INTEREST_ELEMENTS)]
    if unknown is not None:
        parts.insert(place, unknown)
    before = interest_of(parts)
    assert before.nonce is None
    after = parse_interest(before.with_nonce(0x01020304))
    assert after.nonce == 0x01020304
    assert seen(after)[:3] + seen(after)[4:] == seen(before)[:3] + seen(before)[4:]
    assert len(after.wire) == len(before.wire) + 6


@given(st.sets(st.integers(1, 2)), st.sets(st.integers(0, 2)), st.sets(st.integers(1, 2)))
def test_optional_elements_of_data(left_out: set[int], no_meta: set[int], no_signature: set[int]) -> None:
    parts = {
        1: element(20, b"".join(part for i, part in enumerate(META_INFO_ELEMENTS) if i not in no_meta)),
        3: element(
            22, b"".join(part for i, part in enumerate(SIGNATURE_INFO_ELEMENTS) if i not in no_signature)
        ),
    }
    data = data_of([parts.get(i, part) for i, part in enumerate(DATA_ELEMENTS) if i not in left_out])
    assert data.content_type == (0 if 1 in left_out or 0 in no_meta else 2)
    assert data.freshness_ms == (0 if 1 in left_out or 1 in no_meta else 5)
    assert data.content == (b"" if 2 in left_out else b"content")
    assert (data.signature_type, data.signature) == (5, b"signature")


@given(st.integers(1, 5), st.sampled_from(UNKNOWN_IGNORABLE))
def test_an_unknown_ignorable_element_in_data(place: int, unknown: bytes) -> None:
    parts = [*DATA_ELEMENTS[:place], unknown, *DATA_ELEMENTS[place:]]
    data = data_of(parts)
    assert read(data) == ALL_READ
    # "Signature": signed is all from Name up to, but not including, SignatureValue
    assert data.signed == b"".join(parts[: parts.index(DATA_ELEMENTS[-1])])


@given(st.integers(0, 5), st.sampled_from(UNKNOWN_CRITICAL))
def test_an_unknown_critical_element_in_data(place: int, unknown: bytes) -> None:
    with pytest.raises(MalformedPacket):
        data_of([*DATA_ELEMENTS[:place], unknown, *DATA_ELEMENTS[place:]])


@given(st.permutations(DATA_ELEMENTS))
def test_elements_of_data_stand_in_one_order(parts: list[bytes]) -> None:
    """They are all critical."""
    if parts == DATA_ELEMENTS:
        assert read(data_of(parts)) == ALL_READ
    else:
        with pytest.raises(MalformedPacket):
            data_of(parts)


@given(st.integers(0, 4), st.integers(0, 5))
def test_no_element_of_data_is_repeated(repeated: int, place: int) -> None:
    with pytest.raises(MalformedPacket):
        data_of([*DATA_ELEMENTS[:place], DATA_ELEMENTS[repeated], *DATA_ELEMENTS[place:]])


def with_meta_info(parts: list[bytes]) -> Data:
    return data_of([NAME, element(20, b"".join(parts)), *DATA_ELEMENTS[2:]])


def with_signature_info(parts: list[bytes]) -> Data:
    return data_of([*DATA_ELEMENTS[:3], element(22, b"".join(parts)), DATA_ELEMENTS[4]])


INNER = [
    pytest.param(with_meta_info, META_INFO_ELEMENTS, id="MetaInfo"),
    pytest.param(with_signature_info, SIGNATURE_INFO_ELEMENTS[:2], id="SignatureInfo"),
]
MakeData = Callable[[list[bytes]], Data]


@pytest.mark.parametrize(("made", "known"), INNER)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_inner_elements(made: MakeData, known: list[bytes], place: int) -> None:
    for unknown in UNKNOWN_IGNORABLE:
        assert read(made([*known[:place], unknown, *known[place:]])) == ALL_READ
    for unknown in UNKNOWN_CRITICAL:
        with pytest.raises(MalformedPacket):
            made([*known[:place], unknown, *known[place:]])


@pytest.mark.parametrize(("made", "known"), INNER)
def test_inner_elements_stand_in_one_order_and_once(made: MakeData, known: list[bytes]) -> None:
    with pytest.raises(MalformedPacket):
        made(known[::-1])
    for part in known:
        with pytest.raises(MalformedPacket):
            made([*known, part])


def test_a_certificates_validity_period_is_ignored() -> None:
    """Its type, 253, is odd; forwarders pass certificates on all the same (as ndn-cxx does)."""
    validity = element(253, element(254, b"20200101T000000") + element(255, b"20300101T000000"))
    description = element(258, b"")
    data = with_signature_info([*SIGNATURE_INFO_ELEMENTS[:2], validity, description])
    assert read(data) == ALL_READ


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [NAME],
        DATA_ELEMENTS[:-1],
        [*DATA_ELEMENTS[:3], DATA_ELEMENTS[4]],
        DATA_ELEMENTS[1:],
        [NAME, element(22), element(23)],
        [NAME, element(22, element(28, NAME)), element(23)],
        [NAME, element(22, element(27)), element(23)],
        [NAME, element(22, element(27, b"123")), element(23)],
        [NAME, element(20, element(25)), *DATA_ELEMENTS[3:]],
        [NAME, element(20, element(24, b"123")), *DATA_ELEMENTS[3:]],
        [NAME, element(20, b"\x19\x02\x01"), *DATA_ELEMENTS[3:]],
        [NAME, element(22, b"\x1b\x01"), *DATA_ELEMENTS[4:]],
        [*DATA_ELEMENTS, b"\x80"],
    ],
    ids=[
        "empty",
        "name only",
        "no SignatureValue",
        "no SignatureInfo",
        "no name",
        "empty SignatureInfo",
        "no SignatureType",
        "empty SignatureType",
        "SignatureType of 3 bytes",
        "empty FreshnessPeriod",
        "ContentType of 3 bytes",
        "MetaInfo that its element overruns",
        "SignatureInfo that its element overruns",
        "half an element",
    ],
)
def test_malformed_data(parts: list[bytes]) -> None:
    with pytest.raises(MalformedPacket):
        data_of(parts)


INTEREST = make_interest(from_uri("/A"), nonce=1)
DATA = make_data(from_uri("/A"), b"x")


@pytest.mark.parametrize(
    ("parse", "wire"), [(parse_interest, INTEREST), (parse_data, DATA)], ids=["Interest", "Data"]
)
def test_one_whole_packet_of_its_type(parse: Callable[[bytes], object], wire: bytes) -> None:
    parse(wire)
    for size in range(len(wire)):
        with pytest.raises(MalformedPacket):
            parse(wire[:size])
    with pytest.raises(MalformedPacket):
        parse(wire + b"\x00")
    other = DATA if parse is parse_interest else INTEREST
    with pytest.raises(MalformedPacket):
        parse(other)
