"""Feeds in a forwarder, by hand: a relay with an upstream (face 1), downstreams (2, 3) and one more (4)."""

from random import Random
from typing import Any

import pytest
from lli_maker import (
    BRANCH,
    FEED,
    FORKED_AT,
    MS,
    NAME,
    PROOF,
    WRITER,
    branch,
    forged,
    idle,
    item,
    packet,
    proof,
    pushed,
    told,
)

from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.lli.backfill import WINDOW
from forwarder.lli.table import FeedEntry
from forwarder.lli.upstream import PULL_WINDOW, Recovery, State
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, make_lp, parse_lp
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from ssb_over_ndn.naming import LOGS

UP, A, B, C, PRODUCER = 1, 2, 3, 4, 5


class Relay:
    """A forwarder with short words for what goes in and comes out."""

    def __init__(
        self,
        *,
        route: bool = True,
        max_items: int = 256,
        max_feeds: int = 1024,
        recovery: Recovery = Recovery.IN_NETWORK,
    ) -> None:
        store = FeedStore(max_items=max_items, max_feeds=max_feeds)
        self.core = Forwarder(rng=Random(1), feed_store=store, recovery=recovery)
        for face in (UP, A, B, C):
            self.core.add_face(face)
        if route:
            self.core.fib.add(LOGS, UP)
        self.now = 0
        self.nonce = 0
        self.last: dict[int, bytes] = {}
        self.idle: list[str] = []

    def lli(
        self,
        face: int,
        first: int,
        credit: int | None,
        lifetime_ms: int = 10_000,
        nonce: int | None = None,
        hop_limit: int = 10,
        fresh: bool = False,
    ) -> list[str]:
        self.nonce += 1
        interest = make_interest(
            item_name(NAME, first),
            nonce=self.nonce if nonce is None else nonce,
            lifetime_ms=lifetime_ms,
            hop_limit=hop_limit,
            send_credit=credit,
            must_be_fresh=fresh,
        )
        return self.give(face, interest)

    def classic(self, face: int, seq: int) -> list[str]:
        return self.lli(face, seq, None)

    def item(self, seq: int, face: int = UP, tip: int = 0, mark: int = 0) -> list[str]:
        """An item that comes with FeedState, from an upstream that pushes."""
        return self.give(face, pushed(seq, max(seq, tip), 1000, mark))

    def items(self, first: int, last: int, face: int = UP) -> list[str]:
        return [line for seq in range(first, last + 1) for line in self.item(seq, face)]

    def give(self, face: int, received: bytes) -> list[str]:
        self.core.receive(face, received, self.now)
        return self.out()

    def refuse(self, face: int, reason: int = NO_ROUTE) -> list[str]:
        """Answer the last LLI that went to a face with a Nack."""
        return self.give(face, make_lp(self.last[face], nack_reason=reason))

    def wait(self, ns: int) -> list[str]:
        """Let time pass, waking up whenever that is due."""
        end = self.now + ns
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.core.wake(self.now)
        self.now = end
        return self.out()

    def out(self) -> list[str]:
        """What is sent, but for idle answers, which go to `idle`."""
        sent = self.core.take_outputs()
        self.last |= dict(sent)
        lines = [f"{face} {told(packet)}" for face, packet in sent]
        self.idle = [line for line in lines if " idle " in line]
        return [line for line in lines if " idle " not in line]

    def entry(self) -> FeedEntry:
        assert self.core.feeds is not None
        (entry,) = self.core.feeds
        return entry

    @property
    def counters(self) -> dict[str, int]:
        assert self.core.feeds is not None
        return self.core.feeds.counters

    @property
    def store(self) -> FeedStore:
        assert self.core.feeds is not None
        return self.core.feeds.store


def subscribed(credit: int = 8, *faces: int, **options: Any) -> Relay:
    """A relay whose downstreams have asked from the first item on, and whose upstream has answered."""
    relay = Relay(**options)
    for face in faces or (A,):
        relay.lli(face, 1, credit)
    relay.now = 10 * MS
    assert relay.give(UP, idle(0, credit)) == []
    return relay


# One upstream, many downstreams.


def test_the_first_lli_goes_up_and_items_come_down() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    relay.give(UP, idle(0, 4))
    assert relay.idle == ["2 idle tip 0 limit 4"]
    assert relay.item(1) == ["2 item 1 tip 1 limit 4"]
    assert relay.item(2) == ["2 item 2"]


def test_the_lli_that_goes_up_is_the_one_that_came() -> None:
    relay = Relay()
    relay.lli(A, 1, 4, lifetime_ms=9000, nonce=77)
    interest = parse_interest(relay.last[UP])
    assert (interest.nonce, interest.hop_limit, interest.lifetime_ms) == (77, 9, 9000)


def test_downstreams_are_aggregated_into_one_upstream_range() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    assert relay.lli(B, 1, 4) == []
    relay.give(UP, idle(0, 4))
    assert relay.idle == ["2 idle tip 0 limit 4", "3 idle tip 0 limit 4"]
    assert relay.item(1) == ["2 item 1 tip 1 limit 4", "3 item 1 tip 1 limit 4"]
    assert relay.lli(B, 5, 4) == ["1 lli 5+4"]
    assert relay.lli(A, 5, 4) == []
    assert relay.core.pit_entries() == 1
    assert relay.core.pit_bytes() == len(NAME) + 3 * 28


