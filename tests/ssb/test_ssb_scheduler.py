"""The scheduler: bounded calls and connections, pauses after failures, and places that go to the useful."""

from random import Random

import pytest

from base.units import SECOND
from ssb.peer.scheduler import Scheduler, SchedulerOptions, Unreached

HERE = ("10.0.0.1", 8008)


def scheduler(**options: int) -> Scheduler:
    return Scheduler(Random(1), SchedulerOptions(**options))


def called(found: Scheduler, now: int) -> set[str]:
    return {peer for peer, _, _ in found.take_calls(now)}


def test_a_peer_is_called_once_until_the_call_has_ended() -> None:
    found = scheduler()
    found.add("a", HERE, 0)
    assert found.take_calls(0) == [("a", HERE, None)]
    assert found.take_calls(10 * SECOND) == []
    found.on_connected("a", SECOND)
    assert found.take_calls(10 * SECOND) == []
    assert found.next_deadline() is None


def test_pauses_double_up_to_a_bound_and_are_drawn() -> None:
    found = scheduler(first_pause=2 * SECOND, last_pause=60 * SECOND)
    found.add("a", HERE, 0)
    now, pauses = 0, []
    for _ in range(10):
        assert called(found, now) == {"a"}
        found.on_failed("a", now)
        due = found.next_deadline()
        assert due is not None
        pauses.append((due - now) / SECOND)
        assert called(found, due - 1) == set()
        now = due
    for failures, pause in enumerate(pauses):
        longest = min(2 * 2**failures, 60)
        assert longest / 2 <= pause <= longest
    assert len(set(pauses)) == len(pauses)


def test_few_are_called_at_once_and_few_are_connected() -> None:
    found = scheduler(places=4, calls=2)
    for number in range(10):
        found.add(f"p{number}", HERE, 0)
    connected: set[str] = set()
    for step in range(5):
        calling = called(found, step)
        assert len(calling) <= 2
        for peer in calling:
            found.on_connected(peer, step)
        connected |= calling
    assert len(connected) == 4


def test_the_least_useful_gives_up_its_place_after_its_turn_but_a_kept_one_never() -> None:
    found = scheduler(places=3, calls=3, turn=60 * SECOND)
    found.add("kept", HERE, 0, is_kept=True)
    for peer in ("busy", "idle"):
        found.add(peer, HERE, 0)
    for peer in called(found, 0):
        found.on_connected(peer, 0)
    found.on_useful("busy", 500)
    assert found.next_to_close(60 * SECOND) is None, "nobody waits"
    found.add("new", HERE, 0)
    assert found.next_to_close(59 * SECOND) is None
    assert found.next_deadline() == 60 * SECOND
    assert found.next_to_close(60 * SECOND) == "idle"
    found.on_closed("idle", 60 * SECOND)
    assert called(found, 60 * SECOND) == {"new"}


def test_kept_peers_and_those_that_failed_less_come_first() -> None:
    found = scheduler(places=1, calls=1)
    found.add("bad", HERE, 0)
    assert called(found, 0) == {"bad"}
    found.on_failed("bad", 0)
    found.add("good", HERE, 0)
    found.add("kept", HERE, 0, is_kept=True)
    assert called(found, 100 * SECOND) == {"kept"}
    found.on_failed("kept", 100 * SECOND)
    assert called(found, 100 * SECOND) == {"good"}


def test_a_new_address_is_tried_at_once() -> None:
    found = scheduler()
    found.add("a", HERE, 0)
    found.take_calls(0)
    found.on_failed("a", 0)
    found.add("a", ("10.0.0.2", 8008), 1)
    assert found.take_calls(1) == [("a", ("10.0.0.2", 8008), None)]


def test_one_that_is_left_for_a_fault_again_and_again_waits_longer_though_it_was_connected() -> None:
    found = scheduler(first_pause=2 * SECOND, last_pause=600 * SECOND)
    found.add("a", HERE, 0)
    now, pauses = 0, []
    for _ in range(8):
        found.take_calls(now)
        found.on_connected("a", now)
        assert found.unreached() == {}
        found.on_failed("a", now, "says nonsense")
        due = found.next_deadline()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses[-1] > 120 * SECOND
    assert found.unreached() == {"a": Unreached(HERE, 8, "says nonsense")}
    found.add("a", HERE, 0, is_kept=True)
    assert called(found, 0) == {"a"}, "the user has named it"
    found.on_connected("a", 0)
    found.on_failed("a", 61 * SECOND, "reset")  # it has lasted
    assert (found.next_deadline() or 0) <= 63 * SECOND


def test_the_user_corrects_an_address_while_a_call_is_under_way() -> None:
    found = scheduler()
    found.add("a", HERE, 0)
    found.take_calls(0)
    found.add("a", ("10.0.0.2", 8008), 1, is_kept=True)
    found.on_failed("a", 2)
    assert found.take_calls(600 * SECOND) == [("a", ("10.0.0.2", 8008), "")]


@pytest.mark.parametrize("flood", [100, 1000])
def test_addresses_are_bounded_and_the_worst_goes(flood: int) -> None:
    found = scheduler(known=10)
    for number in range(10):
        found.add(f"p{number}", HERE, 0, is_kept=number < 5)
    for number in range(flood):
        found.add(f"q{number}", HERE, 0)
    assert len(found) == 10
    assert all(f"p{number}" in found for number in range(5))


def test_hearsay_replaces_an_address_that_has_failed_some_times_and_none_that_works() -> None:
    found, there = scheduler(), ("10.0.0.2", 8008)
    found.add("a", HERE, 0)
    found.add("a", there, 0, is_hearsay=True)
    assert found.address("a") == there  # nobody has tried the first
    assert called(found, 0) == {"a"}
    found.on_connected("a", 0)
    found.on_closed("a", 0)
    now = 0
    for failures in range(4):
        found.add("a", HERE, now, is_hearsay=True)
        assert found.address("a") == (there if failures < 3 else HERE)
        now += 1_000 * SECOND
        assert called(found, now) == {"a"}
        found.on_failed("a", now)
    found.add("a", there, now)
    assert found.address("a") == there  # not hearsay
