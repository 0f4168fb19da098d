"""The forwarding core by small scripts: what comes in, and what then goes out."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey
from packet_makers import ANY_BYTES, mutations
from scripted_node import Node, interest

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.strategies.best_route import BestRoute
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component, from_uri, to_uri
from forwarder.wire.packet import ED25519, make_data, make_interest, parse_data
from forwarder.wire.tlv import element

NAME_BYTES = len(from_uri("/a"))


@pytest.fixture
def node() -> Node:
    """A node with two upstreams for /a, faces 3 and 4."""
    node = Node()
    node.route("/a", 3, 4)
    return node


def test_interest_goes_up_and_data_comes_down(node: Node) -> None:
    assert node.interest(1, "/a/x", 7) == ["3 interest /a/x nonce=7"]
    assert node.data(3, "/a/x") == ["1 data /a/x"]
    assert node.core.pit_entries() == 0
    assert node.core.next_deadline() is None
    counters = node.core.counters
    assert (counters.in_interests, counters.out_interests, counters.cs_misses) == (1, 1, 1)
    assert (counters.in_data, counters.out_data, counters.satisfied) == (1, 1, 1)


def test_data_is_passed_on_as_it_came(node: Node) -> None:
    node.interest(1, "/a", 7)
    packet = make_data(from_uri("/a"), b"content", freshness_ms=9, signature_type=200, sign=lambda _: b"s")
    node.core.receive(3, packet, 0)
    assert node.core.take_outputs() == [(1, packet)]


def test_interests_for_the_same_are_aggregated(node: Node) -> None:
    assert node.interest(1, "/a", 1) == ["3 interest /a nonce=1"]
    assert node.interest(2, "/a", 2) == []
    assert node.interest(9, "/a", 3) == []
    assert node.core.pit_entries() == 1
    assert node.core.counters.aggregated == 2
    assert node.data(3, "/a") == ["1 data /a", "2 data /a", "9 data /a"]
    assert node.core.counters.satisfied == 1


def test_other_selectors_make_another_entry(node: Node) -> None:
    assert node.interest(1, "/a", 1) == ["3 interest /a nonce=1"]
    assert node.interest(2, "/a", 2, can_be_prefix=True) == ["3 interest /a nonce=2"]
    assert node.interest(2, "/a", 3, must_be_fresh=True) == ["3 interest /a nonce=3"]
    assert node.core.pit_entries() == 3


def test_a_face_that_waits_twice_for_the_same_data_gets_it_once(node: Node) -> None:
    """One Data packet satisfies all that is pending on the face that receives it."""
    node.interest(1, "/a", 1)
    node.interest(1, "/a", 2, can_be_prefix=True)
    node.interest(2, "/a", 3, must_be_fresh=True)
    assert node.data(3, "/a") == ["1 data /a", "2 data /a"]
    assert node.core.counters.satisfied == 3
    assert node.core.counters.out_data == 2
    assert node.core.pit_entries() == 0


def test_each_token_of_a_face_comes_back_once(node: Node) -> None:
    node.interest(1, "/a", 1, token=b"one")
    node.interest(1, "/a", 2, token=b"two", can_be_prefix=True)
    assert sorted(node.data(3, "/a")) == ["1 data /a token=one", "1 data /a token=two"]


def test_data_does_not_go_back_where_it_came_from(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.interest(4, "/a", 2)
    assert node.data(4, "/a") == ["1 data /a"]


def test_data_may_come_from_anywhere(node: Node) -> None:
    node.interest(1, "/a", 1)
    assert node.data(2, "/a") == ["1 data /a"]


def test_unsolicited_data_is_dropped(node: Node) -> None:
    assert node.data(3, "/a") == []
    assert node.core.counters.unsolicited == 1
    assert len(node.core.cs) == 0
    assert node.interest(1, "/a", 1) == ["3 interest /a nonce=1"]


def test_data_that_comes_twice_is_unsolicited_the_second_time(node: Node) -> None:
    node.interest(1, "/a", 1)
    assert node.data(3, "/a") == ["1 data /a"]
    assert node.data(3, "/a") == []
    assert node.core.counters.unsolicited == 1


def test_prefix_and_digest(node: Node) -> None:
    packet = make_data(from_uri("/a/x"), b"this one")
    full = from_uri("/a/x") + component(1, parse_data(packet).digest())
    node.interest(1, "/a", 1, can_be_prefix=True)
    node.receive(2, make_interest(full, nonce=2))
    assert node.data(3, "/a/x") == ["1 data /a/x"]
    assert node.receive(3, packet) == ["2 data /a/x"]


# Content store


def test_a_cache_hit_is_answered_at_once_and_leaves_no_entry(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.data(3, "/a", freshness_ms=10)
    assert node.interest(2, "/a", 2, token=b"t", must_be_fresh=True) == ["2 data /a token=t"]
    assert node.core.pit_entries() == 0
    assert node.core.next_deadline() is None
    assert (node.core.counters.cs_hits, node.core.counters.cs_misses) == (1, 1)
    node.wait(10 * MS)
    assert node.interest(2, "/a", 3, must_be_fresh=True) == ["3 interest /a nonce=3"]
    assert node.interest(2, "/a", 4) == ["2 data /a"]


def test_without_a_content_store() -> None:
    node = Node(cs_capacity=0)
    node.route("/a", 3)
    node.interest(1, "/a", 1)
    node.data(3, "/a")
    assert node.interest(2, "/a", 2) == ["3 interest /a nonce=2"]


def test_a_pushed_item_is_kept_for_who_asks_later_but_is_not_fresh() -> None:
    """FreshnessPeriod: in-network storage does not answer MustBeFresh with what may be old."""
    writer = SigningKey(bytes(32))
    feed = feed_name(from_uri("/a"), bytes(writer.verify_key))
    node = Node()
    node.route("/a", 3)
    node.receive(1, make_interest(item_name(feed, 1), nonce=1, lifetime_ms=1000, send_credit=5))
    item = make_data(
        item_name(feed, 1),
        native_content(b"", b"payload"),
        signature_type=ED25519,
        sign=lambda signed: writer.sign(signed).signature,
    )
    uri = to_uri(item_name(feed, 1))
    assert node.receive(3, item)[:1] == [f"1 data {uri}"]
    assert node.interest(2, uri, 2, token=b"t") == [f"2 data {uri} token=t"]
    assert node.core.counters.cs_hits == 1
    assert node.interest(2, uri, 3, must_be_fresh=True) == [f"3 interest {uri} nonce=3"]
    assert node.core.counters.unsolicited == 0


# Loops


def test_a_nonce_that_comes_back_is_a_loop(node: Node) -> None:
    assert node.interest(1, "/a", 7) == ["3 interest /a nonce=7"]
    before = node.core.pit_bytes()
    assert node.interest(3, "/a", 7) == ["3 nack /a nonce=7 duplicate"]
    assert node.interest(2, "/a", 7, token=b"t") == ["2 nack /a nonce=7 duplicate token=t"]
    assert node.core.counters.looped == 2
    assert node.core.pit_bytes() == before
    assert node.data(3, "/a") == ["1 data /a"]


def test_the_links_duplicate_is_no_loop(node: Node) -> None:
    """A Nack would end the consumer's pending Interest, which is alive."""
    node.interest(1, "/a", 7)
    assert node.interest(1, "/a", 7) == []
    assert node.core.counters.looped == 0
    assert node.data(3, "/a") == ["1 data /a"]


