"""GraphML files, NetworkX's graphs, and the library of real networks."""

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topologies import library
from topologies.geography import delay_ms, distance_km
from topologies.graphs import from_networkx, is_graphml, read_graphml, to_networkx
from topologies.model import Link, Medium, Topology, TopologyError
from topologies.routing import path_delay_ns, routes

ZOO = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="l" />
  <key attr.name="Latitude" attr.type="double" for="node" id="lat" />
  <key attr.name="Longitude" attr.type="double" for="node" id="lon" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="raw" />
  <key attr.name="LinkSpeed" attr.type="string" for="edge" id="speed" />
  <key attr.name="LinkSpeedUnits" attr.type="string" for="edge" id="units" />
  <graph edgedefault="undirected">
    <node id="0"><data key="l">New York</data><data key="lat">40.71</data><data key="lon">-74.01</data></node>
    <node id="1"><data key="l">London</data><data key="lat">51.51</data><data key="lon">-0.13</data></node>
    <node id="2"><data key="l">London</data><data key="lat">51.51</data><data key="lon">-0.13</data></node>
    <node id="3"><data key="l">Zürich (Hauptbahnhof, Gleis 7)</data></node>
    <node id="4"><data key="l"></data></node>
    <node id="5" />
    <node id="6"><data key="l">3com</data></node>
    <edge source="0" target="1"><data key="raw">155000000.0</data></edge>
    <edge source="0" target="1"><data key="raw">2500000000.0</data></edge>
    <edge source="1" target="2" />
    <edge source="2" target="3"><data key="speed">2.5</data><data key="units">G</data></edge>
    <edge source="3" target="4" /><edge source="4" target="4" />
    <edge source="4" target="5" /><edge source="5" target="6" />
  </graph>
