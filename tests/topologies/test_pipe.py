import random
import statistics
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS
from topologies.link import LinkParameters
from topologies.model import Link, TopologyError
from topologies.pipe import JITTER, Pipe, pipe_rng

LINKS = st.builds(
    Link,
    st.just("a"),
    st.just("b"),
    bw_mbit=st.one_of(st.none(), st.floats(0.01, 1000)),
    delay_ms=st.floats(0, 20),
    loss_percent=st.floats(0, 50),
    loss_burst=st.one_of(st.none(), st.floats(1, 50)),
    jitter_ms=st.floats(0, 30),
    max_queue_size=st.integers(1, 5),
    reorder_percent=st.one_of(st.just(0), st.floats(0, 100)),
    duplicate_percent=st.one_of(st.just(0), st.floats(0, 100)),
)
FRAMES = st.lists(st.tuples(st.integers(0, 2 * MS), st.integers(14, 1514)), max_size=60)


def pipe(seed=1, **parameters):
    link = Link("a", "b", **parameters)
    return Pipe(link, pipe_rng(seed, link, "a"))


def send(piped, now, length):
    """Return the times at which a frame of so many bytes arrives, as it was sent."""
    frame = bytes(length)
    arrivals = piped.send(now, frame)
    assert all(arrived is frame for _, arrived in arrivals)
    return tuple(time for time, _ in arrivals)


def fates(piped, frames):
    now, found = 0, []
    for gap, length in frames:
        now += gap
        found.append((now, length, send(piped, now, length)))
    return found


def test_an_unimpaired_link_is_immediate():
    piped = pipe()
    assert [send(piped, 5, 1514) for _ in range(1000)] == [(5,)] * 1000