def test_a_ring_of_forwarders_ends_a_loop() -> None:
    """Two nodes that send /a to each other: the Interest comes back, and the refusal takes both entries."""
    one, two = Node(), Node()
    one.route("/a", 2)
    two.route("/a", 2)
    assert one.interest(1, "/a", 7, hop_limit=9) == ["2 interest /a nonce=7 hops=8"]
    assert two.interest(1, "/a", 7, hop_limit=8) == ["2 interest /a nonce=7 hops=7"]
    assert one.interest(2, "/a", 7, hop_limit=7) == ["2 nack /a nonce=7 hops=7 duplicate"]
    assert two.nack(2, "/a", 7, 100, hop_limit=7) == ["1 nack /a nonce=7 hops=8 duplicate"]
    assert one.nack(2, "/a", 7, 100, hop_limit=8) == ["1 nack /a nonce=7 hops=9 duplicate"]
    assert one.core.pit_entries() == two.core.pit_entries() == 0


def test_a_loop_is_known_when_the_store_may_have_let_go_of_the_data() -> None:
    for node in (Node(cs_capacity=0), Node(cs_capacity=1)):
        node.route("/a", 3)
        for number in (1, 2):
            node.interest(1, f"/a/{number}", number)
            node.data(3, f"/a/{number}")
        assert node.interest(2, "/a/1", 1) == ["2 nack /a/1 nonce=1 duplicate"]


