from dataclasses import replace

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_topologies import topologies

from topologies.model import Link, Topology, TopologyError
from topologies.routing import next_hops, path_delay_ns, routes


def delays_by_enumeration(topology, to):
    """(delay, hops) of the best path to a node, by trying all paths."""
    neighbours = {}
    for link in topology.links:
        neighbours.setdefault(link.a, []).append((link.b, link.delay_ns))
        neighbours.setdefault(link.b, []).append((link.a, link.delay_ns))
    best = {}

    def walk(node, cost, seen):
        best[node] = min(best.get(node, cost), cost)
        for neighbour, delay in neighbours.get(node, ()):
            if neighbour not in seen:
                walk(neighbour, (cost[0] + delay, cost[1] + 1), seen | {neighbour})

    walk(to, (0, 0), {to})
    return best


@given(topologies(), st.data())
def test_routes_are_the_best_paths(topology, data):
    to = data.draw(st.sampled_from(topology.nodes))
    best = delays_by_enumeration(topology, to)
    best_ways = routes(topology, to)
    assert set(best_ways) == set(best) - {to}
    for node, (out, into) in best_ways.items():
        assert out.node == node
        assert path_delay_ns(topology, node, to) == best[node][0]
        choices = {
            i.peer
            for i in topology.link_ends
            if i.node == node
            and i.peer in best
            and (best[i.peer][0] + topology.links[i.link].delay_ns, best[i.peer][1] + 1) == best[node]
        }
        assert into.node == min(choices)


@given(topologies(), st.randoms(), st.data())
def test_routes_do_not_depend_on_the_order_of_links(topology, random, data):
    to = data.draw(st.sampled_from(topology.nodes))
    links = list(topology.links)
    random.shuffle(links)
    shuffled = replace(topology, links=tuple(links))
    assert {node: hop.into.node for node, hop in routes(topology, to).items()} == {
        node: hop.into.node for node, hop in routes(shuffled, to).items()
    }


def test_a_faster_detour_is_taken():
    links = (Link("a", "c", delay_ms=10), Link("a", "b", delay_ms=4), Link("b", "c", delay_ms=5))
    topology = Topology(("a", "b", "c"), links)
    assert routes(topology, "c")["a"].into.node == "b"
    assert path_delay_ns(topology, "a", "c") == path_delay_ns(topology, "c", "a") == 9_000_000


def test_routes_to_and_between_unknown_nodes():
    topology = Topology(("a", "b", "z"), (Link("a", "b", delay_ms=1),))
    assert set(routes(topology, "a")) == {"b"}
    assert path_delay_ns(topology, "z", "z") == 0
    with pytest.raises(TopologyError, match="no path joins a and z"):
        path_delay_ns(topology, "a", "z")
    with pytest.raises(TopologyError, match="there is no node 'q'"):
        path_delay_ns(topology, "a", "q")
    with pytest.raises(TopologyError, match="there is no node 'q'"):
        routes(topology, "q")


@given(topologies(), st.data())
def test_next_hops_are_every_way_on_that_does_not_come_back(topology, data):
    to = data.draw(st.sampled_from(topology.nodes))
    best_ways, hops = routes(topology, to), next_hops(topology, to)
    assert set(hops) == set(best_ways)
    links = [(link.a, link.b) for link in topology.links]
    for node, ways in hops.items():
        assert ways[0][0] == best_ways[node].out
        assert [cost for _, cost in ways] == sorted(cost for _, cost in ways)
        without = networkx.Graph([ends for ends in links if node not in ends])
        without.add_nodes_from(set(topology.nodes) - {node})
        neighbours = {interface.peer for interface in topology.link_ends if interface.node == node}
        leads_there = {peer for peer in neighbours if networkx.has_path(without, peer, to)}
        assert {interface.peer for interface, _ in ways} == leads_there


def test_a_second_way_costs_what_it_takes():
    ring = Topology(
        ("a", "b", "c"), (Link("a", "b", delay_ms=1), Link("b", "c", delay_ms=2), Link("a", "c", delay_ms=10))
    )
    hops = [(interface.peer, cost) for interface, cost in next_hops(ring, "c")["a"]]
    assert hops == [("b", 3 * 3_000_000 + 2), ("c", 3 * 10_000_000 + 1)]
