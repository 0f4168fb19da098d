"""Broadcast media: what one member sends, the others hear, each with luck of its own."""

import tempfile
from collections import Counter

import pcapng_oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_topologies import GROUP, TO_ALL
from stream_programs import PORT, Echo, Quiet, Source

from base.endpoint import Closed, GroupPort, Program, StreamPort
from base.interface import Attachment
from base.units import MS
from captures.formats.pcapng import Direction, Writer
from captures.formats.pcapng import Interface as Described
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Hop, Link, Medium, Topology, TopologyError
from topologies.pipe import Pipe, pipe_rng
from topologies.radio import Radio
from topologies.routing import next_hops, path_delay_ns, routes


def cell(members="abc", **parameters):
    return Topology(tuple(members), (), (Medium(name="cell", members=tuple(members), **parameters),))


def captured(topology, programs, until=1000 * MS):
    described = [Described(i.name, "", i.ipv4) for i in topology.interfaces]
    with tempfile.NamedTemporaryFile() as file:
        capture = Writer(file, described, application="test")
        EmulatedNetwork(topology, programs, seed=7, capture=capture).run(until)
        file.flush()
        return list(pcapng_oracle.read(file.name))


def test_all_other_members_hear_a_frame_at_the_same_time():
    topology = cell(delay_ms=2, bw_mbit=1)
    nodes = {name: Quiet() for name in "abc"}
    programs = {
        name: [Program(node, {1: GroupPort(at, GROUP, 7001)})]
        for (name, node), at in zip(nodes.items(), topology.attachments, strict=True)
    }
    nodes["a"].outputs.append((1, bytes(83), None))  # a frame of 125 bytes takes 1 ms
    packets = captured(topology, programs)
    assert nodes["a"].datagrams == []
    for name in "bc":
        assert nodes[name].datagrams == [(3 * MS, bytes(83), ("10.128.0.1", 7001))]
    assert [(p.interface.name, p.direction, p.time) for p in packets] == [
        ("a-eth0", Direction.OUT, 0),
        ("b-eth0", Direction.IN, 3 * MS),
        ("c-eth0", Direction.IN, 3 * MS),
    ]
    (frame,) = {packet.frame for packet in packets}
    assert frame[:6] == bytes.fromhex("01005e000047")
    assert frame[22] == 1, "it goes no further than the medium"


def test_only_who_listens_to_the_group_and_port_is_told():
    topology = cell()
    nodes = {name: Quiet() for name in "abc"}
    a, b, c = topology.attachments
    programs = {
        "a": [Program(nodes["a"], {1: GroupPort(a, GROUP, 7001), 2: GroupPort(a, TO_ALL, 7001)})],
        "b": [Program(nodes["b"], {1: GroupPort(b, GROUP, 7002), 2: GroupPort(b, TO_ALL, 7001)})],
        "c": [Program(nodes["c"], {5: GroupPort(c, GROUP, 7001)})],
    }
    nodes["a"].outputs += [(1, b"group", None), (2, b"all", None)]
    packets = captured(topology, programs)
    told = {name: [payload for _, payload, _ in nodes[name].datagrams] for name in "abc"}
    assert told == {"a": [], "b": [b"all"], "c": [b"group"]}
    assert Counter(p.interface.name for p in packets) == {"a-eth0": 2, "b-eth0": 2, "c-eth0": 2}
    assert packets[1].frame[:6] == b"\xff" * 6


@given(
    st.integers(0, 1 << 32),
    st.dictionaries(st.sampled_from("bcd"), st.floats(0, 100), min_size=1),
    st.floats(0, 100),
)
def test_each_receiver_loses_as_its_own_pipe_says(seed, losses, loss):
    topology = cell("abcd", losses=losses, loss_percent=loss)
    (medium,) = topology.media
    nodes = {name: Quiet() for name in "abcd"}
    programs = {
        name: [Program(node, {1: GroupPort(at, GROUP, 7001)})]
        for (name, node), at in zip(nodes.items(), topology.attachments, strict=True)
    }
    nodes["a"].outputs += [(1, bytes([number]), None) for number in range(40)]
    EmulatedNetwork(topology, programs, seed=seed, capture=None).run(MS)
    for name in "bcd":
        assert medium.towards(name).loss_percent == losses.get(name, loss)
        pipe = Pipe(medium.towards(name), pipe_rng(seed, medium, "a", name))
        expected = [bytes([number]) for number in range(40) if pipe.send(0, bytes(43))]
        assert [payload for _, payload, _ in nodes[name].datagrams] == expected


def test_streams_go_over_links_and_media_alike():
    """a - r over a link, r, b, c on a medium: packets for b are not for c."""
    topology = Topology(
        ("a", "r", "b", "c"),
        (Link("a", "r", delay_ms=5),),
        (Medium(name="cell", members=("r", "b", "c"), delay_ms=2),),
    )
    assert path_delay_ns(topology, "a", "b") == path_delay_ns(topology, "b", "a") == 7 * MS
    source, echo = Source((topology.address("b"), PORT), bytes(50_000)), Echo()
    programs = {"a": [Program(source, {})], "b": [Program(echo, {1: StreamPort(PORT)})]}
    packets = captured(topology, programs, until=5000 * MS)
    assert source.received(1) == bytes(50_000)
    assert source.events[-1][1] == Closed(1, "")
    at = Counter(p.interface.name for p in packets)
    assert set(at) == {"a-eth0", "r-eth0", "r-eth1", "b-eth0"}
    assert at["a-eth0"] == at["r-eth0"] == at["r-eth1"] == at["b-eth0"]


