"""A node: a forwarder with its links and the applications that run on it. Still sans-IO.

The emulator and the sockets (forwarder.faces) both drive this object: frames (UDP payloads) in and out by
face, time as an argument. Applications are attached in the same process; what passes between them and
the forwarder takes no time and no wire.
"""

from typing import Protocol

from forwarder.forwarder import Forwarder
from forwarder.link import LinkService
from forwarder.pacing import Pacer
from forwarder.wire.tlv import MalformedPacket


class Application(Protocol):
    """An endpoint behind a local face, sans-IO like everything else."""

    def receive(self, packet: bytes, now: int) -> None:
        """Take in a packet (bare or LpPacket) from the forwarder."""
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
    """A forwarder, its network faces and its applications' faces."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self._links: dict[int, LinkService] = {}
        self._applications: dict[int, Application] = {}
        self._pacers: dict[int, Pacer] = {}
        self._faces = 0
        self._now = 0
        self._outputs: list[tuple[int, bytes]] = []

    def add_link(self, mtu: int = 1500, rate_mbit: float | None = None) -> int:
        """Add a face to the network; return its number.

        With a known rate, catch-up bursts of feeds are paced to it, and answers to classic Interests that
        make a queue there carry a CongestionMark.
        """
        pacer = None if rate_mbit is None else Pacer(rate_mbit)
        face = self._new_face(local=False, pacer=pacer)
        self._links[face] = self._link_service(mtu)
        if pacer is not None:
            self._pacers[face] = pacer
        return face

    def _link_service(self, mtu: int) -> LinkService:
        return LinkService(mtu, self.forwarder.rng.getrandbits(64))

    def set_link(self, face: int, up: bool, now: int) -> None:
        """Take note that a link is down, or up again."""
        self._now = now
        self._links[face] = self._link_service(self._links[face].mtu)
        self.forwarder.set_face(face, up, now)
        self._settle(now)

    def attach(self, application: Application) -> int:
        """Attach an application; return its face's number."""
        face = self._new_face(local=True)
        self._applications[face] = application
        return face

    def _new_face(self, *, local: bool, pacer: Pacer | None = None) -> int:
        self._faces += 1
        self.forwarder.add_face(self._faces, local=local, pacer=pacer)
        return self._faces

    def receive(self, face: int, frame: bytes, now: int) -> None:
        """Take in a frame from the network."""
        self._now = now
        try:
            packet = self._links[face].receive(frame, now)
        except MalformedPacket:
            self.forwarder.counters.malformed += 1
            return
        if packet is not None:
            self.forwarder.receive(face, packet, now)
            if self._applications and not self.forwarder.is_deferring:
                self._settle(now)

    def take_outputs(self) -> list[tuple[int, bytes]]:
        """Return the (face, frame) to be sent, in order."""
        if self.forwarder.is_deferring and self._applications:
            self._settle(self._now)
        if not self._applications:
            # Between network faces there is nothing to settle: a whole burst's outputs are collected here.
            for face, packet in self.forwarder.take_outputs():
                self._transmit(face, packet)
            self._all_sent()
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def is_deferring(self) -> bool:
        """Whether work has been put off until take_outputs(), in case that more of its kind comes."""
        return self.forwarder.is_deferring

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        deadline = self.forwarder.next_deadline()
        for application in self._applications.values():
            own = application.next_deadline()
            if own is not None and (deadline is None or own < deadline):
                deadline = own
        return deadline

    def wake(self, now: int) -> None:
        """Let the forwarder and the applications act on their deadlines."""
        self._now = now
        self.forwarder.wake(now)
        for application in self._applications.values():
            deadline = application.next_deadline()
            if deadline is not None and deadline <= now:
                application.wake(now)
        self._settle(now)

    def _settle(self, now: int) -> None:
        """Pass packets between the forwarder and the applications until there are none left."""
        busy = True
        while busy:
            busy = False
            for face, packet in self.forwarder.take_outputs():
                if face in self._links:
                    self._transmit(face, packet)
                else:
                    self._applications[face].receive(packet, now)
            self._all_sent()
            for face, application in self._applications.items():
                for packet in application.take_outputs():
                    self.forwarder.receive(face, packet, now)
                    busy = True

    def _all_sent(self) -> None:
        for pacer in self._pacers.values():
            pacer.all_sent()

    def _transmit(self, face: int, packet: bytes) -> None:
        pacer = self._pacers.get(face)
        for frame in self._links[face].send(packet):
            self._outputs.append((face, frame))
            if pacer is not None:
                pacer.sent(len(frame), self._now)
