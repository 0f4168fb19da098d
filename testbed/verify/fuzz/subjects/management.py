"""The management protocol under any commands: an answer, or a drop; no change unless the answer is 200.

An input is a sequence of events (`events.py`): a packet of a local application or a neighbour; or a command's
ControlParameters element, which is signed here, as no mutation would do.
"""

from collections.abc import Callable
from random import Random

from base.units import MS
from forwarder.daemon.commands import Signer
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.management.authorisation import (
    AnnouncementRule,
    Authorisation,
    AuthorisationFile,
    LocalhopRule,
)
from forwarder.management.feednet import FeednetModule
from forwarder.management.manager import LOCALHOP, LOCALHOST, Management
from forwarder.tables.face import FIRST_FACE, INTERNAL_FACE, Face, Persistency
from forwarder.tables.face_system import LOCAL_FIELDS, FaceEvent, FaceParameters, Outcome
from forwarder.wire.lp import open_data
from forwarder.wire.name import from_uri
from forwarder.wire.tlv import MalformedPacket, elements, read_nni
from testbed.verify.fuzz.subjects.events import PAUSE, Event, Timed, playing
from testbed.verify.fuzz.subjects.wire import expect

START_MS = 1_700_000_000_000
PACKET, FROM_NEIGHBOUR, COMMAND, DISTANT_COMMAND = range(4)
"""Kinds; a distant command comes from one hop away."""
VERBS = (
    "/rib/register",
    "/rib/unregister",
    "/rib/announce",
    "/rib/list",
    "/fib/add-nexthop",
    "/fib/remove-nexthop",
    "/fib/list",
    "/faces/create",
    "/faces/update",
    "/faces/destroy",
    "/faces/query",
    "/faces/list",
    "/faces/channels",
    "/faces/events",
    "/cs/config",
    "/cs/erase",
    "/cs/info",
    "/strategy-choice/set",
    "/strategy-choice/unset",
    "/strategy-choice/list",
    "/status/general",
    "/feednet/status",
    "/x/y",
)
"""Of commands and datasets, by an event's index."""

_PAUSES_MS = (1, 50, 1000, 4000, 60_000, 200_000)
MOST_EVENTS = 24
"""Maximum number of events of an input."""

_MOST_OUTPUTS = 64
_MOST_WAKES = 512
_NAMES = tuple(from_uri(verb) for verb in VERBS)


class _Faces:
    """A FaceSystem without sockets, with udp4 and tcp4; the latter is created late."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listeners: list[Callable[[FaceEvent, Face, int], None]] = []

    def add(self, uri: str, *, local: bool, now: int) -> Face:
        face = self._host.add_face(local=local)
        face.uri, face.local_uri, face.persistency = uri, "unix:///nfd.sock", Persistency.ON_DEMAND
        self._log_event(FaceEvent.CREATED, face, now)
        return face

    def create(self, wanted: FaceParameters, now: int, reply: Callable[[Outcome], None]) -> None:
        if not (wanted.uri or "").startswith("udp4://"):
            reply(Outcome(406, "unsupported scheme"))
        elif len(self._host.forwarder.faces) > 10:
            reply(Outcome(504, "enough"))
        else:
            reply(Outcome(200, "OK", self.add(wanted.uri or "", local=False, now=now)))

    def update(self, face: int, wanted: FaceParameters, now: int) -> Outcome:
        record = self._host.forwarder.faces[face]
        if (wanted.mask or 0) & LOCAL_FIELDS:
            record.local_fields = bool((wanted.flags or 0) & LOCAL_FIELDS)
        if wanted.persistency is not None:
            record.persistency = wanted.persistency
        return Outcome(200, "OK", record)

    def destroy(self, face: int, now: int) -> None:
        record = self._host.forwarder.faces.get(face)
        if record is not None:
            self._host.remove_face(face, now)
            self._log_event(FaceEvent.DESTROYED, record, now)

    def channels(self) -> list[str]:
        return ["unix:///nfd.sock"]

    def listen(self, listener: Callable[[FaceEvent, Face, int], None]) -> None:
        self._listeners.append(listener)

    def _log_event(self, event: FaceEvent, face: Face, now: int) -> None:
        for listener in self._listeners:
            listener(event, face, now)


class _Node(Timed):
    def __init__(self) -> None:
        self.now = START_MS * MS
        self.forwarder = forwarder = Forwarder(rng=Random(1), cs_capacity=8)
        self.host = host = Host(forwarder, FIRST_FACE)
        self._faces = _Faces(host)
        rules = AuthorisationFile(
            localhop=(LocalhopRule(certfile="any"),), announcement=(AnnouncementRule(certfile="any"),)
        )
        self.management = Management(
            forwarder, self._faces, authorisation=Authorisation(rules), started=self.now, stir=host.stir
        )
        self.management.extend(FeednetModule(forwarder, self.management.counters))
        host.attach(self.management, INTERNAL_FACE)
        self.management.start()
        self.application = self._faces.add("fd://9", local=True, now=self.now).number
        self.neighbour = self._faces.add("udp4://192.0.2.7:6363", local=False, now=self.now).number
        self._signer = Signer(lambda: self.now // MS, Random(1))
        host.take_outputs()

    def play(self, event: Event) -> None:
        if event.kind == PAUSE:
            duration = _PAUSES_MS[event.which % len(_PAUSES_MS)] * MS
            self.pass_time(self.host, duration, _MOST_WAKES, self.host.take_outputs)
            return
        face = self.neighbour if event.kind == FROM_NEIGHBOUR else self.application
        if face not in self.forwarder.faces:
            return
        packet = self._command(event) if event.kind in (COMMAND, DISTANT_COMMAND) else event.content
        before = self._state()
        self.host.receive(face, packet, None, self.now)
        outputs = self.host.take_outputs()
        expect(f"{len(outputs)} packets are sent at once", holds=len(outputs) <= _MOST_OUTPUTS)
        if not any(_is_success(frame) for _, frame, _ in outputs):
            expect("what is not answered by 200 has changed nothing", holds=self._state() == before)

    def _command(self, event: Event) -> bytes:
        """Return a command, or a plain Interest for a dataset."""
        verb = _NAMES[event.which % len(_NAMES)]
        takes_payload = verb == from_uri("/rib/announce")
        return self._signer.command(
            verb,
            b"" if takes_payload else event.content,
            payload=event.content if takes_payload else b"",
            prefix=LOCALHOP if event.kind == DISTANT_COMMAND else LOCALHOST,
        )

    def _state(self) -> object:
        """Return all state that commands can change."""
        forwarder = self.forwarder
        faces = forwarder.faces.values()
        return (
            dict(forwarder.fib.items()),
            [(prefix, [str(route) for route in routes]) for prefix, routes in self.management.rib.items()],
            [(face.number, face.uri, face.mtu, face.local_fields, face.persistency) for face in faces],
            [(prefix, id(strategy)) for prefix, strategy in forwarder.strategies.items()],
            (forwarder.cs.capacity, forwarder.cs.admits, forwarder.cs.serves),
        )


def _is_success(frame: bytes) -> bool:
    """Return whether a frame carries a ControlResponse of 200."""
    opened = open_data(frame)
    if opened is None:
        return False
    content = opened[0].content
    try:
        for kind, start, end in elements(content, 0, len(content)):
            if kind == 0x65:
                code, at, stop = next(elements(content, start, end))
                return code == 0x66 and read_nni(content[at:stop]) == 200
    except (MalformedPacket, StopIteration):
        pass
    return False


check = playing(_Node, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""
