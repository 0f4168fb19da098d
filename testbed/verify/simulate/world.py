"""Plays a story with the real hosts in virtual time, under the observers' eyes.

One event queue, ordered by (time, rank, order of scheduling); at one instant alarms come before frames and
these before steps, as in the emulator. A frame's fate depends on the story's seed, its link, its direction
and its number there, and on nothing else.

A story ends with a calm: links are up, nothing befalls frames, stalled readers read. Within the time that is
promised (see promise) every subscriber that is connected must have everything, or a named error. Then all
cancel, and when the longest lifetime is over (or soon, see LONG_NS) nothing may be left anywhere.
"""

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from base.units import SECOND, US
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.upstream import Recovery
from testbed.verify.simulate.actors import Device, Reader, Target, inject
from testbed.verify.simulate.classic import CLASSIC_CATCH_UP_NS, Classic
from testbed.verify.simulate.feeds import items_of, name_of, signer_of
from testbed.verify.simulate.frames import Frame, describe
from testbed.verify.simulate.frames import Reader as FrameReader
from testbed.verify.simulate.invariants import Delivery, Grants, Violation, check_ended, check_quiet, digest
from testbed.verify.simulate.links import Cable, Wire, routes
from testbed.verify.simulate.linkwatch import LinkWatch
from testbed.verify.simulate.place import Place
from testbed.verify.simulate.promise import QUOTA_NS, promise
from testbed.verify.simulate.sources import Sources
from testbed.verify.simulate.story import MISCHIEF, Fate, Story
from topologies.emulator.virtual_time import FRAME, OBSERVER, Alarm, VirtualTime

LINGER_NS = 5 * SECOND
"""For what is on its way when all subscriptions end, and for classic Interests that nobody can take back."""
LONG_NS = 30 * SECOND
"""A lifetime that nobody should have to sit out for subscriptions to end."""
MAX_FRAMES = 10_000
"""More than any story needs: a storm. The longest of some hundreds has 2,000."""
FRAMES_PER_READER = 100
"""More for each subscription and link."""
MAX_WAKES = 200
"""Alarms of one host at one instant: more is a loop."""

MOST_SENT = 64
"""Frames whose order is remembered."""

_MARKING_BYTES = 3000
"""A queue that is too long, on a link whose ends mark congestion."""
_HEARD = 32  # frames of a link that an attacker remembers


Feature = tuple[tuple[str, ...], str, tuple[str, ...], frozenset[str]]
"""What the holders of a node were, what came in, what they are then, and the kinds of frames under way."""


class Row(NamedTuple):
    """A line for the chart: at `time` (ns), from `a` to `b` (or at `a` alone), `text`."""

    time: int
    a: str
    b: str | None
    text: str
    lost: bool = False


@dataclass
class Outcome:
    """What became of a story.

    Attributes:
        violation: the invariant that did not hold, None if all did.
        time: when the story ended, ns.
        digest: hash of every frame, delivery and error, in order.
        coverage: how often what happened.
        rows: for the chart, if they were asked for.
        fates: what befell frames.
        sent: the first MOST_SENT frames: from, to, and which of that link and direction.
        features: which holder did what with what, if they were asked for.
        caught_up: ns from the last disturbance until everyone had everything; None if not so far.
    """

    violation: Violation | None = None
    time: int = 0
    digest: str = ""
    coverage: Counter[str] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    sent: list[tuple[str, str, int]] = field(default_factory=list)
    features: set[Feature] = field(default_factory=set)
    caught_up: int | None = None


def watched(run: Callable[[Outcome], None], where: str) -> Outcome:
    """Return the outcome that `run` fills in, with the invariant that did not hold, if any.

    `where` names the world whose nodes may want to be woken for ever.
    """
    outcome = Outcome()
    try:
        run(outcome)
    except Violation as violation:
        outcome.violation = violation
    except RuntimeError as error:  # a node that wants to be woken for ever
        outcome.violation = Violation("time", where, str(error))
    return outcome


