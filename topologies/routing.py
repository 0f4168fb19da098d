"""Routes from each node of a topology to one or several sources, or to followers.

The cost of a path, by metric:

- delay: the sum of the links' delays;
- cost: the sum of the links' costs in this direction, by default 1;
- hops: the number of links.

Of equal paths the one with the fewest hops is chosen, then the one over the neighbour whose name sorts first.
By `hyperbolic`, a node prefers the neighbour nearest to the destination in the hyperbolic plane, as NLSR does
(V. Lehman et al.: An Experimental Investigation of Hyperbolic Routing with a Smart Forwarding Plane in NDN,
2016). Such paths may loop; NDN detects loops, IP does not, so IP is routed by delay then.

The next hops of NDN forwarders:

- all: every neighbour with a loop-free path;
- shortest: the cheapest;
- k-shortest: the first steps of the k cheapest paths (J. Y. Yen, 1971);
- equal-cost: those that are as cheap as the cheapest. IP shares flows among these, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Literal, NamedTuple

from base.interface import LinkEnd
from topologies.model import Hop, Link, Topology, TopologyError

Metric = Literal["delay", "cost", "hops", "hyperbolic"]
Paths = Literal["all", "shortest", "k-shortest", "equal-cost"]

_SCALE = 1000
"""Costs and hyperbolic distances are counted in thousandths."""


class Routing(NamedTuple):
    """Rules of routing, and indices of links that are down."""

    metric: Metric = "delay"
    paths: Paths = "all"
    k: int = 3
    down: frozenset[int] = frozenset()


BY_DELAY = Routing()


@lru_cache(maxsize=2048)  # every node of a run requests the same
def equal_routes(topology: Topology, to: str, by: Routing = BY_DELAY) -> Mapping[str, tuple[Hop, ...]]:
    """For every other node that can reach node `to`, over links and media: the next steps, the best first.

    Without `equal-cost` only the best. Raises TopologyError if there is no node `to`.
    """
    cost = _costs(_graph(topology, _of_ip(by)), to)
    scale = _scale(topology)
    found: dict[str, tuple[Hop, ...]] = {}
    for node, steps in _steps(topology, _of_ip(by)).items():
        mine = cost.get(node)
        if mine is None or node == to:
            continue
        best = [(peer, hop) for peer, step, hop in steps if peer in cost and step + cost[peer] == mine]
        if by.paths == "equal-cost":
            equal = [
                (peer, hop)
                for peer, step, hop in steps
                if cost.get(peer, mine) < mine and (step + cost[peer]) // scale == mine // scale
            ]
            best = sorted(best, key=_name) + sorted((way for way in equal if way not in best), key=_name)
            found[node] = tuple(hop for _, hop in best)
        else:
            found[node] = (min(best, key=_name)[1],)
    return found


@lru_cache(maxsize=2048)
def routes(topology: Topology, to: str, by: Routing = BY_DELAY) -> Mapping[str, Hop]:
    """For every other node that can reach node `to`, over links and media: the best next step.

    Raises TopologyError if there is no node `to`.
    """
    return {node: hops[0] for node, hops in equal_routes(topology, to, by).items()}


@lru_cache(maxsize=512)
def next_hops(
    topology: Topology, to: str, by: Routing = BY_DELAY
) -> Mapping[str, tuple[tuple[LinkEnd, int], ...]]:
    """For every other node: its ends of links that lead to node `to`, and their costs, the cheapest first.

    Where there are no media, the first is that of routes(), but by hyperbolic distance. Raises TopologyError
    if there is no node `to`, or if coordinates are missing.
    """
    graph = _graph(topology, _of_ip(by), links_only=True)
    cost = _costs(graph, to)
    own: dict[str, list[LinkEnd]] = {}
    for end in topology.link_ends:
        if end.node != to and end.peer in cost and end.link not in by.down:
            own.setdefault(end.node, []).append(end)
    if by.metric == "hyperbolic":
        found = _nearest(topology, to, own)
    elif by.paths == "equal-cost":
        found = _equal(graph, cost, own, _scale(topology))
    elif by.paths == "k-shortest":
        found = _k_shortest(graph, to, own, by.k)
    else:
        found = _without_return(graph, to, cost, own, is_one=by.paths == "shortest")
    most = 1 if by.paths == "shortest" else by.k if by.paths == "k-shortest" else None
    return {
        node: tuple(sorted(ways.items(), key=lambda way: (way[1], way[0].peer))[:most])
        for node, ways in found.items()
    }


_Ways = dict[str, dict[LinkEnd, int]]
"""For each node: its next hops, with the cost of the path over each."""

_Steps = Mapping[str, Mapping[str, int]]
"""For each node: the costs of its links, by the nodes that they lead to."""


def _without_return(
    graph: _Steps, to: str, cost: Mapping[str, int], own: Mapping[str, list[LinkEnd]], *, is_one: bool
) -> _Ways:
    children = _children(to, cost, graph)
    found: _Ways = {}
    for node, ends in own.items():
        steps = {end: graph[node][end.peer] for end in ends}
        first = min(ends, key=lambda end: (steps[end] + cost[end.peer], end.peer))
        ways = {first: steps[first] + cost[first.peer]}
        others = [end for end in ends if end != first]
        if others and not is_one:
            around = _around(node, {end.peer for end in others}, cost, graph, children)
            ways |= {end: steps[end] + around[end.peer] for end in others if end.peer in around}
        found[node] = ways
    return found


def _children(to: str, cost: Mapping[str, int], steps_to: _Steps) -> Mapping[str, Sequence[str]]:
    """Return the shortest-path tree to a node: each node's children, whose next node it is."""
    children: dict[str, list[str]] = {node: [] for node in cost}
    for node, mine in cost.items():
        if node != to:
            ways = steps_to[node].items()
            best = min(peer for peer, step in ways if cost.get(peer, mine) + step == mine)
            children[best].append(node)
    return children


