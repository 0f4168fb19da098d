"""The topology model: nodes, point-to-point links, broadcast media, interfaces and addresses.

A topology is a value. Interface names, addresses and routes are functions of it, so every implementation
(emulated, Mininet) and every reader of its captures agrees on them:

- node n's k-th link in topology order is at its interface `<n>-eth<k>`, counted from 0; media follow links;
- link i, counted from 0, is the /30 at 10.0.0.0 + 4i; its end `a` has the first host address, `b` the second;
- medium i, counted from 0, is the /24 at 10.128.0.0 + 256i; its members have host addresses in their order;
- node n, counted from 0, has an address of its own, 10.255.0.1 + n, reachable over any link;
- a MAC is 02:00 (locally administered, unicast) followed by the interface's IPv4 address.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby, permutations
from typing import NamedTuple, TypeVar

from base.endpoint import Endpoint, LinkPort, Port, Program
from base.interface import Attachment, Interface, LinkEnd
from topologies.link import LINK_PARAMETERS, LinkError, LinkParameters
from topologies.radio import Radio

_End = TypeVar("_End", bound=Interface)

INTERFACE_NAME_LIMIT = 15
"""Characters in a Linux interface name (IFNAMSIZ less its terminating zero)."""

MEMBER_LIMIT = 254
"""Most members of a medium: the host addresses of its subnet."""

_FIRST_SUBNET = int(ipaddress.IPv4Address("10.0.0.0"))
_FIRST_MEDIUM = int(ipaddress.IPv4Address("10.128.0.0"))
_FIRST_NODE = int(ipaddress.IPv4Address("10.255.0.1"))
NODE_NETWORK = "10.255.0.0/16"
"""Network of the nodes' own addresses."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NAMES = "a name is a letter, then letters, digits, - or _"


class TopologyError(ValueError):
    """An invalid topology; the message is one line that names the node, link or medium."""


