import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.generate import (
    GENERATORS,
    arguments,
    fat_tree,
    generate,
    grid,
    line,
    random,
    ring,
    scale_free,
    small_world,
    star,
    tree,
)
from topologies.model import Link, TopologyError
from topologies.routing import path_delay_ns, routes


def ends(topology):
    return [(link.a, link.b) for link in topology.links]


def test_a_tree_is_numbered_breadth_first():
    topology = tree(2, 2)
    assert topology.nodes == ("pub", "r1", "r2", "s1", "s2", "s3", "s4")
    assert ends(topology) == [
        ("pub", "r1"),
        ("pub", "r2"),
        ("r1", "s1"),
        ("r1", "s2"),
        ("r2", "s3"),
        ("r2", "s4"),
    ]


@given(st.integers(1, 4), st.integers(1, 3))
def test_trees(depth, fanout):
    topology = tree(depth, fanout, delay_ms=1)
    subscribers = [node for node in topology.nodes if node.startswith("s")]
    forwarders = [node for node in topology.nodes if node.startswith("r")]
    assert len(subscribers) == fanout**depth
    assert len(forwarders) == sum(fanout**level for level in range(1, depth))
    assert len(topology.nodes) == 1 + len(forwarders) + len(subscribers) == len(topology.links) + 1
    assert {path_delay_ns(topology, "pub", node) for node in subscribers} == {depth * 1_000_000}
    degree = dict.fromkeys(topology.nodes, 0)
    for a, b in ends(topology):
        degree[a] += 1
        degree[b] += 1
    assert {degree[node] for node in subscribers} == {1}
    assert {degree[node] for node in forwarders} <= {fanout + 1}


def test_a_line_has_forwarders_between_its_ends():
    assert line(1).nodes == ("pub", "s1")
    assert line(3).nodes == ("pub", "r1", "r2", "s1")
    assert ends(line(3)) == [("pub", "r1"), ("r1", "r2"), ("r2", "s1")]


def test_a_star_has_one_forwarder_in_the_middle():
    topology = star(3)
    assert topology.nodes == ("pub", "r1", "s1", "s2", "s3")
    assert ends(topology) == [("pub", "r1"), ("r1", "s1"), ("r1", "s2"), ("r1", "s3")]


SHAPES = [
    ("line", {"length": 2}),
    ("star", {"leaves": 2}),
    ("tree", {"depth": 2, "fanout": 2}),
    ("grid", {"rows": 2, "columns": 3}),
    ("ring", {"nodes": 5}),
    ("random", {"nodes": 20, "degree": 3}),
    ("scale-free", {"nodes": 20, "attached": 2}),
    ("small-world", {"nodes": 20, "neighbours": 4, "rewired": 0.3}),
    ("fat-tree", {"ports": 4}),
]


def degrees(topology):
    return Counter(end for link in topology.links for end in (link.a, link.b))


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_all_generated_networks_are_connected_and_the_same_each_time(name, shape):
    topology = generate(name, shape, {"delay_ms": 1})
    assert topology == generate(name, shape, {"delay_ms": 1})
    assert len(routes(topology, topology.nodes[0])) == len(topology.nodes) - 1
    if "seed" in arguments(name):
        assert topology != generate(name, {**shape, "seed": 2}, {"delay_ms": 1})


def test_every_generator_is_tried():
    assert [name for name, _ in SHAPES] == [*GENERATORS]


def test_a_grid_has_neighbours_in_rows_and_columns():
    assert ends(grid(2, 2)) == [("n1", "n2"), ("n1", "n3"), ("n2", "n4"), ("n3", "n4")]


def test_a_ring_closes():
    assert ends(ring(3)) == [("n1", "n2"), ("n2", "n3"), ("n3", "n1")]


@given(st.integers(2, 30), st.floats(0, 1), st.integers(0, 5))
def test_a_random_network_has_the_mean_degree_that_is_asked_for(nodes, share, seed):
    least, most = 2 * (nodes - 1) / nodes, nodes - 1
    degree = least + share * (most - least)
    topology = random(nodes, degree, seed)
    assert len(topology.links) == round(nodes * degree / 2)
    assert len(routes(topology, "n1")) == nodes - 1


def test_a_scale_free_network_has_hubs():
    found = degrees(scale_free(500, 2))
    assert max(found.values()) > 8 * sum(found.values()) / 500


def test_a_small_world_is_a_ring_with_shortcuts():
    assert {abs(int(a[1:]) - int(b[1:])) for a, b in ends(small_world(10, 2, 0))} == {1, 9}
    assert len(small_world(100, 4, 0.2).links) == 200


