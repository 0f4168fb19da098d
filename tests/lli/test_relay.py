"""Feeds in a forwarder, by hand: one relay with an upstream (face 1) and two downstreams (2 and 3)."""

from random import Random

import pytest
from simulation import feed_of

from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.lp import NO_ROUTE, make_lp, parse_lp
from forwarder.wire.name import to_uri
from forwarder.wire.packet import INTEREST, make_data, make_interest, parse_data, parse_interest
from ssb_over_ndn.naming import LOGS, log_name, message_packet

MS = 1_000_000
FEED = feed_of(40)
NAME = log_name(FEED[0].author)
UP, A, B = 1, 2, 3


class Relay:
    """A forwarder with short words for what goes in and comes out."""

    def __init__(self, *, route: bool = True, max_items: int = 256) -> None:
        self.core = Forwarder(rng=Random(1), feed_store=FeedStore(max_items=max_items))
        for face in (UP, A, B):
            self.core.add_face(face)
        if route:
            self.core.fib.add(LOGS, UP)
        self.now = 0
        self.nonce = 0

    def lli(
        self, face: int, first: int, credit: int, lifetime_ms: int = 10_000, nonce: int | None = None
    ) -> list[str]:
        self.nonce += 1
        packet = make_interest(
            item_name(NAME, first),
            nonce=self.nonce if nonce is None else nonce,
            lifetime_ms=lifetime_ms,
            hop_limit=10,
            send_credit=credit,
        )
        self.core.receive(face, packet, self.now)
        return self.out()

    def item(self, seq: int, face: int = UP) -> list[str]:
        self.core.receive(face, message_packet(FEED[seq - 1]), self.now)
        return self.out()

    def wait(self, ns: int) -> list[str]:
        self.now += ns
        self.core.wake(self.now)
        return self.out()

    def out(self) -> list[str]:
        return [f"{face} {describe(packet)}" for face, packet in self.core.take_outputs()]

    @property
    def counters(self) -> dict[str, int]:
        assert self.core.feeds is not None
        return self.core.feeds.counters


def describe(packet: bytes) -> str:
    lp = parse_lp(packet)
    if not lp.fragment:
        return f"state tip {lp.tip} limit {lp.limit}"
    if lp.fragment[0] == INTEREST:
        interest = parse_interest(lp.fragment)
        seq = to_uri(interest.name).rpartition("=")[2]
        if lp.nack_reason is not None:
            return f"nack {lp.nack_reason} of {seq}"
        return f"lli {seq}+{interest.send_credit}"
    seq = to_uri(parse_data(lp.fragment).name).rpartition("=")[2]
    return f"item {seq}" + (f" tip {lp.tip} limit {lp.limit}" if lp.tip is not None else "")


def test_the_first_lli_goes_up_and_items_come_down() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    assert relay.item(1) == ["2 item 1 tip 1 limit 4"]
    assert relay.item(2) == ["2 item 2"]


def test_the_lli_that_goes_up_is_the_one_that_came() -> None:
    relay = Relay()
    packet = make_interest(item_name(NAME, 1), nonce=77, lifetime_ms=9000, hop_limit=10, send_credit=4)
    relay.core.receive(A, packet, 0)
    ((_, sent),) = relay.core.take_outputs()
    interest = parse_interest(sent)
    assert (interest.nonce, interest.hop_limit, interest.lifetime_ms) == (77, 9, 9000)


def test_downstreams_are_aggregated_into_one_upstream_range() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    assert relay.lli(B, 1, 4) == []
    assert relay.item(1) == ["2 item 1 tip 1 limit 4", "3 item 1 tip 1 limit 4"]
    assert relay.lli(B, 5, 4) == ["1 lli 5+4"]
    assert relay.lli(A, 5, 4) == []
    assert relay.core.pit_entries() == 1
    assert relay.core.pit_bytes() == len(NAME) + 3 * 28


def test_a_range_that_is_used_up_is_gone_and_the_entry_with_the_last() -> None:
    relay = Relay()
    relay.lli(A, 1, 2)
    relay.item(1)
    assert relay.core.pit_entries() == 1
    relay.item(2)
    assert relay.core.pit_entries() == 0
    assert relay.item(3) == []
    assert relay.core.counters.unsolicited == 1


def test_a_latecomer_is_served_from_the_cache_first() -> None:
    relay = Relay()
    relay.lli(A, 1, 10)
    for seq in (1, 2, 3):
        relay.item(seq)
    assert relay.lli(B, 1, 10) == ["3 item 1 tip 3 limit 10", "3 item 2 tip 3 limit 10", "3 item 3"]
    assert relay.item(4) == ["2 item 4", "3 item 4"]


