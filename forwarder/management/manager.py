"""The management of a forwarder: an application of its own node that answers under /localhost/nfd.

NFD management protocol. An Interest is a command, or requests a dataset or a notification. A command is
checked (signature, privilege, parameters), executed and answered with a ControlResponse of the same name.
Other packets are counted and dropped. Sans-IO; no packet makes it raise.
"""

from collections import Counter
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from base.passive import Outputs
from forwarder.forwarder import Forwarder
from forwarder.management.announcement import announcement_in
from forwarder.management.authorisation import MODULES, Authorisation
from forwarder.management.commands import Request, parse_request
from forwarder.management.faces import FacesModule, face_event
from forwarder.management.module import Call, Command, Module, Refusal
from forwarder.management.parameters import ControlParameters, ControlResponse, parse_parameters
from forwarder.management.publisher import FRESHNESS_MS, Datasets, Stream
from forwarder.management.routes import FibModule, RibModule
from forwarder.management.status import StatusModule
from forwarder.management.store import StoreModule
from forwarder.management.strategies import StrategiesModule
from forwarder.tables.face import CONTENT_STORE_FACE, INTERNAL_FACE, NULL_FACE, Face
from forwarder.tables.face_system import FaceEvent, FaceSystem
from forwarder.tables.rib import Origin, Rib, Route
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import GENERIC, SEGMENT, VERSION, from_uri
from forwarder.wire.packet import INTEREST, Interest, make_data, parse_interest
from forwarder.wire.tlv import MalformedPacket

LOCALHOST = from_uri("/localhost/nfd")
LOCALHOP = from_uri("/localhop/nfd")
_LOCALHOP_RIB = from_uri("/localhop/nfd/rib")

_NACK_CONTENT = 3
"""ContentType of a dataset that there is not (NDN packet format 0.3, "ContentType")."""


def own_version() -> str:
    """Return NfdVersion."""
    try:
        return f"feednet-{version('feednet')}"
    except PackageNotFoundError:
        return "feednet"


