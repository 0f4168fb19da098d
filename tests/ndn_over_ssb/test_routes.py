"""Routes lead nearer to a repository, and never in circles."""

from random import Random

import networkx as nx
import pytest

from forwarder.wire.name import from_uri
from ndn_over_ssb.contract import Contract, Terms
from ndn_over_ssb.name_space import Holding
from ndn_over_ssb.routes import find_ways

A = from_uri("/a")


def contract(customer: str, provider: str, *, transit: bool) -> Contract:
    return Contract(f"{customer}>{provider}", customer, provider, terms=Terms(transit=transit))


def holding(*repositories: str) -> dict[bytes, Holding]:
    return {A: Holding("%", A, "owner", "%", 0.0, repositories)}


def test_customers_forward_for_nobody() -> None:
    contracts = [
        contract("customer", "nfp1", transit=False),
        contract("customer", "nfp2", transit=False),
        contract("repository", "nfp2", transit=False),
    ]
    assert find_ways("nfp1", holding("repository"), contracts) == {A: []}
    (way,) = find_ways("nfp2", holding("repository"), contracts)[A]
    assert (way.contract, way.cost) == ("repository>nfp2", 1)


def test_a_repository_has_no_way_to_itself() -> None:
    contracts = [contract("repository", "nfp", transit=False), contract("other", "nfp", transit=False)]
    assert find_ways("repository", holding("repository", "other"), contracts) == {A: []}


@pytest.mark.parametrize("seed", range(30))
def test_every_way_leads_nearer(seed: int) -> None:
    """Against shortest paths as NetworkX finds them, in random networks of providers."""
    random = Random(seed)
    providers = [f"nfp{number}" for number in range(random.randint(2, 12))]
    graph = nx.gnp_random_graph(len(providers), 0.3, seed=seed)
    contracts = [contract(providers[a], providers[b], transit=True) for a, b in graph.edges]
    repositories = ["one", "two"][: random.randint(1, 2)]
    network = nx.Graph((each.customer, each.provider) for each in contracts)
    network.add_nodes_from(providers)
    for repository in repositories:
        at = random.choice(providers)
        contracts.append(contract(repository, at, transit=False))
        network.add_edge(repository, at)
    for node in providers:
        far = [
            nx.single_source_shortest_path_length(network.subgraph({*providers, each}), each)
            for each in repositories
        ]
        expected = {}
        for other in network[node]:
            costs = [d[other] + 1 for d in far if other in d and d[other] < d.get(node, 0)]
            if costs:
                expected[other] = min(costs)
        ways = find_ways(node, holding(*repositories), contracts)[A]
        found = {next(each for each in way.contract.split(">") if each != node): way.cost for way in ways}
        assert found == expected