def test_every_lli_is_answered_even_the_links_duplicate_of_one() -> None:
    relay = subscribed()
    assert relay.lli(B, 1, 8, nonce=50) == []
    assert relay.idle == ["3 idle tip 0 limit 8"]
    assert relay.lli(B, 1, 8, nonce=50) == []
    assert relay.idle == ["3 idle tip 0 limit 8"]
    assert relay.lli(B, 9, 8) == ["1 lli 9+8"]
    assert relay.idle == ["3 idle tip 0 limit 16"]


def test_a_range_that_is_used_up_is_gone_and_the_entry_with_the_last() -> None:
    relay = Relay()
    relay.lli(A, 1, 2)
    relay.item(1)
    assert relay.core.pit_entries() == 1
    relay.item(2)
    assert relay.core.pit_entries() == 0
    assert relay.core.next_deadline() is None
    assert relay.item(3) == []
    assert relay.core.counters.unsolicited == 1


def test_a_latecomer_is_served_from_the_cache_first() -> None:
    relay = subscribed(10)
    relay.items(1, 3)
    assert relay.lli(B, 1, 10) == ["3 item 1 tip 3 limit 10", "3 item 2 tip 3 limit 10", "3 item 3"]
    assert relay.idle == []
    assert relay.item(4) == ["2 item 4", "3 item 4"]


def test_a_latecomer_after_the_end_is_served_from_the_cache_too() -> None:
    relay = subscribed(3)
    relay.items(1, 3)
    assert relay.lli(B, 2, 10) == ["3 item 2 tip 3 limit 11", "3 item 3", "1 lli 4+8"]
    assert relay.item(4) == ["3 item 4"]


def test_a_repetition_from_downstream_is_answered_from_the_cache() -> None:
    relay = subscribed()
    relay.items(1, 5)
    assert relay.lli(A, 3, 2) == ["2 item 3", "2 item 4"]
    assert relay.lli(A, 2, 7) == [f"2 item {seq} tip 5 limit 8" for seq in (2, 3, 4)] + ["2 item 5"]


def test_no_more_is_under_way_than_the_cache_can_hold() -> None:
    relay = subscribed(100, max_items=8)
    assert parse_interest(relay.last[UP]).send_credit == 8
    asked = [line for line in relay.items(1, 4) if line.startswith("1")]
    assert asked == ["1 lli 9+4"]


def test_unused_credit_expires_everywhere() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=300)
    relay.give(UP, idle(0, 8))
    relay.wait(300 * MS - 1)
    assert relay.core.pit_entries() == 1
    assert relay.wait(1) == []
    assert relay.core.pit_entries() == 0
    assert relay.core.next_deadline() is None


def test_an_item_after_the_end_of_a_grant_is_not_pushed() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=300)
    relay.now = 400 * MS  # and nobody has called wake()
    assert relay.item(1) == []
    assert relay.core.pit_entries() == 0


def test_the_last_cancellation_goes_up() -> None:
    relay = subscribed(8, A, B)
    assert relay.lli(A, 1, 0) == []
    assert relay.lli(B, 1, 0) == ["1 lli 1+0"]
    assert relay.core.pit_entries() == 0
    assert relay.lli(B, 1, 0) == []


def test_a_downstream_that_is_gone_is_forgotten() -> None:
    relay = subscribed()
    relay.core.remove_face(A, relay.now)
    assert relay.out() == ["1 lli 1+0"]
    assert relay.core.pit_entries() == 0


def test_a_range_that_is_left_behind_makes_room_for_one_further_on() -> None:
    relay = Relay(max_items=4)
    assert relay.lli(A, 1, 2) == ["1 lli 1+2"]
    assert relay.lli(B, 30, 4) == ["1 lli 3+2"]
    assert relay.lli(A, 1, 0) == ["1 lli 30+4"]
    assert relay.items(30, 30) == ["3 item 30 tip 30 limit 33"]


def test_a_strangers_numbers_do_not_overflow() -> None:
    relay = Relay()
    most = (1 << 64) - 2
    relay.lli(A, 1, most + 1)
    relay.lli(B, most, most)
    relay.lli(B, 2, 4)
    assert relay.item(1)[0] == f"2 item 1 tip 1 limit {most}"
    relay.item(2)
    relay.core.remove_face(UP, relay.now)
    assert {line.split()[1] for line in relay.out()} == {"nack"}
    assert relay.core.pit_entries() == 0


def test_feeds_in_use_are_bounded_and_more_are_refused() -> None:
    relay = Relay(max_feeds=1)
    relay.lli(A, 1, 8)
    other = feed_name(LOGS, bytes(32))
    packet = make_interest(item_name(other, 1), nonce=9, lifetime_ms=5000, hop_limit=9, send_credit=4)
    relay.core.receive(B, packet, 0)
    ((face, refusal),) = relay.core.take_outputs()
    assert face == B
    assert parse_lp(refusal).nack_reason == CONGESTION
    assert relay.core.pit_entries() == 1
    relay.lli(A, 1, 0)
    relay.core.receive(B, packet, 0)
    assert next(face for face, _ in relay.core.take_outputs()) == UP


