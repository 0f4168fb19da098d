import math
from dataclasses import replace
from itertools import pairwise

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_topologies import topologies

from topologies.model import Link, Topology, TopologyError
from topologies.routing import (
    Routing,
    coordinates,
    equal_routes,
    hyperbolic_distance,
    nearer,
    next_hops,
    path_delay_ns,
    routes,
)


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


DIAMOND = Topology(
    ("a", "b", "c", "d", "e"),
    (
        Link("a", "b", 1, delay_ms=4),
        Link("b", "d", 1, delay_ms=4),
        Link("a", "c", 5, 2, delay_ms=4),
        Link("c", "d", 5, delay_ms=4),
        Link("a", "d", 3, delay_ms=20),
        Link("d", "e", delay_ms=1),
    ),
)
"""Two ways of equal delay from a to d, and a direct one of one hop."""


def ways_of(by, node="a", to="e"):
    return [interface.peer for interface, _ in next_hops(DIAMOND, to, by).get(node, ())]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (Routing(), ["b", "c", "d"]),
        (Routing(paths="shortest"), ["b"]),
        (Routing(paths="equal-cost"), ["b", "c"]),
        (Routing(paths="k-shortest", k=1), ["b"]),
        (Routing(paths="k-shortest", k=3), ["b", "c", "d"]),
        (Routing("hops"), ["d", "b", "c"]),
        (Routing("hops", "equal-cost"), ["d"]),
        (Routing("cost"), ["b", "d", "c"]),
        (Routing("cost", "shortest"), ["b"]),
        (Routing(paths="shortest", down=frozenset({0})), ["c"]),
        (Routing(down=frozenset({0, 2})), ["d"]),
        (Routing(down=frozenset({5})), []),
    ],
)
def test_ways_by_what_is_asked_for(by, expected):
    assert ways_of(by) == expected
    first = routes(DIAMOND, "e", by).get("a")
    assert (None if first is None else first.into.node) == (expected[0] if expected else None)


def test_a_cost_is_that_of_a_direction():
    assert ways_of(Routing("cost", "shortest"), "d", "a") == ["b"]
    dear = replace(DIAMOND, links=(replace(DIAMOND.links[0], cost_back=9), *DIAMOND.links[1:]))
    ((hop, cost),) = next_hops(dear, "a", Routing("cost", "shortest"))["d"]
    assert (hop.peer, cost) == ("a", 5 * 3000 + 1)
    ((hop, cost),) = next_hops(dear, "d", Routing("cost", "shortest"))["a"]
    assert (hop.peer, cost) == ("b", 5 * 2000 + 2)


def test_equal_routes_of_ip_are_all_that_are_as_fast():
    by = Routing(paths="equal-cost")
    assert [hop.into.node for hop in equal_routes(DIAMOND, "e", by)["a"]] == ["b", "c"]
    assert [hop.into.node for hop in equal_routes(DIAMOND, "e")["a"]] == ["b"]


@given(topologies(), st.data())
def test_equal_ways_are_of_the_least_delay_and_do_not_come_back(topology, data):
    to = data.draw(st.sampled_from(topology.nodes))
    best = delays_by_enumeration(topology, to)
    for node, hops in equal_routes(topology, to, Routing(paths="equal-cost")).items():
        assert len({hop.into.node for hop in hops}) == len(hops)
        for out, into in hops:
            link = topology.links[out.link]
            assert best[into.node][0] + link.delay_ns == best[node][0]
            assert best[into.node] < best[node]


@given(topologies(), st.integers(1, 4), st.data())
def test_k_shortest_ways_are_the_first_steps_of_the_cheapest_paths(topology, k, data):
    to = data.draw(st.sampled_from(topology.nodes))
    graph = networkx.Graph([(link.a, link.b, {"delay": link.delay_ns}) for link in topology.links])
    graph.add_nodes_from(topology.nodes)
    scale = len(topology.nodes)
    for node, ways in next_hops(topology, to, Routing(paths="k-shortest", k=k)).items():
        costs = sorted(
            (sum(graph.edges[ends]["delay"] for ends in pairwise(path)) * scale + len(path) - 1, path[1])
            for path in networkx.all_simple_paths(graph, node, to)
        )
        assert len(ways) <= k
        assert ways[0][1] == costs[0][0]
        # Paths that cost the same come in any order: all ways are at most as dear as the k-th.
        assert all((cost, way.peer) in costs and cost <= costs[:k][-1][0] for way, cost in ways)
        if k == 1:
            assert len(ways) == 1


