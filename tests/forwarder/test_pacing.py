"""A link of known rate, seen from its sender."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS, SECOND
from forwarder.tables.pacing import Pacer

SIZES = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 20)), max_size=60)


def backlog_until_marked(pacer: Pacer, size: int) -> int:
    """Frames that can be sent at once before the next one would be marked."""
    frames = 0
    while not pacer.is_congested(0):
        pacer.sent(size, 0)
        frames += 1
    return frames


def test_a_fast_link_is_marked_at_five_milliseconds() -> None:
    pacer = Pacer(100.0, overhead=0)
    assert backlog_until_marked(pacer, 1250) == 51  # 0.1 ms each
    assert pacer.is_congested(MS // 10 - 1)
    assert not pacer.is_congested(MS // 10)


def test_a_slow_link_is_not_marked_before_some_full_frames_wait() -> None:
    assert backlog_until_marked(Pacer(0.1, overhead=0), 1500) == 6


def test_an_idle_link_has_no_backlog_from_before() -> None:
    pacer = Pacer(1.0)
    for _ in range(100):
        pacer.sent(1500, 0)
    assert pacer.is_congested(0)
    assert not pacer.is_congested(100 * SECOND)
    pacer.sent(1500, 100 * SECOND)
    assert not pacer.is_congested(100 * SECOND)


def test_a_frame_costs_its_headers_too() -> None:
    plain, framed = Pacer(1.0, overhead=0), Pacer(1.0, overhead=42)
    assert plain.next_turn(958, 0) == 958 * 8000
    assert framed.next_turn(958, 0) == 1000 * 8000


def test_streams_share_the_link() -> None:
    pacer = Pacer(8.0, overhead=0)  # a byte a microsecond
    assert pacer.next_turn(1000, 0) == MS
    pacer.seen(b"a", 0)
    assert pacer.next_turn(1000, 0) == MS
    pacer.seen(b"b", 0)
    pacer.seen(b"b", 0)
    assert pacer.next_turn(1000, 0) == 2 * MS
    assert pacer.next_turn(1000, 99 * MS) == 101 * MS
    pacer.seen(b"b", 50 * MS)
    assert pacer.next_turn(1000, 120 * MS) == 121 * MS
    assert pacer.next_turn(1000, 200 * MS) == 201 * MS


def test_streams_are_counted_up_to_a_bound_and_those_that_have_ended_make_room() -> None:
    pacer = Pacer(8.0, overhead=0)
    for n in range(200):
        pacer.seen(b"%d" % n, 0)
    assert pacer.next_turn(1000, 0) == 64 * MS
    pacer.seen(b"new", 500 * MS)
    assert pacer.next_turn(1000, 500 * MS) == 501 * MS


def test_a_stream_may_send_at_its_turn_and_sooner_if_the_link_would_be_idle() -> None:
    pacer = Pacer(8.0, overhead=0)
    assert pacer.free_at(50 * MS, 0) <= 0
    for _ in range(10):
        pacer.sent(1000, 0)
    assert pacer.free_at(2 * MS, 0) == 2 * MS
    assert 8 * MS <= pacer.free_at(50 * MS, 0) < 10 * MS


def test_a_stream_waits_beyond_its_turn_while_the_backlog_is_too_long() -> None:
    pacer = Pacer(8.0, overhead=0)
    for _ in range(100):
        pacer.sent(1000, 0)  # 100 ms
    assert 0 < pacer.free_at(0, 0) < 100 * MS
    assert pacer.free_at(0, 0) == 70 * MS  # four times five full frames may wait


@given(st.sampled_from([0.1, 1.0, 10.0, 1000.0]), SIZES)
def test_what_is_charged_is_what_the_rate_allows(rate: float, frames: list[tuple[int, int]]) -> None:
    """The model: a queue that is served at the link's rate."""
    pacer = Pacer(rate, overhead=0)
    now, queue = 0, 0.0  # ns of work
    for size, wait in frames:
        now += wait * MS
        queue = max(queue - wait * MS, 0.0)
        # A burst is not refused, whatever is waiting; it is the marks that tell.
        pacer.sent(size, now)
        queue += size * 8000 / rate
        threshold = max(5 * MS, 5 * 1500 * 8000 / rate)
        if abs(queue - threshold) > 100:
            assert pacer.is_congested(now) == (queue > threshold)
        drained = now + round(queue)
        assert not pacer.is_congested(drained)
        assert pacer.free_at(0, 0) <= drained
        assert pacer.free_at(drained + SECOND, 0) <= drained + 100


def test_a_paced_stream_makes_no_queue() -> None:
    pacer = Pacer(10.0)
    now = 0
    for _ in range(500):
        pacer.seen(b"feed", now)
        assert not pacer.is_congested(now)
        pacer.sent(1000, now)
        now = pacer.next_turn(1000, now)
    assert now == pytest.approx(500 * 1042 * 800, rel=0.001)
