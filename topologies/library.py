"""Published real networks: nodes with their locations, and the links between them.

Each is a file in topologies/networks/: a title, the source, links as pairs of nodes, and each node's latitude
and longitude. Delays follow from geography (topologies.geography). The sources have few rates, so links have
none unless the caller gives one.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from topologies.geography import Place, delay_ms
from topologies.model import Link, Topology, TopologyError

_FILES = Path(__file__).parent / "networks"


class Network(NamedTuple):
    """A network of the library: title, source, links, and the locations of nodes."""

    title: str
    source: str
    links: tuple[tuple[str, str], ...]
    nodes: dict[str, Place]


@cache
def networks() -> dict[str, Network]:
    """Return all networks of the library, by name."""
    return {path.stem: _read(path) for path in sorted(_FILES.glob("*.toml"))}


def build(name: str, **link: Any) -> Topology:
    """The topology of a network of the library; `link` are parameters of all links, which may replace the
    delay.

    Raises TopologyError if there is no such network.
    """
    known = networks()
    if name not in known:
        raise TopologyError(f"there is no network {name!r} in the library; there are {', '.join(known)}")
    nodes = known[name].nodes
    return Topology(
        tuple(nodes),
        tuple(Link(a, b, **{"delay_ms": delay_ms(nodes[a], nodes[b]), **link}) for a, b in known[name].links),
        attributes={
            node: {"latitude": str(latitude), "longitude": str(longitude)}
            for node, (latitude, longitude) in nodes.items()
        },
    )


def _read(path: Path) -> Network:
    said = tomllib.loads(path.read_text(encoding="utf-8"))
    links = tuple((a, b) for a, b in (each.split() for each in said["links"]))
    nodes = {name: (latitude, longitude) for name, (latitude, longitude) in said["nodes"].items()}
    return Network(said["title"], " ".join(said["source"].split()), links, nodes)