# What is accepted.


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (forged(1, FEED[0].encoded.replace(b"post", b"past")), "signature"),
        (forged(1, FEED[1].encoded), "sequence"),
        (forged(1), "message"),
        (make_data(item_name(NAME, 1), b""), "format"),
        (make_data(item_name(NAME, 1), b"\xf9\x00"), "format"),
        (forged(3), "message"),
    ],
    ids=["signature", "sequence", "message", "empty", "unknown format", "of another number"],
)
def test_a_forged_item_goes_nowhere_and_changes_nothing(received: bytes, reason: str) -> None:
    relay = subscribed()
    # A classic Interest for the same item waits too: it must not be satisfied by a forgery either.
    assert relay.classic(B, 1) == ["1 interest 1"]
    deadline = relay.core.next_deadline()
    relay.now += 5
    assert relay.give(UP, received) == []
    assert relay.give(C, received) == []
    assert relay.counters[f"rejected_{reason}"] == 2
    assert relay.core.next_deadline() == deadline
    assert relay.item(1) == ["2 item 1 tip 1 limit 8", "3 item 1"]


def test_an_old_item_that_is_forged_is_refused_too() -> None:
    relay = subscribed(max_items=1)
    relay.items(1, 2)
    assert relay.classic(B, 1) == ["1 interest 1"]
    assert relay.give(UP, forged(1)) == []
    assert relay.counters["rejected_message"] == 1
    assert relay.give(UP, packet(1)) == ["3 item 1"]


def test_items_come_whichever_way_they_come() -> None:
    relay = subscribed()
    assert relay.item(1, face=C) == ["2 item 1 tip 1 limit 8"]
    assert relay.item(1) == []
    assert relay.counters["rejected_duplicate"] == 1


def test_an_item_that_nobody_has_asked_for_is_not_passed_on() -> None:
    relay = subscribed()
    assert relay.item(30) == []
    assert relay.counters["rejected_unasked"] == 1
    assert relay.classic(B, 30) == ["1 interest 30"]


def test_items_answer_classic_interests_from_the_cache() -> None:
    relay = subscribed()
    relay.item(1)
    assert relay.classic(B, 1) == ["3 item 1"]
    assert relay.lli(B, 1, None, fresh=True) == ["1 interest 1"]


def test_a_state_of_another_face_or_feed_is_ignored() -> None:
    relay = subscribed()
    before = relay.core.next_deadline()
    relay.give(B, idle(5, 8))
    relay.give(UP, idle(5, 8, feed=feed_name(LOGS, bytes(32))))
    assert relay.core.next_deadline() == before
    assert relay.counters["states_in"] == 1
    relay.give(UP, idle(5, 8))
    assert relay.core.next_deadline() != before


def test_without_controlled_push_an_lli_is_a_classic_interest() -> None:
    core = Forwarder(rng=Random(1), controlled_push=False)
    core.add_face(UP)
    core.add_face(A)
    core.fib.add(LOGS, UP)
    lli = make_interest(item_name(NAME, 1), nonce=1, lifetime_ms=5000, send_credit=4)
    core.receive(A, lli, 0)
    assert core.take_outputs() == [(UP, lli)]
    core.receive(UP, packet(1), 1)
    assert core.take_outputs() == [(A, packet(1))]
    core.receive(UP, packet(2), 2)
    core.receive(UP, idle(1, 4), 2)
    assert core.take_outputs() == []


# Ways up, and loops.


def test_no_route_is_said() -> None:
    relay = Relay(route=False)
    assert relay.lli(A, 1, 8) == [f"2 nack {NO_ROUTE} of lli 1+8"]
    assert relay.core.pit_entries() == 0


def test_without_a_route_the_cache_still_serves_what_it_has() -> None:
    relay = subscribed(3)
    relay.items(1, 3)
    relay.core.fib.remove(LOGS, UP)
    assert relay.lli(B, 2, 2) == ["3 item 2 tip 3 limit 3", "3 item 3"]
    assert relay.lli(B, 2, 4) == ["3 item 2 tip 3 limit 5", "3 item 3", f"3 nack {NO_ROUTE} of lli 2+4"]
    assert relay.core.pit_entries() == 0


def test_an_lli_never_goes_back_where_it_came_from() -> None:
    relay = Relay()
    assert relay.lli(UP, 1, 8) == [f"1 nack {NO_ROUTE} of lli 1+8"]


def test_two_nodes_do_not_wait_for_each_other() -> None:
    relay = subscribed()
    assert relay.lli(UP, 1, 8) == [f"1 nack {NO_ROUTE} of lli 1+8"]
    assert relay.lli(UP, 1, 0) == []
    assert relay.item(1) == ["2 item 1 tip 1 limit 8"]


def test_a_loop_is_caught_by_its_nonce() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, nonce=5)
    assert relay.lli(UP, 1, 8, nonce=5) == [f"1 nack {DUPLICATE} of lli 1+8"]
    assert relay.lli(B, 1, 8, nonce=5) == [f"3 nack {DUPLICATE} of lli 1+8"]
    assert relay.counters["loops"] == 2
    assert relay.lli(A, 1, 8, nonce=5) == []
    assert relay.counters["loops"] == 2


def test_a_hop_limit_ends_the_way_of_an_lli() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4, hop_limit=1) == []
    relay.now = 1
    assert relay.lli(B, 1, 6) == ["1 lli 1+6"]
    assert parse_interest(relay.last[UP]).hop_limit == 9


