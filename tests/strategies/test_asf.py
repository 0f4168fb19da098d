"""ASF, decision by decision. Faces 2, 3 and 4 lead to /a, in order of cost."""

from itertools import pairwise

import pytest
from decisions import Asked

from base.units import MS
from forwarder.strategies.asf import Asf
from forwarder.wire.name import from_uri

NO_PROBES = "asf/probing-interval~100000"


def exchange(asked: Asked, n: int, rtt_ms: float) -> int:
    """Send an Interest that is answered after so long; return where it went."""
    (face,) = asked.interest(f"/a/{n}") or ()
    asked.wait(rtt_ms)
    asked.data(f"/a/{n}", face)
    return face


def never_probing(seed: int = 1) -> Asked:
    asked = Asked(NO_PROBES, seed)
    asked.node.rng.randint = lambda low, high: high  # type: ignore[method-assign]
    return asked


def times_out(asked: Asked, first: int) -> list[int]:
    """Lose Interests, one every 100 ms, until they go elsewhere; return where they all went."""
    went = []
    for n in range(first, first + 100):
        (face,) = asked.interest(f"/a/{n}", lifetime_ms=500) or ()
        went.append(face)
        if face != went[0]:
            break
        asked.wait(100)
    return went


def test_the_cheapest_while_nothing_is_known() -> None:
    asked = never_probing()
    assert asked.interest("/a/1") == [2]
    assert asked.interest("/a/2") == [2]
    assert asked.interest("/a/3", face=2) == [3]
    assert asked.interest("/b/1") is None


def test_three_time_outs_in_a_row_and_the_next_is_tried() -> None:
    """Of 1 s each while there is no measurement, one after the other."""
    asked = never_probing()
    went = times_out(asked, 0)
    assert went == [2] * 30 + [3]


def test_with_a_measurement_time_outs_are_short() -> None:
    """200 ms at least; the first is timed at 100 ms."""
    asked = never_probing()
    exchange(asked, 0, 20)
    went = times_out(asked, 1)
    assert went == [2] * 6 + [3]


@pytest.mark.parametrize(("most", "expected"), [(1, 2), (2, 4), (5, 10)])
def test_max_timeouts(most: int, expected: int) -> None:
    asked = Asked(f"{NO_PROBES}/max-timeouts~{most}")
    asked.node.rng.randint = lambda low, high: high  # type: ignore[method-assign]
    exchange(asked, 0, 20)
    assert len(times_out(asked, 1)) - 1 == expected


def test_an_answer_sets_the_count_back() -> None:
    asked = never_probing()
    exchange(asked, 0, 20)
    for n in range(1, 20):  # every second one is lost
        assert asked.interest(f"/a/lost/{n}", lifetime_ms=100) == [2]
        asked.wait(250)
        assert exchange(asked, n, 20) == 2


def test_the_same_interest_again_counts_what_was_lost() -> None:
    """The entry lives on by repetitions, which go elsewhere: the next new Interest knows."""
    asked = never_probing()
    exchange(asked, 0, 20)
    went = []
    for _ in range(12):
        went += asked.interest("/a/same", lifetime_ms=10_000) or ()
        asked.wait(100)
    assert went[:3] == [2, 3, 4]
    assert asked.interest("/a/new") == [2], "the one timed there was counted once: it is still waited for"
    asked.wait(300)
    asked.interest("/a/other")
    asked.wait(300)
    asked.interest("/a/other2")
    asked.wait(300)
    assert asked.interest("/a/other3") == [3]


def test_the_quicker_of_two_that_work() -> None:
    asked = never_probing()
    exchange(asked, 0, 50)
    asked.interest("/a/x")
    asked.nack("/a/x", 2)
    assert exchange(asked, 1, 30) == 3
    assert asked.interest("/a/2") == [3]
    # An answer from face 2 makes it work again; by 50 ms against 30 it is second.
    asked.data("/a/x", 2)
    assert asked.interest("/a/3") == [3]
    for n in range(4, 60):
        (face,) = asked.interest(f"/a/{n}") or ()
        asked.wait(90 if face == 3 else 40)
        asked.data(f"/a/{n}", face)
    assert asked.interest("/a/99") == [2]