@pytest.mark.parametrize("ports", [2, 4, 6])
def test_a_fat_tree_has_as_many_links_at_every_forwarder(ports):
    topology = fat_tree(ports)
    found = degrees(topology)
    hosts = [node for node in topology.nodes if node[0] == "h"]
    assert len(hosts) == ports**3 // 4
    assert {found[node] for node in hosts} == {1}
    assert {found[node] for node in topology.nodes if node[0] != "h"} == {ports}
    assert len(topology.nodes) - len(hosts) == 5 * ports**2 // 4


@pytest.mark.parametrize("topology", [tree(2, 2, bw_mbit=5), line(2, bw_mbit=5), fat_tree(2, bw_mbit=5)])
def test_parameters_are_those_of_every_link(topology):
    assert {link.bw_mbit for link in topology.links} == {5}


def test_generating_by_name():
    assert [*GENERATORS][:4] == ["line", "star", "tree", "grid"]
    assert generate("tree", {"depth": 1, "fanout": 2}, {"delay_ms": 7}) == tree(1, 2, delay_ms=7)
    parameters = {"bw_mbit": 1.0, "delay_ms": 2.0, "loss_percent": 3.0, "jitter_ms": 4.0, "max_queue_size": 5}
    assert generate("line", {"length": 1}, parameters).links == (Link("pub", "s1", **parameters),)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "hub",
            {},
            "there is no topology 'hub'; there are fat-tree, grid, line, random, ring, scale-free,"
            " small-world, star, tree",
        ),
        ("tree", {"depth": 2}, "topology tree takes depth, fanout; it was given depth"),
        ("star", {}, "topology star takes leaves; it was given nothing"),
        ("line", {"length": 1, "width": 2}, "topology line takes length; it was given length, width"),
        ("line", {"length": 0}, "line: length must be at least 1, not 0"),
        ("star", {"leaves": 0}, "star: leaves must be at least 1, not 0"),
        ("tree", {"depth": 0, "fanout": 1}, "tree: depth must be at least 1, not 0"),
        ("tree", {"depth": 1, "fanout": -1}, "tree: fanout must be at least 1, not -1"),
        ("tree", {"depth": 1.5, "fanout": 1}, "tree: depth must be a whole number, not 1.5"),
        ("tree", {"depth": True, "fanout": 1}, "tree: depth must be a whole number, not True"),
        ("ring", {"nodes": 2}, "ring: nodes must be at least 3, not 2"),
        ("grid", {"rows": 0, "columns": 3}, "grid: rows must be at least 1, not 0"),
        ("random", {"nodes": 4, "degree": 1}, "random: degree must be from 1.5 to 3, not 1"),
        ("random", {"nodes": 4, "degree": "2"}, "random: degree must be a number, not '2'"),
        ("random", {"nodes": 4, "degree": math.nan}, "random: degree must be from 1.5 to 3, not nan"),
        ("random", {"nodes": 4}, "topology random takes nodes, degree, seed; it was given nodes"),
        ("scale-free", {"nodes": 3, "attached": 3}, "scale-free: attached must be below nodes, 3, not 3"),
        (
            "small-world",
            {"nodes": 6, "neighbours": 3, "rewired": 0.1},
            "small-world: neighbours must be even and below 6, not 3",
        ),
        (
            "small-world",
            {"nodes": 6, "neighbours": 2, "rewired": 2},
            "small-world: rewired must be from 0 to 1, not 2",
        ),
        ("fat-tree", {"ports": 3}, "fat-tree: ports must be even, not 3"),
    ],
)
def test_shapes_that_cannot_be(name, shape, message):
    with pytest.raises(TopologyError) as error:
        generate(name, shape, {})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("generator", "shape"),
    [
        ("tree", {"depth": 10**9, "fanout": 10**9}),
        ("tree", {"depth": 10**9, "fanout": 1}),
        ("tree", {"depth": 13, "fanout": 2}),
        ("line", {"length": 10**9}),
        ("star", {"leaves": 10**9}),
        ("ring", {"nodes": 10**9}),
        ("grid", {"rows": 10**9, "columns": 10**9}),
        ("random", {"nodes": 10**9, "degree": 2}),
        ("scale-free", {"nodes": 10**9, "attached": 2}),
        ("small-world", {"nodes": 10**9, "neighbours": 2, "rewired": 0}),
        ("fat-tree", {"ports": 10**9}),
    ],
)
def test_a_topology_that_no_machine_holds_is_refused_at_once(generator, shape):
    with pytest.raises(TopologyError, match="has more than 10000 nodes"):
        generate(generator, shape, {})
