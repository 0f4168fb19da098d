import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.generate import GENERATORS, generate, line, star, tree
from topologies.model import Link, TopologyError
from topologies.routing import path_delay_ns


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


@pytest.mark.parametrize("topology", [tree(2, 2, bw_mbit=5), line(2, bw_mbit=5), star(2, bw_mbit=5)])
def test_parameters_are_those_of_every_link(topology):
    assert {link.bw_mbit for link in topology.links} == {5}


def test_generating_by_name():
    assert set(GENERATORS) == {"tree", "line", "star"}
    assert generate("tree", {"depth": 1, "fanout": 2}, {"delay_ms": 7}) == tree(1, 2, delay_ms=7)
    parameters = {"bw_mbit": 1.0, "delay_ms": 2.0, "loss_percent": 3.0, "jitter_ms": 4.0, "max_queue_size": 5}
    assert generate("line", {"length": 1}, parameters).links == (Link("pub", "s1", **parameters),)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("ring", {}, "there is no topology 'ring'; there are line, star, tree"),
        ("tree", {"depth": 2}, "topology tree takes depth, fanout; it was given depth"),
        ("star", {}, "topology star takes leaves; it was given nothing"),
        ("line", {"length": 1, "width": 2}, "topology line takes length; it was given length, width"),
        ("line", {"length": 0}, "line: length must be at least 1, not 0"),
        ("star", {"leaves": 0}, "star: leaves must be at least 1, not 0"),
        ("tree", {"depth": 0, "fanout": 1}, "tree: depth must be at least 1, not 0"),
        ("tree", {"depth": 1, "fanout": -1}, "tree: fanout must be at least 1, not -1"),
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
    ],
)
def test_a_topology_that_no_machine_holds_is_refused_at_once(generator, shape):
    with pytest.raises(TopologyError, match="has more than 10000 nodes"):
        generate(generator, shape, {})