def hyperbolic(**places):
    said = {node: {"radius": str(r), "angle": angle} for node, (r, angle) in places.items()}
    return Topology(
        ("a", "b", "c", "d"),
        (Link("a", "b"), Link("a", "c"), Link("b", "d"), Link("c", "d")),
        attributes=said,
    )


def test_hyperbolic_ways_are_by_the_neighbours_distance():
    topology = hyperbolic(a=(5, "0"), b=(3, "3.0"), c=(3, "1.0"), d=(4, "1.5"))
    by = Routing("hyperbolic")
    assert [hop.peer for hop, _ in next_hops(topology, "d", by)["a"]] == ["c", "b"]
    assert next_hops(topology, "d", by)["c"][0][1] == 0
    places = coordinates(topology)
    assert next_hops(topology, "d", by)["a"][0][1] == round(
        1000 * hyperbolic_distance(places["c"], places["d"])
    )
    assert [hop.into.node for hop in equal_routes(topology, "d", by)["a"]] == ["b"], "IP goes by delay"


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ((2.0, (1.0,)), (5.0, (1.0,)), 3.0),
        ((2.0, (0.0,)), (3.0, (math.pi,)), 5.0),
        ((0.0, (1.0,)), (7.0, (4.0,)), 7.0),
        ((29.25, (2.6,)), (29.25, (2.6,)), 0.0),
        ((1.0, (0.0, 1.0)), (2.0, (math.pi, 2.0)), 3.0),
    ],
)
def test_distances_that_are_known(a, b, distance):
    assert hyperbolic_distance(a, b) == pytest.approx(distance, abs=1e-9)
    assert hyperbolic_distance(b, a) == pytest.approx(distance, abs=1e-9)


@given(st.floats(0.1, 12), st.floats(0.1, 12), st.floats(-7, 7))
def test_distances_are_those_of_the_law_of_cosines(r, s, angle):
    between = math.acos(math.cos(angle))
    plain = math.cosh(r) * math.cosh(s) - math.sinh(r) * math.sinh(s) * math.cos(between)
    expected = math.acosh(max(1.0, plain))
    if expected > 0.5:  # below, the plain formula loses its digits
        assert hyperbolic_distance((r, (0.0,)), (s, (angle,))) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("d", "message"),
    [
        ((4, "x"), "node d: radius and angle must be numbers"),
        ((-1, "1"), "node d: radius must be from 0 to 300, and angles finite"),
        ((1, "nan"), "node d: radius must be from 0 to 300, and angles finite"),
        ((1, "1,2"), "node d: all nodes must have as many angles"),
    ],
)
def test_coordinates_that_cannot_be(d, message):
    with pytest.raises(TopologyError, match=message):
        next_hops(hyperbolic(a=(5, "0"), b=(3, "3.0"), c=(3, "1.0"), d=d), "d", Routing("hyperbolic"))


def test_a_second_way_costs_what_it_takes():
    ring = Topology(
        ("a", "b", "c"), (Link("a", "b", delay_ms=1), Link("b", "c", delay_ms=2), Link("a", "c", delay_ms=10))
    )
    hops = [(interface.peer, cost) for interface, cost in next_hops(ring, "c")["a"]]
    assert hops == [("b", 3 * 3_000_000 + 2), ("c", 3 * 10_000_000 + 1)]


@given(topologies())
def test_nearer_neighbours_never_lead_in_a_circle_and_the_best_comes_first(topology):
    to = topology.nodes[0]
    found, best = nearer(topology, to), delays_by_enumeration(topology, to)
    assert found.keys() == best.keys() - {to}
    for node, peers in found.items():
        assert peers[0] == routes(topology, to)[node].into.node
        assert all(best[peer] < best[node] for peer in peers)
