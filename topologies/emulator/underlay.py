"""The Internet layer of an emulated node: addresses, static routes, UDP ports, TCP; Linux's in Mininet.

Every node forwards IPv4 along the paths of topologies.routing, so that a program can reach any node by its
address, and each link on the way carries the packet. Of several equal paths a flow takes one, by a hash of
its addresses, protocol and ports, like Linux (with another hash). There is no ICMP: a packet without a route,
or with an expired time to live, is dropped and counted. Nothing is fragmented: TCP's segments fit the
smallest MTU of the network, which path MTU discovery would find on a path with that link.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Final, NamedTuple
from zlib import crc32

from base.endpoint import Address, DatagramPort, Endpoint, Program, StreamEndpoint, StreamPort
from captures.layers.frames import ETHERNET_HEADER, IPV4_HEADER, UDP_HEADER, ipv4_frame, udp_datagram
from topologies.emulator.streams import Streams
from topologies.emulator.tcp.settings import Settings
from topologies.emulator.tcp.stack import Stack
from topologies.model import Hop, Topology
from topologies.routing import BY_DELAY, Routing, equal_routes

TTL: Final = 255
"""Of packets at their source: as far as the field goes."""
TCP, UDP = 6, 17
"""Numbers of the protocols in IPv4."""

_HEADERS: Final = ETHERNET_HEADER + IPV4_HEADER


class Packet(NamedTuple):
    """An IPv4 datagram: addresses, protocol, content, identification, and time to live."""

    source: str
    destination: str
    protocol: int
    content: bytes
    ident: int
    ttl: int = TTL

    @property
    def source_port(self) -> int:
        """The source port of a UDP datagram or TCP segment."""
        return int.from_bytes(self.content[:2])

    @property
    def destination_port(self) -> int:
        """The destination port of a UDP datagram or TCP segment."""
        return int.from_bytes(self.content[2:4])

    def to_frame(self, source_mac: bytes, destination_mac: bytes) -> bytes:
        """Return the Ethernet frame that carries it."""
        source, destination, protocol, content, ident, ttl = self
        return ipv4_frame(source_mac, destination_mac, source, destination, protocol, content, ident, ttl)

    @classmethod
    def of_frame(cls, frame: bytes) -> "Packet | None":
        """Return the packet in an Ethernet frame; None if a kernel would drop it as damaged.

        IPv4 without options (RFC 791) is read, and its checksum and that of UDP verified (RFC 1071).
        """
        header, content = frame[ETHERNET_HEADER:_HEADERS], frame[_HEADERS:]
        total = int.from_bytes(header[2:4]) - IPV4_HEADER
        if header[:1] != b"\x45" or total != len(content) or int.from_bytes(header) % 0xFFFF:
            return None
        protocol = header[9]
        if protocol == UDP:
            words = int.from_bytes(content) << (len(content) % 2 * 8)
            if (int.from_bytes(header[12:]) + UDP + len(content) + words) % 0xFFFF:
                return None
        source, destination = [".".join(map(str, header[at : at + 4])) for at in (12, 16)]
        return cls(source, destination, protocol, content, int.from_bytes(header[4:6]), header[8])


Outgoing = tuple[Hop | None, Packet]
"""A packet, and its next step; None for this node itself."""


@cache
def _owners(topology: Topology) -> dict[str, str]:
    """Return the node of every node's address."""
    return {topology.address(node): node for node in topology.nodes}


