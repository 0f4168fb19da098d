"""Hosts of multicast trees, joined by links that lose, repeat and delay, in virtual time."""

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import NamedTuple

from base.units import MS, SECOND
from ssb.multicast.ends import Beats, Gone, Reader, Source
from ssb.multicast.gaps import Patience
from ssb.multicast.host import Host
from ssb.multicast.packets import Channel, Packet, parse
from ssb.multicast.router import LOCAL, Router

CHANNEL = Channel(b"\x0a\0\0\1", b"\xe8\0\1\0")
PATIENCE = Patience()


class Link(NamedTuple):
    """Shares of packets that are lost and repeated; the delay, and most that a packet takes longer, ns."""

    loss: float = 0.0
    repeated: float = 0.0
    delay: int = 5 * MS
    jitter: int = 0


class World:
    """A network; node 0 has the source.

    Args:
        edges: pairs of nodes.
        link: of all links.
        seed: of what happens to packets.
        kept: see Router.
        retain: see Source.
        size: of segments, bytes.
        beats: see Beats.
    """

    def __init__(
        self,
        edges: Iterable[tuple[int, int]],
        link: Link = Link(),  # noqa: B008 - a tuple
        *,
        seed: int = 0,
        kept: int = 8,
        retain: int | None = None,
        size: int = 10,
        beats: Beats = Beats(100 * MS, 2 * SECOND),  # noqa: B008 - a tuple
    ) -> None:
        self.now = 0
        self.sent: list[tuple[int, int, int, Packet]] = []
        self.got: dict[int, list[bytes | Gone]] = {}
        self.is_lost: Callable[[int, int, Packet], bool] = lambda here, there, packet: False
        self._edges = [tuple(sorted(edge)) for edge in edges]
        self._down: set[tuple[int, ...]] = set()
        self._link = link
        self._rng = Random(seed)
        self._kept, self._retain, self._size, self._beats = kept, retain, size, beats
        self._flying: list[tuple[int, int, int, int, bytes]] = []
        self._numbers = count()
        self.log: list[bytes] = []
        self.hosts = {node: self._host(node, None) for edge in self._edges for node in edge}
        self._add_source()

    def publish(self, item: bytes) -> None:
        """Publish an item."""
        self.log.append(item)
        self.hosts[0].publish(CHANNEL, item, self.now)
        self._settle()

    def join(self, node: int, floor: int = 0) -> None:
        """Let a node read from the segment after `floor`."""
        self.got.setdefault(node, [])
        self.hosts[node].add(CHANNEL, Reader(CHANNEL, floor, PATIENCE), self.now)
        self._settle()

    def leave(self, node: int) -> None:
        """Let a node stop reading."""
        self.hosts[node].remove(CHANNEL, self.now)
        self._settle()

    def restart(self, node: int) -> None:
        """Let a node lose all state but the log, and what it has read."""
        self.hosts[node] = self._host(node, self.now)
        if node == 0:
            self._add_source()
        if node in self.got:
            items = [each for each in self.got[node] if isinstance(each, bytes)]
            self.join(node, sum(-(-len(each) // self._size) for each in items))
        self._settle()

    def set_link(self, edge: tuple[int, int], up: bool, *, is_told: bool = True) -> None:
        """Set a link up or down; all nodes have new routes at once, if they are told."""
        (self._down.discard if up else self._down.add)(tuple(sorted(edge)))
        if is_told:
            for node, other in (edge, edge[::-1]):
                self.hosts[node].set_link(other + 1, up, self.now)
            for node, host in self.hosts.items():
                host.reroute(self._routes(node), self.now)
        self._settle()

    def run(self, duration: int) -> None:
        """Let time pass, ns."""
        until = self.now + duration
        while True:
            due = [self._flying[0][0]] if self._flying else []
            due += [each for host in self.hosts.values() if (each := host.next_deadline()) is not None]
            if not due or min(due) > until:
                break
            self.now = max(self.now, min(due))
            while self._flying and self._flying[0][0] <= self.now:
                _, _, here, there, data = heapq.heappop(self._flying)
                self.hosts[there].receive(here + 1, data, self.now)
            for host in self.hosts.values():
                host.wake(self.now)
            self._settle()
        self.now = until

    def count(self, kind: type[Packet], here: int | None = None, there: int | None = None) -> int:
        """Return how many packets of a kind were sent, of all, or over one link."""
        return sum(
            isinstance(packet, kind) and here in (None, sender) and there in (None, receiver)
            for _, sender, receiver, packet in self.sent
        )

    def _routes(self, node: int) -> dict[bytes, int]:
        """Return the port towards the source, on a path with fewest links: the neighbour's number and one."""
        if node == 0:
            return {CHANNEL.source: LOCAL}
        towards, ahead = {0: 0}, [0]
        for here in ahead:
            for edge in sorted(set(self._edges) - self._down):
                if here in edge:
                    other = edge[0] + edge[1] - here
                    if other not in towards:
                        towards[other] = here
                        ahead.append(other)
        return {CHANNEL.source: towards[node] + 1} if node in towards else {}

    def _host(self, node: int, since: int | None) -> Host:
        links = sorted(edge[0] + edge[1] - node + 1 for edge in self._edges if node in edge)
        return Host(Router(links, self._routes(node), self._kept, PATIENCE, Random(node), since))

    def _add_source(self) -> None:
        source = Source(CHANNEL, self._size, self.log, self._retain, self._beats)
        self.hosts[0].add(CHANNEL, source, self.now)

    def _settle(self) -> None:
        for here, host in self.hosts.items():
            for port, data in host.outputs:
                self._send(here, port - 1, data)
            host.outputs.clear()
            for _, item in host.items:
                self.got[here].append(item)
            host.items.clear()

    def _send(self, here: int, there: int, data: bytes) -> None:
        packet, link = parse(data), self._link
        self.sent.append((self.now, here, there, packet))
        edge = tuple(sorted((here, there)))
        if edge in self._down or self._rng.random() < link.loss or self.is_lost(here, there, packet):
            return
        for _ in range(1 + (self._rng.random() < link.repeated)):
            at = self.now + link.delay + self._rng.randrange(link.jitter + 1)
            heapq.heappush(self._flying, (at, next(self._numbers), here, there, data))
