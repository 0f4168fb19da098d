"""A topology by Mininet: every node a host in its own network namespace, real sockets, real time.

Every link is two veth pairs. Of each pair one end is the node's interface, the other is, under the same
name, in one more namespace, the wire. The two ends in the wire are joined, and the link impaired, by one of:

    node a                     the wire                      node b
    a-eth0 ======== a-eth0 --- (bridge | relay) --- b-eth0 ======== b-eth0

- netem: a bridge of two ports, with netem on the output of either port;
- relay: the process topologies.mininet.relay, which reads frames at one end and writes them to the other.

Nothing shapes a frame between a node and its own interface, so captures there mean the same with both: a
frame sent is stamped when the node hands it over, a frame received when it arrives, and a frame lost on
the link appears only at its sender.

netem is the kernel's and needs no process of ours; but its choice of lost frames does not follow the seed.
The relay drops the same frames for the same seed, and costs about 10 us of a CPU per frame. topologies.pipe
lists the differences between pipes and netem.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import mininet.link
import mininet.log
import mininet.net

from base.interface import Interface, LinkEnd
from captures.network.netns import inside
from topologies.link import LINK_PARAMETERS
from topologies.mininet import namespaces, sandbox
from topologies.mininet.child import Child, ChildError
from topologies.mininet.host import Host, Namespace
from topologies.model import NODE_NETWORK, Hop, Link, Topology
from topologies.pipe import netem
from topologies.routing import BY_DELAY, Routing, equal_routes

Impairment = Literal["netem", "relay"]

_LINUX_RTO_MIN_MS = 200
"""TCP's shortest retransmission time (net/tcp.h)."""


class BringUpError(OSError):
    """A network that could not be brought up, or has failed; the message is one line."""