def test_a_reissued_lli_is_passed_on_though_there_is_nothing_new_to_ask_for() -> None:
    """It has to find out whether the way leads back to its sender, which aggregation hides."""
    relay = subscribed()
    relay.now = 1000 * MS
    assert relay.lli(B, 1, 8, fresh=True, nonce=70) == ["1 lli 8+1 fresh"]
    assert parse_interest(relay.last[UP]).nonce == 70
    assert relay.lli(UP, 1, 8, fresh=True, nonce=70) == [f"1 nack {DUPLICATE} of lli 1+8 fresh"]
    assert relay.lli(C, 1, 8, fresh=True) == []
    relay.now = 1500 * MS
    assert relay.lli(C, 1, 8, fresh=True) == ["1 lli 8+1 fresh"]


def test_the_links_duplicate_of_a_reissued_lli_is_not_passed_on() -> None:
    relay = subscribed()
    relay.now = 1000 * MS
    relay.lli(B, 1, 8, fresh=True, nonce=70)
    relay.now = 2000 * MS
    assert relay.lli(B, 1, 8, fresh=True, nonce=70) == []


def two_ways(**options: Any) -> Relay:
    """Another next hop behind face 4, at a higher cost."""
    relay = Relay(**options)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8)
    return relay


def test_a_refusal_makes_it_try_the_next_hop() -> None:
    relay = two_ways()
    assert relay.refuse(UP) == ["1 lli 1+0", "4 lli 1+8 fresh"]
    relay.give(C, idle(0, 8))
    assert relay.item(1, face=C) == ["2 item 1 tip 1 limit 8"]
    assert relay.counters["failovers"] == 1


def test_a_refusal_by_all_is_passed_down() -> None:
    relay = two_ways()
    relay.lli(B, 3, 2)
    relay.refuse(UP)
    assert relay.refuse(C, DUPLICATE) == [
        "4 lli 1+0",
        f"2 nack {DUPLICATE} of lli 1+8",
        f"3 nack {DUPLICATE} of lli 3+2",
    ]
    assert relay.core.pit_entries() == 0
    assert relay.core.next_deadline() is None


def test_what_has_failed_may_be_tried_again_once_an_item_has_come() -> None:
    relay = two_ways()
    relay.refuse(UP)
    relay.item(1, face=C)
    assert relay.refuse(C) == ["4 lli 2+0", "1 lli 2+7 fresh"]


def test_a_refusal_of_something_else_is_ignored() -> None:
    relay = two_ways()
    stranger = make_interest(item_name(NAME, 1), nonce=12345, send_credit=8)
    assert relay.give(UP, make_lp(stranger, nack_reason=NO_ROUTE)) == []
    assert relay.give(B, make_lp(relay.last[UP], nack_reason=NO_ROUTE)) == []
    assert relay.counters["nacks_in"] == 0


def test_a_next_hop_that_answers_nothing_is_given_up_for_the_next() -> None:
    relay = two_ways()
    sent = relay.wait(6_000 * MS)
    assert sent[:4] == ["1 lli 1+8"] * 4
    assert sent[4:6] == ["1 lli 1+0", "4 lli 1+8 fresh"]
    assert relay.counters["failovers"] == 1


def two_ways_for(lifetime_ms: int) -> Relay:
    """Two next hops, and a downstream that asks for a short time."""
    relay = Relay()
    relay.core.fib.add(LOGS, C, cost=10)
    assert relay.lli(A, 1, 8, lifetime_ms=lifetime_ms) == ["1 lli 1+8"]
    return relay


def test_who_asks_for_too_short_a_time_to_find_a_silent_hop_out_gets_another_next_time() -> None:
    relay = two_ways_for(400)
    relay.wait(400 * MS)
    assert relay.core.pit_entries() == 0
    assert relay.lli(A, 1, 8, lifetime_ms=400) == ["4 lli 1+8"]


def test_a_silent_hop_that_answers_for_the_feed_is_as_good_as_before() -> None:
    relay = two_ways_for(400)
    relay.wait(400 * MS)
    relay.give(UP, idle(0, 8))
    assert relay.lli(A, 1, 8) == ["1 lli 1+8"]


def test_a_silent_hop_whose_link_has_come_up_is_as_good_as_before() -> None:
    relay = two_ways_for(400)
    relay.wait(400 * MS)
    relay.core.set_face(UP, False, relay.now)
    relay.core.set_face(UP, True, relay.now)
    assert relay.lli(A, 1, 8) == ["1 lli 1+8"]


def test_a_range_that_ends_before_the_search_is_refused_if_a_hop_has_refused() -> None:
    relay = two_ways_for(400)
    assert relay.refuse(UP) == ["1 lli 1+0", "4 lli 1+8 fresh"]
    assert f"2 nack {NO_ROUTE} of lli 1+8" in relay.wait(400 * MS)
    relay = two_ways_for(400)
    assert not [line for line in relay.wait(400 * MS) if "nack" in line]