def test_a_nack_is_a_time_out_at_once() -> None:
    asked = never_probing()
    assert asked.interest("/a/1") == [2]
    assert asked.nack("/a/1", 2) == []
    assert asked.interest("/a/2") == [3]


def test_the_first_probe_within_five_seconds_then_one_an_interval() -> None:
    for seed in range(20):
        asked = Asked("asf/probing-interval~2000", seed)
        probed = []
        for n in range(1500):
            exchange(asked, n, 10)
            if asked.probed:
                probed.append(asked.now)
        assert probed[0] <= 5010 * MS
        assert all(2000 * MS <= b - a <= 2010 * MS for a, b in pairwise(probed))
        assert len(probed) >= 5


def test_probes_go_to_the_unmeasured_first_then_by_rank() -> None:
    asked = Asked("asf/probing-interval~1000")
    seen = []
    for n in range(20_000):
        went = asked.interest(f"/a/{n}")
        assert went == [2]
        asked.wait(10)
        assert asked.data(f"/a/{n}", 2) == (50 if asked.probed else 0)
        if asked.probed:
            asked.wait(10 * asked.probed[0])
            assert asked.data(f"/a/{n}", asked.probed[0]) == 0
            seen += asked.probed
    assert seen[:2] == [3, 4]
    assert 0.55 < seen.count(3) / len(seen) < 0.78  # two thirds


def test_repetitions_are_not_probed() -> None:
    asked = Asked("asf/probing-interval~1000")
    asked.node.rng.randint = lambda low, high: 0  # type: ignore[method-assign]
    asked.interest("/a/1")
    assert asked.probed == [3]
    asked.wait(1500)
    assert asked.interest("/a/1") == [4]
    assert asked.probed == []


def test_repetitions_where_it_is_not_pending_then_where_it_was_sent_longest_ago() -> None:
    asked = never_probing()
    went = [asked.interest("/a/1") for _ in range(4)]
    assert went == [[2], [3], [4], []]
    asked.wait(10)
    assert asked.interest("/a/1") == [2]
    asked.wait(1)
    assert asked.interest("/a/1") == [3]
    asked.wait(10)
    assert [asked.interest("/a/1") for _ in range(2)] == [[4], []]
    asked.wait(9)
    assert asked.interest("/a/1") == [2], "its interval is 20 ms by now"


def test_what_is_not_used_is_forgotten() -> None:
    asked = Asked("asf/probing-interval~1000/measurements-lifetime~2000")
    asked.node.rng.randint = lambda low, high: 10**9  # type: ignore[method-assign]
    asked.interest("/a/1")
    asked.nack("/a/1", 2)
    assert exchange(asked, 2, 10) == 3
    asked.wait(1900)
    assert exchange(asked, 3, 10) == 3
    asked.wait(200)
    asked.interest("/a/4")
    strategy = asked.strategy
    assert isinstance(strategy, Asf)
    (namespace,) = (known for known, _ in strategy._namespaces._by_prefix.values())
    assert set(namespace.paths) == {3}


def test_a_namespace_a_route_and_a_bounded_number_of_them() -> None:
    asked = never_probing()
    for n in range(5000):
        asked.node.fib.add(from_uri(f"/b/{n}"), 2)
        asked.interest(f"/b/{n}/x")
        asked.interest(f"/a/{n}/x")
    assert isinstance(asked.strategy, Asf)
    assert len(asked.strategy._namespaces) == 4096
    assert asked.interest("/a/1/y") == [2]


def test_an_answer_to_a_persistent_interest_is_no_measurement() -> None:
    asked = never_probing()
    exchange(asked, 0, 20)
    asked.interest("/a/p", lifetime_ms=60_000)
    asked.entries["/a/p"].begin_passing(asked.now)
    asked.wait(30_000)
    asked.data("/a/p", 2)
    assert exchange(asked, 1, 20) == 2
    assert len(times_out(asked, 2)) - 1 == 6


def test_the_same_seed_the_same_decisions() -> None:
    def decisions(seed: int) -> list[object]:
        asked = Asked("asf/probing-interval~1000", seed)
        made: list[object] = []
        for n in range(2000):
            made += [exchange(asked, n, 5 + n % 7), *asked.probed]
        return made

    assert decisions(3) == decisions(3)
    assert decisions(3) != decisions(4)