def test_a_latecomer_after_the_end_is_served_from_the_cache_too() -> None:
    relay = Relay()
    relay.lli(A, 1, 3)
    for seq in (1, 2, 3):
        relay.item(seq)
    assert relay.lli(B, 2, 10) == ["3 item 2 tip 3 limit 11", "3 item 3", "1 lli 4+8"]
    assert relay.item(4) == ["3 item 4"]


def test_what_the_cache_has_let_go_is_fetched_again() -> None:
    relay = Relay(max_items=4)
    relay.lli(A, 1, 4)
    for seq in range(1, 5):
        relay.item(seq)
    relay.lli(A, 5, 4)
    for seq in range(5, 9):
        relay.item(seq)
    assert relay.lli(B, 1, 12) == ["1 lli 1+4"]
    assert relay.item(1) == ["3 item 1 tip 8 limit 12"]
    assert relay.item(2) == ["3 item 2 tip 8 limit 12", "1 lli 5+2"]
    assert relay.item(3) == ["3 item 3 tip 8 limit 12"]
    assert relay.item(4) == [
        "3 item 4 tip 8 limit 12",
        *(f"3 item {seq} tip 8 limit 12" for seq in (5, 6, 7)),
        "3 item 8",
        "1 lli 5+0",
        "1 lli 9+4",
    ]


def test_a_gap_is_repaired_by_going_back() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.item(1)
    assert relay.item(3) == ["1 lli 2+7"]
    assert relay.item(4) == []
    assert relay.counters["gaps"] == 2
    assert relay.item(2) == ["2 item 2"]
    assert relay.item(3) == ["2 item 3"]


def test_a_silent_upstream_is_probed() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    assert relay.wait(999 * MS) == []
    assert relay.wait(1 * MS) == ["1 lli 1+8"]


def test_unused_credit_expires_everywhere() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=300)
    assert relay.wait(300 * MS - 1) == []
    assert relay.core.pit_entries() == 1
    assert relay.wait(1) == []
    assert relay.core.pit_entries() == 0
    assert relay.core.next_deadline() is None


def test_the_last_cancellation_goes_up() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.lli(B, 1, 8)
    assert relay.lli(A, 1, 0) == []
    assert relay.lli(B, 1, 0) == ["1 lli 1+0"]
    assert relay.core.pit_entries() == 0
    assert relay.lli(B, 1, 0) == []


def test_a_downstream_that_is_gone_is_forgotten() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.core.remove_face(A, relay.now)
    assert relay.out() == ["1 lli 1+0"]
    assert relay.core.pit_entries() == 0


def test_no_route_is_said() -> None:
    relay = Relay(route=False)
    assert relay.lli(A, 1, 8) == [f"2 nack {NO_ROUTE} of 1"]
    assert relay.core.pit_entries() == 0


def test_an_lli_never_goes_back_where_it_came_from() -> None:
    relay = Relay()
    assert relay.lli(UP, 1, 8) == [f"1 nack {NO_ROUTE} of 1"]


def test_a_loop_is_caught_by_its_nonce() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, nonce=5)
    assert relay.lli(UP, 1, 8, nonce=5) == []
    assert relay.lli(B, 1, 8, nonce=5) == []
    assert relay.counters["loops"] == 2
    assert relay.lli(A, 1, 8, nonce=5) == []
    assert relay.counters["loops"] == 2


def forged(seq: int, text: bytes) -> bytes:
    return make_data(item_name(NAME, seq), ssb_content(text))


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (forged(1, FEED[0].encoded.replace(b"post", b"past")), "signature"),
        (forged(1, FEED[1].encoded), "sequence"),
        (forged(1, b"{}"), "message"),
        (make_data(item_name(NAME, 1), b""), "format"),
        (make_data(item_name(NAME, 1), b"\xf9\x00"), "format"),
        (make_data(item_name(NAME, 3), b"\xf6\x02{}"), "message"),
    ],
)
def test_a_forged_item_goes_nowhere_and_changes_nothing(packet: bytes, reason: str) -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    # A classic Interest for the same item waits too: it must not be satisfied by a forgery either.
    relay.core.receive(B, make_interest(item_name(NAME, 1), nonce=9, lifetime_ms=5000), 0)
    relay.out()
    deadline = relay.core.next_deadline()
    relay.core.receive(UP, packet, 5)
    assert relay.out() == []
    assert relay.counters[f"rejected_{reason}"] == 1
    assert relay.core.next_deadline() == deadline
    assert relay.item(1) == ["2 item 1 tip 1 limit 8", "3 item 1"]


