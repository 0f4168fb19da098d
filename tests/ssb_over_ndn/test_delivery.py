"""Every layering over whole networks: what every run must keep, whatever the links do."""

from collections import Counter, defaultdict
from typing import Any

import pytest
from simulation import Result, item_in, scenario, simulate

from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_interest
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS

DRAIN_MS = 12_000  # longer than any layering's classic Interests last

CLEAN: dict[str, Any] = {"delay_ms": 5.0, "bw_mbit": 10.0}
HARSH = [
    {"delay_ms": 5.0, "loss_percent": 2.0},
    {"delay_ms": 5.0, "loss_percent": 20.0},
    {"delay_ms": 5.0, "jitter_ms": 5.0, "loss_percent": 5.0},
    {"delay_ms": 2.0, "bw_mbit": 1.0, "max_queue_size": 5},
]


def network(link: dict[str, Any], seed: int = 1, **changes: Any) -> Any:
    shape = {"generator": "tree", "depth": 2, "fanout": 2, "link": link}
    return scenario(topology=shape, seed=seed, **changes)


def assert_all_delivered(result: Result, items: int) -> None:
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == list(range(1, items + 1)), node


def assert_nothing_pending(result: Result) -> None:
    for name, node in result.nodes.items():
        assert node.host.forwarder.pit_entries() == 0, name
        assert node.host.forwarder.pit_bytes() == 0, name


@pytest.mark.parametrize("layering", LAYERINGS)
def test_every_item_once_and_in_order_then_no_state(layering: str) -> None:
    result = simulate(network(CLEAN, drain_ms=DRAIN_MS), layering)
    assert_all_delivered(result, 20)
    assert_nothing_pending(result)
    assert all(n.host.forwarder.counters.malformed == 0 for n in result.nodes.values())


@pytest.mark.parametrize("layering", LAYERINGS)
@pytest.mark.parametrize("link", HARSH, ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_item_once_and_in_order_over_bad_links(layering: str, link: dict[str, Any], seed: int) -> None:
    wanted = network(link, seed, settle_ms=60_000, drain_ms=65_000)
    result = simulate(wanted, layering)
    assert_all_delivered(result, 20)
    assert_nothing_pending(result)


def granted_before_sent(result: Result) -> int:
    """Check that no interface sends an item that was not granted to it before; return the items checked."""
    allowed: dict[str, set[int]] = defaultdict(set)
    checked = 0
    for seen in result.packets:
        interest = open_interest(seen.packet)
        parts = split_item(interest.name) if interest is not None else None
        if not seen.sent and interest is not None and parts is not None:
            credit = interest.send_credit
            first = parts[1]
            allowed[seen.interface].update(range(first, first + (1 if credit is None else credit)))
        elif seen.sent and (seq := item_in(seen.packet)) is not None:
            assert seq in allowed[seen.interface], (seen.interface, seq)
            checked += 1
    return checked


GRANTED = [name for name in LAYERINGS if not LAYERINGS[name].persistent and name != "sync-log"]
"""Layerings without persistent Interests. Announcements of sync-log bring items that nobody has asked for."""


@pytest.mark.parametrize("layering", GRANTED)
@pytest.mark.parametrize("link", [CLEAN, HARSH[1]], ids=str)
def test_no_link_carries_an_item_that_was_not_granted(layering: str, link: dict[str, Any]) -> None:
    wanted = network(link, parameters={"lli": {"credit": 4}}, settle_ms=60_000)
    result = simulate(wanted, layering)
    assert granted_before_sent(result) >= 20 * 6


def test_an_item_crosses_each_link_of_the_tree_once_without_loss() -> None:
    result = simulate(network(CLEAN), "lli")
    sent = Counter(
        (seen.interface, seq) for seen in result.packets if seen.sent and (seq := item_in(seen.packet))
    )
    assert len(sent) == 20 * 6
    assert set(sent.values()) == {1}


@pytest.mark.parametrize("credit", [1, 2, 3, 8, 64])
def test_an_lli_asks_for_half_a_window_at_a_time(credit: int) -> None:
    result = simulate(network(CLEAN, parameters={"lli": {"credit": credit}}), "lli")
    assert_all_delivered(result, 20)
    llis = [
        interest
        for seen in result.packets
        if seen.sent and seen.interface == "s1-eth0" and (interest := open_interest(seen.packet))
    ]
    assert all(lli.send_credit is not None for lli in llis)
    renewals = -(-20 // -(-credit // 2))
    assert len(llis) <= 1 + renewals + 5  # the first, renewals, probes of an idle feed and the cancellation


def test_poll_keeps_its_window_and_no_more() -> None:
    result = simulate(network(CLEAN, parameters={"poll": {"window": 3}}), "poll", until_drained=False)
    asked = [
        parts[1]
        for seen in result.packets
        if seen.sent
        and seen.interface == "s1-eth0"
        and (interest := open_interest(seen.packet))
        and (parts := split_item(interest.name))
    ]
    assert asked[:3] == [1, 2, 3]
    assert max(asked) == 23


def test_one_pit_entry_a_feed_however_many_items_are_under_way() -> None:
    result = simulate(network(CLEAN), "lli", until_drained=False)
    # Stopped at the instant of cancelling: s1's forwarder has let go, the others still hold one entry.
    assert {n.host.forwarder.pit_entries() for name, n in result.nodes.items() if name[0] != "s"} == {1}


def test_same_seed_same_capture_other_seed_another() -> None:
    link = {"delay_ms": 5.0, "loss_percent": 10.0, "jitter_ms": 1.0}
    first, again, other = (simulate(network(link, seed), "lli").capture for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_run_without_time_ends(layering: str) -> None:
    wanted = network(CLEAN, warmup_ms=0, settle_ms=0, drain_ms=DRAIN_MS)
    result = simulate(wanted, layering, items=1)
    assert result.timeline.start == result.timeline.stop
    assert_nothing_pending(result)
