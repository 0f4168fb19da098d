"""Plays a story with the real hosts in virtual time, with observers.

One event queue, ordered by (time, rank, order of scheduling); at one instant alarms come before frames and
these before steps, as in the emulator. A frame's fate depends only on the story's seed, its link, direction
and index there.

A story ends with a calm: links are up, frames have no faults, stalled readers read. Within the promised time
(see promise) every connected subscriber must have everything, or a named error. Then all cancel, and after
the longest lifetime (or earlier, see LONG_NS) no state may be left anywhere; and the last Hello that a node
owes a neighbour goes out before HELLO has passed once more.
"""

from collections import Counter
from collections.abc import Callable

from base.units import SECOND, US
from forwarder.lli.neighbours import HELLO
from testbed.verify.kit.outcome import OutcomeOptions, Violation
from testbed.verify.push.stories.promise import QUOTA_NS, promise
from testbed.verify.push.stories.story import Story
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.carrier import Carrier
from testbed.verify.push.world.happenings import StepRunner
from testbed.verify.push.world.invariants import Grants, check_ended, check_quiet, check_silent
from testbed.verify.push.world.links import Wire
from testbed.verify.push.world.log import Log
from testbed.verify.push.world.network import Network, NodePlace
from testbed.verify.push.world.reach import Reach
from testbed.verify.push.world.sources import Sources
from topologies.emulator.virtual_time import FRAME, OBSERVER, Alarm, VirtualTime

LINGER_NS = 5 * SECOND
"""For frames in flight when all subscriptions end, and for classic Interests, which cannot be cancelled."""
LONG_NS = 30 * SECOND
"""A lifetime too long to wait for at the end of subscriptions."""
MAX_WAKES = 200
"""Alarms of one host at one instant: more is a loop."""