def play(story: Story, *, record: bool = False, watch: bool = False) -> Outcome:
    """Play a story to its end or to the first invariant that does not hold.

    `record` keeps the rows, `watch` the features.
    """
    world = _World(story, record=record, watch=watch)
    try:
        world.play()
    except Violation as violation:
        world.outcome.violation = violation
        world.note_under_way()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
        world.outcome.violation = Violation("crash", world.running, where)
    world.outcome.time = world.now
    world.outcome.digest = world.hasher.hexdigest()
    return world.outcome


class _World(VirtualTime):
    def __init__(self, story: Story, *, record: bool, watch: bool = False) -> None:
        super().__init__()
        self.story = story
        self.running = ""
        self.outcome = Outcome()
        self.hasher = hashlib.blake2b(digest_size=16)
        self._record = record
        self._is_watching = watch
        self._is_well = False
        self._late: str | None = None
        self._connected: dict[str, set[str]] = {}
        self._reached: dict[tuple[str, int], set[str]] = {}
        self._frames = 0
        self._most_frames = MAX_FRAMES + FRAMES_PER_READER * len(story.links) * len(story.subscribers)
        self._carried = 0
        self._has_quotas = any(node.cache_feeds < len(story.feeds) for node in story.nodes)
        self._has_legacy = not all(node.push for node in story.nodes)
        self._under_way: dict[int, tuple[Wire, str, str]] = {}
        self._calm = story.calm * US
        self._grants = Grants(node.name for node in story.nodes if not node.push)
        self._llis: Counter[tuple[str, str, bytes]] = Counter()
        self._upstreams: dict[tuple[str, bytes], str] = {}
        self._specs = {node.name: node for node in story.nodes}
        self._places = {node.name: Place(node.name) for node in story.nodes}
        for place in self._places.values():
            place.alarm = self._make_alarm(place)
        self._cables = {frozenset((link.a, link.b)): Cable(link) for link in story.links}
        self._wires: dict[tuple[str, str], Wire] = {}
        self._cables_at: dict[str, dict[str, Cable]] = {node.name: {} for node in story.nodes}
        for cable in self._cables.values():
            a, b = cable.link.a, cable.link.b
            self._wires[a, b] = Wire(cable, a, b, story)
            self._wires[b, a] = Wire(cable, b, a, story)
            self._cables_at[a][b] = self._cables_at[b][a] = cable
        self._sources = Sources(self._places, self._cables, self._count)
        self._devices: dict[tuple[int, int], tuple[str, Device]] = {}
        self._names = [name_of(feed) for feed in story.feeds]
        self._publishers: list[list[Device]] = [[] for _ in story.feeds]
        for index, feed in enumerate(story.feeds):
            for number, node in enumerate(feed.devices):
                device = Device(self._names[index], items_of(feed, number), signer_of(feed))
                self._devices[index, number] = (node, device)
                self._publishers[index].append(device)
                self._places[node].devices.append(device)
        self._readers: dict[str, tuple[str, Reader]] = {}
        for wanted in story.subscribers:
            reader = self._make_reader(wanted.name)
            self._readers[wanted.name] = (wanted.node, reader)
            self._places[wanted.node].readers.append(reader)
        self._origins = [feed.devices for feed in story.feeds]
        self._routes = routes(story, self._origins)
        self._classic: Classic | None = None
        if story.is_classic:
            last = self._last()
            self._classic = Classic(story, last, self._note_at, self._count)
            for cable in self._cables.values():
                self._watch_link(cable)
        for place in self._places.values():
            self._start(place)

    def _last(self) -> int:
        """Return when the last thing happens, ns."""
        story = self.story
        times = [story.calm + (story.converge or 0), *(step.at for step in story.steps)]
        times += [time for log in story.logs for time in log.times]
        times += [wanted.start for wanted in story.follows]
        return max(times) * US

    def _watch_link(self, cable: Cable) -> None:
        """Let observers that know NDNLPv2 read the frames of a link."""
        link = cable.link
        there, back = (
            LinkWatch(a, b, link.mtu, is_reliable=link.reliable)
            for a, b in ((link.a, link.b), (link.b, link.a))
        )
        there.back, back.back = back, there
        self._wires[link.a, link.b].reader = self._wires[link.a, link.b].watch = there
        self._wires[link.b, link.a].reader = self._wires[link.b, link.a].watch = back

    def play(self) -> None:
        """Play the story."""
        story = self.story
        for step in story.steps:
            self.at(step.at * US, OBSERVER, lambda step=step: self._do(step.do, step.what))  # type: ignore[misc]
        self.at(self._calm, OBSERVER, self._begin_calm)
        last = self._last()
        self.at(last, OBSERVER, self._all_is_well)
        if self._classic is not None:
            for place in self._places.values():
                self._settle(place)
        self._catch_up(last + (promise(story).within if self._classic is None else CLASSIC_CATCH_UP_NS))
        unsatisfied = self._unsatisfied() if story.dead else []
        if unsatisfied and all(self._is_shut_out(name) for name, _ in unsatisfied):
            # Around a dead link nodes ask each other in turn, each until its hop was silent for all tries.
            self._catch_up(last + QUOTA_NS * len(story.nodes))
        self._check_caught_up(last)
        lifetime = max((wanted.lifetime_ms for wanted in story.subscribers), default=0) * 1_000_000
        if lifetime == LONG_NS and all(node.push for node in story.nodes):
            # What was left behind while all went wrong is over; then cancelling ends all there is, at once.
            before = Counter(self._llis)
            self.run(self.now + lifetime)
            shortest = min(wanted.lifetime_ms for wanted in story.subscribers)
            check_quiet(self._llis - before, lifetime // SECOND, shortest)
            may_wait = story.dead or self._has_quotas  # relays without a source, for each other
            lifetime = lifetime if may_wait else 0
        for name, (_, reader) in self._readers.items():
            if reader.subscribed:
                self._do("cancel", (name,))
        if self._classic is not None:
            self._classic.stop(self.now)
            for place in self._places.values():
                self._prod(place)
            lifetime = self._classic.longest(lifetime, self.now)
        self.run(self.now + lifetime + LINGER_NS)
        if self._classic is not None:
            self._check_classic(self._classic)
        for place in self._places.values():
            self._sources.ended(place.name)
            check_ended(place.name, place.host)
            for device in place.devices:
                if device.waiting:
                    raise Violation("state-zero", place.name, f"the producer holds {device.waiting} grants")

    def _catch_up(self, until: int) -> None:
        """Go on until nobody misses anything, or to the end."""
        while (time := self.next_time()) is not None and time <= until:
            self.step()
            if self._is_well and not self._is_anyone_unsatisfied():
                break

    def _check_classic(self, classic: Classic) -> None:
        for place in self._places.values():
            classic.check_empty(place.name, place.host, self.now)
            for peer, face in place.faces.items():
                if (watch := self._wires[place.name, peer].watch) is not None:
                    watch.check_ended(place.host.link(face))
        classic.check_over()

    def step(self) -> None:
        """Let the next event happen, and the observers know the time."""
        time = self.next_time()
        if self._classic is not None and time is not None:
            self._classic.exchanges.now = time
        super().step()

    def note_under_way(self) -> None:
        """Note the frames that have been sent and have not arrived."""
        for wire, text, _ in self._under_way.values():
            self._note(wire.a, wire.b, f"{text} (under way)")

    def _count(self, what: str) -> None:
        self.outcome.coverage[what] += 1

    def _note(self, a: str, b: str | None, text: str, *, lost: bool = False) -> None:
        self.hasher.update(f"{self.now} {a} {b} {text} {lost};".encode())
        if self._record:
            self.outcome.rows.append(Row(self.now, a, b, text, lost))

    def _note_at(self, node: str, text: str) -> None:
        self._note(node, None, text)

    # Catching up

    def _unsatisfied(self) -> list[tuple[str, str]]:
        """Return the applications that still miss something, and what they have."""
        unsatisfied = [] if self._classic is None else self._classic.unsatisfied(self._connected, self.now)
        late = (name for name in self._readers if self._misses_something(name))
        return unsatisfied + [(name, self._readers[name][1].delivery.progress) for name in late]

    def _is_anyone_unsatisfied(self) -> bool:
        """Tell whether some application misses something; look at the one that did so before first."""
        if self._classic is not None and self._classic.unsatisfied(self._connected, self.now):
            return True
        if self._late is not None and self._misses_something(self._late):
            return True
        self._late = next((name for name in self._readers if self._misses_something(name)), None)
        return self._late is not None

    def _misses_something(self, name: str) -> bool:
        """Tell whether a reader that can have everything has not."""
        node, reader = self._readers[name]
        index = reader.wanted.feed
        published = min(device.published for device in self._publishers[index])
        if not reader.subscribed or reader.delivery.is_done(published):
            return False
        if self._has_quotas and reader.last_error is not None and self._is_anyone_full():
            return False
        if self._has_legacy and self.story.feeds[index].fork is not None:
            return False  # a proof does not cross a forwarder that nobody has asked for it
        if self._reached_from(node, index).isdisjoint(self.story.feeds[index].devices):
            return False
        return not self._is_shut_out(name, unheard=True)

    def _is_anyone_full(self) -> bool:
        """Tell whether some node has no place for another feed now."""
        tables = {name: place.host.forwarder.feeds for name, place in self._places.items()}
        return any(
            table is not None and len(table) >= self._specs[name].cache_feeds
            for name, table in tables.items()
        )

    def _reached_from(self, node: str, feed: int) -> set[str]:
        """Return the nodes that a node's Interests for a feed get to, since all is well."""
        reached = self._reached.get((node, feed))
        if reached is None:
            reached = self._reached[node, feed] = self._reachable(node, feed)
        return reached

    def _is_shut_out(self, name: str, *, unheard: bool = False) -> bool:
        """Tell whether each way from a subscriber to its feed passes a forwarder that has no place for it.

        `unheard`: and whether a legacy forwarder lies before those.

        That one refuses, but the Nack may not come through. Of two Interests with one name, a legacy
        forwarder may send both to one next hop, which takes the second for a repetition of the first, and
        refuses that alone. And where a link is dead and nobody has been told, nodes ask each other for long.
        """
        if not self._has_quotas or name not in self._readers:
            return False
        node, reader = self._readers[name]
        index = reader.wanted.feed
        full = {
            place.name
            for place in self._places.values()
            if (feeds := place.host.forwarder.feeds) is not None
            and len(feeds) >= feeds.store.max_feeds
            and feeds.store.find(self._names[index]) is None
        }
        reached = self._reachable(node, index, full)
        if unheard and all(self._specs[place].push for place in reached):
            return False
        return reached.isdisjoint(self.story.feeds[index].devices)

    def _check_caught_up(self, last: int) -> None:
        for name, state in self._unsatisfied():
            raise Violation("catch-up", name, f"{state}, {(self.now - last) // SECOND} s after all is well")
        self.outcome.caught_up = self.now - last

    def _reachable(self, node: str, feed: int | None, full: Container[str] = ()) -> set[str]:
        """Return the nodes that a node is connected with, or that its Interests for a feed get to.

        They get no further than to those that are `full`.
        """
        ways = [(node, "")] * (node not in full)
        known = set(ways)
        for place, before in ways:  # grows as it goes
            onward = [peer for peer in self._onward(place, before, feed) if peer not in full]
            new = [(peer, place) for peer in onward if (peer, place) not in known]
            known.update(new)
            ways += new
        return {place for place, _ in ways}

    def _onward(self, place: str, before: str, feed: int | None) -> list[str]:
        """Return the neighbours that an Interest for a feed goes on to, which has come from `before`.

        It never goes back there. A legacy forwarder asks others than its cheapest hop only while that one
        keeps silent. Refused, it begins anew with the cheapest, for ever: where that leads back or has no
        other way, classic NDN finds none, either.
        """
        cables = self._cables_at[place]
        if feed is None or self._specs[place].push:
            return [peer for peer, cable in cables.items() if cable.up and peer != before]
        faces = self._places[place].faces
        ways = sorted(self._routes[place][feed], key=lambda way: (way[1], faces[way[0]]))  # as in the FIB
        hops = [peer for peer, _ in ways if peer != before]
        known = [peer for peer in hops if cables[peer].up or not cables[peer].signalled]
        up = [peer for peer in known if cables[peer].up]
        return up[:1] if up[:1] == known[:1] else up

    def _all_is_well(self) -> None:
        """Nothing more happens: from now on subscribers have time to catch up."""
        self._is_well = True
        if self._classic is not None:
            self._connected = {node: self._reachable(node, None) for node in self._places}
        for node, reader in self._readers.values():
            self._reached_from(node, reader.wanted.feed)

    def _begin_calm(self) -> None:
        self._note("", None, "calm")
        for pair in self._cables:
            a, b = sorted(pair)
            if (a, b) not in self.story.dead:
                self._do("heal", (a, b))
        for name in self._readers:
            self._do("read", (name,))

    # Nodes

    def _start(self, place: Place) -> None:
        """Make a node's host, from nothing."""
        spec, story = self._specs[place.name], self.story
        store = FeedStore(max_feeds=spec.cache_feeds, max_items=spec.cache_items)
        forwarder = Forwarder(
            rng=Random(f"{story.seed} {place.name} {place.starts}"),
            cs_capacity=spec.packets,
            pit_capacity=spec.pending,
            controlled_push=spec.push,
            feed_store=store,
            recovery=Recovery(spec.recovery),
            persistent=any(log.layering == "persistent" for log in story.logs),
        )
        place.starts += 1
        place.host = host = Host(forwarder)
        place.alarm.clear()
        place.faces = {}
        place.peers = {}
        for (a, _), wire in self._wires.items():
            if a == place.name:
                self._add_face(place, wire)
        for device in place.devices:
            forwarder.fib.add(device.feed, host.attach(device))
        for reader in place.readers:
            host.attach(reader)
        if self._classic is not None:
            self._classic.start(spec, host)

    def _add_face(self, place: Place, wire: Wire) -> None:
        """Make a node's face to the far end of a wire."""
        host, link = place.host, wire.cable.link
        rate = link.rate_kbit
        number = host.add_link(link.mtu, rate / 1000 if rate is not None else None)
        place.faces[wire.b] = number
        place.peers[number] = wire.b
        face = host.forwarder.faces[number]
        face.is_reliable = link.reliable
        face.is_marking = link.marks
        face.marking_threshold = _MARKING_BYTES
        host.configure(number)
        if wire.watch is None:
            wire.reader = FrameReader()
        else:
            self._link_began(wire.a, wire.b)
        for feed, hops in zip(self._names, self._routes[place.name], strict=True):
            for hop, cost in hops:
                if hop == wire.b:
                    host.forwarder.fib.add(feed, number, cost)
        if self._classic is not None:
            self._classic.route(place.name, host.forwarder, wire.b, number)
        if not wire.cable.up and wire.cable.signalled:
            host.set_link(number, up=False, now=self.now)

    def _link_began(self, node: str, peer: str) -> None:
        """Note that a node's link service has begun anew."""
        sending, receiving = self._wires[node, peer].watch, self._wires[peer, node].watch
        if sending is not None and receiving is not None:
            sending.sender_began()
            receiving.receiver_began()

    def _reroute_later(self) -> None:
        """Let routes follow what links do, after some time."""
        if self.story.converge is not None:
            self.at(self.now + self.story.converge * US, OBSERVER, self._reroute)

    def _reroute(self) -> None:
        down = {pair for pair, cable in self._cables.items() if not cable.up}
        before, self._routes = self._routes, routes(self.story, self._origins, down)
        self._note("", None, "routes converge")
        for place in self._places.values():
            fib = place.host.forwarder.fib
            changed = False
            for feed, old, new in zip(self._names, before[place.name], self._routes[place.name], strict=True):
                for peer, _ in set(old) - set(new):
                    fib.remove(feed, place.faces[peer])
                for peer, cost in set(new) - set(old):
                    fib.add(feed, place.faces[peer], cost)
                changed = changed or old != new
            if changed:
                self._prod(place)

    def _make_reader(self, name: str) -> Reader:
        wanted = next(w for w in self.story.subscribers if w.name == name)
        feed = self.story.feeds[wanted.feed]
        branches = [
            tuple(item.content for item in items_of(feed, number)) for number in range(len(feed.devices))
        ]

        def report(now: int, text: str) -> None:
            self._note(wanted.node, None, f"{name} {text}")
            self._count("delivered" if "item" in text else f"error {text.rpartition(' ')[2]}")

        return Reader(
            wanted,
            self._names[wanted.feed],
            lambda after: Delivery(name, branches, feed.fork, after),
            Random(f"{self.story.seed} {name}"),
            report,
        )

    def _settle(self, place: Place) -> None:
        """Send what a host has put out, and set its alarm."""
        outputs = place.host.take_outputs()  # which ends work that was put off
        self._sources.acted(place.name, self.now)
        for face, payload, _ in outputs:
            if face in place.peers:  # it may just have been removed
                self._transmit(self._wires[place.name, place.peers[face]], payload)
        if self._classic is not None:
            self._classic.exchanges.check_settled(place.name, self.now)
        place.alarm.set(place.host.next_deadline())

    def _make_alarm(self, place: Place) -> Alarm:
        def stuck() -> None:
            raise Violation("spin", place.name, f"wants to be woken again and again at {self.now} ns")

        return Alarm(self, lambda: self._prod(place), MAX_WAKES, stuck)

    def _prod(self, place: Place) -> None:
        self.running = place.name
        before = self._holders(place)
        place.host.wake(self.now)
        self._note_feature(place, before, "alarm")
        self._settle(place)

    # Frames

    def _transmit(self, wire: Wire, payload: bytes) -> None:
        self._frames += 1
        if self._frames > self._most_frames:
            raise Violation("storm", wire.a, f"more than {self._most_frames} frames")
        frame = wire.reader.read(payload, self.now)
        text = describe(frame)
        try:
            if self._classic is None or self._is_push(frame):
                self._grants.sent(wire.a, wire.b, frame, self.now)
            else:
                self._classic.exchanges.sent(wire.a, wire.b, frame, self.now)
        except Violation as violation:
            self._note(wire.a, wire.b, f"{text} ({violation.invariant})")
            raise
        self._watch(wire, frame)
        wire.heard.append(payload)
        del wire.heard[:-_HEARD]
        n = wire.count
        wire.count += 1
        if len(self.outcome.sent) < MOST_SENT:
            self.outcome.sent.append((wire.a, wire.b, n))
        cable = wire.cable
        if not cable.up:
            self._lose(wire, text, "cut")
            return
        departure = wire.departure(self.now, len(payload))
        if cable.link.marks and cable.link.rate_kbit is not None:
            place = self._places[wire.a]
            waiting = len(wire.departures) * len(payload)
            place.host.link(place.faces[wire.b]).set_queue(waiting, self.now)
        if departure is None:
            self._lose(wire, text, "queue full")
            return
        fate = wire.fate(n) if self.now < self._calm else None
        arrival = departure + cable.link.delay * US
        if fate is not None:
            self._count(f"frame {fate.kind}")
            self.outcome.fates.append(fate)
            if fate.kind == "lost":
                self._lose(wire, text, "lost")
                return
            if fate.kind == "late":
                arrival += fate.by * US
                text += " (late)"
            else:
                self._carry(wire, payload, frame, text + " (again)", arrival + fate.by * US)
        self._carry(wire, payload, frame, text, arrival)

    def _is_push(self, frame: Frame) -> bool:
        """Whether a frame is of a feed that is pushed, or of all of them."""
        return frame.feed in self._names or frame.hello is not None

    def _lose(self, wire: Wire, text: str, why: str) -> None:
        if why != "lost":
            self._count(f"frame lost: {why}")
        self._note(wire.a, wire.b, f"{text} ({why})", lost=True)

    def _carry(self, wire: Wire, payload: bytes, frame: Frame, text: str, arrival: int) -> None:
        epoch = wire.cable.epoch
        self._carried += 1
        number = self._carried
        self._under_way[number] = (wire, text, frame.kind)
        process = self._places[wire.a].starts

        def arrive() -> None:
            del self._under_way[number]
            self._arrive(wire, payload, frame, text, epoch, process)

        self.at(arrival, FRAME, arrive)

    def _arrive(self, wire: Wire, payload: bytes, frame: Frame, text: str, epoch: int, process: int) -> None:
        if wire.cable.epoch != epoch:
            self._lose(wire, text, "cut")
            return
        self._note(wire.a, wire.b, text)
        self._sources.heard(wire.b, wire.a, frame, process)
        if wire.watch is not None:
            come = wire.watch.arrived(payload, self.now)
            if come is None or self._classic is None:
                self._deliver(wire, payload, frame.kind)
                return
            frame = come
            if not self._is_push(frame):
                self._classic.exchanges.arrived(wire.b, wire.a, frame, self.now)
                self._deliver(wire, payload, frame.kind)
                return
        if frame.kind == "lli" and self._grants.is_rewind(wire.b, wire.a, frame):
            self._count("rewind")
        self._grants.arrived(wire.b, wire.a, frame, self.now)
        self._deliver(wire, payload, frame.kind)

    def _deliver(self, wire: Wire, payload: bytes, kind: str) -> None:
        place = self._places[wire.b]
        self.running = place.name
        before = self._holders(place)
        place.host.receive(place.faces[wire.a], payload, None, self.now)
        self._note_feature(place, before, kind)
        self._settle(place)

    def _holders(self, place: Place) -> tuple[str, ...]:
        """Describe what a node's holders are up to, if anybody wants to know."""
        feeds = place.host.forwarder.feeds
        if not self._is_watching or feeds is None:
            return ()
        return tuple(
            f"{'' if entry.face is None else entry.upstream.state.value} {min(len(entry.ranges), 2)}"
            f"{' past' * (entry.backfill is not None)}{' fork' * (entry.cache.fork is not None)}"
            f"{' gap' * (entry.upstream.next < entry.upstream.head)}"
            for entry in feeds
        )

    def _note_feature(self, place: Place, before: tuple[str, ...], event: str) -> None:
        if self._is_watching:
            under_way = frozenset(kind for _, _, kind in self._under_way.values())
            self.outcome.features.add((before, event, self._holders(place), under_way))

    def _watch(self, wire: Wire, frame: Frame) -> None:
        """Count what a sent frame shows of the protocol at work."""
        self._count(f"sent {frame.kind}")
        if frame.kind == "lli":
            self._llis[wire.a, wire.b, frame.feed] += 1
        if frame.kind in ("lli", "interest") and frame.seq:
            key = (wire.a, frame.feed)
            before = self._upstreams.get(key)
            if before is not None and before != wire.b and self._specs[wire.a].push:
                self._count("failover")
            self._upstreams[key] = wire.b
        elif frame.kind == "item" and not self._specs[wire.a].push:
            self._count("item by a legacy node")
        if frame.mark:
            self._count("congestion mark")

    # Steps

    def _do(self, do: str, what: tuple[str | int, ...]) -> None:
        """Let a step happen; one that makes no sense (any more) is nothing."""
        match do, what:
            case "publish", (int(index), int(number), int(items)) if (index, number) in self._devices:
                node, device = self._devices[index, number]
                self._note(node, None, f"publishes {items} of feed {index}")
                device.publish(items, self.now)
                fork = self.story.feeds[index].fork
                if fork is not None and number and device.published >= fork:
                    self._count("published after a fork")
                self._prod(self._places[node])
            case (("subscribe" | "cancel" | "stall" | "read"), (str(name),)) if name in self._readers:
                node, reader = self._readers[name]
                self._act(do, reader)
                self._prod(self._places[node])
            case "cut", (str(a), str(b), int(signalled)) if (a, b) in self._wires:
                self._cut(a, b, bool(signalled))
            case "heal", (str(a), str(b)) if (a, b) in self._wires:
                self._heal(a, b)
            case "restart", (str(node), int(signalled)) if node in self._places:
                self._restart(self._places[node], bool(signalled))
            case "renew", (str(a), str(b)) if (a, b) in self._wires:
                self._renew(self._places[a], b)
            case "ask", (str(node), str(application), str(prefix), *rest) if self._classic is not None:
                if self._classic.ask(node, application, prefix, tuple(rest), self.now):
                    self._prod(self._places[node])
            case "inject", (str(a), str(b), str(kind), int(salt)) if (a, b) in self._wires:
                self._inject(self._wires[a, b], kind, salt)

    def _act(self, do: str, reader: Reader) -> None:
        if do == "subscribe" and not reader.subscribed:
            self._count("come again" if reader.held else "subscribe")
            self._note(reader.wanted.node, None, f"{reader.wanted.name} subscribes after {reader.held}")
            reader.subscribe(self.now)
        elif do == "cancel" and reader.subscribed:
            self._count("cancel")
            self._note(reader.wanted.node, None, f"{reader.wanted.name} cancels")
            reader.cancel(self.now)
        elif do == "stall":
            self._count("stall")
            self._note(reader.wanted.node, None, f"{reader.wanted.name} stalls")
            reader.stall()
        elif do == "read":
            reader.read(self.now)

    def _cut(self, a: str, b: str, signalled: bool) -> None:
        cable = self._wires[a, b].cable
        if not cable.up:
            return
        cable.up = False
        cable.epoch += 1
        cable.signalled = signalled
        self._count("cut, signalled" if signalled else "cut, silent")
        self._note(a, b, "link cut" + (", both told" if signalled else ", nobody told"), lost=True)
        if signalled:
            self._signal(a, b, up=False)
        self._sources.changed(self.now)
        self._reroute_later()

    def _heal(self, a: str, b: str) -> None:
        cable = self._wires[a, b].cable
        if cable.up:
            return
        cable.up = True
        self._count("heal")
        self._note(a, b, "link up")
        if cable.signalled:
            self._signal(a, b, up=True)
        self._sources.changed(self.now)
        self._reroute_later()

    def _signal(self, a: str, b: str, *, up: bool) -> None:
        for node, peer in ((a, b), (b, a)):
            place = self._places[node]
            self.running = node
            if not up:
                self._forget(node, peer)
            self._link_began(node, peer)
            place.host.set_link(place.faces[peer], up=up, now=self.now)
            self._prod(place)

    def _forget(self, node: str, peer: str | None = None) -> None:
        """Void what a neighbour, or everyone, has asked of a node."""
        self._grants.forget(node, peer)
        if self._classic is not None:
            self._classic.exchanges.forget(node, peer)

    def _renew(self, place: Place, peer: str) -> None:
        """Let a node remove its face to a neighbour, and make another; the neighbour is not told."""
        self._count("face made anew")
        self._note(place.name, None, f"makes a new face to {peer}")
        host, face = place.host, place.faces[peer]
        self._forget(place.name, peer)
        del place.peers[face]
        host.remove_face(face, self.now)
        self._add_face(place, self._wires[place.name, peer])
        self._prod(place)

    def _restart(self, place: Place, signalled: bool) -> None:
        self._count("restart")
        self._note(place.name, None, "restarts")
        peers = [peer for peer in place.faces if self._wires[place.name, peer].cable.up]
        self._forget(place.name)
        self._sources.restarts(place.name, self.now)
        for device in place.devices:
            device.restart()
        self._start(place)
        self._sources.changed(self.now)
        for reader in place.readers:
            reader.restart(self.now)
        self._prod(place)
        if signalled:
            for up in (False, True):
                for peer in peers:
                    other = self._places[peer]
                    self.running = peer
                    if not up:
                        self._forget(peer, place.name)
                    self._link_began(peer, place.name)
                    other.host.set_link(other.faces[place.name], up=up, now=self.now)
                    self._prod(other)

    def _inject(self, wire: Wire, kind: str, salt: int) -> None:
        """Let an attacker's frame arrive; unless it is a valid one, it must change nothing but counters."""
        if not wire.cable.up:
            return
        index = salt // 2 % len(self.story.feeds)
        feeds = self._places[wire.b].host.forwarder.feeds
        if feeds is None or feeds.store.find(self._names[index]) is None:
            return  # who does not check items may be fooled: that is why feeds are checked
        device = self._devices[index, 0][1]
        target = Target(
            self._names[index], items_of(self.story.feeds[index], 0), device.published, wire.heard
        )
        payload = inject(kind, salt, target)
        if payload is None:
            return
        self._count(f"injected {kind}")
        self._note(wire.a, wire.b, f"injected: {kind}")
        if kind in MISCHIEF:
            frame = FrameReader().read(payload, self.now)
            self._sources.heard(wire.b, wire.a, frame, 1)  # it may have been recorded in the first process
            self._grants.arrived(wire.b, wire.a, frame, self.now)  # the attacker's LLI is an LLI
            self._deliver(wire, payload, kind)
            return
        host = self._places[wire.b].host
        before = digest(host)
        self._deliver(wire, payload, kind)
        if digest(host) != before:
            raise Violation("forgery", wire.b, f"an injected packet ({kind}) has changed state")
