import ipaddress
import itertools
import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from made_topologies import topologies

from base.interface import LinkEnd
from topologies.model import Link, Topology, TopologyError


def chain(*nodes, **parameters):
    return Topology(nodes, tuple(Link(a, b, **parameters) for a, b in itertools.pairwise(nodes)))


def test_a_link_is_unimpaired_by_default():
    nothing = {"bw_mbit": None, "delay_ms": 0, "loss_percent": 0, "jitter_ms": 0, "max_queue_size": 100}
    assert Link("a", "b") == Link("a", "b", **nothing)


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
        (
            {"loss_percent": 60, "loss_burst": 1},
            "link a:b: loss_percent must be at most 50 if 1 losses in a row are usual, not 60",
        ),
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
        (("Ä",), (), "node 'Ä': a name is a letter, then letters, digits, - or _"),
        (("1a",), (), "node '1a': a name is a letter, then letters, digits, - or _"),
        (("a b",), (), "node 'a b': a name is a letter, then letters, digits, - or _"),
        (("a\n",), (), "node 'a\\n': a name is a letter, then letters, digits, - or _"),
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
    assert Topology(("a-name-of-more-than-15",), ()).link_ends == ()


def test_interfaces_of_a_line():
    first, second = b"\x02\x00\x0a\x00\x00\x01", b"\x02\x00\x0a\x00\x00\x02"
    third, fourth = b"\x02\x00\x0a\x00\x00\x05", b"\x02\x00\x0a\x00\x00\x06"
    assert chain("pub", "r1", "s1").link_ends == (
        LinkEnd("pub-eth0", "pub", first, "10.0.0.1", 0, "r1", "r1-eth0", second, "10.0.0.2"),
        LinkEnd("r1-eth0", "r1", second, "10.0.0.2", 0, "pub", "pub-eth0", first, "10.0.0.1"),
        LinkEnd("r1-eth1", "r1", third, "10.0.0.5", 1, "s1", "s1-eth0", fourth, "10.0.0.6"),
        LinkEnd("s1-eth0", "s1", fourth, "10.0.0.6", 1, "r1", "r1-eth1", third, "10.0.0.5"),
    )


def test_addresses_carry_over():
    leaves = [f"s{n}" for n in range(65)]
    topology = Topology(("hub", *leaves), tuple(Link("hub", leaf) for leaf in leaves))
    assert [interface.ipv4 for interface in topology.link_ends[126:130]] == [
        "10.0.0.253",
        "10.0.0.254",
        "10.0.1.1",
        "10.0.1.2",
    ]


@given(topologies())
def test_interfaces_fit_together(topology):
    interfaces = topology.link_ends
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


def test_the_link_between_two_nodes():
    topology = Topology(("a", "b", "c"), (Link("a", "b"), Link("c", "b")))
    assert (topology.link_between("b", "c"), topology.link_between("a", "b")) == (1, 0)
    with pytest.raises(TopologyError, match="no link joins a and c"):
        topology.link_between("a", "c")
