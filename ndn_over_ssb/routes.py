"""Routes of a forwarding provider, from logs alone: name space and contracts say who reaches whom.

A provider knows all contracts among providers, and between providers and repositories. The next hops for a
prefix are the neighbours nearer to one of its repositories than the provider itself is, so no Interest goes
round in circles once all know the same logs.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ndn_over_ssb.contract import Contract
from ndn_over_ssb.name_space import Holding


class Way(NamedTuple):
    """A next hop: the contract by which it is reached, and how many contracts lead to the repository."""

    contract: str
    cost: int


def find_ways(
    node: str, holdings: Mapping[bytes, Holding], contracts: Iterable[Contract]
) -> dict[bytes, list[Way]]:
    """Return the ways from a node for each prefix; none for a prefix that nobody answers for.

    `contracts` are those that hold. A prefix of which the node itself is a repository has no ways either.
    """
    neighbours: defaultdict[str, dict[str, str]] = defaultdict(dict)
    transit = set()
    for contract in sorted(contracts, key=lambda each: each.id):
        neighbours[contract.customer][contract.provider] = contract.id
        neighbours[contract.provider][contract.customer] = contract.id
        transit.add(contract.provider)
        if contract.terms is not None and contract.terms.transit:
            transit.add(contract.customer)
    ways: dict[bytes, list[Way]] = {}
    distances: dict[str, dict[str, int]] = {}
    for prefix, holding in holdings.items():
        found: dict[str, int] = {}
        for repository in holding.repositories:
            if repository not in distances:
                distances[repository] = _distances(repository, neighbours, transit)
            near = {n: distances[repository][n] for n in neighbours[node] if n in distances[repository]}
            for neighbour, distance in near.items():
                if distance == min(near.values()):
                    found[neighbour] = min(distance + 1, found.get(neighbour, distance + 1))
        is_here = node in holding.repositories
        ways[prefix] = [] if is_here else [Way(neighbours[node][each], found[each]) for each in sorted(found)]
    return ways


def _distances(start: str, neighbours: Mapping[str, Mapping[str, str]], transit: set[str]) -> dict[str, int]:
    """Return how many contracts lead from an identity to each provider."""
    distances = {start: 0}
    ahead = deque([start])
    while ahead:
        here = ahead.popleft()
        for other in neighbours.get(here, ()):
            if other in transit and other not in distances:
                distances[other] = distances[here] + 1
                ahead.append(other)
    return distances
