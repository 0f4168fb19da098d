"""Generated topologies, in a registry for scenarios.

Nodes of lines, stars and trees are named for their roles: the publisher `pub`, forwarders `r1`, `r2`, ...,
subscribers `s1`, `s2`, ..., both counted breadth first from the publisher. In a fat tree hosts are `h1`,
`h2`, ...; the nodes of all others are `n1`, `n2`, ... All links of a generated topology are alike; their
parameters, `link`, are those of topologies.link.LinkParameters. All random choices follow from `seed` alone.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from topologies.model import Link, Topology, TopologyError

MOST_NODES = 10_000


def tree(depth: int, fanout: int, **link: Any) -> Topology:
    """A tree with `pub` at its root, `depth` links above each of its fanout ** depth subscribers.

    Raises TopologyError if depth or fanout is below 1, or there would be more nodes than MOST_NODES.
    """
    _at_least_one("tree", depth=depth, fanout=fanout)
    # Bounded before exponentiation.
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


def grid(rows: int, columns: int, **link: Any) -> Topology:
    """A grid: n1 ... n<columns> are its first row; each node is linked with those beside, above and below it.

    Raises TopologyError if rows or columns is below 1, or there would be more nodes than MOST_NODES.
    """
    _at_least_one("grid", rows=rows, columns=columns)
    _check_size("grid", rows * columns)
    number = {(row, column): row * columns + column for row in range(rows) for column in range(columns)}
    pairs = []
    for (row, column), here in number.items():
        for beside in ((row, column + 1), (row + 1, column)):
            if beside in number:
                pairs.append((here, number[beside]))
    return _numbered(len(number), pairs, link)


def ring(nodes: int, **link: Any) -> Topology:
    """A ring of at least three nodes.

    Raises TopologyError if nodes is below 3 or above MOST_NODES.
    """
    _at_least("ring", 3, nodes=nodes)
    _check_size("ring", nodes)
    return _numbered(nodes, [(here, (here + 1) % nodes) for here in range(nodes)], link)


def random(nodes: int, degree: float, seed: int = 1, **link: Any) -> Topology:
    """A random connected network: a random tree, and further links between uniformly chosen nodes.

    `degree` is the mean number of links of a node. Raises TopologyError if that makes fewer links than a tree
    has or more than there are pairs of nodes, or there would be more nodes than MOST_NODES.
    """
    _at_least("random", 2, nodes=nodes)
    _check_size("random", nodes)
    links = round(nodes * degree / 2) if math.isfinite(degree) else -1
    if not nodes - 1 <= links <= nodes * (nodes - 1) // 2:
        least = 2 * (nodes - 1) / nodes
        raise TopologyError(f"random: degree must be from {least:g} to {nodes - 1}, not {degree:g}")
    rng = Random(seed)
    order = rng.sample(range(nodes), nodes)
    pairs = {_pair(order[at], order[rng.randrange(at)]) for at in range(1, nodes)}
    while len(pairs) < links:
        a, b = rng.randrange(nodes), rng.randrange(nodes)
        pairs |= {_pair(a, b)} if a != b else set()
    return _numbered(nodes, sorted(pairs), link)


def scale_free(nodes: int, attached: int, seed: int = 1, **link: Any) -> Topology:
    """A scale-free network: nodes join with `attached` links each, by preferential attachment.

    A. L. Barabási, R. Albert: Emergence of scaling in random networks, 1999. Raises TopologyError if attached
    is not from 1 to nodes - 1, or there would be more nodes than MOST_NODES.
    """
    from networkx import barabasi_albert_graph

    _at_least("scale-free", 2, nodes=nodes)
    _at_least_one("scale-free", attached=attached)
    _check_size("scale-free", nodes)
    if attached >= nodes:
        raise TopologyError(f"scale-free: attached must be below nodes, {nodes}, not {attached}")
    graph = barabasi_albert_graph(nodes, attached, seed=seed)
    return _numbered(nodes, sorted(_pair(a, b) for a, b in graph.edges), link)


def small_world(nodes: int, neighbours: int, rewired: float, seed: int = 1, **link: Any) -> Topology:
    """A small world: a ring whose nodes have links to their `neighbours` nearest (an even number), a share
    `rewired` of which lead to random nodes instead; it is connected.

    D. J. Watts, S. H. Strogatz: Collective dynamics of 'small-world' networks, 1998. Raises TopologyError.
    """
    from networkx import NetworkXError, connected_watts_strogatz_graph

    _at_least("small-world", 3, nodes=nodes)
    _at_least("small-world", 2, neighbours=neighbours)
    _check_size("small-world", nodes)
    if neighbours % 2 or neighbours >= nodes:
        raise TopologyError(f"small-world: neighbours must be even and below {nodes}, not {neighbours}")
    if not 0 <= rewired <= 1:
        raise TopologyError(f"small-world: rewired must be from 0 to 1, not {rewired:g}")
    try:
        graph = connected_watts_strogatz_graph(nodes, neighbours, rewired, seed=seed)
    except NetworkXError:
        said = f"{nodes} nodes with {neighbours} neighbours each, rewired by {rewired:g}, fall apart"
        raise TopologyError(f"small-world: {said}; give them more neighbours") from None
    return _numbered(nodes, sorted(_pair(a, b) for a, b in graph.edges), link)


def fat_tree(ports: int, **link: Any) -> Topology:
    """A fat tree of forwarders with `ports` (even) links each: core c, aggregation a, edge e, and hosts h.

    M. Al-Fares, A. Loukissas, A. Vahdat: A scalable, commodity data center network architecture, 2008. With k
    ports there are k ** 3 / 4 hosts. Raises TopologyError.
    """
    _at_least("fat-tree", 2, ports=ports)
    half = ports // 2
    if ports % 2:
        raise TopologyError(f"fat-tree: ports must be even, not {ports}")
    _check_size("fat-tree", half * half + 2 * ports * half + ports * half * half)
    core = [f"c{number + 1}" for number in range(half * half)]
    aggregation = [f"a{number + 1}" for number in range(ports * half)]
    edge = [f"e{number + 1}" for number in range(ports * half)]
    hosts = [f"h{number + 1}" for number in range(ports * half * half)]
    pairs = []
    for number, each in enumerate(aggregation):
        pairs += [(core[number % half * half + up], each) for up in range(half)]
    for number, each in enumerate(edge):
        pod = number // half * half
        pairs += [(aggregation[pod + up], each) for up in range(half)]
        pairs += [(each, hosts[number * half + down]) for down in range(half)]
    return Topology((*hosts, *edge, *aggregation, *core), tuple(Link(a, b, **link) for a, b in pairs))


GENERATORS: Mapping[str, Callable[..., Topology]] = MappingProxyType(
    {
        "line": line,
        "star": star,
        "tree": tree,
        "grid": grid,
        "ring": ring,
        "random": random,
        "scale-free": scale_free,
        "small-world": small_world,
        "fat-tree": fat_tree,
    }
)
"""Generators by their names in scenarios."""


def generate(name: str, shape: Mapping[str, float], link: Mapping[str, Any]) -> Topology:
    """The topology of a scenario: a generator's name, its own arguments, its links' parameters.

    Raises TopologyError if there is no such generator, or if it takes other arguments.
    """
    if name not in GENERATORS:
        raise TopologyError(f"there is no topology {name!r}; there are {', '.join(sorted(GENERATORS))}")
    generator = GENERATORS[name]
    known = arguments(name)
    needed = {key for key, parameter in known.items() if parameter.default is parameter.empty}
    if not needed <= set(shape) <= set(known):
        raise TopologyError(
            f"topology {name} takes {', '.join(known)}; it was given {', '.join(shape) or 'nothing'}"
        )
    for key, value in shape.items():
        if known[key].annotation is int and type(value) is not int:
            raise TopologyError(f"{name}: {key} must be a whole number, not {value!r}")
        if type(value) not in (int, float):
            raise TopologyError(f"{name}: {key} must be a number, not {value!r}")
    return generator(**shape, **link)


def arguments(name: str) -> dict[str, inspect.Parameter]:
    """Return the arguments of a generator, by name, without the links' parameters."""
    parameters = inspect.signature(GENERATORS[name]).parameters
    return {key: each for key, each in parameters.items() if each.kind is not each.VAR_KEYWORD}


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield each generator for people: its name, its numbers, and its topology."""
    for name, generator in GENERATORS.items():
        first = (generator.__doc__ or "").strip().split("\n\n")[0]
        yield name, ", ".join(arguments(name)), " ".join(first.split())


def _numbered(nodes: int, pairs: Iterable[tuple[int, int]], link: Mapping[str, Any]) -> Topology:
    names = tuple(f"n{number + 1}" for number in range(nodes))
    return Topology(names, tuple(Link(names[a], names[b], **link) for a, b in pairs))


def _pair(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)


def _check_size(generator: str, nodes: int) -> None:
    if nodes > MOST_NODES:
        raise TopologyError(f"a topology {generator} of {nodes} nodes has more than {MOST_NODES} nodes")


def _at_least_one(generator: str, **arguments: int) -> None:
    _at_least(generator, 1, **arguments)


def _at_least(generator: str, least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if value < least:
            raise TopologyError(f"{generator}: {name} must be at least {least}, not {value}")
