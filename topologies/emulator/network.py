"""A topology in virtual time: the same programs and the same pipes as in Mininet, without a kernel.

Frames are built down to Ethernet and written to the capture with a kernel's timestamps: sent when a node
hands them over, received when they arrive. Nothing depends on the machine, so one seed gives one capture,
byte for byte.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from random import Random

from base.endpoint import Address, DatagramPort, Endpoint, GroupPort, LinkPort, Program
from base.interface import Interface, LinkEnd
from base.timers import earliest
from captures.formats.pcapng import Direction, Writer
from captures.layers.frames import UDP_HEADER, group_mac, udp_datagram
from topologies.emulator.underlay import TTL, UDP, Packet, Station
from topologies.emulator.virtual_time import CHANGE, FRAME, OBSERVER, Alarm, VirtualTime
from topologies.model import Link, Medium, Topology
from topologies.pipe import Pipe, pipe_rng
from topologies.radio import Cell, air_payload
from topologies.routing import BY_DELAY, Routing

_UNROUTED = LinkPort, GroupPort  # a tuple: isinstance() takes longer for a union
_MOST_ALARMS = 1000
"""Alarms of a node at one instant before time counts as standing still."""


class EmulatedNetwork(VirtualTime):
    """Nodes, links between them, and a clock that jumps to the next event.

    Args:
        topology: nodes and links.
        programs: of each node.
        seed: of the links' loss and jitter, and of the nodes' TCP.
        routing: rules of the nodes' IP routes.
        capture: gets every frame, interfaces numbered as in Topology.interfaces; None for no capture.
    """

    def __init__(
        self,
        topology: Topology,
        programs: Mapping[str, Iterable[Program]],
        *,
        seed: int,
        capture: Writer | None,
        routing: Routing = BY_DELAY,
    ) -> None:
        super().__init__()
        self._capture = capture
        self._active: set[str] = set()
        self._captured = [0] * len(topology.interfaces)
        self._ends = [_End(interface, index) for index, interface in enumerate(topology.interfaces)]
        self._by_name = {end.interface.name: end for end in self._ends}
        for out, into in topology.hops:
            carrier = topology.carrier(out)
            pipe = Pipe(carrier.towards(into.node), pipe_rng(seed, carrier, out.node, into.node))
            self._by_name[out.name].pipes.append((self._by_name[into.name], pipe))
        self._airs = {
            medium.name: _Air(self, medium, seed) for medium in topology.media if medium.radio is not None
        }
        for attachment in topology.attachments:
            self._by_name[attachment.name].air = self._airs.get(topology.media[attachment.medium].name)
        self._nodes = {
            node: _Node(node, Station(topology, node, Random(f"{seed} {node}"))) for node in topology.nodes
        }
        self.reroute(topology, routing)
        for end in self._ends:
            self._nodes[end.interface.node].ends.append(end)
        for node in self._nodes.values():
            node.alarm = self._make_alarm(node)
            self._install(node, programs.get(node.name, ()))

    @property
    def frames(self) -> int:
        """Frames written to the capture."""
        return sum(self._captured)

    def air_counters(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the counters of each radio cell's members: see topologies.radio.Cell.counters."""
        return {name: air.cell.counters() for name, air in self._airs.items()}

    def observe(self, time: int, observer: Callable[[], None]) -> None:
        """Call `observer` at a time (ns), after all other events at that instant."""
        self.at(time, OBSERVER, observer)

    def change(self, time: int, action: Callable[[], None]) -> None:
        """Call `action` at a time (ns), before all other events at that instant.

        It may call set_link(), set_present(), change_link(), reroute(), replace(), and settle() after calls
        to programs.
        """
        self.at(time, CHANGE, action)

    def set_link(self, link: int, up: bool, *, signalled: bool) -> None:
        """Set a link of the topology up or down now.

        Frames in flight are lost, and so are those sent while it is down. The programs at its ends are
        notified only if `signalled`.
        """
        ends = self._ends[2 * link : 2 * link + 2]
        for end in ends:
            end.up = up
            end.breaks += not up
        if signalled:
            for end in ends:
                for endpoint, port in chain(*end.ports.values()):
                    endpoint.set_link(port, up, self.now)
                self._settle(self._nodes[end.interface.node])

    def set_present(self, interface: int, present: bool) -> None:
        """Set whether a member is present on a medium; `interface` is its place in Topology.interfaces.

        Frames in flight from it and to it are lost. Its programs are not notified.
        """
        end = self._ends[interface]
        end.up = present
        end.breaks += not present
        if end.air is not None:
            end.air.cell.set_present(end.interface.node, present)

    def change_link(self, link: int, to: Link) -> None:
        """Set a link's parameters for the frames that are sent from now on."""
        for end in self._ends[2 * link : 2 * link + 2]:
            for other, pipe in end.pipes:
                pipe.change(to.towards(other.interface.node))

    def reroute(self, topology: Topology, routing: Routing) -> None:
        """Replace the IP routes of all nodes; the topology differs in its links' parameters at most."""
        for node in self._nodes.values():
            node.station.reroute(topology, routing)

    def replace(self, name: str, programs: Iterable[Program]) -> None:
        """Replace the programs of a node, with all their state."""
        node = self._nodes[name]
        self._install(node, programs)
        node.alarm.clear()
        self._settle(node)

    def settle(self, name: str) -> None:
        """Process the outputs of a node's programs that were called from elsewhere."""
        self._settle(self._nodes[name])

    def take_active(self) -> set[str]:
        """Return the nodes to whose programs something has happened since the last call."""
        active, self._active = self._active, set()
        return active

    def run(self, until: int) -> None:
        """Run all events up to and including a time (ns)."""
        for node in self._nodes.values():
            self._settle(node)
        super().run(until)

    def write_statistics(self) -> None:
        """End the capture with each interface's count of frames; an emulated capture drops none."""
        if self._capture is not None:
            for index, count in enumerate(self._captured):
                self._capture.statistics(index, self.now, count, 0)

    def _make_alarm(self, node: "_Node") -> Alarm:
        def stuck() -> None:
            raise RuntimeError(
                f"node {node.name} wants to be woken at {self.now} ns for ever: time stands still"
            )

        return Alarm(self, lambda: self._wake(node), _MOST_ALARMS, stuck)

    def _install(self, node: "_Node", programs: Iterable[Program]) -> None:
        node.programs = list(programs)
        node.station.run(node.programs, self.now)
        for end in node.ends:
            end.ports.clear()
            end.groups.clear()
        for endpoint, ports in node.programs:
            for number, port in ports.items():
                if isinstance(port, LinkPort):
                    self._by_name[port.interface.name].ports[port.number] = [(endpoint, number)]
                elif isinstance(port, GroupPort):
                    groups = self._by_name[port.interface.name].groups
                    groups.setdefault((port.group, port.number), []).append((endpoint, number))

    def _wake(self, node: "_Node") -> None:
        is_due = node.due is not None and node.due <= self.now
        if is_due:
            for endpoint, _ in node.programs:
                endpoint.wake(self.now)
        node.station.wake(self.now)
        self._settle(node, were_called=is_due)

    def _settle(self, node: "_Node", were_called: bool = True) -> None:
        """Send the outputs of a node's programs, and set its alarm.

        Programs that were not called have no outputs, and their deadline is the one from before.
        """
        self._active.add(node.name)
        station = node.station
        while True:
            for endpoint, ports in node.programs if were_called else ():
                for number, payload, to in endpoint.take_outputs():
                    port = ports[number]
                    if isinstance(port, _UNROUTED):
                        self._send(port, payload)
                    elif isinstance(port, DatagramPort) and to is not None:
                        station.send(port, payload, to)
            if not (station.is_used and station.settle(self.now)):
                break
            were_called = True
        if were_called:
            node.due = earliest(*(endpoint.next_deadline() for endpoint, _ in node.programs))
        node.alarm.set(node.due)
        if station.is_used:
            self._send_packets(node)
            node.alarm.set(station.next_deadline())

    def _send_packets(self, node: "_Node") -> None:
        """Send the packets of a node's Internet layer: to the next hop, or to the node itself."""
        for hop, packet in node.station.take_packets():
            if hop is None:
                self.at(self.now, FRAME, partial(self._receive, node, packet))
            else:
                frame = packet.to_frame(hop.out.mac, hop.into.mac)
                self._transmit(self._by_name[hop.out.name], frame, packet)

    def _send(self, port: LinkPort | GroupPort, payload: bytes) -> None:
        """Send a datagram from an interface, without routing: to the neighbour, or to a group."""
        here, number = port.interface, port.number
        end = self._by_name[here.name]
        if isinstance(port, LinkPort):
            to, to_mac, ttl = port.interface.peer_ipv4, port.interface.peer_mac, TTL
        else:
            to, to_mac, ttl = port.group, group_mac(port.group), 1
        content = udp_datagram(here.ipv4, to, number, number, payload)
        packet = Packet(here.ipv4, to, UDP, content, end.next_ident(), ttl)
        self._transmit(end, packet.to_frame(here.mac, to_mac), packet)

    def _transmit(self, end: "_End", frame: bytes, packet: Packet) -> None:
        """Send a packet's frame to all that an interface reaches, or to the one of its MAC address."""
        self._record(end, frame, Direction.OUT)
        if end.air is not None:
            end.air.send(end, frame, packet, self.now)
        elif end.up:
            for to, pipe in end.pipes:
                self._pass(end, to, pipe, frame, packet)

    def _pass(self, end: "_End", to: "_End", pipe: Pipe, frame: bytes, packet: Packet) -> None:
        """Send a frame through a pipe; the receiver drops it if it is for another's MAC address."""
        arrivals = pipe.send(self.now, frame)
        if len(end.pipes) == 1 or frame[0] & 1 or frame.startswith(to.interface.mac):
            breaks = end.breaks + to.breaks
            for time, arrived in arrivals:
                carried = packet if arrived is frame else None
                self.at(time, FRAME, partial(self._arrive, end, to, breaks, arrived, carried))

    def _arrive(self, end: "_End", to: "_End", breaks: int, frame: bytes, packet: Packet | None) -> None:
        """Receive a frame at an interface; `packet` is its content, None if a pipe has changed its bytes."""
        if end.breaks + to.breaks != breaks or not to.up:
            return
        self._record(to, frame, Direction.IN)
        if packet is None:
            packet = Packet.of_frame(frame)
            if packet is None:
                return
        node = self._nodes[to.interface.node]
        sender: Address | None = None
        if frame[0] & 1:
            listeners = to.groups.get((packet.destination, packet.destination_port), [])
            sender = packet.source, packet.source_port
        elif packet.protocol == UDP and packet.source == to.peer_ipv4:
            listeners = to.ports.get(packet.destination_port, [])
        else:
            self._receive(node, packet)
            return
        for endpoint, port in listeners:
            endpoint.receive(port, packet.content[UDP_HEADER:], sender, self.now)
        if listeners:
            self._settle(node)

    def _receive(self, node: "_Node", packet: Packet) -> None:
        if node.station.receive(packet, self.now):
            self._settle(node, were_called=packet.protocol == UDP)
        else:
            self._send_packets(node)

    def _record(self, end: "_End", frame: bytes, direction: Direction) -> None:
        if self._capture is not None:
            self._capture.write(end.index, self.now, frame, direction)
            self._captured[end.index] += 1


