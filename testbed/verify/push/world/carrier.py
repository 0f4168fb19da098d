"""Transport of frames: check on sending, fate, and arrival."""

from collections import Counter
from collections.abc import Callable

from base.units import US
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.frames import Frame, describe
from testbed.verify.push.world.invariants import Grants
from testbed.verify.push.world.links import Wire
from testbed.verify.push.world.log import Log
from testbed.verify.push.world.network import Network
from testbed.verify.push.world.sources import Sources
from topologies.emulator.virtual_time import FRAME, VirtualTime

MAX_FRAMES = 10_000
"""A storm: more than any story needs. The longest of some hundreds has 2,000."""
FRAMES_PER_READER = 100
"""Additional frames for each subscription and link."""
MOST_SENT = 64
"""Frames whose order is kept."""
_HEARD = 32  # frames of a link kept for an attacker


class Carrier:
    """Carries the frames of a network.

    Args:
        network: the network.
        time: virtual time.
        log: of frames.
        grants, sources, beside: observers.
        take_in: called when a frame arrives, with its node and a function that receives it.
        receive: called then, with the frame's link direction, bytes and kind.

    Attributes:
        llis: number sent, by sender, receiver and feed.
        under_way: direction, text and kind of each frame in flight.
    """

    def __init__(
        self,
        network: Network,
        time: VirtualTime,
        log: Log,
        observers: tuple[Grants, Sources, ExtraTraffic],
        take_in: Callable[[str, Callable[[], None]], None],
        receive: Callable[[Wire, bytes, str], None],
    ) -> None:
        story = network.story
        self._network = network
        self._time = time
        self._log = log
        self._grants, self._sources, self._beside = observers
        self._take_in = take_in
        self._receive = receive
        self._calm = story.calm * US
        self._most_frames = MAX_FRAMES + FRAMES_PER_READER * len(story.links) * len(story.subscribers)
        self._frames = 0
        self._carried = 0
        self._upstreams: dict[tuple[str, bytes], str] = {}
        self.llis: Counter[tuple[str, str, bytes]] = Counter()
        self.under_way: dict[int, tuple[Wire, str, str]] = {}

    def send(self, wire: Wire, payload: bytes) -> None:
        """Check a sent frame, and transmit it."""
        now, log, cable = self._time.now, self._log, wire.cable
        self._frames += 1
        if self._frames > self._most_frames:
            raise Violation("storm", wire.a, f"more than {self._most_frames} frames")
        frame = wire.reader.read(payload, now)
        text = describe(frame)
        beginnings = self._sources.beginnings
        if wire.watch is not None:
            beginnings = wire.watch.dated(payload, beginnings)
        self._check(wire, frame, text)
        self._watch(wire, frame)
        wire.heard.append(payload)
        del wire.heard[:-_HEARD]
        n = wire.count
        wire.count += 1
        if len(log.outcome.sent) < MOST_SENT:
            log.outcome.sent.append((wire.a, wire.b, n))
        if not cable.up:
            self._drop_frame(wire, text, "cut")
            return
        departure = wire.departure(now, len(payload))
        if cable.link.marks and cable.link.rate_kbit is not None:
            place = self._network.places[wire.a]
            place.host.link(place.faces[wire.b]).set_queue(len(wire.departures) * len(payload), now)
        if departure is None:
            self._drop_frame(wire, text, "queue full")
            return
        fate = wire.fate(n) if now < self._calm else None
        arrival = departure + cable.link.delay * US
        if fate is not None:
            log.count(f"frame {fate.kind}")
            log.outcome.fates.append(fate)
            if fate.kind == "lost":
                self._drop_frame(wire, text, "lost")
                return
            if fate.kind == "late":
                arrival += fate.by * US
                text += " (late)"
            else:
                self._carry(wire, payload, frame, beginnings, text + " (again)", arrival + fate.by * US)
        self._carry(wire, payload, frame, beginnings, text, arrival)

    def _check(self, wire: Wire, frame: Frame, text: str) -> None:
        try:
            if self._beside.has(frame):
                self._beside.sent(wire.a, wire.b, frame)
            else:
                self._grants.sent(wire.a, wire.b, frame, self._time.now)
        except Violation as violation:
            self._log.note(wire.a, wire.b, f"{text} (violates {violation.invariant})")
            raise

    def _watch(self, wire: Wire, frame: Frame) -> None:
        """Count protocol features of a sent frame."""
        count, specs = self._log.count, self._network.specs
        count(f"sent {frame.kind}")
        if frame.kind == "lli":
            self.llis[wire.a, wire.b, frame.feed] += 1
        if frame.kind in ("lli", "interest") and frame.seq:
            key = (wire.a, frame.feed)
            before = self._upstreams.get(key)
            if before is not None and before != wire.b and specs[wire.a].push:
                count("failover")
            self._upstreams[key] = wire.b
        elif frame.kind == "item" and not specs[wire.a].push:
            count("item by a legacy node")
        if frame.mark:
            count("congestion mark")

    def _drop_frame(self, wire: Wire, text: str, why: str) -> None:
        if why != "lost":
            self._log.count(f"frame lost: {why}")
        self._log.note(wire.a, wire.b, f"{text} ({why})", lost=True)

    def _carry(
        self, wire: Wire, payload: bytes, frame: Frame, beginnings: int, text: str, arrival: int
    ) -> None:
        epoch = wire.cable.epoch
        self._carried += 1
        number = self._carried
        self.under_way[number] = (wire, text, frame.kind)

        def arrive() -> None:
            del self.under_way[number]
            if wire.cable.epoch != epoch:
                self._drop_frame(wire, text, "cut")
            else:
                self._take_in(wire.b, receive)

        def receive() -> None:
            self._log.note(wire.a, wire.b, text)
            self._process_frame(wire, payload, frame, beginnings)

        self._time.at(arrival, FRAME, arrive)

    def _process_frame(self, wire: Wire, payload: bytes, frame: Frame, beginnings: int) -> None:
        """Have a node receive a frame; observers are told of the packet that its link passes on."""
        now = self._time.now
        come = frame if wire.watch is None else wire.watch.arrived(payload, now)
        if come is None:
            self._receive(wire, payload, frame.kind)
            return
        self._sources.heard(wire.b, wire.a, come, beginnings)
        if self._beside.has(come):
            self._beside.arrived(wire.b, wire.a, come)
        else:
            if come.kind == "lli" and self._grants.is_rewind(wire.b, wire.a, come):
                self._log.count("rewind")
            self._grants.arrived(wire.b, wire.a, come, now)
        self._receive(wire, payload, come.kind)
