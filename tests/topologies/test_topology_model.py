import ipaddress
import itertools
import math
from dataclasses import FrozenInstanceError, replace

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.model import Interface, Link, Topology, TopologyError

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


@st.composite
def topologies(draw):
    nodes = draw(st.lists(NAMES, min_size=1, max_size=7, unique=True))
    pairs = list(itertools.combinations(nodes, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    links = []
    for pair in chosen:
        a, b = draw(st.permutations(pair))
        links.append(Link(a, b, delay_ms=draw(st.integers(0, 3))))
    return Topology(tuple(nodes), tuple(links))


def chain(*nodes, **parameters):
    return Topology(nodes, tuple(Link(a, b, **parameters) for a, b in itertools.pairwise(nodes)))


def test_a_link_is_unimpaired_by_default():
    assert Link("a", "b") == Link("a", "b", None, 0.0, 0.0, 0.0, 100)


def test_links_and_topologies_are_frozen():
    topology = chain("a", "b")
    with pytest.raises(FrozenInstanceError):
        topology.nodes = ()
    with pytest.raises(FrozenInstanceError):
        topology.links[0].delay_ms = 1


def test_times_of_a_link_are_whole_nanoseconds():
    link = Link("a", "b", delay_ms=0.1, jitter_ms=1.0000004)
    assert (link.delay_ns, link.jitter_ns) == (100_000, 1_000_000)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"b": "a"}, "link a:a: connects a node to itself"),
        ({"bw_mbit": 0}, "link a:b: bw_mbit must be a finite number above 0, not 0"),
        ({"bw_mbit": -1.5}, "link a:b: bw_mbit must be a finite number above 0, not -1.5"),
        ({"bw_mbit": math.inf}, "link a:b: bw_mbit must be a finite number above 0, not inf"),
        ({"bw_mbit": math.nan}, "link a:b: bw_mbit must be a finite number above 0, not nan"),
        ({"delay_ms": -1}, "link a:b: delay_ms must be a finite number from 0, not -1"),
        ({"delay_ms": math.inf}, "link a:b: delay_ms must be a finite number from 0, not inf"),
        ({"jitter_ms": -1}, "link a:b: jitter_ms must be a finite number from 0, not -1"),
        ({"jitter_ms": math.nan}, "link a:b: jitter_ms must be a finite number from 0, not nan"),
        ({"loss_percent": -0.1}, "link a:b: loss_percent must be from 0 to 100, not -0.1"),
        ({"loss_percent": 100.1}, "link a:b: loss_percent must be from 0 to 100, not 100.1"),
        ({"loss_percent": math.nan}, "link a:b: loss_percent must be from 0 to 100, not nan"),
        ({"max_queue_size": 0}, "link a:b: max_queue_size must be at least 1 packet, not 0"),
    ],
)
def test_links_that_cannot_be(parameters, message):
    with pytest.raises(TopologyError) as error:
        Link(**{"a": "a", "b": "b", **parameters})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("nodes", "links", "message"),
    [
        ((), (), "a topology needs at least one node"),
        (("A",), (), "node 'A': a name is a lower-case letter, then lower-case letters, digits, - or _"),
        (("1a",), (), "node '1a': a name is a lower-case letter, then lower-case letters, digits, - or _"),
        (("a b",), (), "node 'a b': a name is a lower-case letter, then lower-case letters, digits, - or _"),
        (("a\n",), (), "node 'a\\n': a name is a lower-case letter, then lower-case letters, digits, - or _"),
        (("a", "b", "a"), (), "node a: is named twice"),
        (("a",), (Link("a", "z"),), "link a:z: there is no node 'z'"),
        (("a", "b"), (Link("a", "b"), Link("b", "a")), "link b:a: b and a are already linked"),
        (
            ("a", "elevenchars"),
            (Link("a", "elevenchars"),),
            "node elevenchars: its interface name elevenchars-eth0 has 16 characters, Linux allows 15;"
            " shorten the node's name to 10 characters",
        ),
    ],
)
def test_topologies_that_cannot_be(nodes, links, message):
    with pytest.raises(TopologyError) as error:
        Topology(nodes, links)
    assert str(error.value) == message


def test_an_eleventh_interface_takes_one_more_character():
    hub, leaves = "tenletters", [f"s{n}" for n in range(11)]
    links = tuple(Link(hub, leaf) for leaf in leaves)
    Topology((hub, *leaves), links[:10])
    with pytest.raises(TopologyError, match=r"tenletters-eth10 has 16 characters.* to 9 characters"):
        Topology((hub, *leaves), links)


def test_a_node_without_links_has_no_interface_name_to_fit():
    assert Topology(("a-name-of-more-than-15",), ()).interfaces() == ()


def test_interfaces_of_a_line():
    first, second = b"\x02\x00\x0a\x00\x00\x01", b"\x02\x00\x0a\x00\x00\x02"
    third, fourth = b"\x02\x00\x0a\x00\x00\x05", b"\x02\x00\x0a\x00\x00\x06"
    assert chain("pub", "r1", "s1").interfaces() == (
        Interface("pub-eth0", "pub", first, "10.0.0.1", 0, "r1", "r1-eth0", second, "10.0.0.2"),
        Interface("r1-eth0", "r1", second, "10.0.0.2", 0, "pub", "pub-eth0", first, "10.0.0.1"),
        Interface("r1-eth1", "r1", third, "10.0.0.5", 1, "s1", "s1-eth0", fourth, "10.0.0.6"),
        Interface("s1-eth0", "s1", fourth, "10.0.0.6", 1, "r1", "r1-eth1", third, "10.0.0.5"),
    )