@dataclass(frozen=True)
class Link(LinkParameters):
    """A full-duplex link between nodes `a` and `b`; its parameters hold in each direction independently.

    `cost` is its routing cost from a to b, None without; `cost_back` that from b to a, if it differs. Raises
    TopologyError for a self-link and for values out of range.
    """

    a: str
    b: str
    cost: float | None = None
    cost_back: float | None = None

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise TopologyError(f"link {self}: connects a node to itself")
        try:
            self.check()
        except LinkError as error:
            raise TopologyError(f"link {self}: {error}") from None
        for name in ("cost", "cost_back"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise TopologyError(f"link {self}: {name} must be a finite number from 0, not {value}")

    def __str__(self) -> str:
        return f"{self.a}:{self.b}"

    def towards(self, _receiver: str) -> LinkParameters:
        """Return the parameters of the direction towards one end: the same for both."""
        return self


@dataclass(frozen=True)
class Medium(LinkParameters):
    """A broadcast medium: all other members receive a frame that one of them sends.

    Its parameters hold for each pair of members independently: every sender has its own rate and queue, and
    every receiver loses frames independently of the others. `losses` has the loss_percent of receivers that
    differ. A unicast frame reaches its receiver only, as through a switch. Raises TopologyError for fewer
    than two members and for values out of range.

    With a `radio` it is a cell (topologies.radio): members share the air, which has a rate of its own.
    """

    name: str
    members: tuple[str, ...]
    losses: Mapping[str, float] = field(default_factory=dict, hash=False)
    radio: Radio | None = None

    def __post_init__(self) -> None:
        if self.radio is not None and self.bw_mbit is not None:
            raise TopologyError(f"medium {self.name}: bw_mbit is not for a radio cell; leave it out")
        if not 2 <= len(self.members) <= MEMBER_LIMIT:
            raise TopologyError(f"medium {self.name}: it has 2 to {MEMBER_LIMIT} members")
        for node in self.losses:
            if node not in self.members:
                raise TopologyError(f"medium {self.name}: losses: {node!r} is no member")
        for node, count in Counter(self.members).items():
            if count > 1:
                raise TopologyError(f"medium {self.name}: member {node} is named twice")
            try:
                self.towards(node).check()
            except LinkError as error:
                raise TopologyError(f"medium {self.name}: {error}") from None

    def __str__(self) -> str:
        return self.name

    def describe(self) -> str:
        said = super().describe()
        if self.radio is None:
            return said
        return f"{self.radio.describe()}, {said.removeprefix('unlimited rate, ')}"

    def towards(self, receiver: str) -> LinkParameters:
        """Return the parameters of the direction towards a member."""
        common = LinkParameters(**{name: getattr(self, name) for name in LINK_PARAMETERS})
        return replace(common, loss_percent=self.losses.get(receiver, self.loss_percent))


class Hop(NamedTuple):
    """A step from a node to a neighbour: the sending and the receiving interface."""

    out: Interface
    into: Interface


@dataclass(frozen=True)
class Topology:
    """Nodes, the links between them and the media that join them, in the order of names and addresses.

    `switches` are the nodes that are switches in a file: here they forward like all others. `attributes` are
    a file's attributes of nodes, as text: coordinates ("radius" and "angle", "latitude" and "longitude") and
    those of other programs. Raises TopologyError, naming the node, link or medium.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    media: tuple[Medium, ...] = ()
    switches: tuple[str, ...] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        self._check_nodes()
        for node in (*self.switches, *self.attributes):
            if node not in self.nodes:
                raise TopologyError(f"there is no node {node!r}")
        self._check_links()
        self._check_media()
        self._check_interface_names()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def least_mtu(self) -> int:
        """The smallest MTU of all links and media, bytes."""
        return min((carrier.mtu for carrier in (*self.links, *self.media)), default=LinkParameters().mtu)

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.links, self.media))

    def _check_nodes(self) -> None:
        if not self.nodes:
            raise TopologyError("a topology needs at least one node")
        seen: set[str] = set()
        for node in self.nodes:
            if not _NAME.fullmatch(node):
                raise TopologyError(f"node {node!r}: {_NAMES}")
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

    def _check_media(self) -> None:
        nodes = set(self.nodes)
        names: set[str] = set()
        for medium in self.media:
            if not _NAME.fullmatch(medium.name):
                raise TopologyError(f"medium {medium.name!r}: {_NAMES}")
            if medium.name in names | nodes:
                raise TopologyError(f"medium {medium.name}: another medium or a node has that name")
            names.add(medium.name)
            for member in medium.members:
                if member not in nodes:
                    raise TopologyError(f"medium {medium.name}: there is no node {member!r}")

    def _check_interface_names(self) -> None:
        degrees = Counter(end for link in self.links for end in (link.a, link.b))
        degrees.update(member for medium in self.media for member in medium.members)
        for node, degree in degrees.items():
            suffix = f"-eth{degree - 1}"
            if len(node + suffix) > INTERFACE_NAME_LIMIT:
                raise TopologyError(
                    f"node {node}: its interface name {node}{suffix} has {len(node + suffix)} characters,"
                    f" Linux allows {INTERFACE_NAME_LIMIT};"
                    f" shorten the node's name to {INTERFACE_NAME_LIMIT - len(suffix)} characters"
                )

    @cached_property
    def link_ends(self) -> tuple[LinkEnd, ...]:
        """The interfaces to links, in link order, a before b: link i has ends 2i and 2i + 1."""
        degrees = dict.fromkeys(self.nodes, 0)
        found: list[LinkEnd] = []
        for index, link in enumerate(self.links):
            subnet = _FIRST_SUBNET + 4 * index
            name_a, name_b = f"{link.a}-eth{degrees[link.a]}", f"{link.b}-eth{degrees[link.b]}"
            a, b = _address(subnet + 1), _address(subnet + 2)
            found.append(LinkEnd(name_a, link.a, *a, index, link.b, name_b, *b))
            found.append(LinkEnd(name_b, link.b, *b, index, link.a, name_a, *a))
            degrees[link.a] += 1
            degrees[link.b] += 1
        return tuple(found)

    @cached_property
    def attachments(self) -> tuple[Attachment, ...]:
        """The interfaces to media, in the order of media, then of members."""
        degrees = Counter(end.node for end in self.link_ends)
        found: list[Attachment] = []
        for index, medium in enumerate(self.media):
            for host, member in enumerate(medium.members, start=1):
                address = _address(_FIRST_MEDIUM + 256 * index + host)
                found.append(Attachment(f"{member}-eth{degrees[member]}", member, *address, index))
                degrees[member] += 1
        return tuple(found)

    @cached_property
    def interfaces(self) -> tuple[Interface, ...]:
        """All interfaces: those to links, then those to media."""
        return self.link_ends + self.attachments

    def interfaces_of(self, node: str) -> tuple[Interface, ...]:
        """Return a node's interfaces, those to links first."""
        return self._interfaces.get(node, ())

    def ends_of(self, node: str) -> tuple[LinkEnd, ...]:
        """Return a node's interfaces to links, in link order."""
        return self._ends.get(node, ())

    @cached_property
    def _ends(self) -> dict[str, tuple[LinkEnd, ...]]:
        return _by_node(self.link_ends)

    @cached_property
    def _interfaces(self) -> dict[str, tuple[Interface, ...]]:
        return _by_node(self.interfaces)

    def neighbours(self, node: str) -> set[str]:
        """Return the nodes that are one step away, over links and media."""
        return self._neighbours.get(node, set())

    @cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for hop in self.hops:
            found.setdefault(hop.out.node, set()).add(hop.into.node)
        return found

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """All steps from a node to a neighbour."""
        ends = {end.name: end for end in self.link_ends}
        over_links = [Hop(end, ends[end.peer_name]) for end in self.link_ends]
        members = groupby(self.attachments, key=lambda attachment: attachment.medium)
        over_media = [pair for _, group in members for pair in permutations(group, 2)]
        return (*over_links, *(Hop(*pair) for pair in over_media))

    def carrier(self, interface: Interface) -> Link | Medium:
        """The link or medium of an interface."""
        if isinstance(interface, LinkEnd):
            return self.links[interface.link]
        assert isinstance(interface, Attachment)
        return self.media[interface.medium]

    def description(self, interface: Interface) -> str:
        """Describe an interface: "pub to r1", "pub on cell"."""
        carrier = self.carrier(interface)
        if isinstance(carrier, Medium):
            return f"{interface.node} on {carrier.name}"
        return f"{interface.node} to {carrier.a if interface.node == carrier.b else carrier.b}"

    def address(self, node: str) -> str:
        """A node's own IPv4 address; raises TopologyError if there is no such node."""
        try:
            return self._addresses[node]
        except KeyError:
            raise TopologyError(f"there is no node {node!r}") from None

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {node: str(ipaddress.IPv4Address(_FIRST_NODE + at)) for at, node in enumerate(self.nodes)}

    def link_between(self, a: str, b: str) -> int:
        """The index of the link between two nodes, in either order; raises TopologyError if there is none."""
        for index, link in enumerate(self.links):
            if {link.a, link.b} == {a, b}:
                return index
        raise TopologyError(f"no link joins {a} and {b}")

    def attachment_of(self, node: str, medium: str) -> int:
        """The index in `interfaces` of a member's interface to a medium; raises TopologyError if there is
        none."""
        for index, attachment in enumerate(self.attachments, start=len(self.link_ends)):
            if attachment.node == node and self.media[attachment.medium].name == medium:
                return index
        raise TopologyError(f"{node} is no member of a medium {medium}")


def _by_node(interfaces: Iterable[_End]) -> dict[str, tuple[_End, ...]]:
    found: dict[str, list[_End]] = {}
    for interface in interfaces:
        found.setdefault(interface.node, []).append(interface)
    return {node: tuple(own) for node, own in found.items()}


@lru_cache(maxsize=64)
def one_of_equals(topology: Topology) -> Topology:
    """Return the first of all equal topologies. What is cached by topology then finds it by identity, where a
    process has several runs, and not by comparing all links.
    """
    return topology


def _address(number: int) -> tuple[bytes, str]:
    """Return the MAC and the IPv4 address of an interface."""
    address = ipaddress.IPv4Address(number)
    return b"\x02\x00" + address.packed, str(address)


def on_links(
    topology: Topology, endpoints: Mapping[str, Endpoint], ports: Mapping[str, int]
) -> dict[str, list[Program]]:
    """Return the programs of nodes that run one endpoint each, which has a port on every link.

    `ports` has the port's number by the interface's name.
    """
    links: dict[str, dict[int, Port]] = {node: {} for node in endpoints}
    for interface in topology.link_ends:
        links[interface.node][ports[interface.name]] = LinkPort(interface)
    return {node: [Program(endpoint, links[node])] for node, endpoint in endpoints.items()}
