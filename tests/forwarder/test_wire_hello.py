"""Hellos on the wire, and the digest that both ends of a link compute."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.wire.evidence import LAST_NUMBER, MOST_HOPS, PROOF_BYTES, Evidence
from forwarder.wire.hello import (
    EVIDENCE,
    GRANTED,
    HAVE,
    HELD,
    LIMIT,
    MOST_STANDINGS,
    NEXT,
    NUMBER,
    REFERENCE_BYTES,
    REPLY,
    STATE,
    Hello,
    Standing,
    digest,
    encode,
    make_hello,
    parse_hello,
    reference,
)
from forwarder.wire.lp import parse_lp
from forwarder.wire.tlv import MalformedPacket, element, nni

NNI = st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 255, 256, 65536, 1 << 32])
REFERENCES = st.binary(min_size=REFERENCE_BYTES, max_size=REFERENCE_BYTES)
PROOFS = st.just(b"") | st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES)
NUMBERS, HOPS = st.integers(0, LAST_NUMBER), st.integers(0, MOST_HOPS)
UNSIGNED = st.builds(Evidence, NUMBERS, HOPS, st.just(False), st.just(b""))
PROVEN = UNSIGNED | st.builds(Evidence, NUMBERS, HOPS, st.just(True), PROOFS)
STANDINGS = st.builds(
    lambda ref, span, evidence: Standing(ref, *span, evidence),
    REFERENCES,
    st.just((None, None)) | st.tuples(NNI, NNI),
    st.none() | PROVEN,
)
SEVERAL = st.lists(STANDINGS, max_size=4).map(tuple)
HELLOS = st.builds(
    Hello,
    st.none() | NNI,
    st.none() | NNI,
    st.none() | REFERENCES,
    st.none() | REFERENCES,
    SEVERAL,
    SEVERAL,
    st.booleans(),
)
REF = b"12345678"


def value_of(hello: Hello) -> bytes:
    packet = parse_lp(make_hello(hello))
    assert packet.hello is not None
    assert not packet.fragment
    return packet.hello


def test_the_bytes() -> None:
    hello = Hello(
        5,
        6,
        b"GGGGGGGG",
        b"HHHHHHHH",
        (Standing(b"haveFEED"),),
        (Standing(b"statFEED", 7, 300, Evidence(2, 1)),),
        is_forgotten=True,
    )
    assert make_hello(hello) == bytes.fromhex(
        "643f fd0378 3b"
        "a20105 a40106 a608 4747474747474747 a808 4848484848484848"
        "aa08 6861766546454544 ac13 7374617446454544 b00107 b202012c b4020102 ae00".replace(" ", "")
    )
    assert parse_hello(value_of(hello)) == hello


@given(HELLOS)
def test_a_hello_reads_as_it_was_written(hello: Hello) -> None:
    assert parse_hello(value_of(hello)) == hello


def test_nothing_in_it_is_mandatory() -> None:
    assert value_of(Hello()) == b""
    assert parse_hello(b"") == Hello()


def test_a_full_one_fits_into_a_frame() -> None:
    evidence = Evidence(1 << 20, 3)
    states = tuple(
        Standing(reference(bytes((n,))), 1 << 20, 1 << 20, evidence) for n in range(MOST_STANDINGS)
    )
    assert len(make_hello(Hello(1 << 20, None, None, bytes(8), (), states))) <= 1280


@pytest.mark.parametrize(
    "value",
    [
        element(NUMBER, b""),
        element(NUMBER, b"\1\2\3"),
        element(REPLY, bytes(9)),
        element(GRANTED, bytes(7)),
        element(GRANTED, bytes(9)),
        element(HELD, b""),
        element(HAVE, REF[:7]),
        element(STATE, b""),
        element(STATE, REF + element(NEXT, b"\1")),
        element(HAVE, REF + element(LIMIT, b"\1")),
        element(STATE, REF + element(NEXT, b"\1\2\3") + element(LIMIT, b"\1")),
        element(STATE, REF + element(EVIDENCE, b"\1")),
        element(STATE, REF + element(LIMIT, b"\1") + element(NEXT, b"\1")),
        element(STATE, REF + element(0x81, b"")),
        element(0xAF, b""),
        element(0x0F, b""),
        b"\xa2",
        b"\xa2\xff",
    ],
    ids=lambda value: value.hex()[:24] or "empty",
)
def test_what_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedPacket):
        parse_hello(value)


def test_what_later_versions_add_is_ignored() -> None:
    later = element(0xB6, b"later")
    assert parse_hello(later + element(NUMBER, b"\1") + later).number == 1
    standing = element(STATE, REF + later + element(NEXT, b"\1") + element(LIMIT, b"\2") + later)
    assert parse_hello(standing).states == (Standing(REF, 1, 2),)


def test_what_is_out_of_order_or_repeated_is_ignored() -> None:
    """NDN packet format 0.3, "Considerations for Evolvability": all types are even."""
    assert parse_hello(element(REPLY, b"\1") + element(NUMBER, b"\2")) == Hello(None, 1)
    assert parse_hello(element(NUMBER, b"\1") + element(NUMBER, b"\2")).number == 1
    assert parse_hello(element(STATE, REF) + element(HAVE, REF)).haves == ()
    twice = element(NEXT, b"\1") + element(NEXT, b"\7") + element(LIMIT, b"\2")
    assert parse_hello(element(STATE, REF + twice)).states == (Standing(REF, 1, 2),)


@given(HELLOS, st.integers(0, 400), st.binary(max_size=4), st.integers(0, 4))
def test_an_altered_one_is_a_hello_or_malformed(hello: Hello, at: int, put: bytes, cut: int) -> None:
    value = bytearray(value_of(hello))
    at %= len(value) + 1
    value[at : at + cut] = put
    is_hello_or_malformed(bytes(value))


@given(st.binary(max_size=60) | st.binary(max_size=60))
def test_any_bytes_are_a_hello_or_malformed(value: bytes) -> None:
    is_hello_or_malformed(value)


def is_hello_or_malformed(value: bytes) -> None:
    try:
        hello = parse_hello(value)
    except MalformedPacket:
        return
    assert parse_hello(value_of(hello)) == hello
    for standing in (*hello.haves, *hello.states):
        assert len(standing.reference) == REFERENCE_BYTES
        assert (standing.next is None) == (standing.limit is None)


# References and digests.


def test_a_reference_is_the_beginning_of_a_hash() -> None:
    assert reference(b"abc").hex() == "ba7816bf8f01cfea"  # FIPS 180-2, appendix B.1
    assert len({reference(nni(n)) for n in range(1000)}) == 1000


@given(st.lists(STANDINGS, max_size=8, unique_by=lambda standing: standing.reference), st.randoms())
def test_both_ends_have_the_same_digest_in_whatever_order(standings: list[Standing], rng: Random) -> None:
    other = standings[:]
    rng.shuffle(other)
    assert digest(standings) == digest(other)
    assert len(digest(standings)) == REFERENCE_BYTES


CHANGES: list[Callable[[Standing], Standing]] = [
    lambda s: s._replace(next=(s.next or 0) + 1, limit=s.limit or 0),
    lambda s: s._replace(next=s.next or 0, limit=(s.limit or 0) + 1),
    lambda s: s._replace(evidence=Evidence(9, 9) if s.evidence is None else None),
    lambda s: s._replace(reference=bytes((s.reference[0] ^ 1,)) + s.reference[1:]),
]


@given(
    st.lists(
        st.builds(
            Standing,
            REFERENCES,
            st.integers(0, 1 << 32),
            st.integers(0, 1 << 32),
            st.none() | PROVEN.map(lambda e: e.bare),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda standing: standing.reference,
    ),
    st.integers(0, 4),
    st.sampled_from(CHANGES),
)
def test_any_difference_shows_in_the_digest(
    standings: list[Standing], at: int, change: Callable[[Standing], Standing]
) -> None:
    at %= len(standings)
    other = [*standings[:at], change(standings[at]), *standings[at + 1 :]]
    assert digest(other) != digest(standings)
    assert digest(standings[:at] + standings[at + 1 :]) != digest(standings)


def test_no_standing_reads_as_two() -> None:
    """The digest hashes their encodings one after the other: of standings, no list reads as another."""
    one, two = Standing(REF, 1, 2), Standing(b"zzzzzzzz", 3, 4)
    assert encode(one) + encode(two) != encode(one._replace(evidence=Evidence(3, 4)))
    assert digest([]) != digest([Standing(REF)])