def test_a_loop_is_known_after_the_link_that_it_came_from_is_down(node: Node) -> None:
    node.interest(1, "/a/1", 1)
    node.interest(1, "/a/2", 2)
    node.interest(2, "/a/2", 3)
    node.core.set_face(1, up=False, now=node.now)
    assert node.interest(4, "/a/1", 1) == ["4 nack /a/1 nonce=1 duplicate"]
    node.core.set_face(3, up=False, now=node.now)
    assert node.interest(4, "/a/2", 2) == ["4 nack /a/2 nonce=2 duplicate"]


# Nonce and HopLimit


def test_a_missing_nonce_is_added(node: Node) -> None:
    """NDN packet format 0.3, "Interest Packet": a compliant forwarder does."""
    bare = element(5, element(7, from_uri("/a")) + element(12, b"\x64"))
    (line,) = node.receive(9, bare)
    nonce = int(line.removeprefix("3 interest /a nonce="))
    assert node.interest(2, "/a", nonce) == [f"2 nack /a nonce={nonce} duplicate"]
    assert node.nack(3, "/a", nonce) == [f"9 nack /a nonce={nonce} no-route"]


def test_hop_limit_is_lowered_by_one(node: Node) -> None:
    assert node.interest(1, "/a", 1, hop_limit=255) == ["3 interest /a nonce=1 hops=254"]
    assert node.interest(1, "/a/2", 2, hop_limit=2) == ["3 interest /a/2 nonce=2 hops=1"]


def test_hop_limit_zero_is_dropped(node: Node) -> None:
    before = node.core.pit_entries()
    assert node.interest(1, "/a", 1, hop_limit=0) == []
    assert node.core.counters.hop_limit_reached == 1
    assert node.core.pit_entries() == before == 0


def test_the_last_hop_reaches_cache_and_applications_but_no_link(node: Node) -> None:
    assert node.interest(1, "/a", 1, hop_limit=1) == []
    assert node.core.counters.hop_limit_reached == 1
    assert node.core.counters.out_interests == 0
    node.route("/local", 9)
    assert node.interest(1, "/local", 2, hop_limit=1) == ["9 interest /local nonce=2 hops=0"]
    assert node.data(9, "/local") == ["1 data /local"]
    assert node.interest(1, "/local", 3, hop_limit=1) == ["1 data /local"]


# Time


def test_an_entry_ends_at_its_nanosecond(node: Node) -> None:
    node.wait(123)
    node.interest(1, "/a", 1, lifetime_ms=50)
    assert node.core.next_deadline() == 123 + 50 * MS
    node.wait(50 * MS - 1)
    assert node.core.pit_entries() == 1
    node.wait(1)
    assert node.core.pit_entries() == 0
    assert node.core.counters.expired == 1
    assert node.data(3, "/a") == []
    assert node.core.counters.unsolicited == 1


def test_data_in_the_last_nanosecond(node: Node) -> None:
    node.interest(1, "/a", 1, lifetime_ms=50)
    node.wait(50 * MS - 1)
    assert node.data(3, "/a") == ["1 data /a"]