def test_addresses_carry_over():
    leaves = [f"s{n}" for n in range(65)]
    topology = Topology(("hub", *leaves), tuple(Link("hub", leaf) for leaf in leaves))
    assert [interface.ipv4 for interface in topology.interfaces()[126:130]] == [
        "10.0.0.253",
        "10.0.0.254",
        "10.0.1.1",
        "10.0.1.2",
    ]


@given(topologies())
def test_interfaces_fit_together(topology):
    interfaces = topology.interfaces()
    by_name = {interface.name: interface for interface in interfaces}
    assert len(by_name) == len({i.mac for i in interfaces}) == len({i.ipv4 for i in interfaces})
    assert len(by_name) == 2 * len(topology.links)
    for index, interface in enumerate(interfaces):
        link = topology.links[interface.link]
        assert interface.link == index // 2
        assert interface.node == (link.a, link.b)[index % 2]
        peer = by_name[interface.peer_name]
        assert (peer.node, peer.mac, peer.ipv4) == (interface.peer, interface.peer_mac, interface.peer_ipv4)
        assert peer.peer_name == interface.name
        subnet = ipaddress.ip_network(f"{interface.ipv4}/30", strict=False)
        assert ipaddress.ip_address(peer.ipv4) in list(subnet.hosts())
        assert interface.name.rpartition("-eth")[0] == interface.node
        assert interface.mac[0] & 0b11 == 0b10
    for node in topology.nodes:
        own = [interface.name for interface in interfaces if interface.node == node]
        assert own == [f"{node}-eth{k}" for k in range(len(own))]


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
    routes = topology.routes(to)
    assert set(routes) == set(best) - {to}
    for node, interface in routes.items():
        assert interface.node == node
        assert topology.path_delay_ns(node, to) == best[node][0]
        choices = {
            i.peer
            for i in topology.interfaces()
            if i.node == node
            and i.peer in best
            and (best[i.peer][0] + topology.links[i.link].delay_ns, best[i.peer][1] + 1) == best[node]
        }
        assert interface.peer == min(choices)


@given(topologies(), st.randoms(), st.data())
def test_routes_do_not_depend_on_the_order_of_links(topology, random, data):
    to = data.draw(st.sampled_from(topology.nodes))
    links = list(topology.links)
    random.shuffle(links)
    shuffled = replace(topology, links=tuple(links))
    assert {node: via.peer for node, via in topology.routes(to).items()} == {
        node: via.peer for node, via in shuffled.routes(to).items()
    }


def test_a_faster_detour_is_taken():
    links = (Link("a", "c", delay_ms=10), Link("a", "b", delay_ms=4), Link("b", "c", delay_ms=5))
    topology = Topology(("a", "b", "c"), links)
    assert topology.routes("c")["a"].peer == "b"
    assert topology.path_delay_ns("a", "c") == topology.path_delay_ns("c", "a") == 9_000_000


def test_routes_to_and_between_unknown_nodes():
    topology = Topology(("a", "b", "z"), (Link("a", "b", delay_ms=1),))
    assert set(topology.routes("a")) == {"b"}
    assert topology.path_delay_ns("z", "z") == 0
    with pytest.raises(TopologyError, match="no path joins a and z"):
        topology.path_delay_ns("a", "z")
    with pytest.raises(TopologyError, match="there is no node 'q'"):
        topology.path_delay_ns("a", "q")
    with pytest.raises(TopologyError, match="there is no node 'q'"):
        topology.routes("q")


@given(topologies(), st.data())
def test_next_hops_are_every_way_on_that_does_not_come_back(topology, data):
    to = data.draw(st.sampled_from(topology.nodes))
    routes, hops = topology.routes(to), topology.next_hops(to)
    assert set(hops) == set(routes)
    links = [(link.a, link.b) for link in topology.links]
    for node, ways in hops.items():
        assert ways[0][0] == routes[node]
        assert [cost for _, cost in ways] == sorted(cost for _, cost in ways)
        without = networkx.Graph([ends for ends in links if node not in ends])
        without.add_nodes_from(set(topology.nodes) - {node})
        neighbours = {interface.peer for interface in topology.interfaces() if interface.node == node}
        leads_there = {peer for peer in neighbours if networkx.has_path(without, peer, to)}
        assert {interface.peer for interface, _ in ways} == leads_there


def test_a_second_way_costs_what_it_takes():
    ring = Topology(
        ("a", "b", "c"), (Link("a", "b", delay_ms=1), Link("b", "c", delay_ms=2), Link("a", "c", delay_ms=10))
    )
    hops = [(interface.peer, cost) for interface, cost in ring.next_hops("c")["a"]]
    assert hops == [("b", 3 * 3_000_000 + 2), ("c", 3 * 10_000_000 + 1)]


def test_the_link_between_two_nodes():
    topology = Topology(("a", "b", "c"), (Link("a", "b"), Link("c", "b")))
    assert (topology.link_between("b", "c"), topology.link_between("a", "b")) == (1, 0)
    with pytest.raises(TopologyError, match="no link joins a and c"):
        topology.link_between("a", "c")
