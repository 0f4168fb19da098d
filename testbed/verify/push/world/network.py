"""The nodes and links of a simulated network, its applications, and its routes."""

from collections.abc import Callable
from random import Random

from base.units import US
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.upstream import Recovery
from testbed.verify.push.stories.feeds import items_of, name_of, signer_of
from testbed.verify.push.stories.story import Story, Subscriber
from testbed.verify.push.world.actors import Device, Reader
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.frames import Reader as FrameReader
from testbed.verify.push.world.invariants import Delivery
from testbed.verify.push.world.links import Cable, Wire, routes
from testbed.verify.push.world.linkwatch import LinkWatch
from testbed.verify.push.world.log import Log
from topologies.emulator.virtual_time import OBSERVER, Alarm, VirtualTime

_MARKING_BYTES = 3000
"""Queue threshold on a link whose ends mark congestion."""


class NodePlace:
    """A node.

    Attributes:
        faces: its faces by neighbour; peers: the neighbours by face.
        starts: number of processes so far.
        alarm: wakes its host when due.
        waiting: frames that have arrived while its processor is busy, as functions that receive them.
        free_at: when the processor's turn is over, ns.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.host: Host
        self.faces: dict[str, int] = {}
        self.peers: dict[int, str] = {}
        self.devices: list[Device] = []
        self.readers: list[Reader] = []
        self.starts = 0
        self.alarm: Alarm
        self.waiting: list[Callable[[], None]] = []
        self.free_at = 0


class Network:
    """A story's network; nothing happens here by itself.

    Args:
        story: the story.
        time: virtual time.
        log: of events.
        beside: the part besides controlled push.

    Attributes:
        specs, places: description and node, by name.
        cables: links by their two ends, and
        cables_at: by one end and the other.
        wires: a link's directions, by begin and end.
        names: of feeds.
        devices: by feed index and number, each with its node.
        publishers: devices by feed index.
        readers: by name, each with its node.
        routes: next hops of each node for each feed.
    """

    def __init__(self, story: Story, time: VirtualTime, log: Log, beside: ExtraTraffic) -> None:
        self.story = story
        self._time = time
        self._log = log
        self._beside = beside
        self.specs = {node.name: node for node in story.nodes}
        self.places = {node.name: NodePlace(node.name) for node in story.nodes}
        self.cables = {frozenset((link.a, link.b)): Cable(link) for link in story.links}
        self.wires: dict[tuple[str, str], Wire] = {}
        self.cables_at: dict[str, dict[str, Cable]] = {node.name: {} for node in story.nodes}
        for cable in self.cables.values():
            self._join(cable)
        self.names = [name_of(feed) for feed in story.feeds]
        self.devices: dict[tuple[int, int], tuple[str, Device]] = {}
        self.publishers: list[list[Device]] = [[] for _ in story.feeds]
        for index, feed in enumerate(story.feeds):
            for number, node in enumerate(feed.devices):
                device = Device(self.names[index], items_of(feed, number), signer_of(feed))
                self.devices[index, number] = (node, device)
                self.publishers[index].append(device)
                self.places[node].devices.append(device)
        self.readers: dict[str, tuple[str, Reader]] = {}
        for wanted in story.subscribers:
            reader = self._make_reader(next(each for each in story.subscribers if each.name == wanted.name))
            self.readers[wanted.name] = (wanted.node, reader)
            self.places[wanted.node].readers.append(reader)
        self._origins = [feed.devices for feed in story.feeds]
        self.routes = routes(story, self._origins)

    def _join(self, cable: Cable) -> None:
        a, b = cable.link.a, cable.link.b
        there, back = self.wires[a, b], self.wires[b, a] = (
            Wire(cable, a, b, self.story),
            Wire(cable, b, a, self.story),
        )
        self.cables_at[a][b] = self.cables_at[b][a] = cable
        if self._beside.is_there:
            watches = [
                LinkWatch(*ends, cable.link.mtu, is_reliable=cable.link.reliable) for ends in ((a, b), (b, a))
            ]
            there.reader = there.watch = watches[0]
            back.reader = back.watch = watches[1]
            watches[0].back, watches[1].back = watches[1], watches[0]

    def _make_reader(self, wanted: Subscriber) -> Reader:
        feed, name = self.story.feeds[wanted.feed], wanted.name
        branches = [
            tuple(item.content for item in items_of(feed, number)) for number in range(len(feed.devices))
        ]

        def report(now: int, text: str) -> None:
            self._log.note(wanted.node, None, f"{name} {text}")
            self._log.count("delivered" if "item" in text else f"error {text.rpartition(' ')[2]}")

        return Reader(
            wanted,
            self.names[wanted.feed],
            lambda after: Delivery(name, branches, feed.fork, after),
            Random(f"{self.story.seed} {name}"),
            report,
        )

    def start(self, place: NodePlace) -> None:
        """Create a node's host, without state."""
        spec, story = self.specs[place.name], self.story
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
        place.waiting = []
        place.free_at = 0
        place.faces = {}
        place.peers = {}
        for (a, _), wire in self.wires.items():
            if a == place.name:
                self.add_face(place, wire)
        for device in place.devices:
            forwarder.fib.add(device.feed, host.attach(device))
        for reader in place.readers:
            host.attach(reader)
        self._beside.start(spec, host)

    def add_face(self, place: NodePlace, wire: Wire) -> None:
        """Create a node's face to the far end of a wire."""
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
            self.link_began(wire.a, wire.b)
        for feed, hops in zip(self.names, self.routes[place.name], strict=True):
            for hop, cost in hops:
                if hop == wire.b:
                    host.forwarder.fib.add(feed, number, cost)
        self._beside.route(place.name, host.forwarder, wire.b, number)
        if not wire.cable.up and wire.cable.signalled:
            host.set_link(number, up=False, now=self._time.now)

    def link_began(self, node: str, peer: str) -> None:
        """Handle the restart of a node's link service."""
        sending, receiving = self.wires[node, peer].watch, self.wires[peer, node].watch
        if sending is not None and receiving is not None:
            sending.sender_began()
            receiving.receiver_began()

    def reroute_later(self, changed: Callable[[NodePlace], None]) -> None:
        """Update routes after link changes, with a delay; `changed` is called with each node then."""
        if self.story.converge is not None:
            at = self._time.now + self.story.converge * US
            self._time.at(at, OBSERVER, lambda: self._reroute(changed))

    def _reroute(self, changed: Callable[[NodePlace], None]) -> None:
        down = {pair for pair, cable in self.cables.items() if not cable.up}
        before, self.routes = self.routes, routes(self.story, self._origins, down)
        self._log.note("", None, "routes converge")
        for place in self.places.values():
            fib = place.host.forwarder.fib
            pairs = zip(before[place.name], self.routes[place.name], strict=True)
            for feed, (old, new) in zip(self.names, pairs, strict=True):
                for peer, _ in set(old) - set(new):
                    fib.remove(feed, place.faces[peer])
                for peer, cost in set(new) - set(old):
                    fib.add(feed, place.faces[peer], cost)
            if before[place.name] != self.routes[place.name]:
                changed(place)
