"""Paths as long as the Topology Zoo has them, and longer: 100 links, at whose end a layering delivers all."""

from collections import Counter

import pytest
from simulation import item_in, scenario, simulate

ITEMS, LINKS = 5, 100
FAR = scenario(
    topology={"generator": "line", "length": LINKS, "link": {"delay_ms": 2.0}},
    subscribers=("s1",),
    warmup_ms=3000,
    settle_ms=5000,
)
OVER_NDN = ("pull", "poll", "long-lived", "persistent", "notify", "sync", "sync-log", "lli", "lli-selective")
OVER_GROUPS = ("notify-each", "sync-all", "psync", "sync-ps")
OVER_IP = ("ssb", "hub", "scan", "flood", "broker")


@pytest.mark.parametrize("layering", [*OVER_NDN, *OVER_GROUPS, *OVER_IP, "multicast", "moq"])
def test_the_end_of_a_long_path_gets_all(layering: str) -> None:
    assert sorted(simulate(FAR, layering, items=ITEMS).delivered("s1")) == list(range(1, ITEMS + 1))


def test_controlled_push_sends_nothing_twice() -> None:
    found = simulate(FAR, "lli", items=ITEMS)
    sent = Counter(item_in(seen.packet) for seen in found.packets if seen.sent)
    assert [sent[seq] for seq in range(1, ITEMS + 1)] == [LINKS] * ITEMS
    # Two for each hop, as the credit is renewed once, and a third where INITIAL_TIMEOUT is too short.
    interests = sum(node.counters()["in_interests"] for node in found.nodes.values())
    assert 2 * LINKS <= interests <= 3 * LINKS