class MininetNetwork:
    """A topology, up inside the `with` block; to be used in a box, after `sandbox.prepare()`.

    Args:
        topology: nodes, links and media. Media need the relay.
        seed: of the relay's losses and jitter; netem ignores it.
        impairment: "netem", "relay", or "auto" for netem where the kernel has it and otherwise the relay.
        directory: an existing directory for the relay's specification, while it starts.
        routing: rules of the nodes' IP routes.
        dilation: factor by which the run's clock is slower than the machine's (captures.network.clock).
            Above 1 it needs the relay. The shortest retransmission time of the kernel's TCP is scaled;
            delayed acknowledgements use the machine's clock.

    Attributes:
        impairment: "netem" or "relay".
        reason: of that choice, in one line.
        mininet: the mininet.net.Mininet.
        relay_counters: after close(), the relay's counters (topologies.mininet.relay); None with netem.

    Raises BringUpError on entering, and at once if netem is requested and missing.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        impairment: Literal["auto"] | Impairment = "auto",
        *,
        directory: Path,
        routing: Routing = BY_DELAY,
        dilation: int = 1,
    ) -> None:
        self.impairment, self.reason = _choose(impairment, topology, dilation)
        self.relay_counters: dict[str, Any] | None = None
        self._topology = topology
        self._interfaces = topology.interfaces
        self._hops: dict[str, list[Hop]] = {}
        for hop in topology.hops:
            self._hops.setdefault(hop.out.node, []).append(hop)
        self._own: dict[str, list[Interface]] = {}
        for interface in topology.interfaces:
            self._own.setdefault(interface.node, []).append(interface)
        self._routing = routing
        self._dilation = dilation
        self._routes: dict[str, dict[str, str]] = {}  # of each node: destination and arguments of `ip route`
        self._seed = seed
        self._directory = directory
        self._closing = ExitStack()
        self._relay: Child | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self._bring_up(stack)
            except (OSError, subprocess.SubprocessError) as error:
                raise BringUpError(f"the network cannot be brought up: {error}") from error
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the relay, collect its counters, and take the network down.

        Processes from popen() must be stopped by the caller before. A second call has no effect. Raises
        BringUpError if the relay had failed.
        """
        self._closing.close()

    def netns(self, node: str) -> str:
        """Path of a node's network namespace."""
        return self._namespaces[node].path

    def popen(self, node: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a program on a node, that is in its network namespace; options are Popen's."""
        return self._namespaces[node].start(argv, **options)

    def set_link(self, link: int, up: bool) -> None:
        """Set a link of the topology up or down; the nodes' own interfaces stay up.

        Frames in flight on a link that goes down are lost with the relay, and still arrive with netem. Raises
        OSError on failure.
        """
        if self._relay is not None:
            self._relay.send(f"{link} {'up' if up else 'down'}")
            return
        with inside(self._wire.path):
            namespaces.ip(
                [
                    f"link set dev {end.name} " + (f"master link{link}" if up else "nomaster")
                    for end in self._topology.link_ends[2 * link : 2 * link + 2]
                ]
            )

    def set_present(self, interface: int, present: bool) -> None:
        """Set whether a member is present on a medium; `interface` is its place in Topology.interfaces.

        Raises OSError on failure.
        """
        assert self._relay is not None  # media need it
        self._relay.send(f"{interface} {'join' if present else 'leave'}")

    def change_link(self, link: int, to: Link) -> None:
        """Set a link's parameters for the frames that are sent from now on.

        Raises OSError on failure.
        """
        if self._relay is not None:
            parameters = {name: getattr(to, name) for name in LINK_PARAMETERS}
            self._relay.send(f"{link} set {json.dumps(parameters)}")
            return
        settings = netem(to) or netem(Link(to.a, to.b, delay_ms=1e-6))  # no impairment, but replaces
        with inside(self._wire.path):
            for end in self._topology.link_ends[2 * link : 2 * link + 2]:
                _tc(["qdisc", "replace", "dev", end.name, "root", "netem", *settings])

    def reroute(self, topology: Topology, routing: Routing) -> None:
        """Replace the IP routes of all nodes; the topology may differ in its links' parameters.

        Raises OSError on failure.
        """
        before, self._routes = self._routes, _tables(topology, routing, self._dilation)
        for node, table in self._routes.items():
            old = before[node]
            commands = [f"route replace {to} {how}" for to, how in table.items() if old.get(to) != how]
            commands += [f"route del {to}" for to in old if to not in table]
            if commands:
                with inside(self.netns(node)):
                    namespaces.ip(commands)

    def _bring_up(self, stack: ExitStack) -> None:
        mininet.log.setLogLevel("error")
        # Or Mininet would require the machine's own root, and change the machine's sysctls.
        mininet.net.Mininet.inited = True
        self.mininet = mininet.net.Mininet(controller=None)
        stack.callback(self.mininet.stop)
        self._namespaces = {}
        for node in self._topology.nodes:
            self._namespaces[node] = Namespace()
            self.mininet.addHost(node, Host, namespace=self._namespaces[node], ip=None)
        self._wire = Namespace()
        stack.callback(self._wire.close)

        for namespace in (self._wire, *self._namespaces.values()):
            with inside(namespace.path):
                namespaces.disable_ipv6()
                namespaces.set_up_ipv4()
        self._routes = _tables(self._topology, self._routing, self._dilation)
        self._make_interfaces()
        relay = self._begin_relay(stack) if self.impairment == "relay" else None  # while nodes are configured
        for node in self._topology.nodes:
            self._configure(node)
        with inside(self._wire.path):
            for interface in self._interfaces:
                namespaces.refresh_carrier(interface.name)
        for a, b in self._ends():
            link = self.mininet.addLink(a.node, b.node, cls=_WireLink, up=None)
            for made, interface in ((link.intf1, a), (link.intf2, b)):
                made.ip, made.prefixLen, made.mac = interface.ipv4, "30", _text(interface.mac)
        self.mininet.start()

        if relay is None:
            self._build_bridges()
        else:
            self._relay = relay.wait()

    def _ends(self) -> Iterable[tuple[LinkEnd, LinkEnd]]:
        """The two interfaces of each link."""
        ends = self._topology.link_ends
        return zip(ends[0::2], ends[1::2], strict=True)

    def _make_interfaces(self) -> None:
        """Create all veth pairs at once: one `ip` for each would take ten times as long."""
        commands = []
        for interface in self._interfaces:
            name, netns = interface.name, self._namespaces[interface.node].path
            mtu = self._topology.carrier(interface).mtu
            commands.append(
                f"link add name {name} mtu {mtu} type veth peer name {name} mtu {mtu}"
                f" address {_text(interface.mac)} netns {netns}"
            )
            commands.append(f"link set dev {name} up")
        with inside(self._wire.path):
            namespaces.ip(commands)

    def _configure(self, node: str) -> None:
        address = self._topology.address(node)
        commands = ["link set dev lo up", f"address add {address}/32 dev lo"]
        own = self._own.get(node, [])
        for interface in own:
            commands += [
                f"address add {interface.ipv4}/{interface.PREFIX_LENGTH} dev {interface.name}",
                f"link set dev {interface.name} up",
            ]
        for out, into in self._hops.get(node, ()):
            peer = f"{into.ipv4} lladdr {_text(into.mac)}"
            commands.append(f"neighbour add {peer} dev {out.name} nud permanent")
        commands += [f"route add {to} {how}" for to, how in self._routes[node].items()]
        with inside(self.netns(node)):
            namespaces.ip(commands)
            for interface in own:
                namespaces.disable_transmit_checksum_offload(interface.name)
                namespaces.refresh_carrier(interface.name)

    def _build_bridges(self) -> None:
        with inside(self._wire.path):
            namespaces.ip(
                [
                    command
                    for index, (a, b) in enumerate(self._ends())
                    for command in bridge_commands(f"link{index}", a.name, b.name)
                ]
            )
            for interface in self._topology.link_ends:
                settings = netem(self._topology.links[interface.link])
                if settings:
                    _tc(["qdisc", "add", "dev", interface.name, "root", "netem", *settings])

    def _begin_relay(self, stack: ExitStack) -> Child:
        specification = self._directory / "relay.json"
        text = json.dumps({"seed": self._seed, "dilation": self._dilation, **asdict(self._topology)})
        specification.write_text(text, encoding="utf-8")
        stack.callback(specification.unlink)
        program = [sys.executable, "-m", "topologies.mininet.relay", str(specification.resolve())]
        with inside(self._wire.path):
            relay = Child("the relay", program, cwd=Path(__file__).parents[2])
        stack.callback(self._stop_relay, relay)
        return relay

    def _stop_relay(self, relay: Child) -> None:
        if self._relay is None:
            relay.kill()
            return
        self._relay = None
        try:
            self.relay_counters = relay.finish()
        except ChildError as error:
            raise BringUpError(str(error)) from error


class _WireLink(mininet.link.Link):  # type: ignore[misc]  # Mininet has no types
    """Mininet's record of a link whose interfaces exist already."""

    @classmethod
    def makeIntfPair(cls, *_args: object, **_kwargs: object) -> None:  # noqa: N802
        """Create nothing: the interfaces exist."""

    def stop(self) -> None:
        """Remove nothing: the interfaces are removed with their namespaces."""


def bridge_commands(bridge: str, *ports: str) -> list[str]:
    """The `ip` commands that join interfaces by a bridge that sends no frames of its own."""
    return [
        f"link add name {bridge} type bridge stp_state 0 mcast_snooping 0",
        *(f"link set dev {port} master {bridge}" for port in ports),
        f"link set dev {bridge} up",
    ]


def _choose(
    impairment: Literal["auto"] | Impairment, topology: Topology, dilation: int
) -> tuple[Impairment, str]:
    if impairment == "relay":
        return "relay", "asked for"
    if topology.media:
        why_not: str | None = "the network has a broadcast medium"
    elif dilation > 1:
        why_not = "its clock is the machine's, and the run's is slower"
    elif unknown := [
        name
        for link in topology.links
        for name, each in link.active.items()
        if each.changes and not each.netem
    ]:
        why_not = f"it has no {unknown[0]}"
    else:
        why_not = sandbox.why_no_netem()
    if why_not is None:
        return "netem", "asked for" if impairment == "netem" else "this kernel has netem"
    if impairment == "netem":
        raise BringUpError(f"links cannot be impaired by netem: {why_not}; choose the relay")
    return "relay", why_not


def _tables(topology: Topology, routing: Routing, dilation: int) -> dict[str, dict[str, str]]:
    """Return each node's routes: destination -> arguments of `ip route`.

    A node that reaches all others has one route for most of them, and further ones for the exceptions:
    hundreds of thousands of routes would take the kernel longer than all else.
    """
    hops: dict[str, dict[str, tuple[Hop, ...]]] = {node: {} for node in topology.nodes}
    for to in topology.nodes:
        for node, best in equal_routes(topology, to, routing).items():
            hops[node][to] = best
    tables: dict[str, dict[str, str]] = {}
    for node, ways in hops.items():
        table = tables.setdefault(node, {})
        usual = None
        if ways and len(ways) == len(topology.nodes) - 1:
            ((usual, _),) = Counter(ways.values()).most_common(1)
            table[NODE_NETWORK] = _route_arguments(usual, topology.address(node), dilation)
        for to, best in ways.items():
            if best != usual:
                table[f"{topology.address(to)}/32"] = _route_arguments(best, topology.address(node), dilation)
    return tables


def _route_arguments(hops: Sequence[Hop], source: str, dilation: int) -> str:
    ways = [f"via {hop.into.ipv4} dev {hop.out.name}" for hop in hops]
    rto_min = f" rto_min {dilation * _LINUX_RTO_MIN_MS}ms" if dilation > 1 else ""
    way = ways[0] if len(ways) == 1 else " ".join(f"nexthop {way}" for way in ways)
    return f"src {source}{rto_min} {way}"


def _text(mac: bytes) -> str:
    return mac.hex(":")


def _tc(arguments: Sequence[str]) -> None:
    done = subprocess.run(["tc", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"tc {' '.join(arguments)}: {' '.join(done.stderr.split())}")
