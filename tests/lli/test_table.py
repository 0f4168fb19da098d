"""Feeds in a forwarder, by hand; what a relay makes of its next hops is in test_upstreams.py."""

from random import Random

import pytest
from lli_maker import (
    BRANCH,
    FEED,
    FORKED_AT,
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
)
from relay import FIRST_HOP, PRODUCER, SOURCE, UP, A, B, C, Relay, subscribed, two_ways

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.lli.backfill import WINDOW
from forwarder.lli.upstream import PULL_WINDOW, Recovery, State
from forwarder.wire.feed import LAST_ITEM, feed_name, item_name
from forwarder.wire.lp import CONGESTION, NO_ROUTE, make_lp, parse_lp
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from ssb_over_ndn.naming import LOGS

# One upstream, many downstreams.


def test_the_first_lli_goes_up_and_items_come_down() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    relay.source(UP, limit=4)
    assert relay.idle == ["2 idle tip 0 limit 4"]
    assert relay.item(1) == ["2 item 1 tip 1 limit 4"]
    assert relay.item(2) == ["2 item 2"]


def test_downstreams_are_aggregated_into_one_upstream_range() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4) == ["1 lli 1+4"]
    assert relay.lli(B, 1, 4) == []
    relay.source(UP, limit=4)
    assert relay.idle == ["2 idle tip 0 limit 4", "3 idle tip 0 limit 4"]
    assert relay.item(1) == ["2 item 1 tip 1 limit 4", "3 item 1 tip 1 limit 4"]
    assert relay.lli(B, 5, 4) == ["1 lli 5+4"]
    assert relay.lli(A, 5, 4) == []
    assert relay.core.pit_entries() == 1
    assert relay.core.pit_bytes() == len(NAME) + 3 * 28


def test_an_item_is_not_sent_back_to_the_neighbour_that_brought_it() -> None:
    relay = subscribed()
    relay.lli(B, 1, 8)
    assert relay.give(A, packet(1)) == ["3 item 1 tip 1 limit 8"]


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


def test_what_is_under_way_grows_up_to_a_bound() -> None:
    """While nothing has to wait here, twice as much each time that all has come."""
    relay = subscribed(1 << 20, max_items=8)
    limits = []
    for seq in range(1, 41):
        relay.item(seq)
        limits.append(relay.entry().upstream.limit - seq)
    assert max(limits) == 32
    relay.entry().reach, relay.entry().reach_end = 8000, 40
    relay.item(41)
    assert relay.entry().upstream.limit == 41 + 8192


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
    relay.lli(C, LAST_ITEM, LAST_ITEM)
    assert relay.entry().upstream.limit == 256, "no more than the cache holds"


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


def stranger(n: int, nonce: int = 9) -> bytes:
    """An LLI for another feed."""
    feed = feed_name(LOGS, n.to_bytes(32, "big"))
    return make_interest(item_name(feed, 1), nonce=nonce, lifetime_ms=60_000, hop_limit=9, send_credit=4)


def test_one_neighbour_follows_512_feeds_at_most_so_that_some_are_left_for_others() -> None:
    relay = Relay(max_feeds=2000)
    for n in range(512):
        relay.core.receive(A, stranger(n), 0)
    relay.core.take_outputs()
    relay.core.receive(A, stranger(600), 0)
    ((face, refusal),) = relay.core.take_outputs()
    assert (face, parse_lp(refusal).nack_reason) == (A, CONGESTION)
    relay.core.receive(B, stranger(5), 0)
    relay.core.receive(A, stranger(5, nonce=10), 0)
    assert relay.counters["nacks_out"] == 1, "who follows a feed may renew"
    relay.core.receive(B, stranger(700), 0)
    relay.core.receive(A, stranger(700), 0)
    assert relay.counters["nacks_out"] == 2, "nor does it join those of others"
    relay.core.add_face(PRODUCER, local=True)
    for n in range(1000, 1600):
        relay.core.receive(PRODUCER, stranger(n), 0)
    assert relay.counters["nacks_out"] == 2, "this node's own applications do"


def test_what_is_remembered_of_feeds_that_have_ended_is_bounded() -> None:
    relay = Relay(max_feeds=4)
    assert relay.core.feeds is not None
    for n in range(50):
        relay.core.receive(A, stranger(n), n)
        feed = feed_name(LOGS, n.to_bytes(32, "big"))
        cancel = make_interest(item_name(feed, 1), nonce=n, lifetime_ms=1, send_credit=0)
        relay.core.receive(A, cancel, n)
        assert len(relay.core.feeds._left) <= 4
    assert relay.core.pit_entries() == 0


def test_evidence_is_remembered_for_a_while_after_the_last_has_gone() -> None:
    for pause, remembered in ((15_999 * MS, FIRST_HOP), (16_000 * MS, None)):
        relay = subscribed()
        relay.lli(A, 1, 0)
        relay.now += pause
        relay.lli(A, 1, 8)
        assert relay.entry().evidence == remembered


def test_so_many_own_llis_are_known_when_they_are_led_back() -> None:
    relay = subscribed()
    for nonce in range(50):
        relay.entry().sends(nonce)
    assert [nonce for nonce in range(50) if relay.entry().has_sent(nonce)] == list(range(2, 50))


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
    relay.wait(0)  # the route is news
    before = relay.core.next_deadline()
    relay.give(B, idle(5, 8))
    relay.give(UP, idle(5, 8, feed=feed_name(LOGS, bytes(32))))
    assert relay.core.next_deadline() == before
    assert relay.counters["states_in"] == 1
    relay.source(UP, tip=5, limit=8)
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