def _around(
    node: str,
    peers: Collection[str],
    cost: Mapping[str, int],
    steps_to: _Steps,
    children: Mapping[str, Sequence[str]],
) -> Mapping[str, int]:
    """Return the cost of the cheapest path from each of `peers` that avoids the node; peers without one are
    missing. Only the node's subtree needs another search.
    """
    subtree = set(children[node])
    todo = list(subtree)
    while todo:
        more = children[todo.pop()]
        subtree.update(more)
        todo += more
    found = {peer: cost[peer] for peer in peers if peer in cost and peer not in subtree}
    if len(found) == len(peers):
        return found
    waiting = []
    leads: dict[str, list[tuple[str, int]]] = {each: [] for each in subtree}
    for each in subtree:
        for peer, step in steps_to[each].items():
            if peer in subtree:
                leads[peer].append((each, step))
            elif peer in cost and peer != node:
                waiting.append((cost[peer] + step, each))
    reached = _cheapest(waiting, leads)
    return found | {peer: reached[peer] for peer in peers if peer in reached}


def _cheapest(
    waiting: list[tuple[int, str]], leads: Mapping[str, Iterable[tuple[str, int]]]
) -> dict[str, int]:
    """Return the cost of the cheapest path to each node (E. W. Dijkstra, 1959).

    waiting: (cost, node) of the first nodes; leads: from each node to others, with the cost of the step.
    """
    heapify(waiting)
    reached: dict[str, int] = {}
    while waiting:
        so_far, each = heappop(waiting)
        if each not in reached:
            reached[each] = so_far
            for other, step in leads[each]:
                if other not in reached:
                    heappush(waiting, (so_far + step, other))
    return reached


def _equal(graph: _Steps, cost: Mapping[str, int], own: Mapping[str, list[LinkEnd]], scale: int) -> _Ways:
    found: _Ways = {}
    for node, ends in own.items():
        costs = {end: graph[node][end.peer] + cost[end.peer] for end in ends}
        mine = cost[node]
        found[node] = {
            end: mine  # equal costs: the choice is left to the strategy
            for end, through in costs.items()
            if through // scale == mine // scale and cost[end.peer] < mine
        }
    return found


