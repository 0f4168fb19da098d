"""Multicast in drawn networks: two sources, links that fail, lose and delay, nodes that start anew.

Whatever has happened, each reader that stays has all items, and when all have left no router holds anything.
`python tests/ssb/test_multicast_networks.py FIRST COUNT` plays other seeds.
"""

import sys
from random import Random

import pytest
from multicast_world import Link, World

from base.units import MS, SECOND
from ssb.multicast.packets import Request
from ssb.multicast.router import HOLD, REFRESH

DELAYS = (MS, 5 * MS, 30 * MS, 150 * MS, 400 * MS)


def _network(rng: Random) -> list[tuple[int, int]]:
    """Return the edges of a tree of three to nine nodes, with up to three more."""
    nodes = rng.randrange(3, 10)
    edges = {(rng.randrange(max(0, node - 3), node), node) for node in range(1, nodes)}
    for _ in range(rng.randrange(4)):
        here, there = sorted(rng.sample(range(nodes), 2))
        edges.add((here, there))
    return sorted(edges)


def _link(rng: Random) -> Link:
    delay = rng.choice(DELAYS)
    loss = rng.choice([0.0, 0.0, 0.02, 0.1, 0.3])
    return Link(loss, rng.choice([0.0, 0.1]), delay, rng.choice([0, 0, MS, delay]))


def play(seed: int) -> None:
    """Play a network of a seed; raise AssertionError if something does not hold."""
    rng = Random(f"multicast {seed}")
    edges = _network(rng)
    nodes = max(max(edge) for edge in edges) + 1
    sources = (0,) if rng.random() < 0.5 else (0, rng.randrange(1, nodes))
    links = {edge: _link(rng) for edge in edges}
    world = World(
        edges, links=links, sources=sources, seed=rng.randrange(1 << 30), kept=rng.choice([0, 1, 4, 256])
    )
    reading = [(node, source) for source in sources for node in range(nodes) if node != source]
    reading = [each for each in reading if rng.random() < 0.6] or reading[:1]
    down: list[tuple[int, int]] = []

    def disturb() -> None:
        what = rng.choice(["link", "link", "silent", "restart", "leave", "delay"])
        edge = rng.choice(edges)
        if what in ("link", "silent"):
            converge = {node: rng.randrange(300) * MS for node in range(nodes)}
            up = edge in down
            (down.remove if up else down.append)(edge)
            world.set_link(edge, up, is_told=what == "link", converge=converge)
        elif what == "restart":
            world.restart(rng.randrange(nodes))
        elif what == "leave":
            node, source = rng.choice(reading)
            if world.reads(node, source):
                world.leave(node, source)
            elif (node, source) in world.received:
                world.resume(node, source)
        else:
            world.links[edge] = _link(rng)

    for node, source in reading:
        if rng.random() < 0.7:
            world.join(node, source=source)
    for number in range(rng.randrange(1, 25)):
        source = rng.choice(sources)
        world.publish(b"%d %03d" % (source, number) * rng.randrange(1, 6), source)
        world.run(rng.choice([0, 10, 50, 300, 3_000, 70_000] if rng.random() < 0.9 else [200_000]) * MS)
        if rng.random() < 0.3:
            disturb()
    for edge in edges:
        world.set_link(edge, up=True)
    for node, source in reading:
        if (node, source) not in world.received:
            world.join(node, source=source)
        elif not world.reads(node, source):
            world.resume(node, source)
    world.run(400 * SECOND)
    for node, source in reading:
        assert world.received[node, source] == world.logs[source], (node, source)
    repairs = {node: host.router.repairs().entries for node, host in world.hosts.items()}
    assert not any(repairs.values()), f"requests for nothing: {repairs}"
    before = world.count(Request)
    world.run(300 * SECOND)
    assert world.count(Request) == before, "requests though nothing lacks"
    for node, source in reading:
        world.leave(node, source)
    world.run(HOLD + 2 * REFRESH)
    held = {node: host.router.trees().entries for node, host in world.hosts.items()}
    assert not any(held.values()), f"trees without readers: {held}"
    assert all(host.next_deadline() is None for host in world.hosts.values())


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_readers_get_all_and_nothing_stays(first: int) -> None:
    for seed in range(first, first + 10):
        play(seed)


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        try:
            play(seed)
        except Exception as error:
            print(seed, type(error).__name__, str(error)[:150], flush=True)
