"""TLV: numbers in their shortest form, elements inside their bounds, and what may be ignored."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forwarder.wire.tlv import (
    MalformedPacket,
    check_ignorable,
    element,
    elements,
    nni,
    number,
    read_header,
    read_nni,
    read_number,
)

# NDN packet format 0.3, "Variable-Size Encoding for Type and Length"
NUMBERS = [
    (0, "00"),
    (1, "01"),
    (252, "fc"),
    (253, "fd00fd"),
    (255, "fd00ff"),
    (1024, "fd0400"),
    (65535, "fdffff"),
    (65536, "fe00010000"),
    (0xFFFF_FFFF, "feffffffff"),
    (0x1_0000_0000, "ff0000000100000000"),
    ((1 << 64) - 1, "ffffffffffffffffff"),
]

# the same, "Non-Negative Integer Encoding"
INTEGERS = [
    (0, "00"),
    (1, "01"),
    (255, "ff"),
    (256, "0100"),
    (65535, "ffff"),
    (65536, "00010000"),
    (0xFFFF_FFFF, "ffffffff"),
    (0x1_0000_0000, "0000000100000000"),
    ((1 << 64) - 1, "ffffffffffffffff"),
]


@pytest.mark.parametrize(("value", "encoded"), NUMBERS)
def test_number(value: int, encoded: str) -> None:
    wire = bytes.fromhex(encoded)
    assert number(value) == wire
    assert read_number(b"\xaa" + wire + b"\xbb", 1) == (value, 1 + len(wire))


@pytest.mark.parametrize(("value", "encoded"), NUMBERS)
def test_number_cut_short(value: int, encoded: str) -> None:
    wire = bytes.fromhex(encoded)
    for size in range(len(wire)):
        with pytest.raises(MalformedPacket):
            read_number(wire[:size], 0)


@given(st.integers(0, (1 << 64) - 1), st.sampled_from([(253, 2), (254, 4), (255, 8)]))
@example(252, (253, 2))
@example(1024, (254, 4))  # the specification's own example
@example(0xFFFF, (254, 4))
@example(0xFFFF_FFFF, (255, 8))
def test_only_the_shortest_number_is_valid(value: int, form: tuple[int, int]) -> None:
    first, size = form
    value %= 1 << 8 * size
    wire = bytes((first,)) + value.to_bytes(size, "big")
    if number(value) == wire:
        assert read_number(wire, 0) == (value, len(wire))
    else:
        with pytest.raises(MalformedPacket):
            read_number(wire, 0)


@pytest.mark.parametrize(("value", "encoded"), INTEGERS)
def test_non_negative_integer(value: int, encoded: str) -> None:
    assert nni(value) == bytes.fromhex(encoded)
    assert read_nni(bytes.fromhex(encoded)) == value


def test_non_negative_integer_may_be_longer_than_needed() -> None:
    """The specification wants the shortest form of types and lengths only."""
    assert read_nni(bytes(7) + b"\x05") == 5


@pytest.mark.parametrize("size", [0, 3, 5, 6, 7, 9])
def test_non_negative_integer_of_a_wrong_size(size: int) -> None:
    with pytest.raises(MalformedPacket):
        read_nni(bytes(size))


def plain_header(buf: bytes, at: int, limit: int) -> tuple[int, int, int]:
    """What read_header() has to do, without its short cuts."""
    kind, at = read_number(buf, at)
    length, at = read_number(buf, at)
    if kind > 0xFFFF_FFFF or at + length > limit:
        raise MalformedPacket("")
    return kind, at, at + length


HEADER_BYTES = st.lists(
    st.sampled_from([0, 1, 5, 8, 251, 252, 253, 254, 255]) | st.integers(0, 255), max_size=24
).map(bytes)


@given(HEADER_BYTES | st.binary(max_size=400), st.integers(0, 4), st.integers(0, 400))
@example(b"\x08\xfd\x01\x00" + bytes(256), 0, 260)
@example(b"\x08\xfd\x01\x00" + bytes(256), 0, 259)
@example(b"\x08\xfd\x00\xff" + bytes(255), 0, 259)
@example(b"\x08\xfd\x00\xfc" + bytes(252), 0, 256)
@example(b"\x08\xfd\x01\x00", 0, 3)
def test_header_is_read_as_the_specification_says(buf: bytes, at: int, limit: int) -> None:
    limit = min(limit, len(buf))
    try:
        expected = plain_header(buf, at, limit)
    except MalformedPacket:
        with pytest.raises(MalformedPacket):
            read_header(buf, at, limit)
    else:
        assert read_header(buf, at, limit) == expected


def test_the_largest_type() -> None:
    assert read_header(element(0xFFFF_FFFF), 0, 6) == (0xFFFF_FFFF, 6, 6)
    with pytest.raises(MalformedPacket, match="out of range"):
        read_header(element(0x1_0000_0000), 0, 10)


@given(st.lists(st.tuples(st.integers(1, 0xFFFF_FFFF), st.binary(max_size=300)), max_size=6))
def test_elements(parts: list[tuple[int, bytes]]) -> None:
    before, after = b"\x00\x01", b"\x02\x03\x04"
    body = b"".join(element(kind, value) for kind, value in parts)
    buf = before + body + after
    found = [(kind, buf[start:end]) for kind, start, end in elements(buf, 2, 2 + len(body))]
    assert found == parts


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 600))
def test_an_element_may_not_run_past_the_enclosing_one(size: int, excess: int, more: int) -> None:
    """Though the buffer goes on."""
    inner = element(8, bytes(size + excess))
    limit = len(inner) - excess
    with pytest.raises(MalformedPacket, match=r"past|short"):
        list(elements(inner + bytes(more), 0, limit))


@pytest.mark.parametrize("kind", [0, 1, 6, 8, 20, 30, 31, 33, 127, 241, 253, 801, 0xFFFF_FFFF])
def test_critical_types(kind: int) -> None:
    with pytest.raises(MalformedPacket):
        check_ignorable(kind)


@pytest.mark.parametrize("kind", [32, 34, 126, 128, 240, 252, 258, 800, 0xFFFF_FFFE])
def test_ignorable_types(kind: int) -> None:
    check_ignorable(kind)
