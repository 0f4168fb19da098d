"""A topology in virtual time: the same programs and the same pipes as in Mininet, without a kernel.

Frames are built down to Ethernet and written to the capture as a kernel would see them: sent when a node
hands them over, received when they arrive. Nothing depends on the machine, so one seed gives one capture,
byte for byte.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random

from captures.frames import ETHERNET_HEADER, IPV4_HEADER, UDP_HEADER, ipv4_frame, udp_frame
from captures.pcapng import Direction, Writer
from topologies.emulator.underlay import Packet, Station
from topologies.emulator.virtual_time import CHANGE, FRAME, OBSERVER, Alarm, VirtualTime
from topologies.endpoint import DatagramPort, Endpoint, LinkPort, Program
from topologies.model import Interface, Topology
from topologies.pipe import Pipe, pipe_rng

_MOST_ALARMS = 1000
"""Alarms of a node at one instant before time counts as standing still."""


class EmulatedNetwork(VirtualTime):
    """Nodes, links between them, and a clock that jumps to the next event.

    Args:
        topology: nodes and links.
        programs: of each node.
        seed: of the links' loss and jitter, and of the nodes' TCP.
        capture: gets every frame, interfaces numbered as in Topology.interfaces(); None to capture nothing.
    """

    def __init__(
        self,
        topology: Topology,
        programs: Mapping[str, Iterable[Program]],
        *,
        seed: int,
        capture: Writer | None,
    ) -> None:
        super().__init__()
        self._capture = capture
        interfaces = topology.interfaces()
        self._captured = [0] * len(interfaces)
        self._ends = {
            interface.name: _End(
                interface,
                index,
                Pipe(link := topology.links[interface.link], pipe_rng(seed, link, interface.node)),
            )
            for index, interface in enumerate(interfaces)
        }
        for end in self._ends.values():
            end.peer = self._ends[end.interface.peer_name]
        self._nodes = {
            node: _Node(node, Station(topology, node, Random(f"{seed} {node}"))) for node in topology.nodes
        }
        for node in self._nodes.values():
            node.alarm = self._make_alarm(node)
            self._install(node, programs.get(node.name, ()))

    @property
    def frames(self) -> int:
        """Frames written to the capture."""
        return sum(self._captured)

    def observe(self, time: int, observer: Callable[[], None]) -> None:
        """Call `observer` at a time (ns), after everything else that happens at that instant."""
        self.at(time, OBSERVER, observer)

    def change(self, time: int, action: Callable[[], None]) -> None:
        """Call `action` at a time (ns), before anything else that happens at that instant.

        It may call set_link() and replace().
        """
        self.at(time, CHANGE, action)

    def set_link(self, link: int, up: bool, *, signalled: bool) -> None:
        """Break a link of the topology now, or mend it.

        What is under way on a link that breaks is lost, and so is what is sent until it is mended. The
        programs at its ends are told only if that is `signalled`.
        """
        ends = [end for end in self._ends.values() if end.interface.link == link]
        for end in ends:
            end.up = up
            end.breaks += not up
        if signalled:
            for end in ends:
                for endpoint, port in end.ports.values():
                    endpoint.set_link(port, up, self.now)
                self._settle(self._nodes[end.interface.node])

    def replace(self, name: str, programs: Iterable[Program]) -> None:
        """Let other programs run on a node from now on; nothing is left of the old ones."""
        node = self._nodes[name]
        self._install(node, programs)
        node.alarm.clear()
        self._settle(node)

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
        for end in self._ends.values():
            if end.interface.node == node.name:
                end.ports.clear()
        for endpoint, ports in node.programs:
            for number, port in ports.items():
                if isinstance(port, LinkPort):
                    self._ends[port.interface.name].ports[port.number] = endpoint, number

    def _wake(self, node: "_Node") -> None:
        for endpoint, _ in node.programs:
            endpoint.wake(self.now)
        node.station.wake(self.now)
        self._settle(node)

    def _settle(self, node: "_Node") -> None:
        """Send what a node's programs have put out, and set its alarm."""
        station = node.station
        is_busy = True
        while is_busy:
            for endpoint, ports in node.programs:
                for number, payload, to in endpoint.take_outputs():
                    port = ports[number]
                    if isinstance(port, LinkPort):
                        self._send_on_link(self._ends[port.interface.name], port.number, payload)
                    elif isinstance(port, DatagramPort) and to is not None:
                        station.send(port, payload, to)
            is_busy = station.is_used and station.settle(self.now)
        for endpoint, _ in node.programs:
            node.alarm.set(endpoint.next_deadline())
        if station.is_used:
            for way, packet in station.take_packets():
                if way is None:
                    self.at(self.now, FRAME, lambda packet=packet: self._receive(node, packet))  # type: ignore[misc]
                else:
                    self._forward(self._ends[way.name], packet)
            node.alarm.set(station.next_deadline())

    def _send_on_link(self, end: "_End", number: int, payload: bytes) -> None:
        """Send a datagram to the neighbour: no route is looked for."""
        end.sent += 1
        frame = b""
        if self._capture is not None:
            here = end.interface
            frame = udp_frame(
                here.mac, here.peer_mac, here.ipv4, here.peer_ipv4, number, number, payload, end.sent & 0xFFFF
            )
        size = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER + len(payload)
        self._transmit(end, frame, size, lambda: self._receive_on_link(end.peer, number, payload))

    def _receive_on_link(self, end: "_End", number: int, payload: bytes) -> None:
        found = end.ports.get(number)
        if found is not None:
            endpoint, port = found
            endpoint.receive(port, payload, None, self.now)
            self._settle(self._nodes[end.interface.node])

    def _forward(self, end: "_End", packet: Packet) -> None:
        frame = b""
        if self._capture is not None:
            here = end.interface
            frame = ipv4_frame(
                here.mac,
                here.peer_mac,
                packet.source,
                packet.destination,
                packet.protocol,
                packet.content,
                packet.ident,
                packet.ttl,
            )
        node = self._nodes[end.interface.peer]
        size = ETHERNET_HEADER + IPV4_HEADER + len(packet.content)
        self._transmit(end, frame, size, lambda: self._receive(node, packet))

    def _receive(self, node: "_Node", packet: Packet) -> None:
        node.station.receive(packet, self.now)
        self._settle(node)

    def _transmit(self, end: "_End", frame: bytes, size: int, deliver: Callable[[], None]) -> None:
        self._record(end, frame, Direction.OUT)
        if end.up:
            breaks = end.breaks
            for arrival in end.pipe.send(self.now, size):
                self.at(arrival, FRAME, lambda: self._arrive(end, frame, breaks, deliver))

    def _arrive(self, end: "_End", frame: bytes, breaks: int, deliver: Callable[[], None]) -> None:
        if end.breaks == breaks:
            self._record(end.peer, frame, Direction.IN)
            deliver()

    def _record(self, end: "_End", frame: bytes, direction: Direction) -> None:
        if self._capture is not None:
            self._capture.write(end.index, self.now, frame, direction)
            self._captured[end.index] += 1


class _Node:
    """A node: its programs, its Internet layer, and when it is to be woken."""

    __slots__ = ("alarm", "name", "programs", "station")

    def __init__(self, name: str, station: Station) -> None:
        self.name = name
        self.station = station
        self.programs: list[Program] = []
        self.alarm: Alarm


class _End:
    """One interface with the pipe that leaves it, whether its link is up, and how often that has broken."""

    __slots__ = ("breaks", "index", "interface", "peer", "pipe", "ports", "sent", "up")

    def __init__(self, interface: Interface, index: int, pipe: Pipe) -> None:
        self.interface = interface
        self.index = index
        self.pipe = pipe
        self.peer: _End
        self.ports: dict[
            int, tuple[Endpoint, int]
        ] = {}  # by UDP port: who listens, and the port's number there
        self.sent = 0
        self.up = True
        self.breaks = 0
