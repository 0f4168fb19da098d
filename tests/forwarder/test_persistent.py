"""Persistent Interests: they let Data pass until their lifetime ends, where they are known."""

from typing import Any

import pytest
from hypothesis import given
from packet_makers import interests, mutations
from scripted_node import Node, interest

from base.units import MS
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest, parse_interest
from forwarder.wire.persistent import is_persistent, make_persistent
from forwarder.wire.tlv import MalformedPacket


def node(**options: Any) -> Node:
    made = Node(persistent=True, **options)
    made.route("/a", 4)
    return made


def persistent(face: int, nonce: int, lifetime_ms: int = 100) -> tuple[int, bytes]:
    return face, make_persistent(interest("/a", nonce, can_be_prefix=True, lifetime_ms=lifetime_ms))


def test_data_pass_until_the_lifetime_ends() -> None:
    core = node()
    assert core.receive(*persistent(1, 7)) == ["4 interest /a nonce=7"]
    assert core.data(4, "/a/1") == ["1 data /a/1"]
    assert core.data(4, "/a/2") == ["1 data /a/2"]
    core.wait(100 * MS)
    assert core.core.pit_entries() == 0
    assert core.data(4, "/a/3") == []


def test_it_is_sent_on_again_and_lasts_longer() -> None:
    core = node()
    core.receive(*persistent(1, 7))
    core.wait(60 * MS)
    assert core.receive(*persistent(1, 8)) == ["4 interest /a nonce=8"]
    core.wait(60 * MS)
    assert core.data(4, "/a/1") == ["1 data /a/1"]
    core.wait(40 * MS)
    assert core.core.pit_entries() == 0


def test_the_same_data_do_not_pass_twice() -> None:
    core = node()
    core.receive(*persistent(1, 7))
    core.receive(*persistent(2, 8))
    assert core.data(4, "/a/1") == ["1 data /a/1", "2 data /a/1"]
    assert core.data(4, "/a/1") == []


def test_a_repair_goes_to_who_asked_for_it() -> None:
    core = node(cs_capacity=0)
    core.receive(*persistent(1, 7))
    core.receive(*persistent(2, 8))
    core.data(4, "/a/1")
    core.interest(2, "/a/1", 9)
    assert core.data(4, "/a/1") == ["2 data /a/1"]


def test_a_plain_interest_beside_it_is_used_up() -> None:
    core = node()
    core.receive(*persistent(1, 7))
    core.interest(2, "/a", 8, can_be_prefix=True)
    assert core.data(4, "/a/1") == ["1 data /a/1", "2 data /a/1"]
    assert core.data(4, "/a/2") == ["1 data /a/2"]


def test_it_does_not_ask_the_content_store() -> None:
    core = node()
    core.interest(1, "/a/1", 1)
    core.data(4, "/a/1")
    assert core.receive(*persistent(2, 7)) == ["4 interest /a nonce=7"]


def test_one_that_has_expired_gets_nothing_and_goes_with_the_next() -> None:
    core = node()
    core.receive(*persistent(1, 7, 50))
    core.receive(*persistent(2, 8, 500))
    core.wait(60 * MS)
    assert core.data(4, "/a/1") == ["2 data /a/1"]
    (entry,) = core.core.pit
    assert [record.face for record in entry.in_records] == [2]


def test_what_has_passed_is_remembered_only_so_long() -> None:
    core = node(cs_capacity=0)
    core.receive(*persistent(1, 7))
    for number in range(1, 1100):
        assert core.data(4, f"/a/{number}")
    assert core.data(4, "/a/1099") == []
    assert core.data(4, "/a/1") == ["1 data /a/1"]
    (entry,) = core.core.pit
    assert len(entry.passed or ()) == 1024


def test_where_it_is_not_known_it_is_a_plain_interest() -> None:
    core = Node()
    core.route("/a", 4)
    core.receive(*persistent(1, 7))
    assert core.data(4, "/a/1") == ["1 data /a/1"]
    assert core.data(4, "/a/2") == []


def test_a_refusal_ends_it() -> None:
    core = node()
    core.receive(*persistent(1, 7))
    assert core.nack(4, "/a", 7, can_be_prefix=True) == ["1 nack /a nonce=7 no-route"]
    assert core.core.pit_entries() == 0


def test_on_the_wire() -> None:
    plain = make_interest(
        from_uri("/a"), nonce=0x01020304, can_be_prefix=True, lifetime_ms=4000, hop_limit=32
    )
    made = make_persistent(plain)
    assert made == bytes((5, len(plain))) + plain[2:] + b"\xfa\x00"
    assert is_persistent(parse_interest(made))
    assert not is_persistent(parse_interest(plain))
    others = bytes((5, len(plain) + 1)) + plain[2:] + b"\xfa\x01x"
    assert not is_persistent(parse_interest(others)), "a type that others may use, too"


@given(mutations(interests().map(make_persistent)))
def test_no_bytes_hurt(packet: bytes) -> None:
    try:
        parsed = parse_interest(packet)
    except MalformedPacket:
        return
    assert is_persistent(parsed) in (True, False)


@pytest.mark.parametrize("lifetime", [0, 1])
def test_a_short_one(lifetime: int) -> None:
    core = node()
    core.receive(*persistent(1, 7, lifetime))
    core.wait(lifetime * MS)
    assert core.core.pit_entries() == 0