def test_an_lli_that_comes_round_when_its_entry_has_ended_is_refused() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, nonce=70)
    relay.lli(A, 1, 0)
    assert relay.core.pit_entries() == 0
    assert relay.lli(B, 1, 8, nonce=70) == [f"3 nack {DUPLICATE} of lli 1+8"]
    assert relay.counters["loops"] == 1
    assert relay.lli(A, 1, 8, nonce=70) == ["1 lli 1+8"]  # the link's late duplicate
    relay.lli(A, 1, 0)
    relay.lli(C, 1, 8)
    assert relay.lli(B, 1, 8, nonce=70) == [f"3 nack {DUPLICATE} of lli 1+8"]


def test_the_hop_that_brings_each_item_is_kept_though_the_entry_is_not() -> None:
    """A cheaper one that failed is tried again when that is forgotten, but not in the middle of this."""
    relay = two_ways_for(10_000)
    relay.refuse(UP)
    relay.item(1, face=C)
    relay.lli(A, 1, 0)
    for seq in range(2, 7):
        relay.now += 5_000 * MS
        assert relay.lli(A, seq, 1) == [f"4 lli {seq}+1"]
        relay.item(seq, face=C)
        assert relay.core.pit_entries() == 0
    relay.now += 20_000 * MS
    assert relay.lli(A, 7, 1) == ["1 lli 7+1"], "after a long silence cost counts again"


def test_a_hop_that_delivered_and_has_failed_since_is_no_better_than_another() -> None:
    relay = two_ways_for(10_000)
    relay.refuse(UP)
    relay.item(1, face=C)
    relay.refuse(C)
    relay.core.set_face(UP, False, relay.now)
    relay.core.set_face(UP, True, relay.now)
    relay.lli(A, 2, 0)
    assert relay.lli(A, 2, 1) == ["1 lli 2+1"]


def test_an_upstream_that_was_pulled_from_is_pulled_from_by_the_next_entry_too() -> None:
    relay = Relay()
    relay.lli(A, 1, 2)
    relay.give(UP, packet(1))
    relay.give(UP, packet(2))
    assert relay.core.pit_entries() == 0
    assert relay.lli(A, 3, 9) == ["1 lli 3+1"]
    assert relay.entry().upstream.state is State.PULLING


def test_what_is_in_the_cache_is_served_round_a_loop_too() -> None:
    relay = Relay()
    relay.lli(A, 1, 1, nonce=70)
    relay.item(1)
    assert relay.lli(B, 1, 1, nonce=70) == ["3 item 1 tip 1 limit 1"]
    assert relay.lli(C, 1, 2, nonce=70) == [f"4 nack {DUPLICATE} of lli 1+2"]


def test_when_the_upstream_goes_another_is_asked_from_the_first_missing_item() -> None:
    relay = two_ways()
    relay.item(1)
    relay.core.remove_face(UP, relay.now)
    assert relay.out() == ["4 lli 2+7 fresh"]
    assert relay.item(2, face=C) == ["2 item 2"]


def test_a_link_that_goes_down_is_no_way_until_it_is_up_again() -> None:
    relay = two_ways()
    relay.item(1)
    relay.core.set_face(UP, False, relay.now)
    assert relay.out() == ["4 lli 2+7 fresh"]
    relay.core.set_face(UP, True, relay.now)
    assert relay.out() == []
    relay.core.set_face(C, False, relay.now)
    assert relay.out() == ["1 lli 2+7 fresh"]


def test_without_another_upstream_downstreams_are_told() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.item(1)
    relay.core.remove_face(UP, relay.now)
    assert relay.out() == [f"2 nack {NO_ROUTE} of lli 2+7"]
    assert relay.core.pit_entries() == 0


def test_a_next_hop_that_is_a_downstream_is_the_last_to_be_asked_and_is_refused_for_it() -> None:
    relay = two_ways()
    relay.lli(C, 1, 8)
    assert relay.refuse(UP) == ["1 lli 1+0", f"4 nack {NO_ROUTE} of lli 1+8", "4 lli 1+8 fresh"]
    assert relay.refuse(C) == ["4 lli 1+0", f"2 nack {NO_ROUTE} of lli 1+8"]


def test_the_only_downstream_is_not_asked() -> None:
    relay = two_ways()
    relay.lli(C, 1, 8)
    relay.lli(A, 1, 0)
    assert relay.refuse(UP) == ["1 lli 1+0", f"4 nack {NO_ROUTE} of lli 1+8"]


# A ring of forwarders whose routes lead around: nobody has the feed.


def test_a_ring_of_llis_comes_to_nothing() -> None:
    """a -> b -> c -> a, each with a subscriber of its own: all are refused, and no state is left."""
    nodes = [Relay(route=False) for _ in range(3)]
    for node in nodes:
        node.core.fib.add(LOGS, UP)  # face 1 leads to the next one, whose face 3 it is
    queue: list[tuple[int, int, bytes]] = []
    refused = set()
    for place, node in enumerate(nodes):
        lli = make_interest(
            item_name(NAME, 1), nonce=100 + place, lifetime_ms=60_000, hop_limit=20, send_credit=8
        )
        node.core.receive(A, lli, 0)
    now = 0
    for _ in range(5000):
        for place, node in enumerate(nodes):
            for face, sent in node.core.take_outputs():
                if face == UP:
                    queue.append(((place + 1) % 3, B, sent))
                elif face == B:
                    queue.append(((place - 1) % 3, UP, sent))
                elif parse_lp(sent).nack_reason is not None:
                    refused.add(place)
        if queue:
            place, face, sent = queue.pop(0)
            nodes[place].core.receive(face, sent, now)
        else:
            deadlines = [due for node in nodes if (due := node.core.next_deadline()) is not None]
            if not deadlines or min(deadlines) > 30_000 * MS:
                break
            now = max(now, min(deadlines))
            for node in nodes:
                node.core.wake(now)
    assert refused == {0, 1, 2}
    assert now < 10_000 * MS
    assert [node.core.pit_entries() for node in nodes] == [0, 0, 0]