def _k_shortest(steps: _Steps, to: str, own: Mapping[str, list[LinkEnd]], k: int) -> _Ways:
    # On use: its import takes longer than the rest of a relay's or a node's start.
    from networkx import DiGraph, path_weight, shortest_simple_paths

    graph: DiGraph[str] = DiGraph()
    graph.add_weighted_edges_from(
        ((peer, node, step) for node, peers in steps.items() for peer, step in peers.items()), "cost"
    )
    found: _Ways = {}
    for node, ends in own.items():
        by_peer = {end.peer: end for end in ends}
        ways: dict[LinkEnd, int] = {}
        for path in islice(shortest_simple_paths(graph, to, node, weight="cost"), k):
            ways.setdefault(by_peer[path[-2]], path_weight(graph, path, "cost"))
        found[node] = ways
    return found


def _nearest(topology: Topology, to: str, own: Mapping[str, list[LinkEnd]]) -> _Ways:
    places = coordinates(topology)
    return {
        node: {end: round(_SCALE * hyperbolic_distance(places[end.peer], places[to])) for end in ends}
        for node, ends in own.items()
    }


def ways(topology: Topology, node: str, to: Mapping[str, int], by: Routing = BY_DELAY) -> dict[str, int]:
    """Return the neighbours of a node that lead to some sources, each with the least cost over it.

    `to` has each source's cost on top of the path to it.
    """
    costs: dict[str, int] = {}
    for source, extra in to.items():
        for interface, cost in next_hops(topology, source, by).get(node, ()):
            costs[interface.peer] = min(costs.get(interface.peer, cost + extra), cost + extra)
    return costs


@lru_cache(maxsize=2048)
def nearer(topology: Topology, to: str, by: Routing = BY_DELAY) -> Mapping[str, tuple[str, ...]]:
    """For every other node that can reach node `to`: the neighbours that are nearer, the best first.

    Whichever of them each node chooses, no path loops (RFC 5286, section 1.1: downstream paths). The first is
    that of routes(). Raises TopologyError if there is no node `to`.
    """
    graph = _graph(topology, _of_ip(by))
    cost = _costs(graph, to)
    return {
        node: tuple(
            sorted(
                (peer for peer in peers if peer in cost and cost[peer] < cost[node]),
                key=lambda peer, peers=peers: (peers[peer] + cost[peer], peer),  # type: ignore[misc]
            )
        )
        for node, peers in graph.items()
        if node in cost and node != to
    }


def tree(
    topology: Topology, leaves: Collection[str], roots: Iterable[str], by: Routing = BY_DELAY
) -> set[tuple[str, str]]:
    """Return the (child, parent) of all paths from some nodes to each root.

    That is a tree where there are no alternative paths.
    """
    edges: set[tuple[str, str]] = set()
    for root in roots:
        hops = next_hops(topology, root, by)
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
    costs = _costs(_graph(topology, BY_DELAY), b)
    if a not in topology.nodes:
        raise TopologyError(f"there is no node {a!r}")
    if a not in costs:
        raise TopologyError(f"no path joins {a} and {b}")
    return costs[a] // _scale(topology)


_MOST_RADIUS = 300.0
"""Floating point cannot represent the products of hyperbolic sines beyond it."""

Coordinates = tuple[float, tuple[float, ...]]
"""A point of a hyperbolic space: its radius, and its angles in radians, one fewer than dimensions."""


@lru_cache(maxsize=16)
def coordinates(topology: Topology) -> Mapping[str, Coordinates]:
    """Return the hyperbolic coordinates of all nodes. Raises TopologyError if a node lacks them."""
    found: dict[str, Coordinates] = {}
    for node in topology.nodes:
        said = topology.attributes.get(node, {})
        try:
            radius, angles = float(said["radius"]), tuple(map(float, said["angle"].split(",")))
        except KeyError as error:
            raise TopologyError(f"node {node}: hyperbolic routing needs its {error.args[0]}") from None
        except ValueError:
            raise TopologyError(f"node {node}: radius and angle must be numbers") from None
        if not 0 <= radius <= _MOST_RADIUS or not all(map(math.isfinite, angles)):
            raise TopologyError(f"node {node}: radius must be from 0 to {_MOST_RADIUS:g}, and angles finite")
        if found and len(angles) != len(next(iter(found.values()))[1]):
            raise TopologyError(f"node {node}: all nodes must have as many angles")
        found[node] = radius, angles
    return found