def test_data_at_the_deadline_is_late_even_before_wake(node: Node) -> None:
    node.interest(1, "/a", 1, lifetime_ms=50)
    node.now = 50 * MS
    assert node.data(3, "/a") == []


def test_each_consumer_waits_as_long_as_it_said(node: Node) -> None:
    node.interest(1, "/a", 1, lifetime_ms=50)
    node.interest(2, "/a", 2, lifetime_ms=100)
    node.wait(50 * MS)
    assert node.core.pit_entries() == 1
    assert node.data(3, "/a") == ["2 data /a"]


def test_the_default_lifetime_is_4_s(node: Node) -> None:
    node.interest(1, "/a", 1)
    assert node.core.next_deadline() == 4_000 * MS


class Stubborn(BestRoute):
    """Goes on with the other next hops after a Nack."""

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        return [hop.face for hop in hops if entry.out_record(hop.face) is None]


def test_a_lifetime_is_an_hour_at_most_after_a_refusal_too() -> None:
    node = Node(strategy=Stubborn)
    node.route("/a", 3, 4)
    hour = 3_600_000 * 1_000_000
    node.interest(1, "/a", 1, lifetime_ms=1 << 60)
    assert node.core.next_deadline() == hour
    node.now = 1_000_000_000
    assert node.nack(3, "/a", 1) == ["4 interest /a nonce=1"]
    (entry,) = node.core.pit
    assert max(record.expiry for record in entry.out_records) == node.now + hour


def test_a_lifetime_of_0_at_time_0(node: Node) -> None:
    assert node.interest(1, "/a", 1, lifetime_ms=0) == ["3 interest /a nonce=1"]
    assert node.core.next_deadline() == 0
    assert node.data(3, "/a") == []
    assert node.core.pit_entries() == 0


def test_a_repetition_extends(node: Node) -> None:
    node.interest(1, "/a", 1, lifetime_ms=50)
    node.wait(30 * MS)
    node.interest(1, "/a", 2, lifetime_ms=50)
    assert node.core.next_deadline() == 80 * MS
    node.wait(40 * MS)
    assert node.data(3, "/a") == ["1 data /a"]


# PIT tokens


def test_the_token_comes_back_with_the_data(node: Node) -> None:
    assert node.interest(1, "/a", 1, token=b"one") == ["3 interest /a nonce=1"]
    node.interest(2, "/a", 2, token=b"two")
    node.interest(9, "/a", 3)
    assert node.data(3, "/a") == ["1 data /a token=one", "2 data /a token=two", "9 data /a"]


def test_the_token_of_the_newest_interest_counts(node: Node) -> None:
    node.interest(1, "/a", 1, token=b"old")
    node.interest(1, "/a", 2, token=b"new")
    assert node.data(3, "/a") == ["1 data /a token=new"]


# Nacks


def test_no_route() -> None:
    node = Node()
    node.route("/a", 3)
    assert node.interest(1, "/b", 7, token=b"t", hop_limit=5) == ["1 nack /b nonce=7 hops=5 no-route token=t"]
    assert node.interest(3, "/a", 8) == ["3 nack /a nonce=8 no-route"]
    assert node.core.counters.no_route == 2
    assert node.core.pit_entries() == 0
    assert node.core.next_deadline() is None


def test_a_refusal_by_the_only_upstream_goes_to_every_consumer(node: Node) -> None:
    """To each with its own Interest: by that nonce it knows which of its own was refused."""
    node.interest(1, "/a", 1, hop_limit=9)
    node.interest(2, "/a", 2, token=b"two", hop_limit=7)
    assert node.nack(3, "/a", 1, 50) == [
        "1 nack /a nonce=1 hops=9 congestion",
        "2 nack /a nonce=2 hops=7 congestion token=two",
    ]
    assert node.core.pit_entries() == 0
    assert node.core.next_deadline() is None
    assert (node.core.counters.in_nacks, node.core.counters.out_nacks) == (1, 2)


