"""Hellos say who is attached, and only the user can say so."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.wire.packet import parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb.keys import Identity
from ssb_over_ndn.social.hello import HELLO, MOST_ATTACHMENTS, Attachment, Hello, make_hello, read_hello
from testbed.verify.mutations import mutate

USERS = [Identity.from_seed(bytes([number]) * 32) for number in range(3)]
TIMES = st.integers(0, 2**63)


@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(st.sampled_from(USERS), TIMES), max_size=5))
def test_what_is_said_is_read(generation: int, attached: list[tuple[Identity, int]]) -> None:
    said = Hello(generation, tuple(Attachment.sign(user, time) for user, time in attached))
    interest = parse_interest(make_hello(said, nonce=1))
    assert interest.name.startswith(HELLO)
    assert read_hello(interest) == said
    assert all(each.is_signed() for each in read_hello(interest).attachments)


@given(st.sampled_from(USERS), TIMES, TIMES, st.integers(0, 511))
def test_nobody_can_attach_another(user: Identity, time: int, other: int, bit: int) -> None:
    signed = Attachment.sign(user, time)
    flipped = bytearray(signed.signature)
    flipped[bit // 8] ^= 1 << bit % 8
    assert not signed._replace(signature=bytes(flipped)).is_signed()
    assert not signed._replace(user=next(each.ref for each in USERS if each is not user)).is_signed()
    assert signed._replace(time=other).is_signed() == (time == other)


def test_a_hello_has_a_bound() -> None:
    attachment = Attachment.sign(USERS[0], 1)
    wire = make_hello(Hello(1, (attachment,) * MOST_ATTACHMENTS), 1)
    assert len(wire) < 8800
    assert len(read_hello(parse_interest(wire)).attachments) == MOST_ATTACHMENTS
    with pytest.raises(MalformedPacket):
        read_hello(parse_interest(make_hello(Hello(1, (attachment,) * (MOST_ATTACHMENTS + 1)), 1)))


def test_a_mutated_hello_is_a_hello_or_malformed() -> None:
    rng = Random(5)
    wire = make_hello(Hello(7, tuple(Attachment.sign(user, 9) for user in USERS)), 1)
    outcomes = set()
    for _ in range(3000):
        try:
            read_hello(parse_interest(mutate(wire, [wire], rng)))
            outcomes.add("hello")
        except MalformedPacket:
            outcomes.add("malformed")
    assert outcomes == {"hello", "malformed"}