def hyperbolic_distance(a: Coordinates, b: Coordinates) -> float:
    """Return the distance of two points, by the hyperbolic law of cosines."""
    (r, angles), (s, others) = a, b
    cosine = sum(x * y for x, y in zip(_direction(angles), _direction(others), strict=True))
    between = math.acos(max(-1.0, min(1.0, cosine)))
    # cosh r cosh s - sinh r sinh s cos(between), but so that nearby points do not vanish in rounding.
    half = 2 * math.sinh(r) * math.sinh(s) * math.sin(between / 2) ** 2
    return math.acosh(max(1.0, math.cosh(r - s) + half))


def _direction(angles: tuple[float, ...]) -> list[float]:
    """Return the unit vector at some angles; one angle is a point of the circle."""
    found, rest = [], 1.0
    for angle in angles:
        found.append(rest * math.cos(angle))
        rest *= math.sin(angle)
    return [*found, rest]


def _costs(graph: _Steps, to: str) -> Mapping[str, int]:
    """Return the cost of the cheapest path to a node from each that has one.

    Raises TopologyError if there is no such node.
    """
    if to not in graph:
        raise TopologyError(f"there is no node {to!r}")
    leads: dict[str, list[tuple[str, int]]] = {node: [] for node in graph}
    for node, peers in graph.items():
        for peer, step in peers.items():
            leads[peer].append((node, step))
    return _cheapest([(0, to)], leads)


def _scale(topology: Topology) -> int:
    """Return the factor of the metric in a cost: a path has fewer hops than there are nodes, so that
    metric * scale + hops compares like (metric, hops).
    """
    return len(topology.nodes)


@lru_cache(maxsize=64)
def _graph(topology: Topology, by: Routing, *, links_only: bool = False) -> _Steps:
    """The least cost of a step from each node to each that it can send to; it orders paths by the metric,
    then by hops.
    """
    graph: dict[str, dict[str, int]] = {}
    for node, steps in _steps(topology, by).items():
        least = graph[node] = {}
        for peer, step, hop in steps:
            if not links_only or isinstance(hop.out, LinkEnd):
                least[peer] = min(least.get(peer, step), step)
    return graph


@lru_cache(maxsize=64)
def _steps(topology: Topology, by: Routing) -> Mapping[str, list[tuple[str, int, Hop]]]:
    """For each node the neighbours to which it can send, with the cost and the hop."""
    found: dict[str, list[tuple[str, int, Hop]]] = {node: [] for node in topology.nodes}
    scale = _scale(topology)
    for hop in topology.hops:
        if isinstance(hop.out, LinkEnd) and hop.out.link in by.down:
            continue
        found[hop.out.node].append((hop.into.node, _metric(topology, by.metric, hop) * scale + 1, hop))
    return found


def _metric(topology: Topology, metric: Metric, hop: Hop) -> int:
    carrier = topology.carrier(hop.out)
    if metric == "delay":
        return carrier.delay_ns
    if metric == "hops":
        return 0
    cost: float | None = None
    if isinstance(carrier, Link):
        cost = carrier.cost
        if hop.out.node == carrier.b and carrier.cost_back is not None:
            cost = carrier.cost_back
    return round(_SCALE * (1 if cost is None else cost))


def _of_ip(by: Routing) -> Routing:
    """Return the part of a choice that decides on IP routes; greedy routing does not serve IP."""
    return Routing("delay" if by.metric == "hyperbolic" else by.metric, down=by.down)


def _name(way: tuple[str, Hop]) -> str:
    return way[0]
