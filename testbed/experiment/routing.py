"""Routes of a run: which way Interests go from a node, to where a feed comes from or to who follows it."""

from collections.abc import Iterable
from functools import lru_cache

from testbed.scenario.model import Scenario
from testbed.scenario.workload import Feed, Load
from topologies.model import Interface, Topology

_LAST_RESORT = 1 << 62  # more than any path costs


def sources(scenario: Scenario, load: Load, feed: Feed) -> dict[str, int]:
    """Return the nodes that a feed comes from, each with what it costs on top of the way there.

    Two devices that publish it are equals. An archive is asked when the publisher does not answer.
    """
    found = {feed.publisher: 0}
    if load.branch is not None:
        found[load.branch.publisher] = 0
    if scenario.archive is not None:
        found[scenario.archive.node] = _LAST_RESORT
    return found


def ways(network: Topology, node: str, to: dict[str, int]) -> dict[str, int]:
    """Return the neighbours of a node that lead to some sources, each with the least cost over it."""
    costs: dict[str, int] = {}
    for source, extra in to.items():
        for interface, cost in _next_hops(network, source).get(node, ()):
            costs[interface.peer] = min(costs.get(interface.peer, cost + extra), cost + extra)
    return costs


def tree(scenario: Scenario, load: Load, feed: Feed, roots: Iterable[str]) -> set[tuple[str, str]]:
    """Return the (child, parent) of all ways from those who follow a feed to each root.

    That is a tree where there are no second ways.
    """
    following = [node for node, role in scenario.roles.items() if role == "archive"]
    following += [node for node in scenario.subscribers if feed in load.followed_by(scenario, node)]
    edges: set[tuple[str, str]] = set()
    for root in roots:
        hops = _next_hops(scenario.network, root)
        reached = set(following)
        todo = list(reached)
        while todo:
            child = todo.pop()
            parents = {interface.peer for interface, _ in hops.get(child, ())}
            edges |= {(child, parent) for parent in parents}
            todo += parents - reached
            reached |= parents
    return edges


@lru_cache(maxsize=256)
def _next_hops(topology: Topology, to: str) -> dict[str, tuple[tuple[Interface, int], ...]]:
    """Every node of a run asks for the same."""
    return topology.next_hops(to)