</graphml>
"""


@pytest.fixture
def zoo(tmp_path):
    path = tmp_path / "zoo.graphml"
    path.write_text(ZOO, encoding="utf-8")
    return path


def test_a_file_of_the_topology_zoo(zoo):
    topology = read_graphml(zoo, max_queue_size=50)
    assert topology.nodes == ("newyork", "london", "london2", "zurichhaup", "n4", "n5", "n3com")
    atlantic = delay_ms((40.71, -74.01), (51.51, -0.13))
    assert topology.links[:4] == (
        Link("newyork", "london", bw_mbit=2500, delay_ms=atlantic, max_queue_size=50),
        Link("london", "london2", max_queue_size=50),
        Link("london2", "zurichhaup", bw_mbit=2500, max_queue_size=50),
        Link("zurichhaup", "n4", max_queue_size=50),
    )
    assert topology.attributes["london2"] == {"label": "London", "latitude": "51.51", "longitude": "-0.13"}
    assert all(len(end.name) <= 15 for end in topology.link_ends)


def test_what_the_caller_says_replaces_what_the_file_says(zoo):
    assert {link.delay_ms for link in read_graphml(zoo, delay_ms=3).links} == {3}
    assert {link.bw_mbit for link in read_graphml(zoo, bw_mbit=10).links} == {10}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</graphml>", "", "zoo.graphml:25: column 1 is not XML (no element found)"),
        ("<node id=", "<nodeid=", "zoo.graphml:10: column 12 is not XML (not well-formed (invalid token))"),
        ("graph edgedefault", "grph edgedefault", "zoo.graphml:23: column 5 is not XML (mismatched tag)"),
        (">40.71<", ">north<", "cannot be read as GraphML: could not convert string to float: 'north'"),
        (">40.71<", ">94<", "node newyork: latitude must be from -90 to 90, not 94.0"),
        (">-74.01<", ">-190<", "node newyork: longitude must be from -180 to 180, not -190.0"),
        (">G<", ">fast<", "link london2:zurichhaup: LinkSpeedUnits must be K, M, G or T, not 'fast'"),
        (">2.5<", ">two<", "link london2:zurichhaup: LinkSpeed must be a number, not 'two'"),
        (
            ">155000000.0<",
            ">0<",
            "link newyork:london: bw_mbit must be a finite number above 0, not 0.0",
        ),
        ('key="lat"', 'key="lot"', "is not a GraphML file of one graph: Bad GraphML data: no key lot"),
        (ZOO, "", "zoo.graphml:1: column 1 is not XML (no element found)"),
        (ZOO, "<html></html>", "is not a GraphML file of one graph: file not successfully read as graphml"),
        (ZOO[ZOO.index("    <node") : ZOO.index("  </graph>")], "", "the graph has no nodes"),
    ],
)
def test_files_that_cannot_be(zoo, old, new, message):
    zoo.write_text(ZOO.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(TopologyError) as error:
        read_graphml(zoo)
    assert message in str(error.value)
    assert str(error.value).startswith(str(zoo))
    assert "\n" not in str(error.value)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_file_is_a_topology_or_one_line(tmp_path, data):
    text = ZOO
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        put = data.draw(st.text('<>/"=-0189.einfa ', max_size=6))
        text = text[:at] + put + text[at + data.draw(st.integers(0, 6)) :]
    path = tmp_path / "some.graphml"
    path.write_text(text, encoding="utf-8")
    said = ""
    try:
        read_graphml(path)
    except TopologyError as error:
        said = str(error)
    assert not said or said.startswith(str(path))
    assert len(said.splitlines()) <= 1


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TopologyError, match=r"none.graphml: cannot be read: No such file or directory"):
        read_graphml(tmp_path / "none.graphml")


def test_graphs_of_networkx():
    graph = nx.DiGraph()
    graph.add_edge("B", "a", delay_ms=2.5, cost=7, jitter_distribution="normal", max_queue_size=9.0)
    graph.add_edge("a", "B")
    assert from_networkx(graph) == Topology(
        ("b", "a"),
        (Link("b", "a", 7, delay_ms=2.5, jitter_distribution="normal", max_queue_size=9),),
    )


def test_there_and_back(tmp_path):
    topology = Topology(
        ("a", "b_1", "c"),
        (Link("a", "b_1", 3, 4, delay_ms=1.5), Link("b_1", "c", loss_percent=2, loss_burst=3)),
        attributes={"a": {"latitude": "1.5", "longitude": "2.5"}},
    )
    assert from_networkx(to_networkx(topology)) == topology
    nx.write_graphml(to_networkx(topology), tmp_path / "t.graphml")
    assert read_graphml(tmp_path / "t.graphml") == topology


def test_a_medium_is_no_edge():
    with pytest.raises(TopologyError, match="medium cell: a graph has no broadcast media"):
        to_networkx(Topology(("a", "b"), (), (Medium(name="cell", members=("a", "b")),)))


def test_which_files_are_graphml():
    assert is_graphml("x.GraphML")
    assert is_graphml("x.xml")
    assert not is_graphml("x.conf")


def test_distances():
    assert distance_km((0, 0), (0, 180)) == pytest.approx(20015.1, abs=0.1)
    assert distance_km((52.5, 13.4), (52.5, 13.4)) == 0
    # Paris and New York: 5837 km on a sphere, 29.2 ms in fibre.
    assert delay_ms((48.86, 2.35), (40.71, -74.01)) == pytest.approx(29.2, abs=0.05)


@pytest.mark.parametrize(
    ("name", "nodes", "links"),
    [("geant", 45, 71), ("abilene", 11, 14), ("sprint", 52, 84), ("ndn-testbed", 37, 95)],
)
def test_the_library(name, nodes, links):
    topology = library.build(name)
    assert (len(topology.nodes), len(topology.links)) == (nodes, links)
    assert len(routes(topology, topology.nodes[0])) == nodes - 1
    # Half the Earth's circumference is 100 ms.
    assert all(0 <= link.delay_ms < 100.1 for link in topology.links)
    assert {link.loss_percent for link in library.build(name, loss_percent=2).links} == {2}
    network = library.networks()[name]
    assert network.title
    assert network.source


def test_delays_of_the_library_are_those_of_geography():
    # Coast to coast is some 4000 km, 20 ms.
    assert 20e6 < path_delay_ns(library.build("abilene"), "seattle", "newyork") < 24e6


def test_there_is_no_such_network():
    with pytest.raises(
        TopologyError, match="there is no network 'arpanet' in the library; there are abilene, geant"
    ):
        library.build("arpanet")
