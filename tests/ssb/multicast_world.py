"""Hosts of multicast trees, joined by links that lose, repeat and delay, in virtual time."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

from base.units import MS, SECOND
from ssb.multicast.ends import Beats, Gone, Reader, Source
from ssb.multicast.gaps import Patience
from ssb.multicast.host import Host
from ssb.multicast.packets import Channel, Packet, parse
from ssb.multicast.router import LOCAL, Router

PATIENCE = Patience()


def channel_of(source: int) -> Channel:
    """Return the channel of a node's source."""
    return Channel(bytes((10, 0, 0, 1 + source)), b"\xe8\0\1\0")


CHANNEL = channel_of(0)


class Link(NamedTuple):
    """Shares of packets that are lost and repeated; the delay, and most that a packet takes longer, ns."""

    loss: float = 0.0
    repeated: float = 0.0
    delay: int = 5 * MS
    jitter: int = 0


class World:
    """A network; node 0 has a source, and perhaps others have one, too.

    Args:
        edges: pairs of nodes.
        link: of all links but those in `links`.
        links: of some links, each by its nodes, the lower first; may be changed.
        sources: nodes with a source.
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
        links: Mapping[tuple[int, ...], Link] | None = None,
        sources: Sequence[int] = (0,),
        seed: int = 0,
        kept: int = 8,
        retain: int | None = None,
        size: int = 10,
        beats: Beats = Beats(100 * MS, 2 * SECOND),  # noqa: B008 - a tuple
    ) -> None:
        self.now = 0
        self.sent: list[tuple[int, int, int, Packet]] = []
        self.received: dict[tuple[int, int], list[bytes | Gone]] = {}  # by reader and source
        self.is_lost: Callable[[int, int, Packet], bool] = lambda here, there, packet: False
        self._edges = [tuple(sorted(edge)) for edge in edges]
        self._down: set[tuple[int, ...]] = set()
        self._link = link
        self.links = dict(links or {})
        self._sources = sources
        self._rng = Random(seed)
        self._kept, self._retain, self._size, self._beats = kept, retain, size, beats
        self._flying: list[tuple[int, int, int, int, bytes]] = []
        self._moving: dict[int, int] = {}  # when a node has new routes
        self._numbers = count()
        self.logs: dict[int, list[bytes]] = {source: [] for source in sources}
        self.hosts = {node: self._host(node, None) for edge in self._edges for node in edge}
        for source in sources:
            self._add_source(source)

    @property
    def log(self) -> list[bytes]:
        """What node 0 has published."""
        return self.logs[0]

    @property
    def got(self) -> dict[int, list[bytes | Gone]]:
        """What each reader has got from node 0."""
        return {node: items for (node, source), items in self.received.items() if source == 0}

    def publish(self, item: bytes, source: int = 0) -> None:
        """Publish an item."""
        self.logs[source].append(item)
        self.hosts[source].publish(channel_of(source), item, self.now)
        self._settle()

    def join(self, node: int, floor: int = 0, source: int = 0) -> None:
        """Let a node read from the segment after `floor`."""
        channel = channel_of(source)
        self.received.setdefault((node, source), [])
        self.hosts[node].add(channel, Reader(channel, floor, PATIENCE), self.now)
        self._settle()

    def resume(self, node: int, source: int = 0) -> None:
        """Let a node read on after what it has got."""
        items = [each for each in self.received[node, source] if isinstance(each, bytes)]
        self.join(node, sum(-(-len(each) // self._size) for each in items), source)

    def leave(self, node: int, source: int = 0) -> None:
        """Let a node stop reading."""
        self.hosts[node].remove(channel_of(source), self.now)
        self._settle()

    def reads(self, node: int, source: int = 0) -> bool:
        """Whether a node reads a source now."""
        return isinstance(self.hosts[node].ends.get(channel_of(source)), Reader)

    def restart(self, node: int) -> None:
        """Let a node lose all state but the log, and what it has read."""
        reads = [source for source in self._sources if self.reads(node, source)]
        self.hosts[node] = self._host(node, self.now)
        if node in self._sources:
            self._add_source(node)
        for source in reads:
            self.resume(node, source)
        self._settle()

    def set_link(
        self,
        edge: tuple[int, int],
        up: bool,
        *,
        is_told: bool = True,
        converge: Mapping[int, int] | None = None,
    ) -> None:
        """Set a link up or down; if they are told, nodes have new routes at once, or each after its time."""
        (self._down.discard if up else self._down.add)(tuple(sorted(edge)))
        if is_told:
            for node, other in (edge, edge[::-1]):
                self.hosts[node].set_link(other + 1, up, self.now)
            for node in self.hosts:
                self._moving[node] = self.now + (converge or {}).get(node, 0)
            self._move()
        self._settle()

    def _move(self) -> None:
        for node in [each for each, at in self._moving.items() if at <= self.now]:
            del self._moving[node]
            self.hosts[node].reroute(self._routes(node), self.now)

    def run(self, duration: int) -> None:
        """Let time pass, ns."""
        until = self.now + duration
        while True:
            due = [self._flying[0][0]] if self._flying else []
            due += self._moving.values()
            due += [each for host in self.hosts.values() if (each := host.next_deadline()) is not None]
            if not due or min(due) > until:
                break
            self.now = max(self.now, min(due))
            while self._flying and self._flying[0][0] <= self.now:
                _, _, here, there, data = heapq.heappop(self._flying)
                self.hosts[there].receive(here + 1, data, self.now)
            self._move()
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
        """Return the ports towards sources, on paths with fewest links: the neighbour's number and one."""
        ports = {source: self._port(node, source) for source in self._sources}
        return {channel_of(source).source: port for source, port in ports.items() if port is not None}

    def _port(self, node: int, source: int) -> int | None:
        if node == source:
            return LOCAL
        towards, ahead = {source: source}, [source]
        for here in ahead:
            for edge in sorted(set(self._edges) - self._down):
                if here in edge:
                    other = edge[0] + edge[1] - here
                    if other not in towards:
                        towards[other] = here
                        ahead.append(other)
        return towards[node] + 1 if node in towards else None

    def _host(self, node: int, since: int | None) -> Host:
        links = sorted(edge[0] + edge[1] - node + 1 for edge in self._edges if node in edge)
        return Host(Router(links, self._routes(node), self._kept, PATIENCE, Random(node), since))

    def _add_source(self, node: int) -> None:
        channel = channel_of(node)
        source = Source(channel, self._size, self.logs[node], self._retain, self._beats)
        self.hosts[node].add(channel, source, self.now)

    def _settle(self) -> None:
        for here, host in self.hosts.items():
            for port, data in host.outputs:
                self._send(here, port - 1, data)
            host.outputs.clear()
            for channel, item in host.items:
                self.received[here, channel.source[3] - 1].append(item)
            host.items.clear()

    def _send(self, here: int, there: int, data: bytes) -> None:
        packet, edge = parse(data), tuple(sorted((here, there)))
        link = self.links.get(edge, self._link)
        self.sent.append((self.now, here, there, packet))
        if edge in self._down or self._rng.random() < link.loss or self.is_lost(here, there, packet):
            return
        for _ in range(1 + (self._rng.random() < link.repeated)):
            at = self.now + link.delay + self._rng.randrange(link.jitter + 1)
            heapq.heappush(self._flying, (at, next(self._numbers), here, there, data))
