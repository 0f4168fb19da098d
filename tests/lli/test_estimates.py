"""Round-trip times and windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS
from forwarder.lli.estimates import INITIAL_TIMEOUT, MAX_TIMEOUT, MIN_TIMEOUT, Rtt, Window

SEGMENT = Window.SEGMENT


def test_before_a_measurement_there_is_a_guess() -> None:
    rtt = Rtt()
    assert rtt.smoothed is None
    assert [rtt.timeout(tries) for tries in range(4)] == [INITIAL_TIMEOUT << n for n in range(4)]
    assert rtt.timeout(100) == MAX_TIMEOUT


def test_the_estimator_is_that_of_rfc_6298() -> None:
    rtt = Rtt()
    rtt.sample(100 * MS)
    assert (rtt.smoothed, rtt.timeout()) == (100 * MS, 300 * MS)
    rtt.sample(60 * MS)
    # RTTVAR = 3/4 * 50 + 1/4 * |100 - 60|, SRTT = 7/8 * 100 + 1/8 * 60
    assert (rtt.smoothed, rtt.timeout()) == (95 * MS, (95 + 4 * 47.5) * MS)
    assert rtt.timeout(1) == 2 * rtt.timeout()


def test_a_short_path_is_given_some_time_all_the_same() -> None:
    rtt = Rtt()
    for _ in range(20):
        rtt.sample(MS)
    assert rtt.timeout() == MIN_TIMEOUT
    assert rtt.timeout(2) == 4 * MIN_TIMEOUT


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=50), st.integers(0, 40))
def test_the_time_out_stays_in_its_bounds_and_above_the_round_trip(trips: list[int], tries: int) -> None:
    rtt = Rtt()
    for trip in trips:
        rtt.sample(trip * MS)
        assert rtt.smoothed is not None
        assert MIN_TIMEOUT <= rtt.timeout(tries) <= MAX_TIMEOUT
        assert rtt.timeout(tries) >= min(rtt.smoothed, MAX_TIMEOUT)
        assert rtt.timeout(tries) <= rtt.timeout(tries + 1)
        assert min(trips) * MS - 8 <= rtt.smoothed <= max(trips) * MS


@given(st.integers(1, 500))
def test_a_steady_path_is_known_well_after_a_while(trip: int) -> None:
    rtt = Rtt()
    for _ in range(60):
        rtt.sample(trip * MS)
    assert trip * MS <= rtt.timeout() <= max(trip * MS * 1.1, MIN_TIMEOUT)


def steady(trip: int) -> Rtt:
    rtt = Rtt()
    for _ in range(60):
        rtt.sample(trip)
    return rtt


def test_answers_that_only_come_after_the_time_out_lengthen_it() -> None:
    rtt, trip = steady(100 * MS), 350 * MS
    before, asked = rtt.timeout(), 0
    while rtt.timeout() < trip and asked < 10:
        again = rtt.timeout()  # after the first time of asking, to which the answer belongs
        rtt.sample_ambiguous(trip - again)
        asked += 1
    assert (rtt.timeout(), asked) == (4 * before, 2)
    rtt.sample(trip)
    assert trip <= rtt.timeout() < 4 * trip


def test_answers_to_the_last_time_of_asking_leave_the_time_out_as_it_is() -> None:
    rtt = steady(100 * MS)
    before = rtt.timeout()
    rtt.sample_ambiguous(120 * MS)
    assert rtt.timeout() == before
    rtt.sample_ambiguous(20 * MS)
    assert rtt.timeout() == 2 * before
    rtt.sample_ambiguous(80 * MS)
    assert rtt.timeout() == before
    for _ in range(10):
        rtt.sample_ambiguous(20 * MS)
    assert rtt.timeout() == 8 * before
    unknown = Rtt()
    unknown.sample_ambiguous(20 * MS)
    assert unknown.timeout() == INITIAL_TIMEOUT


def test_only_so_many_answers_in_a_row_leave_the_time_out_as_it_is() -> None:
    rtt = steady(100 * MS)
    before, timeouts = rtt.timeout(), []
    for _ in range(5):
        rtt.sample_ambiguous(100 * MS)
        timeouts.append(rtt.timeout() // before)
    assert timeouts == [1, 1, 1, 2, 4]
    rtt.sample(100 * MS)
    rtt.sample_ambiguous(100 * MS)
    assert rtt.timeout() <= before


def test_reordering_is_a_quarter_of_the_round_trip_until_it_shows_to_be_more() -> None:
    rtt = Rtt()
    assert 0 < rtt.reorder_delay() < INITIAL_TIMEOUT
    rtt.sample(40 * MS)
    assert rtt.reorder_delay() == 10 * MS
    delays = []
    for _ in range(5):
        rtt.repaired_for_nothing()
        delays.append(rtt.reorder_delay())
    assert delays == [20 * MS, 40 * MS, 80 * MS, 80 * MS, 80 * MS]
    for _ in range(5):
        rtt.repaired()
        delays.append(rtt.reorder_delay())
    assert delays[5:] == [40 * MS, 20 * MS, 10 * MS, 10 * MS, 10 * MS]


def test_even_on_the_shortest_path_a_packet_may_be_a_little_late() -> None:
    rtt = Rtt()
    rtt.sample(1000)
    assert rtt.reorder_delay() == MS // 2


# The window.


def test_until_there_is_congestion_the_credit_is_the_limit() -> None:
    window = Window()
    window.arrived(SEGMENT, 1000)
    assert window.size is None


def test_congestion_halves_what_is_in_use_once_for_all_that_was_asked_for() -> None:
    window = Window()
    window.congested(1, in_use=100, limit=100)
    assert window.size == 50
    window.congested(100, in_use=100, limit=120)
    assert window.size == 50
    window.congested(101, in_use=100, limit=150)
    assert window.size == 25
    window.congested(151, in_use=8, limit=160)
    assert window.size == 4
    window.congested(161, in_use=0, limit=170)
    assert window.size == Window.SMALLEST
    window.congested(171, in_use=1000, limit=180)
    assert window.size == Window.SMALLEST


@pytest.mark.parametrize(("size", "added"), [(SEGMENT, 1), (2 * SEGMENT, 0.5), (SEGMENT // 2, 2)])
def test_each_window_that_passes_adds_a_segment(size: int, added: float) -> None:
    window = Window()
    window.congested(1, in_use=200, limit=10)
    for _ in range(10):
        before = window.size or 0
        for _ in range(before):
            window.arrived(size, 1_000)
        assert abs((window.size or 0) - before - added) <= 1
    assert abs((window.size or 0) - 100 - 10 * added) <= 2


def test_the_window_ends_where_the_credit_is_the_limit_again() -> None:
    window = Window()
    window.congested(1, in_use=8, limit=10)
    sizes = []
    while window.size is not None:
        sizes.append(window.size)
        window.arrived(SEGMENT, 8)
    assert sorted(set(sizes)) == [4, 5, 6, 7]
    assert sizes == sorted(sizes)


EVENTS = st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(1, 9_000)), max_size=80)


@given(EVENTS)
def test_the_window_only_ever_halves_and_grows_by_bytes(events: list[tuple[bool, int, int]]) -> None:
    window, recover = Window(), 0
    for seq, (marked, in_use, size) in enumerate(events, 1):
        before = window.size
        if marked:
            window.congested(seq, in_use, seq + in_use)
            if seq <= recover:
                assert window.size == before
                continue
            recover = seq + in_use
            assert window.size is not None
            if before is None:
                assert window.size == max(in_use // 2, Window.SMALLEST)
            else:
                assert window.size <= before or before == Window.SMALLEST
        else:
            window.arrived(size, in_use)
            assert window.size is None or window.size - (before or 0) <= SEGMENT // size + 1
        assert window.size is None or window.size >= Window.SMALLEST


def test_tries_in_vain_lengthen_the_time_out_for_who_tries_next() -> None:
    rtt = steady(10 * MS)
    before = rtt.timeout()
    rtt.unanswered()
    assert rtt.timeout() == 2 * before
    for _ in range(10):
        rtt.unanswered()
    assert rtt.timeout() == 8 * before
    rtt.sample(700 * MS)
    assert rtt.timeout() >= 700 * MS // 8
