"""Routes: which way packets go from each node of a topology to a source, to several, or to who follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from operator import itemgetter
from typing import TYPE_CHECKING

from topologies.model import Hop, LinkEnd, Topology, TopologyError

if TYPE_CHECKING:
    import networkx

# networkx is imported on use: it takes longer than the rest of a relay's or a node's start.


@lru_cache(maxsize=1024)  # every node of a run asks for the same
def routes(topology: Topology, to: str) -> Mapping[str, Hop]:
    """For every other node that can reach node `to`, over links and media: the next step.

    The path taken has the lowest delay; among those the fewest hops; among those, at each hop, the
    neighbour whose name sorts first. Raises TopologyError if there is no node `to`.
    """
    graph = _graph(topology)
    cost = _costs(graph, to)
    found: dict[str, Hop] = {}
    best: dict[str, tuple[int, str]] = {}
    for hop in topology.hops:
        node, peer = hop.out.node, hop.into.node
        if node == to or peer not in cost:
            continue
        step = topology.carrier(hop.out).delay_ns * len(topology.nodes) + 1
        through = (step + cost[peer], peer)
        if node not in best or through < best[node]:
            best[node] = through
            found[node] = hop
    return found


@lru_cache(maxsize=256)
def next_hops(topology: Topology, to: str) -> Mapping[str, tuple[tuple[LinkEnd, int], ...]]:
    """For every other node: its ends of links that lead to node `to` without coming back, and their costs.

    The cheapest is first, and is that of routes() where there are no media; a cost orders paths by delay,
    then by hops. Raises TopologyError if there is no node `to`.
    """
    from networkx import bridges

    graph = _graph(topology, links_only=True)
    cost = _costs(graph, to)
    # What lies behind a bridge can only come back: in a tree no path needs to be looked for again.
    only_ways = {frozenset(edge) for edge in bridges(graph)}
    own: dict[str, list[LinkEnd]] = {}
    for end in topology.link_ends:
        if end.node != to and end.peer in cost:
            own.setdefault(end.node, []).append(end)
    found: dict[str, tuple[tuple[LinkEnd, int], ...]] = {}
    for node, ends in own.items():
        steps = {end: graph.edges[node, end.peer]["cost"] for end in ends}
        first = min(ends, key=lambda end: (steps[end] + cost[end.peer], end.peer))
        ways = {first: steps[first] + cost[first.peer]}
        others = [end for end in ends if end != first and frozenset((node, end.peer)) not in only_ways]
        if others:
            without = _costs(graph.subgraph(graph.nodes - {node}), to)
            ways |= {end: steps[end] + without[end.peer] for end in others if end.peer in without}
        found[node] = tuple(sorted(ways.items(), key=lambda way: (way[1], way[0].peer)))
    return found


def ways(topology: Topology, node: str, to: Mapping[str, int]) -> dict[str, int]:
    """Return the neighbours of a node that lead to some sources, each with the least cost over it.

    `to` says for each source what it costs on top of the way there.
    """
    costs: dict[str, int] = {}
    for source, extra in to.items():
        for interface, cost in next_hops(topology, source).get(node, ()):
            costs[interface.peer] = min(costs.get(interface.peer, cost + extra), cost + extra)
    return costs


def tree(topology: Topology, leaves: Collection[str], roots: Iterable[str]) -> set[tuple[str, str]]:
    """Return the (child, parent) of all ways from some nodes to each root.

    That is a tree where there are no second ways.
    """
    edges: set[tuple[str, str]] = set()
    for root in roots:
        hops = next_hops(topology, root)
        reached = set(leaves)
        todo = list(reached)
        while todo:
            child = todo.pop()
            parents = {interface.peer for interface, _ in hops.get(child, ())}
            edges |= {(child, parent) for parent in parents}
            todo += parents - reached
            reached |= parents
    return edges


def path_delay_ns(topology: Topology, a: str, b: str) -> int:
    """Sum of the delays along the route between two nodes, in nanoseconds, one way.

    Raises TopologyError if a node is unknown or no path joins them.
    """
    costs = _costs(_graph(topology), b)
    if a not in topology.nodes:
        raise TopologyError(f"there is no node {a!r}")
    if a not in costs:
        raise TopologyError(f"no path joins {a} and {b}")
    return costs[a] // len(topology.nodes)


def _costs(graph: networkx.Graph[str], to: str) -> Mapping[str, int]:
    """Return what the cheapest path to a node costs from each that has one.

    Raises TopologyError if there is no such node.
    """
    from networkx import single_source_dijkstra_path_length

    if to not in graph:
        raise TopologyError(f"there is no node {to!r}")
    lengths = single_source_dijkstra_path_length(graph, to, weight="cost")
    return {node: int(length) for node, length in lengths.items()}


@lru_cache(maxsize=16)
def _graph(topology: Topology, *, links_only: bool = False) -> networkx.Graph[str]:
    """The topology as a graph whose edges' `cost` orders paths by delay, then by hops.

    A path has fewer hops than there are nodes, so delay * nodes + hops compares as (delay, hops) does.
    """
    from networkx import Graph

    graph: networkx.Graph[str] = Graph()
    graph.add_nodes_from(topology.nodes)
    pairs = [(link.a, link.b, link.delay_ns) for link in topology.links]
    if not links_only:
        pairs += [(a, b, m.delay_ns) for m in topology.media for a, b in combinations(m.members, 2)]
    for a, b, delay in sorted(pairs, key=itemgetter(2), reverse=True):  # of parallel ways the fastest stays
        graph.add_edge(a, b, cost=delay * len(topology.nodes) + 1)
    return graph
