"""Studies of minutes: `make test-slow`."""

import pytest
from test_tiny_isp import part
from tiny_cell import provider_cell, texts

from base.units import SECOND
from ssb.tiny.isp.terms import Terms

MESSAGES = 100_000
"""That go through a provider."""


@pytest.mark.slow
def test_a_thousand_farewells_under_reordering() -> None:
    for seed in range(1000):
        part(seed)


def tunnel(messages: int) -> tuple[int, int, int]:
    """Send messages from one client to another; return the most bytes that provider and reader stored, and
    the bound of the terms."""
    terms = Terms()
    network = provider_cell(2, terms)
    ref = network.subscribe()
    one, other = network.clients["c0"], network.clients["c1"]
    sent = read = most = most_there = 0
    while read < messages:
        for _ in range(min(messages - sent, 200)):
            one.send(ref, b"%d" % sent, network.now)
            sent += 1
        for _ in range(400):
            network.run(0.2)
            for entry in other.read(ref, 1000):
                assert entry.content == b"%d" % read
                read += 1
                other.confirm(ref, entry.sequence, network.now)
            most = max(most, network.nodes["isp"].store.size())
            most_there = max(most_there, other.node.store.size())
            if read == sent:
                break
        assert read == sent
    return most, most_there, terms.bound(1)


@pytest.mark.slow
def test_storage_for_many_messages_stays_below_the_bound() -> None:
    most, most_there, bound = tunnel(MESSAGES)
    few, few_there, _ = tunnel(5_000)
    assert max(most, most_there) < bound
    assert most <= few * 1.5, "it does not grow with the messages"
    assert most_there <= few_there * 1.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["floods its contact", "reads nothing", "asks without end"])
def test_a_hostile_client_leaves_others_nine_tenths(kind: str) -> None:
    """Over several seeds: those of one differ by a tenth, by the times that answers wait."""
    alone, beside = (
        sum(exchange(kind if is_hostile else "", seed) for seed in range(4)) for is_hostile in (0, 1)
    )
    assert beside <= alone / 0.9


def exchange(kind: str, seed: int, messages: int = 500) -> float:
    """Return how many seconds messages take from one client to another, beside a hostile client or none."""
    network = provider_cell(4, Terms(size=10, unread=3, backlog=10), seed)
    good, bad, also = (
        network.subscribe("c0", "c1"),
        network.subscribe("c2", "c3"),
        network.subscribe("c0", "c3"),
    )
    hostile, contact = network.clients["c2"], network.clients["c3"]
    if kind == "floods its contact":
        network.send("c2", bad, texts("x", 2000, 400))
    elif kind == "reads nothing":
        network.send("c0", also, texts("x", 300))
    network.run(5)
    begun = network.now
    network.send("c0", good, texts("a", messages))
    found: list[bytes] = []
    while len(found) < messages:
        if kind == "asks without end":
            hostile.subscribe(network.key("isp"), network.key("isp"), network.now)
        for entry in contact.read(bad):
            contact.confirm(bad, entry.sequence, network.now)
        found += network.receive("c1", good, messages - len(found), seconds=0.2)
    assert found == texts("a", messages)
    return (network.now - begun) / SECOND
