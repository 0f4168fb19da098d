"""Topologies from graphs: GraphML files, as of the Internet Topology Zoo, and NetworkX.

Nodes are named by their labels: their lower-case letters and digits, truncated to the length of an interface
name. A duplicate label gets a number; a node without a label is named `n` and its id. The label itself is
kept as an attribute of the node. Edges become links:

- an attribute with the name of a parameter of topologies.link (delay_ms, loss_percent ...) is that parameter;
- `LinkSpeedRaw`, in bit/s, is the rate; without it `LinkSpeed` and `LinkSpeedUnits` (K, M, G, T);
- where both ends have `Latitude` and `Longitude`, the delay is that of geography (topologies.geography);
- of several edges between two nodes the fastest is taken; edges have no direction; loops are left out.

Parameters that the caller gives replace all of these.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from topologies.geography import Place, delay_ms
from topologies.link import LINK_PARAMETERS
from topologies.model import INTERFACE_NAME_LIMIT, Link, Topology, TopologyError

if TYPE_CHECKING:
    import networkx

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def is_graphml(path: str) -> bool:
    """Return whether a file is GraphML, by its name."""
    return path.lower().endswith((".graphml", ".xml"))


def read_graphml(path: str | PathLike[str], **link: Any) -> Topology:
    """The topology in a GraphML file; `link` are parameters of all links.

    Raises TopologyError, one line that names the file and the node or edge at fault.
    """
    from xml.etree.ElementTree import ParseError

    from networkx import NetworkXError, read_graphml

    source = fspath(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # of keys without a type, which are read as texts
            graph = read_graphml(source)
    except OSError as error:
        raise TopologyError(f"{source}: cannot be read: {error.strerror}") from None
    except ParseError as error:
        line, column = error.position
        reason = str(error).partition(":")[0]
        raise TopologyError(f"{source}:{line}: column {column + 1} is not XML ({reason})") from None
    except NetworkXError as error:
        raise TopologyError(f"{source}: is not a GraphML file of one graph: {_line(error)}") from None
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        said = f"no key {error}" if isinstance(error, KeyError) else _line(error)
        raise TopologyError(f"{source}: cannot be read as GraphML: {said}") from None
    try:
        return from_networkx(graph, **link)
    except TopologyError as error:
        raise TopologyError(f"{source}: {error}") from None


def from_networkx(graph: networkx.Graph[Any], **link: Any) -> Topology:
    """The topology of any kind of NetworkX graph; `link` are parameters of all links.

    Raises TopologyError.
    """
    if not len(graph):
        raise TopologyError("the graph has no nodes")
    edges = list(_edges(graph))
    degrees = Counter(end for a, b, _ in edges for end in (a, b))
    names = _names(graph, degrees)
    places = {node: _place(names[node], data) for node, data in graph.nodes(data=True)}
    best: dict[frozenset[Any], Link] = {}
    for a, b, data in edges:
        made = _link(names[a], names[b], data, places[a], places[b], link)
        ends = frozenset((a, b))
        if ends not in best or _rate(best[ends]) < _rate(made):
            best[ends] = made
    attributes = {
        names[node]: {_key(key): str(value) for key, value in data.items() if _is_given(value)}
        for node, data in graph.nodes(data=True)
    }
    return Topology(
        tuple(names.values()),
        tuple(best.values()),
        attributes={node: said for node, said in attributes.items() if said},
    )


def to_networkx(topology: Topology) -> networkx.Graph[str]:
    """The graph of a topology's links, from which `from_networkx` makes the same links.

    Raises TopologyError for broadcast media, which are not edges.
    """
    from networkx import Graph

    if topology.media:
        raise TopologyError(f"medium {topology.media[0]}: a graph has no broadcast media")
    graph: networkx.Graph[str] = Graph()
    for node in topology.nodes:
        graph.add_node(node, **topology.attributes.get(node, {}))
    for each in topology.links:
        given = {name: getattr(each, name) for name in (*LINK_PARAMETERS, "cost", "cost_back")}
        graph.add_edge(each.a, each.b, **{key: value for key, value in given.items() if value is not None})
    return graph


def _edges(graph: networkx.Graph[Any]) -> Iterator[tuple[Any, Any, Mapping[str, Any]]]:
    for a, b, data in graph.edges(data=True):
        if a != b:
            yield a, b, data


def _names(graph: networkx.Graph[Any], degrees: Mapping[Any, int]) -> dict[Any, str]:
    names: dict[Any, str] = {}
    taken: set[str] = set()
    for node, data in graph.nodes(data=True):
        room = INTERFACE_NAME_LIMIT - len(f"-eth{max(0, degrees[node] - 1)}")
        label = data.get("label", node if isinstance(node, str) else "")
        base = _plain(label) or _plain(f"n{node}") or "n"
        base = base if base[0].isalpha() else f"n{base}"
        name, number = base[:room], 1
        while name in taken:
            number += 1
            name = f"{base[: room - len(str(number))]}{number}"
        taken.add(name)
        names[node] = name
    return names


def _plain(label: object) -> str:
    """Return a label without the characters that are invalid in a name."""
    text = unicodedata.normalize("NFKD", str(label)).encode("ascii", "ignore").decode().lower()
    # A valid name, such as one written by to_networkx(), is unchanged.
    return text if re.fullmatch(r"[a-z][a-z0-9_-]*", str(label)) else re.sub(r"[^a-z0-9]", "", text)


def _is_given(value: Any) -> bool:
    return isinstance(value, str | int | float) and str(value) != ""


def _key(key: object) -> str:
    """Return an attribute's normalised key: programs spell coordinates differently."""
    text = str(key)
    return text.lower() if text.lower() in ("latitude", "longitude", "radius", "angle") else text


