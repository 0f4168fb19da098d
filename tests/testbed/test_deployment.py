"""Networks of which some forwarders know controlled push: who does, and what it buys."""

import networkx
import pytest
from simulation import Result, simulate

from testbed.layerings.kinds.lli import legacy_nodes
from testbed.layerings.nodes.ndn_node import NdnNode
from testbed.layerings.nodes.node import Context
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from topologies.graphs import to_networkx


def deployed(share: int, first: str = "core", items: int = 12, seed: int = 1) -> Scenario:
    changes = {
        "parameters.lli.aware_percent": share,
        "parameters.lli.aware_first": first,
        "topology.users.number": 13,
        "subscribers": ["u2..u13"],
    }
    return load("deployment", items=items, seed=seed, layerings=("lli",), changes=changes)


def knowing(result: Result) -> set[str]:
    return {
        name
        for name, node in result.nodes.items()
        if isinstance(node, NdnNode) and node.host.forwarder.feeds is not None
    }


@pytest.mark.parametrize("share", [0, 50, 100])
@pytest.mark.parametrize("first", ["core", "edge", "random"])
def test_so_many_forwarders_know_it_and_all_items_arrive_once_in_order(share: int, first: str) -> None:
    scenario = deployed(share, first)
    result = simulate(scenario, "lli")
    users = {f"u{number}" for number in range(1, 14)}
    routers = {*scenario.network.nodes} - users
    assert users <= knowing(result), "the ends know it always"
    assert len(knowing(result) & routers) == round(len(routers) * share / 100)
    for node in scenario.subscribers:
        assert result.delivered(node) == list(range(1, 13))


def test_the_core_comes_first_the_edge_first_or_any_by_the_seed() -> None:
    def legacy(first: str, seed: int = 1, share: int = 50) -> set[str]:
        scenario = deployed(share, first, seed=seed)
        parameters = scenario.layering_parameters("lli").model_dump()
        load_ = workload.load(scenario)
        return legacy_nodes(
            Context("x", scenario.network, load_, "lli", parameters, seed, start=0, stop=1, plan=None)
        )

    scenario = deployed(50)
    routers = [node for node in scenario.network.nodes if not node[1:].isdigit()]
    paths = networkx.betweenness_centrality(to_networkx(scenario.network).subgraph(routers))
    left = legacy("core")
    assert max(paths[node] for node in left) <= min(paths[node] for node in {*routers} - left)
    left = legacy("edge")
    assert min(paths[node] for node in left) >= max(paths[node] for node in {*routers} - left)
    assert legacy("random", 1) != legacy("random", 2)
    assert legacy("random", 1) == legacy("random", 1)
    assert legacy("core", share=0) == {*routers}


def test_pushing_all_the_way_costs_fewer_bytes_than_half_of_it_in_the_core() -> None:
    """Between forwarders that know it, those that do not make of each push a pull of one item."""

    def frames(share: int) -> int:
        result = simulate(deployed(share, items=40), "lli")
        return sum(packet.sent for packet in result.packets)

    assert frames(100) < frames(50) / 1.5
