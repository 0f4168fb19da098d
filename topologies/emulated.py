"""A topology in virtual time: the same hosts and the same pipes as in Mininet, without a kernel.

One event queue, ordered by (time, rank, order of scheduling). Frames are built down to Ethernet and
written to the capture as a kernel would see them: sent when the host hands them over, received when they
arrive. Nothing depends on the machine, so one seed gives one capture, byte for byte.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from captures.frames import udp_frame
from captures.pcapng import Direction, Writer
from forwarder.host import Host
from topologies.model import Interface, Topology
from topologies.pipe import Pipe, pipe_rng

UDP_PORT = 6363

# At one instant changes of the network come first, so that everything else of that instant meets the network
# as it is then. Alarms come before frames, as an entry that expires is not there for the packet that comes
# then, and observers last, as they look at the state that is left behind.
_CHANGE, _ALARM, _FRAME, _OBSERVER = range(4)

_MOST_ALARMS = 1000
"""Alarms a node at one instant, on average, before time counts as standing still."""


class EmulatedNetwork:
    """Hosts, links between them, and a clock that jumps to the next event.

    Args:
        topology: nodes and links.
        hosts: one a node, with a face added for each of its interfaces in the order of
            Topology.interfaces().
        faces: for each interface's name, the number of its face on its host.
        seed: of the links' loss and jitter.
        capture: gets every frame, interfaces numbered as in Topology.interfaces(); None to capture nothing.

    Attributes:
        now: virtual time, ns, from 0.
    """

    def __init__(
        self,
        topology: Topology,
        hosts: Mapping[str, Host],
        faces: Mapping[str, int],
        *,
        seed: int,
        capture: Writer | None,
    ) -> None:
        self.now = 0
        self._hosts = dict(hosts)
        self._capture = capture
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._alarms: dict[str, int] = {}
        self._last_alarm = -1
        self._alarms_now = 0
        interfaces = topology.interfaces()
        self._captured = [0] * len(interfaces)
        index = {interface.name: number for number, interface in enumerate(interfaces)}
        self._ends = {
            (interface.node, faces[interface.name]): _End(
                interface,
                index[interface.name],
                index[interface.peer_name],
                faces[interface.peer_name],
                Pipe(link := topology.links[interface.link], pipe_rng(seed, link, interface.node)),
            )
            for interface in interfaces
        }

    @property
    def frames(self) -> int:
        """Frames written to the capture."""
        return sum(self._captured)

    def at(self, time: int, observer: Callable[[], None]) -> None:
        """Call `observer` at a time (ns), after everything else that happens at that instant."""
        self._schedule(time, _OBSERVER, observer)

    def change(self, time: int, action: Callable[[], None]) -> None:
        """Call `action` at a time (ns), before anything else that happens at that instant.

        It may call set_link() and replace().
        """
        self._schedule(time, _CHANGE, action)

    def set_link(self, link: int, up: bool, *, signalled: bool) -> None:
        """Break a link of the topology now, or mend it.

        What is under way on a link that breaks is lost, and so is what is sent until it is mended. The hosts
        at its ends are told only if that is `signalled`.
        """
        ends = {key: end for key, end in self._ends.items() if end.interface.link == link}
        for end in ends.values():
            end.up = up
            end.breaks += not up
        if signalled:
            for node, face in ends:
                self._hosts[node].set_link(face, up, self.now)
                self._after(node)

    def replace(self, node: str, host: Host) -> None:
        """Put another host with the same faces in a node's place now; nothing is left of the old one."""
        self._hosts[node] = host
        self._alarms.pop(node, None)
        self._after(node)

    def run(self, until: int) -> None:
        """Run all events up to and including a time (ns)."""
        for node in self._hosts:
            self._after(node)
        while self._queue and self._queue[0][0] <= until:
            self.now, _, _, action = heappop(self._queue)
            action()
        self.now = until

    def write_statistics(self) -> None:
        """End the capture with each interface's count of frames; an emulated capture drops none."""
        if self._capture is not None:
            for index, count in enumerate(self._captured):
                self._capture.statistics(index, self.now, count, 0)

    def _schedule(self, time: int, rank: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heappush(self._queue, (time, rank, self._scheduled, action))

    def _after(self, node: str) -> None:
        """Send what a host has put out, and set its alarm."""
        host = self._hosts[node]
        for face, payload, _ in host.take_outputs():
            self._transmit(self._ends[node, face], payload)
        deadline = host.next_deadline()
        if deadline is None:
            return
        deadline = max(deadline, self.now)
        known = self._alarms.get(node)
        if known is None or deadline < known:
            self._alarms[node] = deadline
            self._schedule(deadline, _ALARM, lambda: self._wake(node, deadline))

    def _wake(self, node: str, due: int) -> None:
        if self._alarms.get(node) == due:  # else an earlier alarm has come in between
            del self._alarms[node]
            self._alarms_now = self._alarms_now + 1 if self._last_alarm == self.now else 1
            self._last_alarm = self.now
            if self._alarms_now > _MOST_ALARMS * len(self._hosts):
                raise RuntimeError(
                    f"node {node} wants to be woken at {self.now} ns for ever: time stands still"
                )
            self._hosts[node].wake(self.now)
            self._after(node)

    def _transmit(self, end: "_End", payload: bytes) -> None:
        interface = end.interface
        end.sent += 1
        frame = udp_frame(
            interface.mac,
            interface.peer_mac,
            interface.ipv4,
            interface.peer_ipv4,
            UDP_PORT,
            UDP_PORT,
            payload,
            end.sent & 0xFFFF,
        )
        self._record(end.index, frame, Direction.OUT)
        if end.up:
            breaks = end.breaks
            for arrival in end.pipe.send(self.now, len(frame)):
                self._schedule(arrival, _FRAME, lambda: self._arrive(end, frame, payload, breaks))

    def _arrive(self, end: "_End", frame: bytes, payload: bytes, breaks: int) -> None:
        if end.breaks != breaks:
            return
        self._record(end.peer_index, frame, Direction.IN)
        self._hosts[end.interface.peer].receive(end.peer_face, payload, None, self.now)
        self._after(end.interface.peer)

    def _record(self, index: int, frame: bytes, direction: Direction) -> None:
        if self._capture is not None:
            self._capture.write(index, self.now, frame, direction)
            self._captured[index] += 1


class _End:
    """One interface with the pipe that leaves it, whether its link is up, and how often that has broken."""

    __slots__ = ("breaks", "index", "interface", "peer_face", "peer_index", "pipe", "sent", "up")

    def __init__(self, interface: Interface, index: int, peer_index: int, peer_face: int, pipe: Pipe) -> None:
        self.interface = interface
        self.index = index
        self.peer_index = peer_index
        self.peer_face = peer_face
        self.pipe = pipe
        self.sent = 0
        self.up = True
        self.breaks = 0