def test_a_refusal_is_nothing_to_who_waits_no_longer(node: Node) -> None:
    """His Interest has ended by its lifetime, though another's has kept the entry."""
    node.interest(1, "/a", 1, lifetime_ms=50)
    node.interest(2, "/a", 2, lifetime_ms=100)
    node.wait(50 * MS)
    assert node.nack(3, "/a", 1) == ["2 nack /a nonce=2 no-route"]


def test_one_refusal_of_two_is_waited_out(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.wait(10 * MS)
    assert node.interest(1, "/a", 2) == ["4 interest /a nonce=2"]
    assert node.nack(3, "/a", 1) == []
    assert node.core.pit_entries() == 1
    assert node.nack(4, "/a", 2) == ["1 nack /a nonce=2 no-route"]
    assert node.core.pit_entries() == 0


def test_data_after_one_refusal(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.wait(10 * MS)
    node.interest(1, "/a", 2)
    node.nack(3, "/a", 1)
    assert node.data(4, "/a") == ["1 data /a"]


def test_a_hop_that_is_asked_again_has_not_refused(node: Node) -> None:
    node.core.fib.remove_face(4)
    node.interest(1, "/a", 1)
    node.wait(10 * MS)
    assert node.interest(1, "/a", 2) == ["3 interest /a nonce=2"]
    assert node.nack(3, "/a", 1) == []
    assert node.nack(3, "/a", 2) == ["1 nack /a nonce=2 no-route"]


@pytest.mark.parametrize(
    ("face", "uri", "nonce", "fields"),
    [
        (3, "/a", 8, {}),
        (4, "/a", 7, {}),
        (1, "/a", 7, {}),
        (3, "/b", 7, {}),
        (3, "/a", 7, {"can_be_prefix": True}),
        (3, "/a", 7, {"must_be_fresh": True}),
    ],
    ids=["old nonce", "not asked", "the consumer", "another name", "another prefix", "another freshness"],
)
def test_a_refusal_of_what_was_not_asked(
    node: Node, face: int, uri: str, nonce: int, fields: dict[str, Any]
) -> None:
    node.interest(1, "/a", 7)
    assert node.nack(face, uri, nonce, **fields) == []
    assert node.data(3, "/a") == ["1 data /a"]


# Faces


def test_remove_face_forgets_what_it_waited_for(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.interest(2, "/a", 2)
    node.interest(1, "/a/2", 3)
    node.core.remove_face(1, node.now)
    assert node.core.pit_entries() == 1
    assert node.data(3, "/a") == ["2 data /a"]
    assert node.data(3, "/a/2") == []


def test_remove_face_takes_its_routes_and_what_was_asked_of_it(node: Node) -> None:
    node.interest(1, "/a", 1)
    node.core.remove_face(3, node.now)
    assert node.core.pit_bytes() == NAME_BYTES + 16
    assert node.interest(1, "/a", 2) == ["4 interest /a nonce=2"]
    assert node.interest(1, "/a/2", 3) == ["4 interest /a/2 nonce=3"]
    node.core.remove_face(4, node.now)
    assert node.interest(1, "/a/3", 4) == ["1 nack /a/3 nonce=4 no-route"]


# Accounting


def test_pit_bytes(node: Node) -> None:
    """Name, and 16 for each network face that asked and each that was asked; local faces are not counted."""
    assert node.core.pit_bytes() == 0
    node.interest(1, "/a", 1)
    assert node.core.pit_bytes() == NAME_BYTES + 16 + 16
    node.interest(2, "/a", 2)
    assert node.core.pit_bytes() == NAME_BYTES + 32 + 16
    node.interest(2, "/a", 3)
    assert node.core.pit_bytes() == NAME_BYTES + 32 + 16
    node.interest(9, "/a", 4)
    assert node.core.pit_bytes() == NAME_BYTES + 32 + 16
    node.wait(10 * MS)
    node.interest(2, "/a", 5)
    assert node.core.pit_bytes() == NAME_BYTES + 32 + 32
    node.interest(9, "/a", 6, can_be_prefix=True)
    assert node.core.pit_entries() == 2
    assert node.core.pit_bytes() == (NAME_BYTES + 32 + 32) + (NAME_BYTES + 16)
    node.data(3, "/a")
    assert node.core.pit_bytes() == node.core.pit_entries() == 0


def test_pit_bytes_of_a_local_producer() -> None:
    node = Node()
    node.route("/a", 9)
    node.interest(1, "/a", 1)
    assert node.core.pit_bytes() == NAME_BYTES + 16


def test_pit_bytes_of_a_feed() -> None:
    node = Node()
    feed = feed_name(from_uri("/a"), bytes(32))
    node.route("/a", 3)
    for size, face in enumerate((1, 2), start=1):
        lli = make_interest(item_name(feed, 1), nonce=face, lifetime_ms=1000, hop_limit=9, send_credit=5)
        node.receive(face, lli)
        assert node.core.pit_entries() == 1
        assert node.core.pit_bytes() == len(feed) + 28 * size + 28
    node.core.remove_face(3, node.now)
    assert node.core.pit_bytes() <= len(feed) + 2 * 28  # the upstream's record has gone with its face


# A forwarder that has never heard of controlled push


def test_without_controlled_push_an_lli_is_a_classic_interest() -> None:
    node = Node(controlled_push=False)
    feed = feed_name(from_uri("/a"), bytes(32))
    node.route("/a", 3)
    lli = make_interest(item_name(feed, 7), nonce=1, lifetime_ms=1000, hop_limit=9, send_credit=5)
    node.core.receive(1, lli, 0)
    ((face, sent),) = node.core.take_outputs()
    assert (face, len(sent)) == (3, len(lli))
    item = make_data(item_name(feed, 7), b"")
    node.core.receive(3, make_lp(item, tip=9, limit=11), 0)
    assert node.core.take_outputs() == [(1, item)]
    node.core.receive(3, make_data(item_name(feed, 8), b""), 0)
    assert node.core.take_outputs() == []


# Malformed packets


def busy_node() -> Node:
    """A node with something in every table."""
    node = Node()
    node.route("/a", 3, 4)
    node.interest(1, "/a/x", 1)
    node.interest(2, "/a/x", 2, token=b"t")
    node.interest(1, "/a", 3, can_be_prefix=True)
    node.receive(1, make_interest(from_uri("/a/y") + component(1, bytes(32)), nonce=4))
    node.interest(1, "/a/held", 5)
    node.data(3, "/a/held", freshness_ms=10)
    lli = make_interest(
        item_name(feed_name(from_uri("/a"), bytes(32)), 1), nonce=6, lifetime_ms=900, send_credit=5
    )
    node.receive(2, lli)
    node.core.next_deadline()
    return node


A = element(7, from_uri("/a"))
CUT = element(7, b"\x08\x05he")  # claims 5 bytes and has 2
NONCE = element(10, b"1234")

MALFORMED = {
    "nothing": b"",
    "unknown type": b"\x63\x00",
    "half a header": b"\x05",
    "overruns": b"\x05\x09" + A,
    "underruns": element(5, A + NONCE) + b"\x00",
    "Interest without a name": element(5, NONCE),
    "Interest for a cut name": element(5, CUT + NONCE),
    "the same, without a nonce": element(5, CUT),
    "the same, as a prefix": element(5, CUT + element(33) + NONCE),
    "the same, which the store's bytes begin with": element(
        5, element(7, from_uri("/a/held")[:-3]) + element(33) + NONCE
    ),
    "LLI for a cut name": element(5, CUT + NONCE + element(240, b"\x05")),
    "Interest with a short nonce": element(5, A + element(10, b"123")),
    "Interest with an unknown critical element": element(5, A + NONCE + element(127)),
    "Data without a signature": element(6, A),
    "Data of a cut name": element(6, CUT + element(22, element(27, b"\x00")) + element(23)),
    "LpPacket that cannot be ignored": element(100, element(0x63) + element(0x50, element(5, A + NONCE))),
    "LpPacket around nonsense": element(100, element(0x50, b"\x63\x00")),
    "LpPacket around an LpPacket": make_lp(make_lp(element(5, A + NONCE))),
    "a fragment": make_lp(element(5, A + NONCE), sequence=1, frag_index=0, frag_count=2),
    "Nack of Data": make_lp(make_data(from_uri("/a"), b""), nack_reason=150),
    "Nack of nothing": make_lp(b"", nack_reason=150),
    "Nack of a cut name": make_lp(element(5, CUT + NONCE), nack_reason=150),
}


@pytest.mark.parametrize("make_node", [Node, busy_node])
@pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_packet_changes_nothing_but_its_counter(
    packet: bytes, make_node: Callable[[], Node]
) -> None:
    node = make_node()
    before = node.state()
    assert node.receive(1, packet) == []
    assert node.core.counters.malformed == 1
    assert node.state() == before


def test_an_idle_packet_is_not_malformed() -> None:
    node = busy_node()
    before = node.state()
    assert node.receive(1, b"\x64\x00") == []
    assert node.core.counters.malformed == 0
    assert node.state() == before


KNOWN_PACKETS = st.sampled_from(
    [
        interest("/a/x", 1, hop_limit=3),
        interest("/a/held", 9, must_be_fresh=True),
        interest("/a", 9, can_be_prefix=True),
        make_interest(from_uri("/a/y") + component(1, bytes(32)), nonce=4),
        make_data(from_uri("/a/x"), b""),
        make_data(from_uri("/a/y"), b"", freshness_ms=5),
        make_lp(interest("/a/x", 1), nack_reason=150),
        make_lp(interest("/a", 3, can_be_prefix=True), nack_reason=150, pit_token=b"t"),
        make_interest(
            item_name(feed_name(from_uri("/a"), bytes(32)), 1), nonce=8, lifetime_ms=900, send_credit=9
        ),
        make_lp(make_data(item_name(feed_name(from_uri("/a"), bytes(32)), 1), b""), tip=3, limit=5),
    ]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 4), mutations(KNOWN_PACKETS) | ANY_BYTES)
def test_whatever_is_malformed_changes_nothing_but_the_counter(face: int, packet: bytes) -> None:
    node = busy_node()
    before = node.state()
    node.core.receive(face, packet, node.now)
    if node.core.counters.malformed:
        assert node.core.take_outputs() == []
        assert node.state() == before
    else:
        node.wait(1000 * MS)
        node.core.pit_bytes()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("idwur"), st.integers(1, 3), st.integers(0, 5)), max_size=120))
