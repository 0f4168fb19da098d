"""A FaceSystem over nothing, and a node whose management is asked by hand."""

from collections.abc import Callable
from random import Random

from base.units import SECOND
from forwarder.forwarder import Forwarder
from forwarder.management.authorisation import Authorisation
from forwarder.management.manager import Management
from forwarder.tables.face import FIRST_FACE, INTERNAL_FACE, Face, Persistency
from forwarder.tables.face_system import LOCAL_FIELDS, FaceEvent, FaceParameters, Outcome
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.packet import Data, parse_data

START = 1_700_000_000 * SECOND


class MemoryFaces:
    """Makes udp4 and tcp4 faces: the latter only when connect() is called."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.waiting: list[Callable[[], None]] = []
        self._listeners: list[Callable[[FaceEvent, Face, int], None]] = []
        self._next = FIRST_FACE

    def add(self, uri: str = "fd://9", *, local: bool = True, now: int = START) -> Face:
        face = self.forwarder.add_face(self._next, local=local)
        self._next += 1
        face.uri, face.local_uri, face.persistency = uri, "unix:///run/nfd.sock", Persistency.ON_DEMAND
        self._tell(FaceEvent.CREATED, face, now)
        return face

    def create(self, wanted: FaceParameters, now: int, reply: Callable[[Outcome], None]) -> None:
        uri = wanted.uri or ""
        scheme, _, rest = uri.partition("://")
        if scheme not in ("udp4", "tcp4"):
            reply(Outcome(406, "unsupported scheme"))
            return
        if ":" not in rest:
            reply(Outcome(400, "not canonical"))
            return
        for face in self.forwarder.faces.values():
            if face.uri == uri:
                reply(Outcome(409, "there is a face to there", face))
                return

        def make() -> None:
            face = self.add(uri, local=False, now=now)
            face.local_uri = f"{scheme}://192.0.2.1:6363"
            face.persistency = wanted.persistency or Persistency.PERSISTENT
            reply(Outcome(200, "OK", face))

        if scheme == "tcp4":
            self.waiting.append(make)
        else:
            make()

    def connect(self) -> None:
        for make in self.waiting:
            make()
        self.waiting = []

    def update(self, number: int, wanted: FaceParameters, now: int) -> Outcome:
        face = self.forwarder.faces[number]
        wants_local = bool((wanted.flags or 0) & (wanted.mask or 0) & LOCAL_FIELDS)
        if wants_local and not face.is_local:
            rejected = FaceParameters(flags=LOCAL_FIELDS)
            return Outcome(409, "local fields are for faces of this machine", face, rejected)
        if wanted.mtu is not None:
            face.mtu = wanted.mtu
        if (wanted.mask or 0) & LOCAL_FIELDS:
            face.local_fields = wants_local
        if wanted.persistency is not None:
            face.persistency = wanted.persistency
        return Outcome(200, "OK", face)

    def destroy(self, number: int, now: int) -> None:
        face = self.forwarder.faces.get(number)
        if face is not None:
            self.forwarder.remove_face(number, now)
            self._tell(FaceEvent.DESTROYED, face, now)

    def channels(self) -> list[str]:
        return ["unix:///run/nfd.sock", "udp4://0.0.0.0:6363"]

    def listen(self, listener: Callable[[FaceEvent, Face, int], None]) -> None:
        self._listeners.append(listener)

    def _tell(self, event: FaceEvent, face: Face, now: int) -> None:
        for listener in self._listeners:
            listener(event, face, now)


class Node:
    """A forwarder with its management and one local application's face."""

    def __init__(self, authorisation: Authorisation | None = None) -> None:
        self.forwarder = Forwarder(rng=Random(1))
        self.faces = MemoryFaces(self.forwarder)
        self.management = Management(
            self.forwarder,
            self.faces,
            authorisation=authorisation or Authorisation(),
            started=START,
            stir=lambda: None,
        )
        self.forwarder.add_face(INTERNAL_FACE, local=True)
        self.management.start()
        self.application = self.faces.add().number

    def ask(self, interest: bytes, now: int = START, face: int | None = None) -> list[bytes]:
        """Hand an Interest to the management as if it came from a face; return its packets, bare."""
        self.management.receive(make_lp(interest, incoming_face=face or self.application), now)
        return self.collect()

    def collect(self) -> list[bytes]:
        return [parse_lp(packet).fragment for packet in self.management.take_outputs()]

    def reply(self, interest: bytes, now: int = START, face: int | None = None) -> Data:
        """Ask and return the one Data packet that comes back."""
        (packet,) = self.ask(interest, now, face)
        return parse_data(packet)

    def forward(self, interest: bytes, now: int = START, face: int | None = None) -> list[tuple[int, bytes]]:
        """Send an Interest through the forwarder; return what it sends on all but the internal face."""
        self.forwarder.receive(face or self.application, interest, now)
        return self.settle(now)

    def settle(self, now: int) -> list[tuple[int, bytes]]:
        sent = []
        while True:
            outputs = self.forwarder.take_outputs()
            for number, packet in outputs:
                if number == INTERNAL_FACE:
                    self.management.receive(packet, now)
                else:
                    sent.append((number, packet))
            replies = self.management.take_outputs()
            for packet in replies:
                self.forwarder.receive(INTERNAL_FACE, packet, now)
            if not outputs and not replies:
                return sent