def test_addresses_names_and_ways():
    topology = Topology(
        ("a", "b", "c"),
        (Link("a", "b"),),
        (Medium(name="east", members=("b", "c")), Medium(name="west", members=("c", "a", "b"))),
    )
    assert [(each.name, each.ipv4, each.medium) for each in topology.attachments] == [
        ("b-eth1", "10.128.0.1", 0),
        ("c-eth0", "10.128.0.2", 0),
        ("c-eth1", "10.128.1.1", 1),
        ("a-eth1", "10.128.1.2", 1),
        ("b-eth2", "10.128.1.3", 1),
    ]
    assert len(topology.hops) == 2 + 2 + 6
    assert all(isinstance(hop, Hop) and hop.out.node != hop.into.node for hop in topology.hops)
    assert topology.description(topology.attachments[0]) == "b on east"
    assert routes(topology, "a")["b"].out.name == "b-eth0", "of equal ways the link"
    assert isinstance(routes(topology, "a")["c"].out, Attachment)
    assert set(next_hops(topology, "a")) == {"b"}, "NDN's faces are on links"


def test_a_slow_link_beside_a_fast_medium_is_not_taken():
    topology = Topology(
        ("a", "b"), (Link("a", "b", delay_ms=9),), (Medium(name="cell", members=("a", "b"), delay_ms=1),)
    )
    assert routes(topology, "a")["b"].out == topology.attachments[1]
    assert path_delay_ns(topology, "a", "b") == MS


@pytest.mark.parametrize(
    ("medium", "message"),
    [
        ({"members": ("a",)}, "medium cell: it has 2 to 254 members"),
        ({"members": ("a", "b", "a")}, "medium cell: member a is named twice"),
        ({"members": ("a", "z")}, "medium cell: there is no node 'z'"),
        ({"losses": {"z": 1.0}}, "medium cell: losses: 'z' is no member"),
        ({"losses": {"b": 101.0}}, "medium cell: loss_percent must be from 0 to 100, not 101.0"),
        ({"bw_mbit": 0}, "medium cell: bw_mbit must be a finite number above 0, not 0"),
        ({"name": "1cell"}, "medium '1cell': a name is a letter, then letters, digits"),
        ({"name": "b"}, "medium b: another medium or a node has that name"),
    ],
)
def test_a_medium_that_cannot_be_is_one_line(medium, message):
    with pytest.raises(TopologyError, match=message):
        Topology(("a", "b"), (), (Medium(**{"name": "cell", "members": ("a", "b")} | medium),))


@pytest.mark.parametrize("radio", [None, Radio(backoff_ms=0.0)])
def test_who_has_left_a_medium_hears_nothing_until_it_is_back(radio):
    topology = cell(delay_ms=2, radio=radio)
    nodes = {name: Quiet() for name in "abc"}
    programs = {
        name: [Program(node, {1: GroupPort(at, GROUP, 7001)})]
        for (name, node), at in zip(nodes.items(), topology.attachments, strict=True)
    }
    network = EmulatedNetwork(topology, programs, seed=7, capture=None)
    c = topology.attachment_of("c", "cell")

    def say(name, word):
        nodes[name].outputs.append((1, word, None))
        network.settle(name)

    for at, action in (
        (0, lambda: say("a", b"to all")),
        (MS, lambda: network.set_present(c, present=False)),  # under way, or on air
        (1000 * MS, lambda: say("a", b"to b")),
        (1001 * MS, lambda: say("c", b"to nobody")),
        (2000 * MS, lambda: network.set_present(c, present=True)),
        (2001 * MS, lambda: say("c", b"back")),
        (3000 * MS, lambda: say("a", b"again to all")),
    ):
        network.change(at, action)
    network.run(5000 * MS)
    heard = {name: [payload for _, payload, _ in node.datagrams] for name, node in nodes.items()}
    assert heard == {
        "a": [b"back"],
        "b": [b"to all", b"to b", b"back", b"again to all"],
        "c": [b"again to all"],
    }


def test_a_group_reaches_the_neighbour_on_a_link_too():
    topology = Topology(("a", "b"), (Link("a", "b", delay_ms=2),))
    nodes = {name: Quiet() for name in "ab"}
    programs = {
        end.node: [Program(nodes[end.node], {1: GroupPort(end, GROUP, 7001)})] for end in topology.link_ends
    }
    nodes["a"].outputs.append((1, b"hello", None))
    packets = captured(topology, programs)
    assert nodes["b"].datagrams == [(2 * MS, b"hello", ("10.0.0.1", 7001))]
    assert {packet.frame[:6] for packet in packets} == {bytes.fromhex("01005e000047")}