# Gaps, by mode.


def test_in_network_a_gap_is_held_back_and_repaired_here() -> None:
    relay = subscribed()
    relay.item(1)
    assert relay.item(3) == []
    assert relay.item(4) == []
    assert relay.counters["gaps"] == 1
    assert relay.wait(10 * MS) == ["1 lli 2+1"]
    assert relay.item(2) == ["2 item 2 tip 4 limit 8", "2 item 3 tip 4 limit 8", "2 item 4"]


def test_reordering_is_put_in_order_here_and_repairs_nothing() -> None:
    relay = subscribed()
    relay.item(1)
    assert relay.item(3) == []
    assert relay.item(2) == ["2 item 2 tip 3 limit 8", "2 item 3"]
    assert relay.wait(200 * MS) == []


def test_no_more_is_promised_than_can_be_pushed() -> None:
    """Beyond a gap there is nothing to promise: a downstream would take its own tail for lost."""
    relay = subscribed()
    relay.items(1, 2)
    relay.item(4)
    relay.lli(B, 3, 6)
    assert relay.idle == ["3 idle tip 2 limit 8"]


@pytest.mark.parametrize("recovery", [Recovery.GO_BACK_N, Recovery.SELECTIVE])
def test_in_the_other_modes_a_relay_passes_on_what_it_has_and_repairs_nothing(recovery: Recovery) -> None:
    relay = subscribed(recovery=recovery)
    assert relay.item(1) == ["2 item 1 tip 1 limit 8"]
    assert [line.partition(" tip")[0] for line in relay.items(3, 4)] == ["2 item 3", "2 item 4"]
    assert [line for line in relay.wait(200 * MS) if line.endswith(" 2+1")] == []


def test_going_back_asks_the_upstream_from_the_first_missing_item() -> None:
    relay = subscribed(recovery=Recovery.GO_BACK_N)
    relay.item(1)
    relay.items(3, 4)
    relay.now += 100 * MS
    assert relay.lli(A, 2, 7) == ["1 lli 2+7"]
    served = [line.partition(" tip")[0] for line in relay.items(2, 4)]
    assert served == ["2 item 2", "2 item 3", "2 item 4"]


def test_selecting_asks_for_the_missing_item_by_name() -> None:
    relay = subscribed(recovery=Recovery.SELECTIVE)
    relay.item(1)
    relay.items(3, 4)
    assert relay.classic(A, 2) == ["1 interest 2"]
    assert relay.give(UP, packet(2)) == ["2 item 2"]
    assert relay.classic(B, 2) == ["3 item 2"]


@pytest.mark.parametrize("recovery", list(Recovery)[:3])
def test_a_lost_tail_that_the_upstream_has_told_of_is_asked_for(recovery: Recovery) -> None:
    relay = subscribed(recovery=recovery)
    relay.give(UP, idle(2, 8))
    asked = relay.wait(250 * MS)
    assert asked[:1] == (["1 lli 1+2"] if recovery is Recovery.IN_NETWORK else ["1 lli 1+8"])


# The past.


def test_what_the_cache_has_let_go_is_fetched_by_name() -> None:
    relay = subscribed(8, max_items=4)
    relay.items(1, 8)
    relay.lli(A, 9, 4)
    # First a question that a camera, which has no past, answers at once.
    assert relay.lli(B, 1, 12) == ["1 lli 1+1", *(f"1 interest {seq}" for seq in (1, 2, 3, 4))]
    assert relay.item(2) == []
    assert relay.item(1) == ["3 item 1 tip 8 limit 12", "3 item 2 tip 8 limit 12"]
    assert relay.item(3) == ["3 item 3 tip 8 limit 12"]
    assert relay.item(4) == [f"3 item {seq} tip 8 limit 12" for seq in (4, 5, 6, 7)] + ["3 item 8"]
    assert relay.item(9) == ["2 item 9 tip 9 limit 12", "3 item 9"]


def test_the_past_is_fetched_of_the_next_hop_if_the_first_has_none() -> None:
    relay = subscribed(8, max_items=2)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.items(1, 8)
    relay.lli(A, 9, 8)
    assert relay.lli(B, 6, 8) == ["1 lli 6+1", "1 interest 6"]
    assert "4 interest 6" in relay.wait(300 * MS)
    assert relay.give(C, packet(6)) == ["3 item 6 tip 8 limit 13", "3 item 7 tip 8 limit 13", "3 item 8"]