def test_a_hop_limit_ends_the_way_of_an_lli() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 4, hop_limit=1) == []
    relay.now = 1
    assert relay.lli(B, 1, 6) == ["1 lli 1+6"]
    assert parse_interest(relay.last[UP]).hop_limit == 9


def test_a_refusal_of_something_else_is_ignored() -> None:
    relay = two_ways()
    stranger = make_interest(item_name(NAME, 1), nonce=12345, send_credit=8)
    assert relay.give(UP, make_lp(stranger, nack_reason=NO_ROUTE)) == []
    assert relay.give(B, make_lp(relay.last[UP], nack_reason=NO_ROUTE)) == []
    assert relay.counters["nacks_in"] == 0


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


def test_a_repetition_goes_to_the_upstream_too_as_the_interest_may_be_what_was_lost() -> None:
    relay = subscribed(recovery=Recovery.SELECTIVE)
    relay.core.fib.add(LOGS, B, cost=10)
    relay.core.fib.add(LOGS, C, cost=20)
    relay.item(1)
    relay.items(3, 4)
    assert relay.classic(A, 2) == ["1 interest 2"]
    for other in (B, C, B):
        relay.now += 300 * MS
        assert relay.classic(A, 2) == ["1 interest 2", f"{other} interest 2"]


@pytest.mark.parametrize("is_early", [False, True])
def test_a_rewind_goes_to_the_same_item_again_when_its_range_has_come(is_early: bool) -> None:
    relay = Relay(max_items=4)
    assert relay.lli(A, 21, 4) == ["1 lli 21+4"]
    relay.now += 10 * MS
    relay.source(UP, limit=24)
    assert relay.lli(B, 1, 2) == ["1 lli 1+4"]
    relay.now += 10 * MS
    assert relay.items(1, 3) == ["3 item 1 tip 1 limit 2", "3 item 2", "1 lli 21+4"]
    if is_early:
        assert relay.lli(B, 3, 2) == []  # more of the range is under way
        assert "1 lli 3+1" in relay.item(4)  # which shows that item 3 exists
    else:
        assert relay.item(4) == []
        assert "1 lli 3+4" in relay.lli(B, 3, 2)


@pytest.mark.parametrize("recovery", list(Recovery)[:3])
def test_a_lost_tail_that_the_upstream_has_told_of_is_asked_for(recovery: Recovery) -> None:
    relay = subscribed(recovery=recovery)
    relay.give(UP, idle(2, 8))
    asked = relay.wait(250 * MS)
    assert asked[:1] == ["1 lli 1+8"]


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
    assert relay.give(C, packet(6))[:3] == ["3 item 6 tip 8 limit 13", "3 item 7 tip 8 limit 13", "3 item 8"]


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
    sent = relay.wait(10_000 * MS)
    assert [line for line in sent if line.startswith("3 item")] == ["3 item 7 tip 8 limit 11", "3 item 8"]
    relay.source(UP, tip=8, limit=1000)
    assert relay.item(9)[:2] == ["2 item 9 tip 9 limit 16", "3 item 9"]


def test_an_upstream_that_would_say_that_an_item_is_gone_is_asked_until_it_does() -> None:
    relay = subscribed(8, max_items=2)
    relay.items(1, 8)
    relay.lli(A, 9, 8, lifetime_ms=90_000)
    relay.lli(B, 2, 10, lifetime_ms=90_000)
    for _ in range(100):
        relay.wait(100 * MS)
        relay.source(UP, tip=8, limit=1000)
    assert not any("first" in line for line in relay.idle)
    sent = relay.give(UP, idle(8, 1000, first=7, evidence=SOURCE))
    assert any("first 7" in line for line in relay.idle)
    assert [line for line in sent if line.startswith("3 item")] == ["3 item 7 tip 8 limit 11", "3 item 8"]


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
    relay.give(UP, idle(24, 30, first=20, evidence=SOURCE))
    assert any(line.startswith("2 idle ") and line.endswith(" first 20") for line in relay.idle)


def test_what_is_gone_is_remembered_for_a_while_after_the_last_downstream() -> None:
    """An application that reads on behind a gap, or begins again, does not set off the whole search again."""
    relay = Relay()
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 30, lifetime_ms=90_000)
    relay.give(UP, idle(24, 30, first=20, evidence=SOURCE))
    relay.wait(20_000 * MS)
    assert relay.entry().gone == (1, 19)
    relay.lli(A, 20, 0)
    assert relay.core.pit_entries() == 0
    relay.lli(A, 1, 30, lifetime_ms=90_000)
    sent = relay.give(UP, idle(24, 30, first=20, evidence=SOURCE)) + relay.wait(20_000 * MS)
    assert {line for line in sent if "interest" in line} == {"4 interest 1"}


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
    relay.lli(A, 1, 8, hop_limit=1)
    relay.core.remove_face(UP, relay.now)
    relay.out()
    end = relay.now + 5_000 * MS
    wakes = 0
    while (deadline := relay.core.next_deadline()) is not None and deadline <= end and wakes < 100:
        relay.now = max(relay.now, deadline)
        relay.core.wake(relay.now)
        wakes += 1
    assert wakes < 100