def test_a_face_touches_all_entries_that_have_a_record_of_it_and_few_others(steps) -> None:
    """So that what it was waiting for, and was asked, is found without a look at the whole PIT."""
    core, now = Forwarder(rng=Random(1)), 0
    for face in (1, 2, 3):
        core.add_face(face)
        core.fib.add(b"", face, 1)
    for number, (kind, face, name) in enumerate(steps):
        now += 100_000_000
        if kind == "i" and face in core.faces:
            core.receive(face, make_interest(from_uri(f"/{name}"), nonce=number, lifetime_ms=1000), now)
        elif kind == "d" and face in core.faces:
            core.receive(face, make_data(from_uri(f"/{name}"), b""), now)
        elif kind == "w":
            core.wake(now)
        elif kind == "u" and face in core.faces:
            core.set_face(face, not core.faces[face].is_up, now)
        elif kind == "r" and face in core.faces and name == 0:
            core.remove_face(face, now)
        core.take_outputs()
        for each in core.faces.values():
            of_face = {
                entry
                for entry in core.pit
                if any(record.face == each.number for record in (*entry.in_records, *entry.out_records))
            }
            assert of_face <= set(each.touches)
            assert len(each.touches) <= each.most_touches
        for entry in core.pit:
            assert {record.face for record in (*entry.in_records, *entry.out_records)} <= core.faces.keys()
