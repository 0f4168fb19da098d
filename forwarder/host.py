"""A node: a forwarder with its links and the applications that run on it. Still sans-IO.

The emulator and the sockets (forwarder.faces) both drive this object: frames (UDP payloads) in and out by
face, time as an argument. Applications are attached in the same process; what passes between them and
the forwarder takes no time and no wire.
"""

from collections.abc import Hashable
from typing import Protocol

from base.timers import Timers, earliest
from forwarder.forwarder import Forwarder
from forwarder.links.link import LinkService
from forwarder.tables.face import Face, LinkType
from forwarder.tables.pacing import Pacer
from forwarder.wire.lp import LP_PACKET, LpPacket, parse_lp
from forwarder.wire.packet import LARGEST_PACKET
from forwarder.wire.tlv import MalformedPacket


class Application(Protocol):
    """An endpoint behind a local face, sans-IO like everything else.

    A frame that the forwarder does not pass to any application of its host gives none of them new outputs or
    another deadline. Whatever else calls one has to call Host.stir(), settle() or wake() afterwards.
    """

    def receive(self, packet: bytes, now: int) -> None:
        """Receive a packet (bare or LpPacket) from the forwarder."""
        ...

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        ...


class Host:
    """A forwarder, its network faces and its applications' faces.

    Args:
        forwarder: the core.
        first_face: number of the first face; a forwarder that others talk to leaves
            forwarder.tables.face.FIRST_FACE and above to them.
    """

    def __init__(self, forwarder: Forwarder, first_face: int = 1) -> None:
        self.forwarder = forwarder
        self._links: dict[int, LinkService] = {}
        self._reliable: dict[int, LinkService] = {}
        self._timers: Timers[int] = Timers()  # of reliable links
        self._stirred: dict[int, None] = {}  # reliable links whose deadlines or frames may have changed
        self._applications: dict[int, Application] = {}
        self._asks = True  # whether applications may have new outputs, or other deadlines
        self._application_due: int | None = None  # the earliest deadline, unless the host asks
        self._pacers: dict[int, Pacer] = {}
        self._next_face = first_face
        self._now = 0
        self._outputs: list[tuple[int, bytes, None]] = []

    def add_link(self, mtu: int = 1500, rate_mbit: float | None = None) -> int:
        """Add a face to the network; return its number.

        With a known rate, catch-up bursts of feeds are paced to it, and answers to classic Interests that
        make a queue there carry a CongestionMark.
        """
        pacer = None if rate_mbit is None else Pacer(rate_mbit)
        face = self._new_face(local=False, pacer=pacer)
        self._links[face.number] = LinkService(mtu, self.forwarder.rng.getrandbits(64), face=face)
        if pacer is not None:
            self._pacers[face.number] = pacer
        return face.number

    def add_face(
        self,
        *,
        mtu: int | None = None,
        local: bool = False,
        link_type: LinkType = LinkType.POINT_TO_POINT,
    ) -> Face:
        """Add a face at run time; return its record.

        `mtu` is the largest frame that it takes, None if it takes any. What else is set on the record
        holds once configure() has been called.
        """
        face = self._new_face(local=local, link_type=link_type)
        face.mtu = mtu
        sequence = self.forwarder.rng.getrandbits(64)
        self._links[face.number] = LinkService(mtu, sequence, face=face, overhead=0, largest=LARGEST_PACKET)
        return face

    def configure(self, face: int) -> None:
        """Apply the record of a face that add_face() has made: mtu, reliability, marking."""
        link = self._links[face]
        link.configure(link.face.mtu)
        if link.reliability is not None:
            self._reliable[face] = link
            self._stirred[face] = None
        else:
            self._clear_timer(face)

    def remove_face(self, face: int, now: int) -> None:
        """Remove a face, with all that waits for it or on it; no effect if there is none of that number."""
        if face in self.forwarder.faces:
            self._now = now
            self._asks = True
            for gone in (self._links, self._applications, self._pacers):
                gone.pop(face, None)
            self._clear_timer(face)
            self.forwarder.remove_face(face, now)
            self._settle(now)

    def links(self) -> list[int]:
        """Return the numbers of all faces that have a link service."""
        return list(self._links)

    def link(self, face: int) -> LinkService:
        """Return a face's link service."""
        return self._links[face]

    def set_link(self, face: int, up: bool, now: int) -> None:
        """Set whether a link is up."""
        self._now = now
        self._asks = True
        self._links[face].reset(self.forwarder.rng.getrandbits(64))
        if face in self._reliable:
            self._stirred[face] = None
        self.forwarder.set_face(face, up, now)
        self._settle(now)

    def attach(self, application: Application, number: int | None = None) -> int:
        """Attach an application; return its face's number, which is the given one or the next."""
        face = self._new_face(local=True, number=number)
        self._applications[face.number] = application
        self._asks = True
        return face.number

    def _new_face(
        self,
        *,
        local: bool,
        pacer: Pacer | None = None,
        link_type: LinkType = LinkType.POINT_TO_POINT,
        number: int | None = None,
    ) -> Face:
        if number is None:
            number = self._next_face
            self._next_face += 1
        return self.forwarder.add_face(number, local=local, pacer=pacer, link_type=link_type)

    def receive(self, face: int, frame: bytes, sender: Hashable, now: int) -> None:
        """Receive a frame from the network; `sender` identifies neighbours that share a face, else None."""
        self._now = now
        link = self._links[face]
        link.face.in_bytes += len(frame)
        if face in self._reliable:
            self._stirred[face] = None
        header: LpPacket | None = None
        try:
            if frame and frame[0] == LP_PACKET:
                header = parse_lp(frame)
            packet = link.receive(frame, now, sender, header)
        except MalformedPacket:
            self.forwarder.counters.malformed += 1
            return
        if packet is not None:
            self.forwarder.receive(face, packet, now, header if packet is frame else None)

    def take_outputs(self) -> list[tuple[int, bytes, None]]:
        """Return the (face, frame, None) to be sent, in order.

        None stands where other endpoints name a destination: a face has its own.
        """
        self._settle(self._now)
        for face in sorted(self._stirred):
            link = self._reliable[face]
            for frame in link.take_frames():
                link.face.out_bytes += len(frame)
                self._outputs.append((face, frame, None))
            self._timers.set(face, link.next_deadline())
        self._stirred.clear()
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def is_deferring(self) -> bool:
        """Whether work has been put off until take_outputs(), in case that more of its kind comes."""
        return self.forwarder.is_deferring

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        self._set_timers()
        if self._asks:
            self._asks = False
            self._application_due = earliest(*[each.next_deadline() for each in self._applications.values()])
        return earliest(self.forwarder.next_deadline(), self._timers.next_deadline(), self._application_due)

    def wake(self, now: int) -> None:
        """Process the deadlines of the forwarder, the links and the applications."""
        self._now = now
        self.forwarder.wake(now)
        self._asks = True
        for application in self._applications.values():
            deadline = application.next_deadline()
            if deadline is not None and deadline <= now:
                application.wake(now)
        self._set_timers()
        for face in sorted(self._timers.expire(now)):
            self._reliable[face].wake(now)
            self._stirred[face] = None
        self._settle(now)

    def _set_timers(self) -> None:
        """Set the timers of links that something has happened to."""
        for face in self._stirred:
            self._timers.set(face, self._reliable[face].next_deadline())

    def _clear_timer(self, face: int) -> None:
        """Have no timer of a link any more that is gone, or not reliable."""
        self._reliable.pop(face, None)
        self._stirred.pop(face, None)
        self._timers.set(face, None)

    def stir(self) -> None:
        """Ask the applications, which were called from elsewhere: at the next take_outputs(), then at
        next_deadline().
        """
        self._asks = True

    def settle(self, now: int) -> None:
        """Process the outputs of applications that were called from elsewhere."""
        self._now = now
        self.stir()
        self._settle(now)

    def _settle(self, now: int) -> None:
        """Pass packets between the forwarder and the applications until there are none left."""
        busy = True
        while busy:
            busy = False
            packets = self.forwarder.take_outputs()
            for face, packet in packets:
                application = self._applications.get(face)
                if application is None:
                    self._transmit(face, packet)
                else:
                    self._asks = True
                    application.receive(packet, now)
            if packets:
                self._all_sent()
            if self._asks:
                for face, application in list(self._applications.items()):
                    for packet in application.take_outputs():
                        self.forwarder.receive(face, packet, now)
                        busy = True

    def _all_sent(self) -> None:
        for pacer in self._pacers.values():
            pacer.all_sent()

    def _transmit(self, face: int, packet: bytes) -> None:
        link = self._links.get(face)
        if link is None:
            return  # it has just been removed
        if face in self._reliable:
            self._stirred[face] = None
        pacer = self._pacers.get(face)
        for frame in link.send(packet, self._now):
            link.face.out_bytes += len(frame)
            self._outputs.append((face, frame, None))
            if pacer is not None:
                pacer.sent(len(frame), self._now)