def test_the_past_is_fetched_even_of_a_hop_that_is_a_downstream() -> None:
    """An archive follows the live stream through this node, and has the past that the camera has not."""
    relay = subscribed(8, C, max_items=2)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.items(1, 8)
    relay.lli(C, 9, 8)
    assert relay.lli(B, 6, 8) == ["1 lli 6+1", "1 interest 6"]
    refusal = make_lp(relay.last[UP], nack_reason=NO_ROUTE)
    assert relay.give(UP, refusal) == []
    assert relay.wait(0) == ["4 interest 6"]
    assert relay.give(C, packet(6)) == ["3 item 6 tip 8 limit 13", "3 item 7 tip 8 limit 13", "3 item 8"]
    assert relay.item(9)[:2] == ["4 item 9 tip 9 limit 16", "3 item 9"]


def test_a_past_that_nobody_has_is_given_up_and_said_to_be() -> None:
    relay = subscribed(8, max_items=2)
    relay.items(1, 8)
    relay.lli(A, 9, 8, lifetime_ms=90_000)
    relay.lli(B, 2, 10, lifetime_ms=90_000)
    told_of_first: list[str] = []
    sent: list[str] = []
    while not told_of_first and relay.now < 60_000 * MS:
        sent += relay.wait(100 * MS)
        relay.give(UP, idle(8, 1000))
        told_of_first += [line for line in relay.idle if "first" in line]
    assert [line for line in sent if line.startswith("3 item")] == ["3 item 7 tip 8 limit 11", "3 item 8"]
    assert relay.item(9)[:2] == ["2 item 9 tip 9 limit 16", "3 item 9"]


def test_an_upstream_that_begins_later_says_so_and_the_past_is_asked_for_elsewhere() -> None:
    """FeedState's First: a camera that keeps only its newest items, and an archive."""
    relay = Relay()
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 30)
    assert relay.give(UP, idle(24, 30, first=20)) == [f"4 interest {seq}" for seq in range(1, WINDOW + 1)]
    assert relay.entry().upstream.next == 20
    assert relay.item(20) == []
    assert relay.give(C, packet(1))[0].startswith("2 item 1 ")


def test_the_past_of_a_camera_alone_is_said_to_be_gone() -> None:
    relay = Relay()
    relay.lli(A, 1, 30)
    relay.give(UP, idle(24, 30, first=20))
    assert any(line.startswith("2 idle ") and line.endswith(" first 20") for line in relay.idle)


# An upstream that cannot push.


def test_a_bare_answer_makes_the_relay_pull_ahead_for_its_downstreams() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 100) == ["1 lli 1+100"]
    sent = relay.give(UP, packet(1))
    assert sent[0] == "2 item 1 tip 1 limit 100"
    assert sent[1:] == [f"1 lli {seq}+1" for seq in range(2, PULL_WINDOW + 2)]
    assert relay.give(UP, packet(2)) == ["2 item 2", f"1 lli {PULL_WINDOW + 2}+1"]


def test_an_upstream_that_has_learned_to_push_is_not_pulled_from_any_more() -> None:
    relay = Relay()
    relay.lli(A, 1, 100)
    relay.give(UP, packet(1))
    assert relay.give(UP, pushed(2, 2, 2)) == ["2 item 2", f"1 lli {PULL_WINDOW + 2}+{99 - PULL_WINDOW}"]
    assert relay.entry().upstream.state is State.ASKING


def test_the_only_way_there_is_is_pulled_from_if_it_says_nothing() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    sent = relay.wait(5_000 * MS)
    assert sent[-2:] == ["1 lli 1+0", "1 lli 1+1 fresh"]
    assert relay.give(UP, packet(1)) == ["2 item 1 tip 1 limit 8", *(f"1 lli {n}+1" for n in range(2, 9))]


def test_before_silence_is_taken_for_legacy_one_that_needed_this_node_is_tried_again() -> None:
    relay = Relay()
    relay.core.fib.add(LOGS, A, 1)
    relay.lli(A, 1, 8)
    relay.lli(B, 1, 8)
    sent: list[str] = []
    while not any(line.startswith("2 lli") for line in sent):
        sent = relay.wait(250 * MS)
    assert relay.refuse(A)[-1].startswith("2 lli 1+8")
    assert relay.refuse(A)[-1] == f"3 nack {NO_ROUTE} of lli 1+8", "now its refusal counts"


# Congestion.


def test_a_mark_from_upstream_shrinks_what_is_in_use() -> None:
    relay = subscribed(32)
    relay.item(1, mark=1)
    assert relay.entry().upstream.window.size == 16


# Forks.


def test_an_item_of_another_branch_ends_the_feed_and_everybody_is_told() -> None:
    relay = subscribed(20, A, B)
    relay.items(1, FORKED_AT)
    sent = relay.give(UP, branch(FORKED_AT + 1))
    told = [f"1 proof {FORKED_AT}", f"2 proof {FORKED_AT}", f"3 proof {FORKED_AT}"]
    assert sorted(sent) == told
    assert relay.counters["forks"] == 1
    assert relay.counters["rejected_fork"] == 1
    assert relay.core.pit_entries() == 0


def test_a_producer_does_not_know_of_proofs_and_is_sent_a_cancel() -> None:
    relay = Relay(route=False)
    relay.core.add_face(PRODUCER, local=True)
    relay.core.fib.add(LOGS, PRODUCER)
    relay.lli(A, 1, 20)
    relay.items(1, FORKED_AT, face=PRODUCER)
    sent = relay.give(PRODUCER, branch(FORKED_AT + 1))
    assert sorted(sent) == [f"2 proof {FORKED_AT}", f"{PRODUCER} lli 6+0", f"{PRODUCER} proof {FORKED_AT}"]