def _place(name: str, data: Mapping[str, Any]) -> Place | None:
    known = {_key(key): value for key, value in data.items()}
    if not all(_is_given(known.get(key)) for key in ("latitude", "longitude")):
        return None
    found = []
    for key, most in (("latitude", 90), ("longitude", 180)):
        try:
            degrees = float(known[key])
        except ValueError:
            degrees = float("nan")
        if not -most <= degrees <= most:
            raise TopologyError(f"node {name}: {key} must be from -{most} to {most}, not {known[key]}")
        found.append(degrees)
    return found[0], found[1]


def _link(
    a: str, b: str, data: Mapping[str, Any], here: Place | None, there: Place | None, given: Mapping[str, Any]
) -> Link:
    parameters: dict[str, Any] = {}
    if here is not None and there is not None:
        parameters["delay_ms"] = delay_ms(here, there)
    speed = _speed(f"{a}:{b}", data)
    if speed is not None:
        parameters["bw_mbit"] = speed / 1e6
    for name in (*LINK_PARAMETERS, "cost", "cost_back"):
        if name in data:
            parameters[name] = _value(f"{a}:{b}", name, data[name])
    return Link(a, b, **{**parameters, **given})


def _value(link: str, name: str, value: Any) -> Any:
    if name in LINK_PARAMETERS and LINK_PARAMETERS[name].choices:
        return str(value)
    number = _number(link, name, value)
    return int(number) if name in LINK_PARAMETERS and LINK_PARAMETERS[name].is_whole else number


def _speed(link: str, data: Mapping[str, Any]) -> float | None:
    """Return the rate in an edge's attributes, bit/s."""
    if _is_given(data.get("LinkSpeedRaw")):
        return _number(link, "LinkSpeedRaw", data["LinkSpeedRaw"])
    if not _is_given(data.get("LinkSpeed")):
        return None
    unit = str(data.get("LinkSpeedUnits", "")).strip().lower()[:1]
    if unit not in _UNITS:
        raise TopologyError(
            f"link {link}: LinkSpeedUnits must be K, M, G or T, not {data['LinkSpeedUnits']!r}"
        )
    return _number(link, "LinkSpeed", data["LinkSpeed"]) * _UNITS[unit]


def _number(link: str, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TopologyError(f"link {link}: {name} must be a number, not {value!r}") from None


def _rate(link: Link) -> float:
    return float("inf") if link.bw_mbit is None else link.bw_mbit


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