def test_a_frame_takes_its_bits_at_the_bandwidth_then_the_delay():
    # 1250 bytes at 10 Mbit/s: 1 ms
    piped = pipe(bw_mbit=10, delay_ms=20)
    assert send(piped, 0, 1250) == (21 * MS,)
    assert send(piped, 0, 625) == (21 * MS + MS // 2,)
    assert send(piped, 50 * MS, 1250) == (71 * MS,)


def test_the_rate_holds_over_many_frames():
    piped = pipe(bw_mbit=8, max_queue_size=10_000)
    arrivals = [send(piped, 0, length)[0] for length in (100, 1514, 333) * 3000]
    assert arrivals[-1] == pytest.approx((100 + 1514 + 333) * 3000 * 1000, rel=1e-9)


def test_a_burst_fills_the_queue_and_no_more():
    piped = pipe(bw_mbit=10, max_queue_size=5)
    assert [bool(send(piped, 0, 1250)) for _ in range(8)] == [True] * 5 + [False] * 3
    assert (piped.sent, piped.lost, piped.queue_drops) == (8, 0, 3)


def test_a_frame_is_in_the_queue_until_its_last_bit_is_sent():
    piped = pipe(bw_mbit=10, delay_ms=100, max_queue_size=1)
    assert send(piped, 0, 1250)
    assert not send(piped, MS - 1, 1250)
    assert send(piped, MS, 1250)


def test_frames_that_propagate_are_not_in_the_queue():
    piped = pipe(bw_mbit=10, delay_ms=1000, max_queue_size=1)
    assert all(send(piped, n * MS, 1250) for n in range(100))


def test_a_lost_frame_takes_its_time_on_the_link():
    piped = pipe(bw_mbit=10, loss_percent=100, max_queue_size=1)
    assert send(piped, 0, 1250) == send(piped, 0, 1250) == ()
    assert (piped.sent, piped.lost, piped.queue_drops) == (2, 1, 1)


def test_without_jitter_frames_keep_their_order():
    piped = pipe(bw_mbit=5, delay_ms=3, loss_percent=20)
    arrivals = [arrival for n in range(300) for arrival in send(piped, n * MS, 100 + n)]
    assert len(arrivals) > 200
    assert all(a < b for a, b in pairwise(arrivals))


def test_jitter_is_uniform_about_the_delay_and_lets_frames_overtake():
    piped = pipe(delay_ms=10, jitter_ms=4)
    delays = [send(piped, n * MS, 100)[0] - n * MS for n in range(4000)]
    assert all(6 * MS <= delay <= 14 * MS for delay in delays)
    shares = [sum(low * MS <= delay < (low + 1) * MS for delay in delays) / 4000 for low in range(6, 14)]
    assert shares == pytest.approx([1 / 8] * 8, abs=0.02)
    arrivals = [n * MS + delay for n, delay in enumerate(delays)]
    assert arrivals != sorted(arrivals)


def test_frames_overtake_those_under_way():
    piped = pipe(delay_ms=10, bw_mbit=10, reorder_percent=20)
    arrivals = [send(piped, n * MS, 1250)[0] - n * MS for n in range(10_000)]
    assert set(arrivals) == {MS, 11 * MS}
    assert arrivals.count(MS) / 10_000 == pytest.approx(0.2, abs=0.02)


def test_jitter_beyond_the_delay_is_cut_off_at_zero():
    piped = pipe(delay_ms=1, jitter_ms=3)
    delays = [send(piped, 0, 100)[0] for _ in range(3000)]
    assert min(delays) == 0
    assert delays.count(0) / 3000 == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("percent", [0.5, 5, 50])
def test_the_share_of_losses(percent):
    piped, frames = pipe(loss_percent=percent), 20_000
    lost = sum(not send(piped, n, 100) for n in range(frames))
    expected = frames * percent / 100
    assert piped.lost == lost
    assert abs(lost - expected) < 4 * (expected * (1 - percent / 100)) ** 0.5


@pytest.mark.parametrize(("percent", "burst"), [(1, 5), (5, 2), (20, 10)])
def test_losses_come_in_bursts(percent, burst):
    """With their share, and their mean length, about what is asked for."""
    piped, frames = pipe(loss_percent=percent, loss_burst=burst), 200_000
    runs = [
        len([*run])
        for arrives, run in groupby(bool(send(piped, n, 100)) for n in range(frames))
        if not arrives
    ]
    assert sum(runs) == piped.lost
    assert sum(runs) / frames == pytest.approx(percent / 100, rel=0.1)
    assert sum(runs) / len(runs) == pytest.approx(burst, rel=0.1)


@pytest.mark.parametrize(
    ("percent", "burst", "bad", "good"), [(5, 10, 50, 0), (5, 10, 40, 2), (1, 5, 100, 0.5), (30, 4, 80, 10)]
)
def test_losses_of_a_link_that_is_good_and_bad(percent, burst, bad, good):
    """Their share is as asked; a loss is followed by another as often as Elliott's model says."""
    frames = 300_000
    piped = pipe(loss_percent=percent, loss_burst=burst, loss_bad_percent=bad, loss_good_percent=good)
    lost = [not send(piped, n, 100) for n in range(frames)]
    assert piped.lost == sum(lost)
    assert sum(lost) / frames == pytest.approx(percent / 100, rel=0.1)
    link = Link(
        "a", "b", loss_percent=percent, loss_burst=burst, loss_bad_percent=bad, loss_good_percent=good
    )
    again = sum(now and then for then, now in pairwise(lost)) / sum(lost)
    assert again == pytest.approx(link.loss_again, rel=0.1)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"loss_bad_percent": 50}, "loss_bad_percent says nothing without loss_burst"),
        ({"loss_good_percent": 5}, "loss_good_percent says nothing without loss_burst"),
        (
            {"loss_percent": 5, "loss_burst": 2, "loss_good_percent": 60, "loss_bad_percent": 50},
            "loss_good_percent must be below loss_bad_percent, 50, not 60",
        ),
        (
            {"loss_percent": 5, "loss_burst": 2, "loss_good_percent": 6},
            "loss_percent must be at least loss_good_percent, 6",
        ),
        (
            {"loss_percent": 45, "loss_burst": 4, "loss_bad_percent": 50},
            "loss_percent must be at most 40 if 4 losses in a row are usual, not 45",
        ),
    ],
)
def test_losses_that_cannot_be(parameters, problem):
    with pytest.raises(TopologyError, match=problem):
        pipe(**parameters)


@pytest.mark.parametrize(
    ("name", "mean", "deviation", "lowest"),
    # Means and deviations of the tables in iproute2, /usr/lib/tc/*.dist, in units of the jitter.
    [("normal", -0.0008, 1.0, -4), ("pareto", -0.0335, 0.82, -2 / 3), ("paretonormal", -0.0253, 0.834, -1.5)],
)
def test_jitter_has_the_distributions_of_netem(name, mean, deviation, lowest):
    link = Link("a", "b", delay_ms=100, jitter_ms=10, jitter_distribution=name)
    piped = Pipe(link, pipe_rng(1, link, "a"))
    drawn = [(send(piped, 0, 100)[0] - 100 * MS) / (10 * MS) for _ in range(20_000)]
    assert statistics.fmean(drawn) == pytest.approx(mean, abs=0.025)
    assert statistics.pstdev(drawn) == pytest.approx(deviation, abs=0.025)
    assert lowest <= min(drawn)
    assert max(drawn) <= 4
    assert link.least_delay_ns <= 100 * MS + min(drawn) * 10 * MS


TABLES = Path("/usr/lib/x86_64-linux-gnu/tc")