class World:
    """A network that plays a story; see kit.outcome.Playable.

    Features are the states of a node's holders before and after an event, with the event, and the kinds of
    frames in flight. `beside`: the part besides controlled push.
    """

    def __init__(
        self, story: Story, wanted: OutcomeOptions, beside: type[ExtraTraffic] = ExtraTraffic
    ) -> None:
        self._time = time = VirtualTime()
        self.story = story
        self.running = ""
        self._is_watching = wanted.watch
        self._is_well = False
        self._connected: dict[str, set[str]] = {}
        self._log = log = Log(time, keeps_rows=wanted.record)
        self.outcome = log.outcome
        self._beside = beside(story, time, log, self._last())
        self._network = network = Network(story, time, log, self._beside)
        for place in network.places.values():
            place.alarm = self._make_alarm(place)
        self._reach = Reach(network)
        self._sources = Sources(network.places, network.cables, log.count)
        turns = {node.name: node.turn * US for node in story.nodes}
        self._grants = Grants((node.name for node in story.nodes if not node.push), turns)
        observers = (self._grants, self._sources, self._beside)
        self._carrier = Carrier(network, time, log, observers, self._take_in, self._receive)
        self._do = StepRunner(network, time, log, observers, self._process_node, self._deliver).do
        for place in network.places.values():
            network.start(place)

    @property
    def now(self) -> int:
        """The time, ns."""
        return self._time.now

    def _last(self) -> int:
        """Return the time of the last event, ns."""
        story = self.story
        times = [story.calm + (story.converge or 0), *(step.at for step in story.steps)]
        times += [time for log in story.logs for time in log.times]
        times += [wanted.start for wanted in story.follows]
        return max(times) * US

    def play(self) -> None:
        """Play the story; raise Violation."""
        story, places, last = self.story, self._network.places.values(), self._last()
        for step in story.steps:
            self._time.at(step.at * US, OBSERVER, lambda step=step: self._do(step.do, step.what))  # type: ignore[misc]
        self._time.at(story.calm * US, OBSERVER, self._begin_calm)
        self._time.at(last, OBSERVER, self._all_is_well)
        if self._beside.is_there:
            for place in places:
                self._settle(place)
        self._catch_up(last)
        lifetime = self._be_quiet()
        for name, (_, reader) in self._network.readers.items():
            if reader.subscribed:
                self._do("cancel", (name,))
        if self._beside.is_there:
            self._beside.stop()
            for place in places:
                self._process_node(place)
            lifetime = self._beside.longest(lifetime)
        self._time.run(self.now + lifetime + LINGER_NS)
        self._check_ended()
        self._time.run(self.now + HELLO)
        for place in places:
            check_silent(place.name, place.host)

    def _catch_up(self, last: int) -> None:
        """Continue until nobody misses anything."""
        within = self._beside.catch_up if self._beside.is_there else promise(self.story).within
        self._run_until(last + within)
        unsatisfied = self._unsatisfied() if self.story.dead else []
        if unsatisfied and all(self._reach.is_shut_out(name) for name, _ in unsatisfied):
            # Around a dead link nodes ask each other in turn, each until its hop was silent for all tries.
            self._run_until(last + QUOTA_NS * len(self.story.nodes))
        for name, state in self._unsatisfied():
            raise Violation("catch-up", name, f"{state}, {(self.now - last) // SECOND} s after all is well")
        self.outcome.caught_up = self.now - last

    def _run_until(self, until: int) -> None:
        while (time := self._time.next_time()) is not None and time <= until:
            self._time.step()
            if self._is_well and not self._is_anyone_unsatisfied():
                break

    def _unsatisfied(self) -> list[tuple[str, str]]:
        """Return the incomplete applications, and their progress."""
        return self._beside.unsatisfied(self._connected) + self._reach.late()

    def _is_anyone_unsatisfied(self) -> bool:
        return bool(self._beside.unsatisfied(self._connected)) or self._reach.is_anyone_late()

    def _be_quiet(self) -> int:
        """Check for low idle traffic; return the maximum lifetime of state, ns."""
        story, llis = self.story, self._carrier.llis
        lifetimes = [wanted.lifetime_ms for wanted in story.subscribers]
        lifetime = max(lifetimes, default=0) * 1_000_000
        if lifetime != LONG_NS or not all(node.push for node in story.nodes):
            return lifetime
        # Leftovers of the faults are over; then cancelling ends all state at once.
        before = Counter(llis)
        self._time.run(self.now + lifetime)
        check_quiet(llis - before, lifetime // SECOND, min(lifetimes))
        may_wait = story.dead or self._reach.has_quotas  # relays without a source, for each other
        return lifetime if may_wait else 0

    def _check_ended(self) -> None:
        network = self._network
        for place in network.places.values():
            self._beside.check_empty(place.name, place.host)
            for peer, face in place.faces.items():
                if (watch := network.wires[place.name, peer].watch) is not None:
                    watch.check_ended(place.host.link(face))
        self._beside.check_over()
        for place in network.places.values():
            self._sources.ended(place.name)
            check_ended(place.name, place.host)
            for device in place.devices:
                if device.waiting:
                    raise Violation("state-zero", place.name, f"the producer holds {device.waiting} grants")

    def violated(self) -> None:
        """Add the frames in flight to the chart."""
        for wire, text, _ in self._carrier.under_way.values():
            self._log.note(wire.a, wire.b, f"{text} (under way)")

    def digest(self) -> str:
        """Return the hash of every frame, delivery and error, in order."""
        return self._log.digest()

    def _begin_calm(self) -> None:
        self._log.note("", None, "calm")
        for pair in self._network.cables:
            a, b = sorted(pair)
            if (a, b) not in self.story.dead:
                self._do("heal", (a, b))
        for name in self._network.readers:
            self._do("read", (name,))

    def _all_is_well(self) -> None:
        """Mark the end of faults: from now on subscribers have time to catch up."""
        self._is_well = True
        if self._beside.is_there:
            self._connected = {node: self._reach.nodes(node) for node in self._network.places}
        self._reach.find_all()

    def _settle(self, place: NodePlace) -> None:
        """Send a host's output, and set its alarm."""
        outputs = place.host.take_outputs()  # ends deferred work
        self._sources.acted(place.name, self.now)
        for face, payload, _ in outputs:
            if face in place.peers:  # it may just have been removed
                self._carrier.send(self._network.wires[place.name, place.peers[face]], payload)
        self._beside.settled(place.name)
        place.alarm.set(place.host.next_deadline())

    def _make_alarm(self, place: NodePlace) -> Alarm:
        def stuck() -> None:
            raise Violation("spin", place.name, f"wants to be woken again and again at {self.now} ns")

        def ring() -> None:
            if self.now < place.free_at:
                place.alarm.set(place.free_at)
            else:
                self._process_node(place)

        return Alarm(self._time, ring, MAX_WAKES, stuck)

    def _process_node(self, place: NodePlace) -> None:
        """Have a node take a turn: receive the waiting frames, process deadlines, send."""
        self._receive_waiting(place)
        self.running = place.name
        before = self._holders(place)
        place.host.wake(self.now)
        self._note_feature(place, before, "alarm")
        self._end_turn(place)

    def _take_in(self, node: str, receive: Callable[[], None]) -> None:
        """Have a node receive a frame: in a turn of its own, or while it is busy in the next."""
        place = self._network.places[node]
        place.waiting.append(receive)
        if self.now >= place.free_at:
            self._receive_waiting(place)
            self._end_turn(place)

    def _receive_waiting(self, place: NodePlace) -> None:
        waiting, place.waiting = place.waiting, []
        self._grants.turn_begins()
        for number, receive in enumerate(waiting):
            if number:  # else nothing has happened since the last turn
                self._sources.saw(place.name, self.now)
                self._grants.may_have_sent()
            receive()

    def _end_turn(self, place: NodePlace) -> None:
        self._settle(place)
        turn = self._network.specs[place.name].turn
        if turn:
            place.free_at = self.now + turn * US
            self._time.at(place.free_at, FRAME, lambda: self._go_on(place))

    def _go_on(self, place: NodePlace) -> None:
        if place.waiting and self.now >= place.free_at:
            self._process_node(place)

    def _receive(self, wire: Wire, payload: bytes, kind: str) -> None:
        place = self._network.places[wire.b]
        self.running = place.name
        before = self._holders(place)
        place.host.receive(place.faces[wire.a], payload, None, self.now)
        self._note_feature(place, before, kind)

    def _deliver(self, wire: Wire, payload: bytes, kind: str) -> None:
        """Have a node receive a frame, and send, at once."""
        self._receive(wire, payload, kind)
        self._settle(self._network.places[wire.b])

    def _holders(self, place: NodePlace) -> tuple[str, ...]:
        """Describe the holders of a node's feeds, if features are requested."""
        feeds = place.host.forwarder.feeds
        if not self._is_watching or feeds is None:
            return ()
        return tuple(
            f"{'' if entry.face is None else entry.upstream.state.value} {min(len(entry.ranges), 2)}"
            f"{' past' * (entry.backfill is not None)}{' fork' * (entry.cache.fork is not None)}"
            f"{' gap' * (entry.upstream.next < entry.upstream.head)}"
            for entry in feeds
        )

    def _note_feature(self, place: NodePlace, before: tuple[str, ...], event: str) -> None:
        if self._is_watching:
            under_way = frozenset(kind for _, _, kind in self._carrier.under_way.values())
            self.outcome.features.add((before, event, self._holders(place), under_way))
