"""The past of a feed: of whom it is asked, how long, and how much at a time."""

from collections import defaultdict

from base.units import MS
from forwarder.lli.backfill import MAX_ROUNDS, WINDOW, Backfill
from forwarder.lli.estimates import INITIAL_TIMEOUT, Rtt
from forwarder.wire.packet import Data, make_data, parse_data

DATA: dict[int, Data] = {n: parse_data(make_data(b"\x08\x01" + bytes((n,)), b"")) for n in range(1, 101)}


def test_so_much_is_asked_for_at_a_time_and_no_more() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    assert past.want(3, 100, [7, 8], 0) == [(7, seq) for seq in range(3, 3 + WINDOW)]
    assert past.want(3, 100, [7, 8], 0) == []
    past.arrived(3, DATA[3], 7, 10)
    past.arrived(5, DATA[5], 7, 10)
    assert past.held == {3: DATA[3], 5: DATA[5]}
    assert past.want(3, 100, [7, 8], 10) == []
    assert past.want(4, 100, [7, 8], 10) == [(7, 3 + WINDOW)]
    assert past.held == {5: DATA[5]}
    assert [seq for seq in range(1, 30) if past.wants(seq)] == [4, *range(6, 4 + WINDOW)]


def test_what_nobody_waits_for_any_more_is_let_go() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 8, [7], 0)
    past.arrived(2, DATA[2], 7, 10)
    assert past.want(4, 5, [7], 10) == []
    assert past.held == {}
    assert [seq for seq in range(1, 30) if past.wants(seq)] == [4, 5]


def test_what_does_not_come_is_asked_of_the_next_hop_in_turn_and_the_one_that_answers_again() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 2, [7, 8, 9], 0)
    assert past.deadline == INITIAL_TIMEOUT
    assert past.wake([7, 8, 9], INITIAL_TIMEOUT - 1) == []
    assert past.wake([7, 8, 9], INITIAL_TIMEOUT) == [(8, 1), (8, 2)]
    past.arrived(1, DATA[1], 8, INITIAL_TIMEOUT + 10 * MS)
    past.arrived(2, DATA[2], 8, INITIAL_TIMEOUT + 10 * MS)
    assert past.want(3, 4, [7, 8, 9], INITIAL_TIMEOUT + 20 * MS) == [(8, 3), (8, 4)]


def test_a_refusal_sends_it_elsewhere_at_once() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 1, [7, 8], 0)
    past.refused(5, 10)  # of something else
    assert past.deadline == INITIAL_TIMEOUT
    past.refused(1, 10)
    assert past.deadline == 10
    assert past.wake([7, 8], 10) == [(8, 1)]


def test_the_time_out_follows_the_round_trip_of_what_was_asked_once() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 1, [7], 0)
    past.arrived(1, DATA[1], 7, 40 * MS)
    past.want(2, 2, [7], 100 * MS)
    assert past.deadline == (100 + 40 + 4 * 20) * MS


def test_an_item_asked_for_twice_of_one_hop_tells_no_round_trip() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 1, [7], 0)
    now = past.deadline
    assert now is not None
    past.wake([7], now)
    past.arrived(1, DATA[1], 7, now + 1)
    past.want(2, 2, [7], now + 1)
    assert past.deadline == now + 1 + INITIAL_TIMEOUT


def test_a_late_answer_of_the_hop_before_tells_no_round_trip_of_the_next() -> None:
    rtts: defaultdict[int, Rtt] = defaultdict(Rtt)
    past = Backfill(rtts.__getitem__)
    past.want(1, 1, [7, 8], 0)
    past.wake([7, 8], INITIAL_TIMEOUT)
    past.arrived(1, DATA[1], 7, INITIAL_TIMEOUT + 1)
    assert all(rtt.smoothed is None for rtt in rtts.values())
    assert past.want(2, 2, [7, 8], INITIAL_TIMEOUT + 1) == [(7, 2)]


def test_the_hop_that_had_the_past_last_time_is_asked_first_while_there_is_a_route_to_it() -> None:
    assert Backfill(defaultdict(Rtt).__getitem__, 8).want(1, 1, [7, 8], 0) == [(8, 1)]
    assert Backfill(defaultdict(Rtt).__getitem__, 9).want(1, 1, [7, 8], 0) == [(7, 1)]


def test_an_item_that_no_hop_has_is_lost_after_some_rounds() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    past.want(1, 1, [7, 8], 0)
    asked = [7]
    while not past.is_lost:
        now = past.deadline
        assert now is not None
        asked += [face for face, _ in past.wake([7, 8], now)]
    assert asked[: 2 * MAX_ROUNDS] == [7, 8] * MAX_ROUNDS
    assert len(asked) == 2 * MAX_ROUNDS + 1


def test_without_a_hop_it_waits_for_one() -> None:
    past = Backfill(defaultdict(Rtt).__getitem__)
    assert past.want(1, 1, [], 0) == []
    assert not past.is_lost
    assert past.deadline is None