@pytest.mark.parametrize("name", ["normal", "pareto", "paretonormal"])
@pytest.mark.skipif(not TABLES.is_dir(), reason="iproute2's tables are not here")
def test_quantiles_are_those_of_netems_tables(name):
    lines = (TABLES / f"{name}.dist").read_text().splitlines()
    table = sorted(int(word) / 8192 for line in lines if line[:1] != "#" for word in line.split())
    for place in range(100, len(table) - 100, 50):
        assert JITTER[name]((place + 0.5) / len(table)) == pytest.approx(table[place], abs=0.02)


def test_a_change_is_for_the_frames_that_come_after_it():
    piped = pipe(bw_mbit=10, delay_ms=20)
    assert send(piped, 0, 1250) == (21 * MS,)
    assert send(piped, 0, 1250) == (22 * MS,)
    piped.change(LinkParameters(bw_mbit=1, delay_ms=5, max_queue_size=3))
    # It waits for those that left at the old rate, and takes ten times as long itself.
    assert send(piped, 0, 1250) == (17 * MS,)
    assert send(piped, 0, 1250) == ()
    piped.change(LinkParameters(delay_ms=5))
    # Without a rate it takes no time, but does not leave before what is in the queue.
    assert send(piped, 0, 1250) == (17 * MS,)


def test_losses_at_their_ends():
    none, all_of_them = pipe(loss_percent=0), pipe(loss_percent=100)
    assert all(send(none, 0, 100) for _ in range(1000))
    assert not any(send(all_of_them, 0, 100) for _ in range(1000))


@given(LINKS, FRAMES, st.integers())
def test_the_same_seed_gives_the_same_fate(link, frames, seed):
    again = [fates(Pipe(link, pipe_rng(seed, link, "a")), frames) for _ in range(2)]
    assert again[0] == again[1]


@given(FRAMES, FRAMES, st.integers())
def test_luck_is_the_seeds_whatever_else_happens(frames, others, seed):
    """The n-th frame is lost or not, and early or late, alike on an idle link and on a congested one."""
    idle = Link("a", "b", delay_ms=10, loss_percent=40, jitter_ms=5)
    busy = Link("a", "b", bw_mbit=1, delay_ms=10, loss_percent=40, jitter_ms=5, max_queue_size=2)
    on_idle = fates(Pipe(idle, pipe_rng(seed, idle, "a")), frames)
    congested = Pipe(busy, pipe_rng(seed, busy, "a"))
    departures = []
    for (now, length, arrivals), (idle_now, _, idle_arrivals) in zip(
        fates(congested, others), on_idle, strict=False
    ):
        queued = [departure for departure in departures if departure > now]
        if len(queued) >= 2:
            assert arrivals == ()
            continue
        departures.append(max([now, *queued]) + length * 8000)
        assert len(arrivals) == len(idle_arrivals)
        for arrival, idle_arrival in zip(arrivals, idle_arrivals, strict=True):
            assert arrival - departures[-1] == idle_arrival - idle_now


@given(LINKS, FRAMES)
def test_every_frame_is_accounted_for_and_none_is_early(link, frames):
    piped = Pipe(link, random.Random(1))
    found = fates(piped, frames)
    arrived = sum(bool(arrivals) for _, _, arrivals in found)
    assert piped.sent == len(frames) == arrived + piped.lost + piped.queue_drops
    for now, length, arrivals in found:
        serialised = length * 8000 / link.bw_mbit if link.bw_mbit else 0
        least = now + serialised + link.least_delay_ns
        assert len(arrivals) <= (2 if link.duplicate_percent else 1)
        assert all(arrival >= least - 2 for arrival in arrivals)


def test_directions_links_and_seeds_have_luck_of_their_own():
    link, other = Link("a", "b"), Link("a", "c")
    draws = {
        pipe_rng(1, link, "a").random(),
        pipe_rng(1, link, "b").random(),
        pipe_rng(2, link, "a").random(),
        pipe_rng(1, other, "a").random(),
    }
    assert len(draws) == 4


def test_luck_is_the_same_on_every_machine():
    assert pipe_rng(7, Link("pub", "r1", delay_ms=5), "r1").random() == 0.6313397350579902


def test_only_an_end_of_the_link_sends():
    with pytest.raises(ValueError, match="a:b does not join c and anybody"):
        pipe_rng(1, Link("a", "b"), "c")


def test_as_many_frames_arrive_twice_as_the_link_says_each_copy_with_its_own_delay():
    piped = pipe(duplicate_percent=30, delay_ms=10, jitter_ms=5)
    arrivals = [send(piped, 0, 100) for _ in range(20_000)]
    twice = [times for times in arrivals if len(times) == 2]
    assert {len(times) for times in arrivals} == {1, 2}
    assert len(twice) / len(arrivals) == pytest.approx(0.3, abs=0.02)
    assert sum(first == second for first, second in twice) < 10


def test_a_lost_frame_has_no_copy():
    piped = pipe(duplicate_percent=100, loss_percent=50)
    assert {send(piped, 0, 100) for _ in range(100)} == {(), (0, 0)}
