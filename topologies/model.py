"""The topology model: nodes, point-to-point links, and what follows from them.

A topology is a value. Interface names, addresses and routes are functions of it, so every way of
bringing it up (emulated, Mininet) and every reader of its captures agrees on them:

- node n's k-th link in topology order is at its interface `<n>-eth<k>`, counted from 0;
- link i, counted from 0, is the /30 at 10.0.0.0 + 4i; its end `a` has the first host address, `b` the second;
- node n, counted from 0, has an address of its own, 10.255.0.1 + n, at which others reach it over any link;
- a MAC is 02:00 (locally administered, unicast) followed by the interface's IPv4 address.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from topologies.link import LinkError, LinkParameters

INTERFACE_NAME_LIMIT = 15
"""Characters in a Linux interface name (IFNAMSIZ less its terminating zero)."""

_FIRST_SUBNET = int(ipaddress.IPv4Address("10.0.0.0"))
_FIRST_NODE = int(ipaddress.IPv4Address("10.255.0.1"))
_NODE_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class TopologyError(ValueError):
    """A topology that cannot be; the message is one line that names the node or link at fault."""


@dataclass(frozen=True)
class Link(LinkParameters):
    """A full-duplex link between nodes `a` and `b`; its parameters hold in each direction by itself.

    Raises TopologyError for a self-link and for values out of range.
    """

    a: str
    b: str

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise TopologyError(f"link {self}: connects a node to itself")
        try:
            self.check()
        except LinkError as error:
            raise TopologyError(f"link {self}: {error}") from None

    def __str__(self) -> str:
        return f"{self.a}:{self.b}"


@dataclass(frozen=True)
class Interface:
    """One end of a link. `link` is the link's index in Topology.links; the peer is its other end."""

    name: str
    node: str
    mac: bytes
    ipv4: str
    link: int
    peer: str
    peer_name: str
    peer_mac: bytes
    peer_ipv4: str


@dataclass(frozen=True)
class Topology:
    """Nodes and the links between them, in the order that names and addresses are given in.

    Raises TopologyError, naming the node or link at fault.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        self._check_nodes()
        self._check_links()
        self._check_interface_names()

    def _check_nodes(self) -> None:
        if not self.nodes:
            raise TopologyError("a topology needs at least one node")
        seen: set[str] = set()
        for node in self.nodes:
            if not _NODE_NAME.fullmatch(node):
                raise TopologyError(
                    f"node {node!r}: a name is a lower-case letter, then lower-case letters, digits, - or _"
                )
            if node in seen:
                raise TopologyError(f"node {node}: is named twice")
            seen.add(node)

    def _check_links(self) -> None:
        nodes = set(self.nodes)
        seen: set[frozenset[str]] = set()
        for link in self.links:
            for end in (link.a, link.b):
                if end not in nodes:
                    raise TopologyError(f"link {link}: there is no node {end!r}")
            ends = frozenset((link.a, link.b))
            if ends in seen:
                raise TopologyError(f"link {link}: {link.a} and {link.b} are already linked")
            seen.add(ends)

    def _check_interface_names(self) -> None:
        degrees = dict.fromkeys(self.nodes, 0)
        for link in self.links:
            degrees[link.a] += 1
            degrees[link.b] += 1
        for node, degree in degrees.items():
            suffix = f"-eth{degree - 1}"
            if degree and len(node + suffix) > INTERFACE_NAME_LIMIT:
                raise TopologyError(
                    f"node {node}: its interface name {node}{suffix} has {len(node + suffix)} characters,"
                    f" Linux allows {INTERFACE_NAME_LIMIT};"
                    f" shorten the node's name to {INTERFACE_NAME_LIMIT - len(suffix)} characters"
                )

    def interfaces(self) -> tuple[Interface, ...]:
        """All interfaces in link order, a before b: link i has interfaces 2i and 2i + 1."""
        degrees = dict.fromkeys(self.nodes, 0)
        found: list[Interface] = []
        for index, link in enumerate(self.links):
            subnet = _FIRST_SUBNET + 4 * index
            name_a, name_b = f"{link.a}-eth{degrees[link.a]}", f"{link.b}-eth{degrees[link.b]}"
            a, b = ipaddress.IPv4Address(subnet + 1), ipaddress.IPv4Address(subnet + 2)
            mac_a, mac_b = b"\x02\x00" + a.packed, b"\x02\x00" + b.packed
            found.append(Interface(name_a, link.a, mac_a, str(a), index, link.b, name_b, mac_b, str(b)))
            found.append(Interface(name_b, link.b, mac_b, str(b), index, link.a, name_a, mac_a, str(a)))
            degrees[link.a] += 1
            degrees[link.b] += 1
        return tuple(found)

    def address(self, node: str) -> str:
        """A node's own IPv4 address; raises TopologyError if there is no such node."""
        try:
            return str(ipaddress.IPv4Address(_FIRST_NODE + self.nodes.index(node)))
        except ValueError:
            raise TopologyError(f"there is no node {node!r}") from None

    def link_between(self, a: str, b: str) -> int:
        """The index of the link between two nodes, in either order; raises TopologyError if there is none."""
        for index, link in enumerate(self.links):
            if {link.a, link.b} == {a, b}:
                return index
        raise TopologyError(f"no link joins {a} and {b}")
