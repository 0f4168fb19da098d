"""Expected paths of items: from each feed's publisher to each subscriber, by the run's metric.

The topology is the manifest's, before any failure. Ties go to fewer hops, then to node names in order, as in
a run's own routes. Hyperbolic routing has no best paths; delay substitutes.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from analysis.run.manifest import Link, Manifest
from topologies.link import LinkParameters


class Hop(NamedTuple):
    """One link, from `sender` to `receiver`, of the path from `feed`'s publisher to a `subscriber`.

    `delay_ns`, and `ns_per_byte` of a frame (0: no limit).
    """

    feed: str
    subscriber: str
    sender: str
    receiver: str
    delay_ns: int
    ns_per_byte: float


def delivery_paths(manifest: Manifest) -> list[Hop]:
    """Return the hops of every path from a feed's publisher to another possible subscriber, and those of
    cross traffic.
    """
    takers, fork = manifest.takers, manifest.fork
    wanted: list[tuple[str, tuple[str, ...], list[str]]]
    wanted = [(feed.feed, (feed.publisher,), takers) for feed in manifest.workload.feeds]
    wanted += [(cross.feed, (cross.sender,), [cross.receiver]) for cross in manifest.workload.cross_traffic]
    if fork:  # its second device has the feed, too
        wanted = [
            (feed, (*roots, fork.publisher) if feed == fork.feed else roots, ends)
            for feed, roots, ends in wanted
        ]
    trees = {roots: _tree(manifest, roots) for roots in {roots for _, roots, _ in wanted}}
    return [
        Hop(feed, end, sender, receiver, link.delay_ns, link.ns_per_byte)
        for feed, roots, ends in wanted
        for end in ends
        for sender, receiver, link in _path(trees[roots], end)
    ]


def _tree(manifest: Manifest, roots: tuple[str, ...]) -> dict[str, tuple[str, LinkParameters]]:
    """Return for each other node its predecessor on the path from the nearest root, and the link."""
    neighbours: dict[str, list[tuple[str, LinkParameters]]] = {
        node.name: [] for node in manifest.topology.nodes
    }
    for sender, receiver, link in manifest.topology.neighbours:
        neighbours.setdefault(sender, []).append((receiver, link))
    metric = manifest.topology.metric
    cost: dict[str, tuple[float, int]] = {}
    before: dict[str, tuple[str, LinkParameters]] = {}
    queue: list[tuple[float, int, str]] = [(0, 0, root) for root in roots]
    while queue:
        sum_of, hops, node = heappop(queue)
        if node not in cost:
            cost[node] = sum_of, hops
            for peer, link in neighbours.get(node, []):
                heappush(queue, (sum_of + _weight(metric, peer, link), hops + 1, peer))
    for node in cost:
        ways = [
            (cost[peer][0] + _weight(metric, node, link), cost[peer][1] + 1, peer, link)
            for peer, link in neighbours[node]
            if node not in roots
        ]
        if ways:
            _, _, peer, link = min(ways, key=lambda way: way[:3])
            before[node] = peer, link
    return before


def _weight(metric: str, sender: str, link: LinkParameters) -> float:
    """Return a link's cost for a sender towards a root, as topologies.routing computes it."""
    if metric == "hops":
        return 0
    if metric != "cost":
        return link.delay_ns
    cost: float | None = None
    if isinstance(link, Link):
        cost = link.cost_back if sender == link.b and link.cost_back is not None else link.cost
    return 1 if cost is None else cost


def _path(
    before: dict[str, tuple[str, LinkParameters]], end: str
) -> Iterator[tuple[str, str, LinkParameters]]:
    """Yield (sender, receiver, link) from `end` back to the root; nothing if unreachable."""
    while end in before:
        sender, link = before[end]
        yield sender, end, link
        end = sender
