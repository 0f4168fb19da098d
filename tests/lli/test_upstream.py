"""The upstream half of a subscription: when it asks, asks again, and how long it waits."""

from hypothesis import given
from hypothesis import strategies as st

from forwarder.lli.upstream import (
    IDLE_PROBE,
    INITIAL_RTO,
    MAX_IDLE_PROBES,
    MAX_RTO,
    MIN_RTO,
    NEVER,
    Lli,
    Upstream,
)

MS = 1_000_000
LIFETIME = 60_000 * MS


def asked(limit: int = 8) -> Upstream:
    """A consumer's: it wants items for good, by LLIs of a minute each."""
    up = Upstream(1, 60_000)
    assert up.want(limit, NEVER, 0) == Lli(1, limit, 60_000)
    return up


def test_first_want_asks_from_the_first_item() -> None:
    up = Upstream(7)
    assert up.want(10, LIFETIME, 0) == Lli(7, 4, 60_000)
    assert (up.next, up.limit, up.expiry) == (7, 10, LIFETIME)


def test_an_extension_waits_until_it_is_as_large_as_what_is_left() -> None:
    up = asked(8)
    for item in range(1, 4):
        up.arrived(item)
        assert up.want(up.next + 7, NEVER, item) is None
    up.arrived(4)
    assert up.want(up.next + 7, NEVER, 4) == Lli(9, 4, 60_000)


def test_nothing_is_asked_for_no_time_or_no_more() -> None:
    up = asked(8)
    assert up.want(8, NEVER, 1) is None
    assert up.want(100, MS // 2, 0) is None
    assert Upstream(1).want(0, LIFETIME, 0) is None


def test_a_gap_goes_back_once_a_time_out() -> None:
    up = asked(8)
    assert up.missed(3, 10 * MS) == Lli(1, 8, 60_000)
    assert up.missed(4, 11 * MS) is None
    assert up.missed(4, 10 * MS + INITIAL_RTO - 1) is None
    assert up.missed(5, 10 * MS + INITIAL_RTO) == Lli(1, 8, 60_000)


def test_the_time_out_follows_the_round_trip() -> None:
    up = asked(1000)
    now = 0
    for item in range(1, 40):
        up.missed(item + 1, now)
        now += 30 * MS
        up.arrived(now)
        now += 500 * MS
    assert 30 * MS <= up.rto <= 60 * MS


def test_an_idle_feed_is_probed_ever_more_rarely_but_outlives_its_lifetime() -> None:
    up = asked(8)
    probes = []
    while len(probes) < 12:
        now = up.deadline
        assert up.wake(now) == Lli(1, 8, 60_000)
        probes.append(now)
        assert now < up.expiry
    gaps = [b - a for a, b in zip([0, *probes], probes, strict=False)]
    assert gaps == [IDLE_PROBE << min(n, MAX_IDLE_PROBES) for n in range(12)]


def test_a_short_lifetime_is_renewed_at_its_half() -> None:
    up = Upstream(1, 1000)
    assert up.want(8, NEVER, 0) == Lli(1, 8, 1000)
    for now in (500 * MS, 1000 * MS, 1500 * MS):
        assert up.deadline == now
        assert up.wake(now) == Lli(1, 8, 1000)


def test_a_holder_that_goes_with_its_lli_does_not_renew_it() -> None:
    up = Upstream(1)
    assert up.want(8, 1500 * MS, 0) == Lli(1, 8, 1500)
    assert up.deadline == IDLE_PROBE
    assert up.wake(IDLE_PROBE) == Lli(1, 8, 500)
    assert up.deadline > up.expiry == 1500 * MS
    assert up.want(8, 5000 * MS, 1200 * MS) is None
    assert up.deadline == 1250 * MS
    assert up.wake(1250 * MS) == Lli(1, 8, 3750)


def test_a_known_missing_tail_is_asked_for_soon_and_with_patience() -> None:
    up = asked(8)
    up.heard(3)
    up.arrived(5 * MS)
    assert up.deadline == 5 * MS + INITIAL_RTO
    waits = []
    for _ in range(8):
        now = up.deadline
        assert up.wake(now) == Lli(2, 7, 60_000)
        waits.append(up.deadline - now)
    assert waits == sorted(waits)
    assert waits[-1] == MAX_RTO


def test_nothing_to_wait_for_needs_no_alarm() -> None:
    up = asked(2)
    up.arrived(1)
    up.arrived(2)
    assert up.deadline == NEVER


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=50))
def test_the_time_out_stays_in_its_bounds(trips: list[int]) -> None:
    up = asked(10_000)
    now = 0
    for trip in trips:
        up.missed(up.next + 1, now)
        now += trip * MS
        up.arrived(now)
        assert MIN_RTO <= up.rto <= MAX_RTO
