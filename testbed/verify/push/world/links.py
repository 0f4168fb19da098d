"""The links of a simulated network: fates of frames, and routes."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from testbed.verify.push.stories.story import MS, Fate, Link, Story
from testbed.verify.push.world.frames import Reader
from testbed.verify.push.world.linkwatch import LinkWatch
from topologies.model import Link as TopologyLink
from topologies.model import Topology
from topologies.routing import Routing, ways

_NS_PER_BYTE = 8_000_000
"""At 1 kbit/s."""


@dataclass(eq=False, slots=True)
class Cable:
    """A link's state; `epoch` counts its cuts: frames in flight at a cut are lost."""

    link: Link
    up: bool = True
    signalled: bool = False
    epoch: int = 0


class Wire:
    """One direction of a link; `watch` is its observer, if classic NDN is included."""

    __slots__ = ("a", "b", "cable", "count", "departures", "fates", "heard", "key", "reader", "watch")

    def __init__(self, cable: Cable, a: str, b: str, story: Story) -> None:
        self.cable = cable
        self.a = a
        self.b = b
        self.key = f"{story.seed} {a} {b} ".encode()
        self.count = 0
        self.departures: list[int] = []
        self.watch: LinkWatch | None = None
        self.reader: Reader | LinkWatch = Reader()
        self.heard: list[bytes] = []
        self.fates: dict[int, Fate] | None = None
        if story.fates is not None:
            self.fates = {fate.n: fate for fate in story.fates if (fate.a, fate.b) == (a, b)}

    def fate(self, n: int) -> Fate | None:
        """Return the fate of the n-th frame."""
        if self.fates is not None:
            return self.fates.get(n)
        link = self.cable.link
        if not (link.lost or link.twice or link.late):
            return None
        bits = hashlib.blake2b(self.key + b"%d" % n, digest_size=16).digest()
        lost, twice, late, by = (int.from_bytes(bits[at : at + 4], "big") / 2**32 for at in (0, 4, 8, 12))
        delay = round(by * max(link.lateness, link.delay))
        if lost < link.lost:
            return Fate(self.a, self.b, n, "lost")
        if twice < link.twice:
            return Fate(self.a, self.b, n, "twice", delay)
        if late < link.late:
            return Fate(self.a, self.b, n, "late", delay)
        return None

    def departure(self, now: int, size: int) -> int | None:
        """Queue a frame of `size` bytes; return when its last bit is sent (ns), None if the queue is full."""
        link = self.cable.link
        if link.rate_kbit is None:
            return now
        queue = self.departures
        while queue and queue[0] <= now:
            queue.pop(0)
        if len(queue) >= link.queue:
            return None
        queue.append((queue[-1] if queue else now) + size * _NS_PER_BYTE // link.rate_kbit)
        return queue[-1]


Hops = list[tuple[str, int]]
"""Next hops of a node: neighbour and cost."""


def routes(
    story: Story, origins: Sequence[Sequence[str]], down: Collection[frozenset[str]] = ()
) -> dict[str, list[Hops]]:
    """Return each node's next hops for several names, given by the nodes at their ends.

    `down`: links known to routing as down; only routes by "ways" avoid them.
    """
    found: dict[str, list[Hops]] = {node.name: [] for node in story.nodes}
    known: dict[Sequence[str], dict[str, Hops]] = {}
    for ends in map(tuple, origins):
        if ends not in known:
            by_ways = story.routing == "ways"
            known[ends] = _ways(story, ends, down) if by_ways else _by_distance(story, ends)
        for node, hops in known[ends].items():
            found[node].append(hops)
    return found


def _ways(story: Story, ends: Sequence[str], down: Collection[frozenset[str]]) -> dict[str, Hops]:
    """Return all next hops on loop-free paths to one of `ends`."""
    topology = _topology(tuple(node.name for node in story.nodes), story.links)
    indices = (at for at, link in enumerate(story.links) if frozenset((link.a, link.b)) in down)
    by = Routing(down=frozenset(indices))
    sources = dict.fromkeys(ends, 0)
    return {
        node.name: sorted(ways(topology, node.name, sources, by).items(), key=lambda way: (way[1], way[0]))
        for node in story.nodes
    }


@lru_cache(maxsize=64)
def _topology(nodes: tuple[str, ...], links: tuple[Link, ...]) -> Topology:
    return Topology(nodes, tuple(TopologyLink(link.a, link.b, delay_ms=link.delay / MS) for link in links))


def _by_distance(story: Story, ends: Sequence[str]) -> dict[str, Hops]:
    neighbours: dict[str, list[str]] = {node.name: [] for node in story.nodes}
    for link in story.links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    distance = dict.fromkeys(ends, 0)
    frontier = list(distance)
    for node in frontier:  # grows as it goes
        for peer in neighbours[node]:
            if peer not in distance:
                distance[peer] = distance[node] + 1
                frontier.append(peer)
    found: dict[str, Hops] = {}
    for node, peers in neighbours.items():
        hops = sorted((distance[peer] + 1, peer) for peer in peers if peer in distance)
        if story.routing != "all":
            hops = [(cost, peer) for cost, peer in hops if distance[peer] < distance[node]]
        if story.routing == "single":
            hops = hops[:1]
        elif story.routing == "none":
            hops = []
        found[node] = [(peer, cost) for cost, peer in hops]
    return found
