"""A publisher that appends many items without ever giving its event loop back, in virtual time.

What is asked of it meanwhile waits in its socket. Those who ask time out, ask again, and take it for one that
cannot push; then it reads everything at once.
"""

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from base.units import MS
from feednet.client import without_repeats
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.consumer import Consumer
from forwarder.lli.producer import Producer
from forwarder.wire.lp import open_interest, parse_lp
from forwarder.wire.packet import Data, parse_data
from testbed.bench.load import Feed, native_feed
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Link, Topology, on_links

NODES = ("pub", "r1", "r2", "sub")
FEED = native_feed(1000)


class Busy:
    """The application: `bursts` are (when it begins, items), `pause` is the time from item to item, ns."""

    def __init__(self, feed: Feed, bursts: list[tuple[int, int]], pause: int) -> None:
        self._items = [parse_data(wire) for wire in feed.items]
        self._due = [at + n * pause for at, count in bursts for n in range(count)]
        self._busy = [(at, at + (count - 1) * pause) for at, count in bursts]
        self._tip = 0
        self._end = Producer(feed.name, self._get, lambda: self._tip)
        self._waiting: list[bytes] = []

    def _get(self, seq: int) -> Data | None:
        return self._items[seq - 1] if seq <= self._tip else None

    def receive(self, packet: bytes, now: int) -> None:
        self._waiting.append(packet)
        self._read(now)

    def _read(self, now: int) -> None:
        if any(begin <= now < end for begin, end in self._busy):
            return
        waiting, self._waiting = self._waiting, []
        asked = [interest for packet in waiting if (interest := open_interest(packet)) is not None]
        for interest in without_repeats(asked):
            self._end.receive(interest, now)

    def take_outputs(self) -> list[bytes]:
        return self._end.take_outputs()

    def next_deadline(self) -> int | None:
        return self._due[self._tip] if self._tip < len(self._due) else self._end.next_deadline()

    def wake(self, now: int) -> None:
        while self._tip < len(self._due) and self._due[self._tip] <= now:
            self._tip += 1
            self._end.appended(self._tip, now)
        self._end.wake(now)
        self._read(now)


class Reader:
    """Follows the feed, and notes when items come."""

    def __init__(self, feed: bytes) -> None:
        self._end = Consumer(feed, rng=Random(3), credit=64, lifetime_ms=60_000)
        self._start: int | None = 100 * MS
        self.times: list[int] = []

    def receive(self, packet: bytes, now: int) -> None:
        self._end.receive(parse_lp(packet), now)
        self.times += [now for _ in self._end.take_items()]

    def take_outputs(self) -> list[bytes]:
        return self._end.take_outputs()

    def next_deadline(self) -> int | None:
        return self._end.next_deadline() if self._start is None else self._start

    def wake(self, now: int) -> None:
        if self._start is not None:
            self._start = None
            self._end.start(now)
        self._end.wake(now)


class Outcome(NamedTuple):
    """How long after each burst all of it was there, ms; and Data that came in at each node, all in all."""

    waits: list[float]
    data: dict[str, int]


def run(plain: set[str], bursts: list[tuple[int, int]], pause: int, delay_ms: float) -> Outcome:
    """Over pub - r1 - r2 - sub, of which some are forwarders that cannot push."""
    links = [Link(a, b, bw_mbit=1000.0, delay_ms=delay_ms, max_queue_size=10_000) for a, b in pairwise(NODES)]
    topology = Topology(NODES, tuple(links))
    hosts = {node: Host(Forwarder(rng=Random(node), controlled_push=node not in plain)) for node in NODES}
    faces = {i.name: hosts[i.node].add_link() for i in topology.link_ends}
    for interface in topology.link_ends:
        if NODES.index(interface.peer) < NODES.index(interface.node):
            hosts[interface.node].forwarder.fib.add(FEED.name, faces[interface.name])
    hosts["pub"].forwarder.fib.add(FEED.name, hosts["pub"].attach(Busy(FEED, bursts, pause)))
    reader = Reader(FEED.name)
    hosts["sub"].attach(reader)
    EmulatedNetwork(topology, on_links(topology, hosts, faces), seed=1, capture=None).run(
        bursts[-1][0] + 20_000 * MS
    )
    waits, seq = [], 0
    for at, count in bursts:
        seq += count
        assert len(reader.times) >= seq
        waits.append((reader.times[seq - 1] - at - (count - 1) * pause) / MS)
    assert len(reader.times) == seq
    data = {node: sum(face.in_data for face in host.forwarder.faces.values()) for node, host in hosts.items()}
    return Outcome(waits, data)


def bursts_of(count: int, pause: int, *, times: int, rest: int = 200 * MS) -> list[tuple[int, int]]:
    return [(1000 * MS + n * (count * pause + rest), count) for n in range(times)]


@pytest.mark.parametrize("pause", [MS // 10, MS, 4 * MS])
@pytest.mark.parametrize("plain", [(), NODES, ("r1",), ("r2",), ("pub",), ("r1", "r2"), ("pub", "r2")])
def test_all_of_a_burst_is_there_soon_after_it(plain: tuple[str, ...], pause: int) -> None:
    outcome = run(set(plain), bursts_of(100, pause, times=3), pause, delay_ms=1.0)
    assert max(outcome.waits) < 300, outcome


@pytest.mark.parametrize("pause", [MS // 10, MS, 4 * MS])
def test_forwarders_take_in_little_more_than_there_is(pause: int) -> None:
    outcome = run(set(), bursts_of(200, pause, times=5), pause, delay_ms=0.05)
    assert all(count <= 1.1 * 1000 for count in outcome.data.values()), outcome