class _Node:
    """A node: its interfaces, its programs, its Internet layer, and when it is to be woken."""

    def __init__(self, name: str, station: Station) -> None:
        self.name = name
        self.station = station
        self.ends: list[_End] = []
        self.programs: list[Program] = []
        self.due: int | None = None  # of the programs, ns
        self.alarm: Alarm


_Listener = tuple[Endpoint, int]
"""A listener and its port."""


class _End:
    """One interface: the pipe to each receiver, the listeners, whether its link is up or its node present,
    how often that has ended, and the air of a radio cell.
    """

    def __init__(self, interface: Interface, index: int) -> None:
        self.interface = interface
        self.index = index
        self.pipes: list[tuple[_End, Pipe]] = []
        self.ports: dict[int, list[_Listener]] = {}  # by UDP port
        self.groups: dict[tuple[str, int], list[_Listener]] = {}  # by address and UDP port
        self.peer_ipv4 = interface.peer_ipv4 if isinstance(interface, LinkEnd) else ""
        self.sent = 0
        self.up = True
        self.breaks = 0
        self.air: _Air | None = None

    def next_ident(self) -> int:
        """Return the IPv4 identification of the next datagram that programs send by this interface."""
        self.sent = (self.sent + 1) & 0xFFFF
        return self.sent


_Sent = tuple[_End, bytes, Packet]
"""A frame in a radio cell: the arguments of _transmit()."""


class _Air:
    """The air of a radio cell, and its alarm."""

    def __init__(self, network: EmulatedNetwork, medium: Medium, seed: int) -> None:
        self.cell: Cell[_Sent] = Cell.of(medium, seed)
        self._network = network
        self._alarm = Alarm(network, self._wake, _MOST_ALARMS, self._stuck)
        self._name = medium.name

    def send(self, end: _End, frame: bytes, packet: Packet, now: int) -> None:
        """Send a frame."""
        self.cell.send(end.interface.node, air_payload(frame), (end, frame, packet), now)
        self._alarm.set(self.cell.next_deadline())

    def _wake(self) -> None:
        for reception in self.cell.wake(self._network.now):
            end, frame, packet = reception.frame
            for to, pipe in end.pipes:
                if to.interface.node == reception.receiver:
                    self._network._pass(end, to, pipe, frame, packet)
        self._alarm.set(self.cell.next_deadline())

    def _stuck(self) -> None:
        raise RuntimeError(f"cell {self._name}: time stands still")