def test_items_answer_classic_interests_from_the_cache() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.item(1)
    relay.core.receive(B, make_interest(item_name(NAME, 1), nonce=9), 0)
    assert relay.out() == ["3 item 1"]


def test_an_interest_with_credit_that_names_no_item_is_malformed() -> None:
    relay = Relay()
    relay.core.receive(A, make_interest(NAME, nonce=1, send_credit=4), 0)
    assert relay.core.counters.malformed == 1
    assert relay.core.pit_entries() == 0


def test_without_controlled_push_an_lli_is_a_classic_interest() -> None:
    core = Forwarder(rng=Random(1), controlled_push=False)
    core.add_face(UP)
    core.add_face(A)
    core.fib.add(LOGS, UP)
    packet = make_interest(item_name(NAME, 1), nonce=1, lifetime_ms=5000, send_credit=4)
    core.receive(A, packet, 0)
    assert core.take_outputs() == [(UP, packet)]
    core.receive(UP, message_packet(FEED[0]), 1)
    assert core.take_outputs() == [(A, message_packet(FEED[0]))]
    core.receive(UP, message_packet(FEED[1]), 2)
    assert core.take_outputs() == []


def test_an_old_item_that_is_forged_is_refused_too() -> None:
    relay = Relay(max_items=1)
    relay.lli(A, 1, 8)
    relay.item(1)
    relay.item(2)
    relay.core.receive(B, make_interest(item_name(NAME, 1), nonce=9, lifetime_ms=5000), 0)
    relay.out()
    relay.core.receive(UP, forged(1, b"{}"), 5)
    assert relay.out() == []
    assert relay.counters["rejected_message"] == 1
    assert relay.item(1) == ["3 item 1"]
    assert relay.counters["rejected_duplicate"] == 1


def test_a_hop_limit_ends_the_way_of_an_lli() -> None:
    relay = Relay()
    packet = make_interest(item_name(NAME, 1), nonce=1, lifetime_ms=9000, hop_limit=1, send_credit=4)
    relay.core.receive(A, packet, 0)
    assert relay.out() == []
    relay.now = 1
    assert relay.lli(B, 1, 6) == ["1 lli 1+6"]


def test_a_refusal_from_upstream_is_passed_down() -> None:
    relay = Relay()
    relay.lli(A, 1, 4, nonce=5)
    relay.lli(B, 3, 2)
    sent = make_interest(item_name(NAME, 1), nonce=5, lifetime_ms=9000, send_credit=4)
    relay.core.receive(B, make_lp(sent, nack_reason=NO_ROUTE), 1)
    assert relay.out() == []
    relay.core.receive(UP, make_lp(sent, nack_reason=NO_ROUTE), 1)
    assert relay.out() == [f"2 nack {NO_ROUTE} of 1", f"3 nack {NO_ROUTE} of 3"]
    assert relay.core.pit_entries() == 0


def test_when_the_upstream_goes_another_is_asked_from_the_first_missing_item() -> None:
    relay = Relay()
    relay.core.fib.add(LOGS, B, cost=10)
    relay.lli(A, 1, 8)
    relay.item(1)
    relay.core.remove_face(UP, relay.now)
    assert relay.out() == ["3 lli 2+7"]
    assert relay.item(2, face=B) == ["2 item 2"]


def test_without_another_upstream_downstreams_are_told() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.core.remove_face(UP, relay.now)
    assert relay.out() == [f"2 nack {NO_ROUTE} of 1"]
    assert relay.core.pit_entries() == 0


def test_a_range_that_is_left_behind_is_cancelled_first() -> None:
    relay = Relay(max_items=4)
    assert relay.lli(A, 1, 2) == ["1 lli 1+2"]
    assert relay.lli(B, 30, 4) == ["1 lli 3+2"]
    assert relay.lli(A, 1, 0) == ["1 lli 1+0", "1 lli 30+4"]


def test_a_strangers_numbers_do_not_overflow() -> None:
    relay = Relay()
    most = (1 << 64) - 1
    relay.lli(A, 1, most)
    relay.lli(B, most, most)
    relay.lli(B, 2, 4)
    assert relay.item(1)[0] == f"2 item 1 tip 1 limit {most}"
    relay.item(2)
    relay.core.remove_face(UP, relay.now)
    assert [line.split()[1] for line in relay.out()] == ["nack", "nack"]


def test_an_item_after_the_end_of_a_grant_is_not_pushed() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=300)
    relay.now = 400 * MS  # and nobody has called wake()
    assert relay.item(1) == []
    assert relay.core.pit_entries() == 0