def test_a_fork_is_found_in_an_item_that_was_not_asked_for() -> None:
    relay = subscribed(20)
    relay.items(1, FORKED_AT)
    assert f"2 proof {FORKED_AT}" in relay.give(C, branch(FORKED_AT))


def test_a_proof_is_checked_passed_on_and_not_sent_back() -> None:
    relay = subscribed(20, A, B)
    relay.items(1, 6)
    assert sorted(relay.give(UP, PROOF)) == [f"2 proof {FORKED_AT}", f"3 proof {FORKED_AT}"]
    assert relay.counters["proofs_in"] == 1
    assert relay.core.pit_entries() == 0


def test_a_proof_that_is_none_goes_nowhere() -> None:
    relay = subscribed(20)
    relay.items(1, 6)
    name = parse_data(PROOF).name
    for content in (b"", parse_data(PROOF).content[:-1]):
        assert relay.give(UP, make_data(name, content)) == []
    assert relay.counters["rejected_proof"] == 2
    assert relay.item(7) == ["2 item 7"]


def test_a_proof_of_a_feed_that_nobody_follows_here_is_any_data() -> None:
    relay = Relay()
    assert relay.give(UP, PROOF) == []
    assert relay.core.counters.unsolicited == 1


def test_what_is_undisputed_is_still_pushed_before_the_proof() -> None:
    relay = subscribed(20)
    relay.items(1, 2)
    assert relay.give(UP, PROOF) == []
    relay.now += 1000 * MS
    assert relay.item(3) == ["2 item 3"]
    assert relay.item(4) == ["2 item 4", f"2 proof {FORKED_AT}"]
    assert relay.core.pit_entries() == 0


def test_nothing_is_asked_for_beyond_a_fork() -> None:
    relay = subscribed(20)
    relay.give(UP, PROOF)
    relay.lli(B, 1, 40)
    assert relay.entry().upstream.limit == FORKED_AT - 1
    assert relay.item(FORKED_AT) == [f"1 proof {FORKED_AT}"]


def test_whoever_asks_later_gets_the_undisputed_part_and_the_proof() -> None:
    relay = subscribed(20)
    relay.items(1, 6)
    relay.give(UP, PROOF)
    served = relay.lli(B, 3, 20)
    assert [line.partition(" tip")[0] for line in served] == ["3 item 3", "3 item 4", f"3 proof {FORKED_AT}"]
    assert relay.lli(B, 9, 20) == [f"3 proof {FORKED_AT}"]
    assert relay.core.pit_entries() == 0


def test_a_lower_fork_moves_the_end_down() -> None:
    later = proof(7, FEED[6], BRANCH[7 - FORKED_AT + 1])
    relay = subscribed(20)
    relay.give(UP, later)
    assert relay.entry().upstream.limit == 6
    relay.give(UP, PROOF)
    assert relay.entry().upstream.limit == FORKED_AT - 1
    relay.give(UP, later)
    assert relay.counters["forks"] == 2


def test_an_upstream_that_goes_on_pushing_is_told_again_but_not_for_every_item() -> None:
    relay = subscribed(20)
    relay.items(1, 2)
    relay.now += 500 * MS
    relay.give(C, PROOF)
    assert relay.give(UP, packet(6)) == []
    relay.now += 200 * MS
    assert relay.give(UP, packet(7)) == [f"1 proof {FORKED_AT}"]
    assert relay.give(UP, packet(8)) == []


def test_the_store_counts_what_a_proof_makes_it_drop() -> None:
    relay = subscribed(20)
    relay.items(1, 8)
    relay.give(UP, PROOF)
    cache = relay.store.find(NAME)
    assert cache is not None
    assert relay.store.bytes == cache.bytes == sum(len(packet(seq)) for seq in range(1, FORKED_AT))


def test_the_branches_of_the_tests_are_what_they_are_meant_to_be() -> None:
    assert item(FEED[FORKED_AT - 1]).previous == item(BRANCH[0]).previous
    assert item(FEED[FORKED_AT - 1]).id != item(BRANCH[0]).id
    assert FEED[0].author == BRANCH[0].author == WRITER.ref


def test_a_reissued_lli_that_may_go_nowhere_wakes_nobody() -> None:
    """Its hop limit lets it reach this node's application, and no further; then that application ends."""
    relay = Relay(route=False)
    relay.core.faces.clear()
    relay.core.add_face(UP, local=True)
    for face in (A, C):
        relay.core.add_face(face)
    relay.core.fib.add(LOGS, UP, 0)
    relay.core.fib.add(LOGS, C, 10)
    relay.lli(A, 1, 8, hop_limit=1)
    relay.give(UP, idle(0, 8))
    while not relay.wait(MS):  # until it probes
        pass
    relay.give(UP, idle(0, 8))
    relay.lli(A, 1, 8, hop_limit=1, fresh=True)
    relay.core.remove_face(UP, relay.now)
    relay.out()
    end = relay.now + 5_000 * MS
    wakes = 0
    while (deadline := relay.core.next_deadline()) is not None and deadline <= end and wakes < 100:
        relay.now = max(relay.now, deadline)
        relay.core.wake(relay.now)
        wakes += 1
    assert wakes < 100