class Management(Outputs):
    """The management protocol's server, an Application as in forwarder.host.

    Args:
        forwarder: the managed forwarder.
        faces: creates and closes its faces.
        authorisation: privileges of signers.
        started: start time of the forwarder, ns since 1970. All times here are such, as commands carry the
            time of their signing.
        stir: called when next_deadline() has changed by what a strategy has learnt; see Host.stir.

    Attributes:
        rib: the routes.
        wall_offset: wall clock minus the times given here, ns; signers use the wall clock.
        counters: commands (done), refused (answered with an error), queries (datasets and notifications),
            dropped (neither, or no longer there); learnt, unlearnt (announcements that strategies brought).
    """

    def __init__(
        self,
        forwarder: Forwarder,
        faces: FaceSystem,
        *,
        authorisation: Authorisation,
        started: int,
        stir: Callable[[], None],
    ) -> None:
        super().__init__()
        self._stir = stir
        self.rib = Rib(forwarder.fib)
        self.counters: Counter[str] = Counter()
        self._forwarder = forwarder
        self._authorisation = authorisation
        self.wall_offset = 0
        self._datasets = Datasets()
        self._events = Stream(from_uri("/localhost/nfd/faces/events"))
        self._routes = RibModule(self.rib, forwarder.faces, authorisation)
        modules: tuple[Module, ...] = (
            self._routes,
            FibModule(forwarder.fib, forwarder.faces),
            FacesModule(forwarder.faces, faces),
            StoreModule(forwarder),
            StrategiesModule(forwarder.strategies, forwarder.choose_strategy),
            StatusModule(forwarder, own_version(), started),
        )
        self._modules: dict[bytes, Module] = {}
        for module in modules:
            self.extend(module)
        faces.listen(self._on_face)
        forwarder.on_announcement = self._learn
        forwarder.on_withdrawal = self._routes.withdraw
        forwarder.announcement_of = self._routes.announcement_of

    def extend(self, module: Module) -> None:
        """Add a module; its commands need the privilege `faces`."""
        self._modules[module.name.encode()] = module

    def start(self) -> None:
        """Start, once the internal face exists: make routes to it, and enable its IncomingFaceId.

        NFD's other reserved faces exist from now on, too.
        """
        self._forwarder.faces[INTERNAL_FACE].local_fields = True
        for number, uri in ((CONTENT_STORE_FACE, "contentstore://"), (NULL_FACE, "null://")):
            face = self._forwarder.add_face(number, local=True)
            face.uri = face.local_uri = uri
        self.rib.register(Route(LOCALHOST, INTERNAL_FACE, Origin.APP))
        self._open_localhop()

    def reauthorise(self, authorisation: Authorisation, now: int) -> None:
        """Replace the rules from `now`, ns, on. Commands seen before remain replays."""
        self._authorisation.follow(authorisation, now + self.wall_offset)
        self._open_localhop()

    def _open_localhop(self) -> None:
        """Accept commands from one hop away if any rule allows them."""
        if self._authorisation.is_localhop_enabled:
            self.rib.register(Route(_LOCALHOP_RIB, INTERNAL_FACE, Origin.APP))
        else:
            self.rib.unregister(_LOCALHOP_RIB, INTERNAL_FACE, Origin.APP)

    # Application.

    def receive(self, packet: bytes, now: int) -> None:
        """Receive a packet from the forwarder at `now`, ns since 1970."""
        try:
            header = parse_lp(packet)
            if header.nack_reason is not None or header.fragment[:1] != bytes((INTEREST,)):
                raise MalformedPacket("not an Interest")
            self._on_request(parse_request(parse_interest(header.fragment)), header.incoming_face, now)
        except MalformedPacket:
            self.counters["dropped"] += 1

    def next_deadline(self) -> int | None:
        """Return when wake() is due: when the next route ends."""
        return self.rib.next_deadline()

    def wake(self, now: int) -> None:
        """End routes."""
        self.rib.wake(now)

    # Received packets

    def _on_request(self, request: Request, face: int | None, now: int) -> None:
        parts = request.parts
        name = request.interest.name
        if len(parts) < 4 or any(kind != GENERIC for kind, _ in parts[:3]):
            raise MalformedPacket("no module")
        is_local = name.startswith(LOCALHOST)
        if not is_local and not name.startswith(LOCALHOP):
            raise MalformedPacket("not for the management")
        module = self._modules.get(parts[2][1])
        verb = parts[3][1].decode("ascii", "replace") if parts[3][0] == GENERIC else ""
        command = None if module is None else module.commands.get(verb)
        if module is not None and command is not None:
            self._on_command(request, module, command, face, now, is_local=is_local)
        elif not is_local:
            raise MalformedPacket("from one hop away only commands are taken")
        elif module is not None and verb in module.datasets:
            self._on_query(request, module, verb, now)
        elif module is not None and (module.name, verb) == ("faces", "events"):
            self.counters["queries"] += 1
            self._send(self._events.ask(request.interest, now))
        elif request.signature is not None:
            self._answer(request.interest, ControlResponse(501, "there is no such command"))
        else:
            raise MalformedPacket("neither a command nor a dataset")

    def _on_command(
        self,
        request: Request,
        module: Module,
        command: Command,
        face: int | None,
        now: int,
        *,
        is_local: bool,
    ) -> None:
        interest = request.interest
        try:
            if not is_local and module.name != "rib":
                raise Refusal(403, "from one hop away only routes can be registered")
            parameters, payload = _parameters(request, command)
            call = Call(parameters, face, now, self._replies_to(interest), payload)
            self._authorise(request, module, call, is_local=is_local)
            command.check(parameters)
            response = command.run(call)
        except Refusal as refusal:
            response = refusal.response
        if response is not None:
            self._answer(interest, response)

    def _authorise(self, request: Request, module: Module, call: Call, *, is_local: bool) -> None:
        """Raises Refusal."""
        signature = request.signature
        if signature is None:
            raise Refusal(403, "not signed")
        if is_local:
            privilege = module.name if module.name in MODULES else "faces"
            why = self._authorisation.check(privilege, signature, call.now + self.wall_offset)
        elif call.face is None or (call.parameters.face or call.face) != call.face:
            why = "a neighbour can register routes to itself only"
        else:
            why = self._authorisation.check_localhop(
                _prefix_asked(call), signature, call.now + self.wall_offset
            )
        if why is not None:
            raise Refusal(403, f"authorization rejected: {why}")

    def _on_query(self, request: Request, module: Module, verb: str, now: int) -> None:
        interest = request.interest
        if request.parts[-1][0] in (SEGMENT, VERSION):
            packet = self._datasets.find(interest, now)
            self.counters["dropped" if packet is None else "queries"] += 1
            self._send(packet)
            return
        try:
            content = module.datasets[verb](request.parts[4:], now)
        except Refusal as refusal:
            self.counters["refused"] += 1
            wire = refusal.response.encode()
            self._send(make_data(interest.name, wire, freshness_ms=FRESHNESS_MS, content_type=_NACK_CONTENT))
            return
        self.counters["queries"] += 1
        self._send(self._datasets.publish(interest.name, content, now))

    def _on_face(self, event: FaceEvent, face: Face, now: int) -> None:
        if event is FaceEvent.DESTROYED:
            self.rib.remove_face(face.number)
        for packet in self._events.notify(face_event(event, face), now):
            self._send(packet)

    def _learn(self, face: int, announcement: bytes, now: int) -> None:
        is_learnt = self._routes.learn(face, announcement, now)
        self._stir()
        self.counters["learnt" if is_learnt else "unlearnt"] += 1

    # Sent packets

    def _replies_to(self, interest: Interest) -> Callable[[ControlResponse], None]:
        return lambda response: self._answer(interest, response)

    def _answer(self, interest: Interest, response: ControlResponse) -> None:
        self.counters["commands" if response.code == 200 else "refused"] += 1
        self._send(make_data(interest.name, response.encode(), freshness_ms=FRESHNESS_MS))

    def _send(self, packet: bytes | None) -> None:
        if packet is not None:
            # The content store's room is for Data of others.
            self.outputs.append(make_lp(packet, no_cache=True))


def _parameters(request: Request, command: Command) -> tuple[ControlParameters, bytes]:
    """Return a command's ControlParameters and its payload. Raises Refusal."""
    if command.takes_payload:
        return ControlParameters(), request.parameters or b""
    try:
        kind, wire = request.parts[4] if len(request.parts) > 4 else (0, b"")
        if kind != GENERIC:
            raise MalformedPacket("not there")
        return parse_parameters(wire), b""
    except MalformedPacket as error:
        raise Refusal(400, f"malformed ControlParameters: {error}") from error


def _prefix_asked(call: Call) -> bytes:
    """Return the prefix that a neighbour wants a route for. Raises MalformedPacket."""
    if call.parameters.name is not None:
        return call.parameters.name
    return announcement_in(call.payload).prefix
