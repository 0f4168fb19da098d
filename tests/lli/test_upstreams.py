"""What a relay makes of its next hops: which is its upstream, who else is asked, and what is told of that."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lli_maker import NAME, WRITER, idle, packet
from relay import FIRST_HOP, PRODUCER, SOURCE, UP, A, B, C, Relay, subscribed, two_ways

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.lli.neighbours import HELLO
from forwarder.lli.upstream import IDLE_PROBE, MAX_TRIES, State
from forwarder.lli.upstreams import FIRST_SEARCH, GRACE, SCOUTING, WAITING
from forwarder.wire.evidence import MOST_HOPS, MOST_LEAP, Evidence, proven_text
from forwarder.wire.feed import item_name
from forwarder.wire.hello import Hello, Standing, make_hello, reference
from forwarder.wire.lp import CONGESTION, DUPLICATE, parse_lp
from forwarder.wire.packet import make_interest, parse_interest
from ssb_over_ndn.naming import LOGS

S = 1_000 * MS


def signed(number: int, hops: int = 0) -> Evidence:
    return Evidence(number, hops, True, WRITER.sign(proven_text(NAME, number)))


def fed(evidence: Evidence = SOURCE) -> Relay:
    """Two ways, of which the cheaper one has a source."""
    relay = two_ways()
    relay.source(UP, evidence, limit=8)
    assert relay.entry().is_fed
    return relay


# The search.


def test_the_best_next_hop_is_asked_alone_at_first_and_then_all() -> None:
    relay = two_ways()
    assert relay.wait(FIRST_SEARCH - 1) == []
    assert relay.wait(1) == ["1 lli 1+8", "4 lli 1+1"]
    assert relay.entry().face == UP
    assert list(relay.entry().scouts) == [C]


def test_a_scout_is_asked_for_one_item_and_for_the_next_when_that_has_come() -> None:
    relay = two_ways()
    relay.wait(FIRST_SEARCH)
    assert relay.item(1) == ["2 item 1 tip 1 limit 8", "4 lli 2+1"]


def test_whoever_has_a_source_first_becomes_the_upstream_and_the_others_are_told() -> None:
    relay = two_ways()
    relay.wait(FIRST_SEARCH)
    assert relay.source(C, limit=1) == ["1 lli 1+0", "4 lli 2+7"]
    assert (relay.entry().face, relay.entry().is_fed, relay.entry().scouts) == (C, True, {})
    assert relay.entry().evidence == FIRST_HOP
    assert relay.idle == ["2 idle tip 0 limit 8"]
    assert relay.offers == [(A, FIRST_HOP)]


def test_the_evidence_of_an_item_counts_like_that_of_a_state() -> None:
    relay = two_ways()
    relay.give(UP, idle(0, 8))
    assert not relay.entry().is_fed
    relay.source(UP, Evidence(4, 2))
    assert relay.entry().evidence == Evidence(4, 3)


def test_without_a_source_downstreams_are_told_once_and_wait() -> None:
    relay = Relay(route=False)
    assert relay.lli(A, 1, 8, lifetime_ms=60_000) == []
    assert relay.idle == []
    relay.wait(WAITING - 1)
    assert relay.counters["waits"] == 0
    relay.wait(1)
    assert relay.counters["waits"] == 1
    relay.lli(A, 1, 8, lifetime_ms=60_000)
    assert (relay.idle, relay.offers) == (["2 idle tip 0 limit 8"], [(A, None)])
    assert relay.entry().is_waiting
    assert relay.wait(40 * S) == []
    assert relay.counters["waits"] == 1
    assert A in relay.entry().ranges


def test_a_route_that_appears_is_asked_at_once() -> None:
    relay = Relay(route=False)
    relay.lli(A, 1, 8, lifetime_ms=60_000)
    relay.wait(10 * S)
    relay.core.fib.add(LOGS, UP)
    assert relay.wait(0) == ["1 lli 1+8"]
    relay.source(UP, limit=8)
    assert relay.offers == [(A, FIRST_HOP)]
    assert not relay.entry().is_waiting
    assert relay.item(1) == ["2 item 1 tip 1 limit 8"]


def test_an_answer_without_a_source_does_not_end_the_search() -> None:
    relay = two_ways()
    relay.source(UP, None, limit=8)
    assert not relay.entry().is_fed
    assert relay.wait(FIRST_SEARCH) == ["4 lli 1+1"]
    relay.source(C, None, limit=1)
    relay.wait(WAITING)
    assert relay.offers == []
    assert relay.entry().is_waiting


# Only better evidence is taken.


@pytest.mark.parametrize(
    ("offered", "is_taken"),
    [
        (Evidence(3, 1), True),  # its own is (3, 3) then
        (Evidence(3, 2), True),
        (Evidence(3, 3), False),
        (Evidence(3, 4), False),
        (Evidence(2, 0), False),
        (Evidence(4, 9), True),
        (None, False),
    ],
)
def test_only_better_evidence_makes_an_upstream(offered: Evidence | None, is_taken: bool) -> None:
    relay = fed(Evidence(3, 2))
    relay.source(UP, None, limit=8)
    assert relay.entry().evidence == Evidence(3, 3)
    relay.source(C, offered, limit=1)
    assert relay.entry().is_fed == is_taken
    assert (relay.entry().face == C) == is_taken


def test_what_is_of_no_use_is_said_to_be() -> None:
    """A hop that offers no better evidence is sent what it must beat: it asks its own upstream."""
    relay = fed(Evidence(3, 2))
    relay.source(UP, None, limit=8)
    assert (C, Evidence(3, 3)) in relay.known
    assert (A, Evidence(3, 3)) not in relay.offers
    relay.entry().scouts[C].known_sent = None
    assert relay.source(C, Evidence(3, 3), limit=1) == ["4 lli 1+1"]
    assert relay.known == [(C, Evidence(3, 3))]
    assert relay.source(C, Evidence(3, 3), limit=1) == [], "it has been"


def test_own_evidence_never_gets_worse() -> None:
    relay = fed(Evidence(3, 2))
    relay.source(UP, Evidence(3, 9))
    assert relay.entry().evidence == Evidence(3, 3)
    relay.source(UP, Evidence(2, 0))
    assert relay.entry().evidence == Evidence(3, 3)
    relay.source(UP, Evidence(3, 1))
    assert relay.entry().evidence == Evidence(3, 2)
    relay.core.remove_face(UP, relay.now)
    relay.lli(A, 1, 0)
    relay.out()
    relay.lli(A, 1, 8)
    assert relay.entry().evidence == Evidence(3, 2), "an entry that follows soon remembers it"


def test_evidence_from_too_far_away_is_none() -> None:
    relay = two_ways()
    relay.source(UP, Evidence(1, MOST_HOPS), limit=8)
    assert not relay.entry().is_fed
    relay.source(UP, Evidence(1, MOST_HOPS - 1), limit=8)
    assert relay.entry().evidence == Evidence(1, MOST_HOPS)


def test_what_comes_from_elsewhere_is_ignored() -> None:
    relay = two_ways()
    relay.source(B, Evidence(9, 0), limit=8)
    assert relay.entry().evidence is None


def test_a_downstream_is_offered_what_there_is_and_judges_for_itself() -> None:
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(3, 4))
    assert relay.offers == [(B, Evidence(3, 3))]
    relay.lli(B, 1, 8, known=Evidence(3, 3))
    assert relay.offers == [(B, Evidence(3, 3))]


# Demands.


def test_who_needs_newer_evidence_than_its_upstream_has_asks_the_source() -> None:
    """A request with (number, 0) goes up hop by hop: only a source can answer."""
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(3, 3))
    assert relay.known[-1] == (UP, Evidence(3, 0))
    assert relay.counters["demands"] == 1
    relay.source(UP, Evidence(4, 2), limit=8)
    assert relay.entry().evidence == Evidence(4, 3)
    assert (B, Evidence(4, 3)) in relay.offers
    assert relay.entry().demanded is None


def test_a_demand_is_repeated_ever_more_slowly_until_it_is_met() -> None:
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(3, 3), lifetime_ms=60_000)
    times = []
    for _ in range(2000):
        before = relay.counters["demands"]
        relay.wait(10 * MS)
        if relay.counters["demands"] > before:
            times.append(relay.now)
    assert 4 <= len(times) <= 9
    pauses = [b - a for a, b in pairwise(times)]
    assert pauses == sorted(pauses)
    relay.source(UP, Evidence(4, 2), limit=8)
    met = relay.counters["demands"]
    relay.wait(20 * S)
    assert relay.counters["demands"] == met


def test_a_demand_for_an_old_number_is_met_here() -> None:
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(2, 0))
    assert relay.offers == [(B, Evidence(3, 3))]
    assert relay.counters["demands"] == 0


def test_a_demand_ends_with_who_has_made_it() -> None:
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(3, 3), lifetime_ms=2_000)
    relay.wait(3 * S)
    made = relay.counters["demands"]
    relay.lli(A, 1, 9)
    assert relay.entry().demanded is None
    relay.wait(5 * S)
    assert relay.counters["demands"] == made


def test_many_who_need_newer_evidence_make_one_demand() -> None:
    relay = fed(Evidence(3, 2))
    relay.lli(B, 1, 8, known=Evidence(3, 3))
    relay.lli(B, 1, 8, known=Evidence(3, 2))
    relay.lli(A, 1, 8, known=Evidence(3, 3))
    assert relay.counters["demands"] == 1


# The source is lost.


def test_when_the_upstream_goes_all_others_are_asked_at_once() -> None:
    relay = fed()
    relay.item(1)
    relay.core.remove_face(UP, relay.now)
    assert relay.out() == ["4 lli 2+7"]
    relay.source(C, Evidence(2, 0), limit=8)
    assert relay.item(2, face=C) == ["2 item 2"]


def test_a_loss_that_lasts_for_less_than_the_grace_is_told_to_nobody() -> None:
    relay = fed()
    relay.core.set_face(UP, False, relay.now)
    relay.out()
    relay.wait(GRACE - MS)
    relay.source(C, Evidence(1, 0), limit=8)
    assert relay.entry().is_fed
    relay.wait(5 * S)
    assert relay.counters["waits"] == 0
    assert relay.idle == []


def test_a_longer_one_is_told_and_taken_back_and_ranges_stay() -> None:
    relay = fed()
    relay.lli(B, 1, 4)
    relay.core.set_face(UP, False, relay.now)
    relay.core.set_face(C, False, relay.now)
    relay.out()
    told = []
    for _ in range(int(GRACE // MS) + 1):
        relay.core.wake(relay.now)
        relay.out()
        told += relay.offers
        relay.now += MS
    assert sorted(told, key=str) == [(A, None), (B, None)]
    assert relay.counters["waits"] == 1
    assert relay.wait(5 * S) == []
    assert (A in relay.entry().ranges, B in relay.entry().ranges) == (True, True)
    relay.core.set_face(UP, True, relay.now)
    assert relay.wait(0) == ["1 lli 1+8"]
    relay.source(UP, SOURCE, limit=8)
    assert sorted(relay.offers, key=str) == [(A, FIRST_HOP), (B, FIRST_HOP)]
    assert relay.item(1) == ["2 item 1 tip 1 limit 8", "3 item 1 tip 1 limit 4"]


def test_an_upstream_that_loses_its_source_is_one_of_many() -> None:
    relay = fed()
    assert relay.source(UP, None, limit=8) == ["4 lli 1+1"]
    assert (relay.entry().is_fed, relay.entry().face) == (False, UP)
    assert relay.source(C, Evidence(2, 3), limit=1) == ["1 lli 1+0", "4 lli 2+7"]


def test_a_search_asks_for_no_longer_than_downstreams_wait() -> None:
    """Those who wait may wait for each other: what they ask must end with the last real subscriber."""
    relay = Relay()
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8, lifetime_ms=5_000)
    relay.wait(2_000 * MS)
    left = [parse_interest(relay.last[face]).lifetime_ms for face in (UP, C)]
    assert all(lifetime <= 5_000 - FIRST_SEARCH // MS for lifetime in left[1:])
    relay.wait(4 * S)
    assert relay.core.pit_entries() == 0
    assert relay.wait(20 * S) == []


PAIR = {(0, UP): (1, UP), (1, UP): (0, UP)}
RING = {(n, UP): ((n + 1) % 3, B) for n in range(3)}
RING_BOTH_WAYS = RING | {there: here for here, there in RING.items()}


@pytest.mark.parametrize("wires", [PAIR, RING_BOTH_WAYS])
def test_those_that_ask_each_other_end_with_the_last_subscriber(
    wires: dict[tuple[int, int], tuple[int, int]],
) -> None:
    """Each has the next one for next hop, and nobody has the feed."""
    nodes = [Forwarder(rng=Random(n)) for n in {n for n, _ in wires}]
    for node in nodes:
        node.add_face(UP)
        node.add_face(A)
        node.add_face(B)
        node.fib.add(LOGS, UP)
    lli = make_interest(item_name(NAME, 1), nonce=7, lifetime_ms=10_000, hop_limit=200, send_credit=8)
    nodes[0].receive(A, lli, 0)
    now, frames, told = 0, 0, []
    while now < 60 * S:
        for place, node in enumerate(nodes):
            for face, sent in node.take_outputs():
                if (place, face) in wires:
                    frames += 1
                    there, come_by = wires[place, face]
                    nodes[there].receive(come_by, sent, now)
                else:
                    told.append(parse_lp(sent).evidence)
        dues = [due for node in nodes if (due := node.next_deadline()) is not None]
        if not dues and not any(node._egress._outputs for node in nodes):
            break
        now = max(now, min(dues, default=now))
        for node in nodes:
            node.wake(now)
    assert now <= 11 * S + HELLO
    assert not any(node.pit_entries() for node in nodes)
    assert frames < 60
    assert set(told) <= {None}


# Routes and links.


def test_a_cheaper_hop_is_asked_for_a_second_while_another_is_upstream() -> None:
    relay = Relay(route=False)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8, lifetime_ms=60_000)
    relay.source(C, Evidence(1, 5), limit=8)
    relay.wait(0)
    relay.core.fib.add(LOGS, UP)
    assert relay.wait(0) == ["1 lli 1+1"]
    assert relay.entry().face == C
    relay.wait(SCOUTING - 1)
    assert relay.wait(1) == ["1 lli 1+0"]
    assert relay.entry().face == C


def test_a_cheaper_hop_with_better_evidence_takes_over() -> None:
    relay = Relay(route=False)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8)
    relay.source(C, Evidence(1, 5), limit=8)
    relay.wait(0)
    relay.core.fib.add(LOGS, UP)
    relay.wait(0)
    relay.source(UP, Evidence(1, 6), limit=1)
    assert relay.entry().face == C, "as far away as this node itself"
    assert relay.source(UP, Evidence(1, 5), limit=1) == ["4 lli 1+0", "1 lli 2+7"]
    assert relay.entry().face == UP


def test_a_cheaper_hop_that_hears_of_each_number_later_is_left() -> None:
    relay = Relay(route=False)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.lli(A, 1, 8)
    relay.source(C, Evidence(1, 1), limit=8)
    relay.wait(0)
    relay.core.fib.add(LOGS, UP)
    relay.wait(0)
    relay.source(UP, Evidence(1, 2), limit=1)
    relay.source(C, Evidence(2, 1), limit=8)
    assert relay.source(UP, Evidence(2, 2), limit=1) == ["1 lli 1+1"], "it may not know"
    relay.source(C, Evidence(3, 1), limit=8)
    assert relay.source(UP, Evidence(3, 2), limit=1) == ["1 lli 1+0"]
    assert relay.entry().face == C
    assert relay.entry().scouts == {}


def test_a_dearer_hop_is_not_asked_and_does_not_take_over() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    relay.source(UP, Evidence(1, 5), limit=8)
    relay.wait(0)
    relay.core.fib.add(LOGS, C, cost=10)
    assert relay.wait(0) == []
    relay.source(C, Evidence(2, 0), limit=8)
    assert relay.entry().face == UP


def test_an_upstream_without_a_route_goes_on_while_it_has_a_source() -> None:
    relay = fed()
    relay.core.fib.remove(LOGS, UP)
    assert relay.wait(0) == ["4 lli 1+1"]
    assert relay.entry().face == UP
    assert relay.source(C, Evidence(1, 0), limit=1) == ["1 lli 1+0", "4 lli 2+7"]


# Refusals.


def test_a_refusal_makes_it_ask_the_next_hop() -> None:
    relay = two_ways()
    assert relay.refuse(UP) == ["4 lli 1+8"]
    relay.source(C, limit=8)
    assert relay.item(1, face=C) == ["2 item 1 tip 1 limit 8"]
    assert relay.counters["failovers"] == 1


def test_who_refuses_is_asked_again_after_growing_pauses() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=600_000)
    pauses = []
    for _ in range(8):
        assert relay.refuse(UP) == []
        before = relay.now
        while not (sent := relay.wait(10 * MS)):
            assert relay.now < before + 9 * S
        assert sent == ["1 lli 1+8"]
        pauses.append(relay.now - before)
    longest = [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]
    assert all(
        most * MS // 2 <= pause <= most * MS + 10 * MS for pause, most in zip(pauses, longest, strict=True)
    )
    assert A in relay.entry().ranges, "nobody else is refused for it"


def test_a_source_ends_the_patience_with_refusals() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=600_000)
    for _ in range(5):
        relay.refuse(UP)
        while not relay.wait(10 * MS):
            pass
    relay.source(UP, limit=8)
    relay.refuse(UP)
    before = relay.now
    while not relay.wait(10 * MS):
        pass
    assert relay.now - before <= 260 * MS


def test_an_lli_that_has_been_led_back_is_refused() -> None:
    relay = Relay()
    relay.lli(A, 1, 8)
    nonce = parse_interest(relay.last[UP]).nonce
    assert relay.lli(B, 1, 8, nonce=nonce) == [f"3 nack {DUPLICATE} of lli 1+8"]
    assert relay.counters["loops"] == 1
    assert B not in relay.entry().ranges


def test_the_lli_that_goes_up_is_the_nodes_own() -> None:
    relay = Relay()
    relay.lli(A, 1, 4, lifetime_ms=9000, nonce=77, hop_limit=10)
    interest = parse_interest(relay.last[UP])
    assert (interest.hop_limit, interest.lifetime_ms) == (9, 9000)
    assert interest.nonce != 77


def test_a_search_that_may_go_much_further_is_repeated_at_once() -> None:
    relay = two_ways()
    relay.lli(B, 1, 8, lifetime_ms=3_600_000, hop_limit=2)
    relay.lli(A, 1, 0)
    relay.wait(WAITING)
    relay.give(UP, idle(0, 8))
    relay.give(C, idle(0, 1))
    relay.wait(60 * S)
    assert parse_interest(relay.last[UP]).hop_limit == parse_interest(relay.last[C]).hop_limit == 1
    relay.lli(A, 1, 8, hop_limit=10)
    assert parse_interest(relay.last[UP]).hop_limit == parse_interest(relay.last[C]).hop_limit == 9


def test_nodes_may_ask_each_other() -> None:
    relay = Relay()
    assert relay.lli(UP, 1, 8) == ["1 lli 1+8"]
    assert parse_interest(relay.last[UP]).hop_limit == 9, "it may be a legacy forwarder, before other nodes"
    relay = Relay()
    assert relay.core.feeds is not None
    relay.core.feeds._neighbours.speaks(UP)
    assert relay.lli(UP, 1, 8) == ["1 lli 1+8"]
    assert parse_interest(relay.last[UP]).hop_limit == 1, "for news: it asks by itself already"
    assert relay.lli(A, 1, 8, hop_limit=7) == ["1 lli 1+8"]
    assert parse_interest(relay.last[UP]).hop_limit == 6, "as far as a search goes for others"
    relay = subscribed()
    assert relay.lli(UP, 1, 8, known=SOURCE) == ["1 lli 1+8"], "a demand: it may have lost its source"
    assert relay.offers == [(UP, SOURCE.onward)], "its own evidence, one hop on, which is of no use to it"


# Neighbours that die.


def test_a_dead_neighbour_fails_over_all_feeds_at_once() -> None:
    relay = two_ways()
    feeds = [LOGS + b"\x08\x20" + bytes((n,)) * 32 for n in range(20)]
    for n, feed in enumerate(feeds):
        lli = make_interest(item_name(feed, 1), nonce=900 + n, lifetime_ms=60_000, send_credit=8)
        relay.core.receive(A, lli, relay.now)
        relay.core.receive(UP, idle(0, 8, feed=feed, evidence=SOURCE), relay.now)
    relay.core.receive(UP, idle(0, 8, evidence=SOURCE), relay.now)
    relay.core.take_outputs()
    assert relay.core.feeds is not None
    died = None
    while died is None:
        due = relay.core.next_deadline()
        assert due is not None
        relay.now = max(due, relay.now)
        relay.core.wake(relay.now)
        asked = sum(face == C for face, _ in relay.core.take_outputs())
        if relay.counters["deaths"]:
            died = relay.now
            assert asked >= 21, "all at the same instant"
    assert died <= 2 * HELLO + 8 * S
    assert all(entry.face == C for entry in relay.core.feeds)


def test_the_dead_are_no_next_hops_until_they_speak() -> None:
    relay = fed()
    relay.mute.add(UP)
    while not relay.counters["deaths"]:
        relay.wait(100 * MS)
    assert UP not in dict(relay.entry().holders())
    relay.source(C, Evidence(1, 0), limit=8)
    relay.mute.discard(UP)
    relay.wait(HELLO + S)
    assert (UP, None) not in relay.known
    assert relay.entry().face in (UP, C)
    assert relay.counters["deaths"] == 1


def test_a_standing_that_is_gone_is_asked_for_again() -> None:
    relay = subscribed()
    gone = Hello(states=(Standing(reference(NAME)),))
    assert relay.give(UP, make_hello(gone)) == ["1 lli 1+8"]
    assert relay.entry().is_fed, "a range that is used up says nothing about the source"


def test_a_notice_takes_the_source_and_gives_it_back() -> None:
    relay = subscribed()
    ref = reference(NAME)
    relay.give(UP, make_hello(Hello(1, states=(Standing(ref, 1, 8),))))
    assert not relay.entry().is_fed
    relay.give(UP, make_hello(Hello(2, states=(Standing(ref, 1, 8, Evidence(2, 4)),))))
    assert (relay.entry().is_fed, relay.entry().evidence) == (True, Evidence(2, 5))


def test_an_upstream_that_is_the_only_downstream_may_leave_and_lose_its_source_in_one_hello() -> None:
    relay = fed()
    relay.lli(UP, 1, 8)
    relay.lli(A, 1, 0)
    standing = Standing(reference(NAME), 1, 8)
    relay.give(UP, make_hello(Hello(states=(standing,), is_forgotten=True)))
    assert relay.core.feeds is not None
    assert len(relay.core.feeds) == 0


def test_an_upstream_is_asked_once_whether_it_has_the_past_though_it_finds_a_source_meanwhile() -> None:
    relay = subscribed(max_items=2)
    relay.items(1, 6)
    relay.lli(A, 1, 0)
    assert relay.lli(A, 1, 1) == ["1 lli 1+1", "1 interest 1", "1 lli 7+1"]
    assert relay.source(UP, limit=1) == []
    assert relay.entry().is_fed


def test_another_upstream_is_asked_for_the_past_at_once() -> None:
    relay = subscribed(max_items=2)
    relay.core.fib.add(LOGS, C, cost=10)
    relay.items(1, 6)
    relay.source(UP, None)
    assert "1 lli 2+1" in relay.lli(B, 2, 8)
    assert "4 lli 2+1" in relay.source(C, Evidence(2, 0))
    assert relay.entry().face == C


# Those that cannot push.


def test_the_only_way_is_pulled_from_if_it_says_nothing() -> None:
    relay = Relay()
    relay.lli(A, 1, 8, lifetime_ms=60_000)
    sent = relay.wait(6 * S)
    assert sent[:MAX_TRIES] == ["1 lli 1+8"] * MAX_TRIES
    assert sent[-1] == "1 lli 1+1"
    assert relay.entry().upstream.state is State.PULLING
    assert relay.give(UP, packet(1)) == ["2 item 1 tip 1 limit 8", *(f"1 lli {n}+1" for n in range(2, 9))]


def test_of_two_that_say_nothing_each_is_pulled_from_in_turn() -> None:
    relay = two_ways()
    relay.lli(A, 1, 8, lifetime_ms=120_000)
    sent = relay.wait(60 * S)
    pulled = [line for line in sent if line.endswith("lli 1+1")]
    assert {line[0] for line in pulled[5:]} == {"1", "4"}


def test_one_that_speaks_is_better_than_one_that_may_be_legacy() -> None:
    relay = two_ways()
    relay.lli(A, 1, 8, lifetime_ms=60_000)
    while relay.entry().face != C:
        relay.wait(100 * MS)
    assert relay.entry().upstream.state is State.PULLING
    relay.source(C, limit=8)
    assert (relay.entry().face, relay.entry().is_fed) == (C, True)


# Numbers that are signed.


def test_a_signed_number_is_checked_and_passed_on_with_its_proof() -> None:
    relay = two_ways()
    relay.source(UP, signed(5, 1), limit=8)
    assert relay.entry().evidence == signed(5, 2)
    assert relay.offers == [(A, signed(5, 2))]
    relay.lli(B, 1, 8, known=Evidence(5, 9))
    assert relay.offers == [(B, signed(5, 2))], "it holds a number that somebody made up"
    relay.lli(B, 1, 8, known=Evidence(5, 9, True))
    assert relay.offers == [(B, Evidence(5, 2, True))], "it has the proof"


def test_a_number_without_its_proof_is_never_taken_for_one_that_is_not_signed() -> None:
    """A neighbour leaves out the proof if it takes this node for what it was before a restart."""
    relay = two_ways()
    sent = relay.source(UP, Evidence(5, 1, True), limit=8)
    assert sent == ["1 lli 1+8"], "it asks for the proof"
    assert (relay.entry().is_fed, relay.entry().evidence) == (False, None)
    relay.source(UP, signed(5, 1), limit=8)
    assert (relay.entry().is_fed, relay.entry().evidence) == (True, signed(5, 2))
    relay.source(UP, Evidence(6, 1, True), limit=8)
    assert (relay.entry().is_fed, relay.entry().evidence) == (True, signed(5, 2)), "nobody took anything back"


def test_a_proof_is_asked_for_once_a_round_trip() -> None:
    relay = two_ways()
    sent = [relay.source(UP, Evidence(5, 1, True), limit=8) for _ in range(50)]
    assert sent == [["1 lli 1+8"], *[[]] * 49]
    relay.wait(1_000 * MS)
    assert relay.source(UP, Evidence(5, 1, True), limit=8) == ["1 lli 1+8"]


def test_a_demand_is_signed_as_the_node_s_own_evidence() -> None:
    """A source with the key beats each unsigned number, and would not issue a newer one."""
    relay = fed(signed(5))
    relay.lli(B, 1, 8, known=Evidence(7, 3, True))
    assert relay.known[-1] == (UP, Evidence(7, 0, True))
    relay.lli(B, 1, 8, known=Evidence(9, 3))
    assert (UP, Evidence(9, 0)) not in relay.known


def test_that_a_number_is_signed_by_now_is_news() -> None:
    """Nodes beyond the downstream may know a signed number, and believe no other."""
    relay = two_ways()
    relay.source(UP, Evidence(1, 0), limit=8)
    relay.source(UP, None, limit=8)
    relay.source(C, signed(1), limit=8)
    assert relay.entry().evidence == signed(1, 1)
    assert relay.offers == [(A, signed(1, 1))]


def test_a_number_that_anybody_can_make_up_is_not_proven_by_the_same_number_signed() -> None:
    relay = fed(signed(5, 4))
    relay.source(UP, Evidence(5, 1), limit=8)
    assert relay.entry().evidence == signed(5, 5)
    assert not relay.entry().is_fed


def test_a_forged_proof_is_not_believed() -> None:
    relay = two_ways()
    for evidence in (
        Evidence(5, 0, True, bytes(64)),
        signed(5)._replace(number=6),
        Evidence(5, 0, True, WRITER.sign(proven_text(NAME + b"x", 5))),
    ):
        relay.source(UP, evidence, limit=8)
        assert not relay.entry().is_fed
    assert relay.counters["rejected_evidence"] == 3


def test_once_a_number_was_signed_unsigned_ones_are_not_believed() -> None:
    relay = fed(signed(5))
    for evidence in (Evidence(6, 0), Evidence(1 << 40, 0), Evidence(6, 0, True, bytes(64))):
        relay.source(UP, evidence, limit=8)
        assert relay.entry().evidence == signed(5, 1)
        assert not relay.entry().is_fed, "who lies is no upstream"
        relay.source(UP, signed(5)._replace(proof=b""), limit=8)
        assert relay.entry().is_fed, "the same number needs no proof"
    relay.source(UP, signed(6), limit=8)
    assert relay.entry().evidence == signed(6, 1)


def test_a_proof_for_an_old_number_is_not_even_checked() -> None:
    relay = fed(signed(5, 2))
    relay.source(UP, Evidence(4, 1, True, bytes(64)), limit=8)
    assert relay.entry().evidence == signed(5, 3)
    assert relay.counters["rejected_evidence"] == 0


def test_a_signed_number_beats_what_anybody_can_make_up() -> None:
    relay = two_ways()
    relay.source(UP, Evidence(1 << 62, 0), limit=8)
    assert relay.entry().evidence == Evidence(1 << 62, 1)
    relay.source(UP, signed(5, 2), limit=8)
    assert relay.entry().evidence == signed(5, 3)
    assert relay.entry().is_fed


def test_a_node_turns_from_a_liar_to_who_has_a_signed_number() -> None:
    relay = two_ways()
    relay.wait(FIRST_SEARCH)
    relay.source(UP, Evidence(1 << 62, 0), limit=8)
    relay.source(UP, None, limit=8)
    relay.source(C, signed(5, 2), limit=8)
    assert relay.entry().face == C
    assert relay.entry().evidence == signed(5, 3)


def test_a_leap_is_not_believed() -> None:
    relay = fed(Evidence(5, 0))
    relay.source(UP, Evidence(6 + MOST_LEAP, 0), limit=8)
    assert relay.counters["rejected_evidence"] == 1
    assert not relay.entry().is_fed
    relay.source(UP, Evidence(5 + MOST_LEAP, 0), limit=8)
    assert relay.entry().evidence == Evidence(5 + MOST_LEAP, 1)


def test_a_proof_in_a_notice_counts() -> None:
    relay = fed(signed(5))
    standing = Standing(reference(NAME), 1, 8, signed(6))
    relay.give(UP, make_hello(Hello(1, states=(standing,))))
    assert relay.entry().evidence == signed(6, 1)


# A local source.


def test_an_application_is_an_upstream_like_others() -> None:
    relay = Relay(route=False)
    relay.core.add_face(PRODUCER, local=True)
    relay.core.fib.add(LOGS, PRODUCER)
    relay.lli(A, 1, 8, hop_limit=1)
    relay.source(PRODUCER, SOURCE, limit=8)
    assert relay.offers == [(A, FIRST_HOP)]
    assert relay.hellos == []
    relay.wait(IDLE_PROBE)
    assert relay.entry().is_fed


# Quotas.


def test_a_stranger_without_credit_makes_no_entry() -> None:
    relay = Relay()
    assert relay.lli(A, 1, 0) == []
    assert relay.core.pit_entries() == 0


def test_a_refusal_for_want_of_room_reaches_the_one_who_has_asked() -> None:
    relay = Relay(max_feeds=0)
    assert relay.lli(A, 1, 8) == [f"2 nack {CONGESTION} of lli 1+8"]


# Many nodes.


@settings(max_examples=60)
@given(
    links=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=5, max_size=12),
    steps=st.lists(
        st.tuples(st.integers(0, 11), st.booleans(), st.integers(0, 400)), min_size=1, max_size=12
    ),
    seed=st.integers(0, 1 << 20),
)
def test_the_upstreams_of_a_feed_never_form_a_cycle(
    links: list[tuple[int, int]], steps: list[tuple[int, bool, int]], seed: int
) -> None:
    """Six forwarders, all links next hops both ways, a publisher at 0; links go down and come up."""
    rng = Random(seed)
    nodes = [Forwarder(rng=Random(seed + n)) for n in range(6)]
    ends: dict[tuple[int, int], tuple[int, int]] = {}  # (node, face) -> the other end
    for place, (x, y) in enumerate(links):
        if x == y:
            continue
        for node, other in ((x, y), (y, x)):
            nodes[node].add_face(10 + place)
            nodes[node].fib.add(LOGS, 10 + place, cost=rng.randrange(3))
            ends[node, 10 + place] = (other, 10 + place)
    for n, node in enumerate(nodes):
        node.add_face(A, local=True)
        lli = make_interest(item_name(NAME, 1), nonce=50 + n, lifetime_ms=30_000, hop_limit=20, send_credit=8)
        node.receive(A, lli, 0)
    nodes[0].add_face(PRODUCER, local=True)
    nodes[0].fib.add(LOGS, PRODUCER)
    number = 1
    queue: list[tuple[int, int, int, int, bytes]] = []
    now, order = 0, 0

    def check() -> None:
        up: dict[int, int] = {}
        for n, node in enumerate(nodes):
            for entry in node.feeds or ():
                if entry.is_fed and entry.face is not None and (n, entry.face) in ends:
                    up[n] = ends[n, entry.face][0]
        for n, next_ in up.items():
            seen, at = {n}, next_
            while at in up:
                assert at not in seen, f"a cycle through {seen}"
                seen.add(at)
                at = up[at]

    def run(until: int) -> None:
        nonlocal now, order, number
        while True:
            for n, node in enumerate(nodes):
                for face, sent in node.take_outputs():
                    order += 1
                    if (n, face) in ends:
                        if node.faces[face].is_up and rng.random() < 0.9:
                            other, back = ends[n, face]
                            queue.append((now + rng.randrange(1, 60) * MS, order, other, back, sent))
                    elif face == PRODUCER:
                        header = parse_lp(sent)
                        lli = parse_interest(header.fragment)
                        if lli.known is not None and lli.known.number >= number:
                            number = lli.known.number + 1
                        if lli.send_credit:
                            answer = idle(0, 8, evidence=Evidence(number, 0))
                            queue.append((now + MS, order, 0, PRODUCER, answer))
            dues = [due for node in nodes if (due := node.next_deadline()) is not None]
            dues += [when for when, *_ in queue]
            if not dues or min(dues) > until:
                now = until
                return
            now = max(now, min(dues))
            queue.sort()
            while queue and queue[0][0] <= now:
                _, _, node_, face, sent = queue.pop(0)
                if nodes[node_].faces[face].is_up:
                    nodes[node_].receive(face, sent, now)
                    check()
            for node in nodes:
                due = node.next_deadline()
                if due is not None and due <= now:
                    node.wake(now)
                    check()

    run(300 * MS)
    for place, up, wait in steps:
        for n, face in ends:
            if face == 10 + place:
                nodes[n].set_face(face, up, now)
        check()
        run(now + wait * MS)
    run(now + 2 * S)
