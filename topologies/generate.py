"""Topologies by number: trees, lines and stars, in a registry that scenarios name them from.

Nodes are named for their roles: the publisher `pub`, forwarders `r1`, `r2`, ..., subscribers `s1`, `s2`,
..., both counted breadth first from the publisher. All links of a generated topology are alike; their
parameters, `link`, are those of topologies.link.LinkParameters.
"""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from topologies.model import Link, Topology, TopologyError

MOST_NODES = 10_000


def tree(depth: int, fanout: int, **link: Any) -> Topology:
    """A tree with `pub` at its root, `depth` links above each of its fanout ** depth subscribers.

    Raises TopologyError if depth or fanout is below 1, or there would be more nodes than MOST_NODES.
    """
    _at_least_one("tree", depth=depth, fanout=fanout)
    # Bounded before it is raised to a power.
    small = depth <= MOST_NODES and (fanout == 1 or depth < MOST_NODES.bit_length())
    if not small or sum(fanout**level for level in range(depth + 1)) > MOST_NODES:
        raise TopologyError(f"a tree of depth {depth}, fanout {fanout} has more than {MOST_NODES} nodes")
    nodes = ["pub"]
    links: list[Link] = []
    level = ["pub"]
    forwarders = 0
    for above in range(depth):
        role = "r" if above < depth - 1 else "s"
        first = forwarders + 1 if role == "r" else 1
        below = [f"{role}{first + index}" for index in range(len(level) * fanout)]
        links += [Link(level[index // fanout], child, **link) for index, child in enumerate(below)]
        nodes += below
        level = below
        forwarders += len(below)
    return Topology(tuple(nodes), tuple(links))


def line(length: int, **link: Any) -> Topology:
    """A chain of `length` links: pub, length - 1 forwarders, and the subscriber s1.

    Raises TopologyError if length is below 1, or there would be more nodes than MOST_NODES.
    """
    _at_least_one("line", length=length)
    return tree(length, 1, **link)


def star(leaves: int, **link: Any) -> Topology:
    """The forwarder r1 in the middle, `pub` and the subscribers s1 ... s<leaves> around it.

    Raises TopologyError if leaves is below 1, or there would be more nodes than MOST_NODES.
    """
    _at_least_one("star", leaves=leaves)
    if leaves > MOST_NODES - 2:
        raise TopologyError(f"a star of {leaves} leaves has more than {MOST_NODES} nodes")
    subscribers = [f"s{index}" for index in range(1, leaves + 1)]
    links = [Link("pub", "r1", **link), *(Link("r1", subscriber, **link) for subscriber in subscribers)]
    return Topology(("pub", "r1", *subscribers), tuple(links))


GENERATORS: Mapping[str, Callable[..., Topology]] = MappingProxyType(
    {"line": line, "star": star, "tree": tree}
)
"""Generators by the name that a scenario calls them."""


def generate(name: str, shape: Mapping[str, int], link: Mapping[str, Any]) -> Topology:
    """The topology that a scenario describes: a generator's name, its own arguments, its links' parameters.

    Raises TopologyError if there is no such generator, or if it takes other arguments.
    """
    if name not in GENERATORS:
        raise TopologyError(f"there is no topology {name!r}; there are {', '.join(sorted(GENERATORS))}")
    generator = GENERATORS[name]
    wanted = [
        parameter.name
        for parameter in inspect.signature(generator).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    if set(shape) != set(wanted):
        raise TopologyError(
            f"topology {name} takes {', '.join(wanted)}; it was given {', '.join(shape) or 'nothing'}"
        )
    return generator(**shape, **link)


def _at_least_one(generator: str, **arguments: int) -> None:
    for name, value in arguments.items():
        if value < 1:
            raise TopologyError(f"{generator}: {name} must be at least 1, not {value}")
