"""Routes: which way packets go from each node of a topology to a source, to several, or to who follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from topologies.model import Interface, Topology, TopologyError

if TYPE_CHECKING:
    import networkx

# networkx is imported on use: it takes longer than the rest of a relay's or a node's start.


@lru_cache(maxsize=1024)  # every node of a run asks for the same
def routes(topology: Topology, to: str) -> Mapping[str, Interface]:
    """For every other node that can reach node `to`: the interface to send through.

    The path taken has the lowest delay; among those the fewest hops; among those, at each hop, the
    neighbour whose name sorts first. Raises TopologyError if there is no node `to`.
    """
    from networkx import single_source_dijkstra_path_length

    graph = _graph(topology, to)
    cost = single_source_dijkstra_path_length(graph, to, weight="cost")
    found: dict[str, Interface] = {}
    best: dict[str, tuple[int, str]] = {}
    for interface in topology.interfaces():
        node, peer = interface.node, interface.peer
        if node == to or peer not in cost:
            continue
        through = (graph.edges[node, peer]["cost"] + cost[peer], peer)
        if node not in best or through < best[node]:
            best[node] = through
            found[node] = interface
    return found


@lru_cache(maxsize=256)
def next_hops(topology: Topology, to: str) -> Mapping[str, tuple[tuple[Interface, int], ...]]:
    """For every other node: its interfaces that lead to node `to` without coming back, and their costs.

    The cheapest is first, and is that of routes(); a cost orders paths by delay, then by hops. Raises
    TopologyError if there is no node `to`.
    """
    from networkx import bridges, single_source_dijkstra_path_length

    best = routes(topology, to)
    graph = _graph(topology, to)
    cost = single_source_dijkstra_path_length(graph, to, weight="cost")
    # What lies behind a bridge can only come back: in a tree no path needs to be looked for again.
    only_ways = {frozenset(edge) for edge in bridges(graph)}
    found: dict[str, tuple[tuple[Interface, int], ...]] = {}
    for node, first in best.items():
        ways = {first: graph.edges[node, first.peer]["cost"] + cost[first.peer]}
        others = [
            interface
            for interface in topology.interfaces()
            if interface.node == node
            and interface != first
            and frozenset((node, interface.peer)) not in only_ways
        ]
        if others:
            without = single_source_dijkstra_path_length(
                graph.subgraph(graph.nodes - {node}), to, weight="cost"
            )
            ways |= {
                interface: graph.edges[node, interface.peer]["cost"] + without[interface.peer]
                for interface in others
                if interface.peer in without
            }
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
    """Sum of the links' delays along the route between two nodes, in nanoseconds, one way.

    Raises TopologyError if a node is unknown or no path joins them.
    """
    from networkx import NetworkXNoPath, dijkstra_path_length

    graph = _graph(topology, a, b)
    try:
        cost = dijkstra_path_length(graph, a, b, weight="cost")
    except NetworkXNoPath:
        raise TopologyError(f"no path joins {a} and {b}") from None
    return int(cost) // len(topology.nodes)


def _graph(topology: Topology, *named: str) -> networkx.Graph[str]:
    """The topology as a graph whose edges' `cost` orders paths by delay, then by hops.

    A path has fewer hops than there are nodes, so delay * nodes + hops compares as (delay, hops) does. Raises
    TopologyError if there is no node of a name that is asked for.
    """
    from networkx import Graph

    for node in named:
        if node not in topology.nodes:
            raise TopologyError(f"there is no node {node!r}")
    graph: networkx.Graph[str] = Graph()
    graph.add_nodes_from(topology.nodes)
    for link in topology.links:
        graph.add_edge(link.a, link.b, cost=link.delay_ns * len(topology.nodes) + 1)
    return graph
