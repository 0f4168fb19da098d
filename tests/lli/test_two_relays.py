"""Two relays with real tables: silence costs the link, not the feeds, and nothing is lost by it."""

from itertools import repeat

from two_relays import LINK, TwoRelays

from base.units import MS, SECOND


def test_quiet_feeds_cost_the_link_a_packet_a_second_at_most() -> None:
    net = TwoRelays([1] * 60, 20 * MS, lifetime_ms=20_000)
    net.wait(SECOND)
    before = net.frames.copy()
    net.wait(60 * SECOND)
    spent = net.frames - before
    assert spent["a"] <= 12, "a renewal each half lifetime"
    assert spent["b"] <= 30, "a Hello each three seconds, and a reply to each of those"
    assert spent["hello a"] + spent["hello b"] == spent["a"] + spent["b"]
    assert net.errors == []
    for n in range(60):
        net.publish(n)
    net.wait(SECOND)
    assert net.late == [20 * MS] * 60


def test_a_last_item_that_is_lost_comes_within_a_hello() -> None:
    net = TwoRelays([2, 2, 2], 20 * MS, lifetime_ms=20_000)
    net.wait(SECOND)
    net.publish(0)
    net.wait(SECOND)
    carry = net._carry
    net._carry = lambda *rest: None  # type: ignore[method-assign]
    net.publish(0)
    net.publish(1)
    net._carry = carry  # type: ignore[method-assign]
    net.wait(5 * SECOND)
    assert sorted(net.late)[:1] == [20 * MS]
    assert len(net.late) == 3
    assert max(net.late) <= 4 * SECOND


def test_a_link_that_is_cut_without_a_word_is_found_out_and_all_feeds_go_on_afterwards() -> None:
    net = TwoRelays([3] * 20, 20 * MS, lifetime_ms=20_000)
    net.wait(SECOND)
    carry = net._carry
    net._carry = lambda *rest: None  # type: ignore[method-assign]
    for n in range(20):
        net.publish(n)
    net.wait(20 * SECOND)
    assert net.a.feeds is not None
    assert net.a.feeds.counters["deaths"] == 1
    assert net.errors == ["waiting"] * 20
    net._carry = carry  # type: ignore[method-assign]
    net.wait(5 * SECOND)
    assert len(net.late) == 20
    assert net.errors[20:] == ["resumed"] * 20
    for n in range(20):
        net.publish(n)
    net.wait(SECOND)
    assert net.late[20:] == [20 * MS] * 20


def busy_beside_quiet() -> TwoRelays:
    """One feed that is never quiet, and ten that are, for three lifetimes."""
    net = TwoRelays([1600, *repeat(1, 10)], 50 * MS, lifetime_ms=10_000)
    for _ in range(1500):
        net.publish(0)
        net.wait(20 * MS)
    return net


def test_a_busy_feed_delays_no_item_of_another() -> None:
    net = busy_beside_quiet()
    for n in range(1, 11):
        net.publish(n)
    net.wait(SECOND)
    assert net.late[-10:] == [50 * MS] * 10
    assert net.errors == []


def test_quiet_feeds_beside_a_busy_one_keep_their_source() -> None:
    net = busy_beside_quiet()
    assert net.a.feeds is not None
    assert net.a.feeds.counters["waits"] == 0
    assert net.a.feeds.counters["llis_out"] <= 11 + 1500 // 16


def test_one_feed_that_both_ends_see_differently_is_put_right() -> None:
    net = TwoRelays([1, 1], 20 * MS, lifetime_ms=20_000)
    net.wait(SECOND)
    assert net.b.feeds is not None
    entry = next(iter(net.b.feeds))
    entry.ranges.drop(LINK)
    net.wait(5 * SECOND)
    for n in range(2):
        net.publish(n)
    net.wait(SECOND)
    assert net.late == [20 * MS] * 2