class Station:
    """A node of the underlay.

    Args:
        topology: nodes and links.
        node: the node's name.
        rng: of its TCP.

    Attributes:
        drops: packets dropped here, by reason.
        is_used: whether it has received a packet for itself, or has ports.
    """

    def __init__(self, topology: Topology, node: str, rng: Random) -> None:
        self.drops: Counter[str] = Counter()
        self._topology = topology
        self._routing = BY_DELAY
        self._node = node
        self._address = topology.address(node)
        own = [interface.ipv4 for interface in topology.interfaces_of(node)]
        self._own = frozenset((self._address, *own))
        self._owners = _owners(topology)
        self._hops: dict[str, tuple[Hop, ...]] = {}  # by destination
        self._stack = Stack((self._address, *own), rng, Settings(mtu=topology.least_mtu))
        self._streams = Streams(self._stack)
        self._ports: dict[int, tuple[Endpoint, int]] = {}
        self._out: list[Outgoing] = []
        self._sent = 0
        self.is_used = False

    def run(self, programs: Iterable[Program], now: int) -> None:
        """Install programs on the node's ports; streams of earlier programs are closed."""
        self._ports.clear()
        self._streams.close_all(now)
        for endpoint, ports in programs:
            for number, port in ports.items():
                if isinstance(port, DatagramPort):
                    self._ports[port.number] = (endpoint, number)
                    self.is_used = True
            if isinstance(endpoint, StreamEndpoint):
                self.is_used = True
                listened = [port.number for port in ports.values() if isinstance(port, StreamPort)]
                self._streams.add(endpoint, listened)

    def reroute(self, topology: Topology, routing: Routing) -> None:
        """Replace the routes; the topology may differ in its links' parameters."""
        self._topology, self._routing = topology, routing
        self._hops.clear()

    def send(self, port: DatagramPort, payload: bytes, to: Address) -> None:
        """Send a datagram from a UDP port of this node."""
        content = udp_datagram(self._address, to[0], port.number, to[1], payload)
        self._route(self._packet(self._address, to[0], UDP, content))

    def receive(self, packet: Packet, now: int) -> bool:
        """Receive a packet, or forward it; return whether it was for this node."""
        if packet.destination not in self._own:
            if packet.ttl <= 1:
                self.drops["ttl exceeded"] += 1
            else:
                self._route(packet._replace(ttl=packet.ttl - 1))
            return False
        self.is_used = True
        if packet.protocol == TCP:
            self._stack.receive(packet.content, packet.source, packet.destination, now)
        elif packet.protocol == UDP:
            self._receive_datagram(packet, now)
        return True

    def settle(self, now: int) -> bool:
        """Execute the programs' actions on streams, and deliver events to them.

        Returns whether anything happened, so that programs may have new actions.
        """
        return self._streams.settle(now)

    def take_packets(self) -> list[Outgoing]:
        """Return the packets to send."""
        for source, destination, octets in self._stack.take_segments():
            self._route(self._packet(source, destination, TCP, octets))
        packets, self._out = self._out, []
        return packets

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._stack.next_deadline()

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        self._stack.wake(now)

    def _packet(self, source: str, destination: str, protocol: int, content: bytes) -> Packet:
        self._sent = (self._sent + 1) & 0xFFFF
        return Packet(source, destination, protocol, content, self._sent)

    def _receive_datagram(self, packet: Packet, now: int) -> None:
        number = packet.destination_port
        if number not in self._ports:
            self.drops["port unreachable"] += 1
            return
        endpoint, port = self._ports[number]
        sender = packet.source, packet.source_port
        endpoint.receive(port, packet.content[UDP_HEADER:], sender, now)

    def _route(self, packet: Packet) -> None:
        if packet.destination in self._own:
            self._out.append((None, packet))
            return
        hops = self._hops.get(packet.destination)
        if hops is None:
            owner = self._owners.get(packet.destination)
            ways = {} if owner is None else equal_routes(self._topology, owner, self._routing)
            hops = self._hops[packet.destination] = ways.get(self._node, ())
        if not hops:
            self.drops["no route"] += 1
        else:
            self._out.append((hops[0] if len(hops) == 1 else hops[_flow(packet) % len(hops)], packet))


def _flow(packet: Packet) -> int:
    """Return the same number for all packets of a flow; the ports are at the beginning of TCP and UDP."""
    flow = f"{packet.source} {packet.destination} {packet.protocol} ".encode() + packet.content[:4]
    return crc32(flow)
