"""A day, or any time, of mixed traffic through a small network in virtual time.

Theory of operation. Two sites and a ring of three forwarders between them, an attacker at one of these.
Servers and publishers are at the sites and at one forwarder; clients everywhere repeat requests until
answered; followers come, go, or vanish; visitors behind faces of their own, some of them reliable, leave
silently. Links lose frames and break, nodes restart, strategies change. Caches are small, so that all bounds
are reached soon: from then on nothing may grow. At the end traffic ends, and pending requests complete; then
no state may be left.
"""

import gc
import statistics
from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from base.endpoint import Program
from base.units import MS, SECOND
from forwarder.feedcache import items
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Application, Host
from forwarder.strategies import STRATEGIES
from forwarder.wire.name import from_uri
from testbed.verify.classic.clients import Producer, hinted, name_of
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.invariants import check_ended, check_silent
from testbed.verify.soak.applications import (
    Attacker,
    Client,
    Follower,
    Node,
    Publisher,
    Visitor,
    prefixes_of,
)
from testbed.verify.soak.measure import objects_of, strangers, tables_of
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Link, Topology, on_links
from topologies.routing import next_hops

HOUR = 3600 * SECOND
SITES = ("a", "b", "r3")
SERVED = {site: prefixes_of(site) for site in SITES}
"""The prefixes that each site serves."""
_VISITED = ("data", "late", "silent")
LINKS = (("a", "r1"), ("b", "r2"), ("r1", "r2"), ("r2", "r3"), ("r1", "r3"), ("m", "r3"))
TOPOLOGY = Topology(
    ("a", "b", "r1", "r2", "r3", "m"),
    tuple(
        Link(*ends, bw_mbit=20, delay_ms=5, loss_percent=0.5, jitter_ms=1, duplicate_percent=0.2)
        for ends in LINKS
    ),
)
_ATTACKER = "m"
_WORKING = tuple(node for node in TOPOLOGY.nodes if node != _ATTACKER)

_CACHED = 24
"""Packets in a content store."""
_FEEDS, _ITEMS = 3, 8
"""Bounds of a feed cache."""
_ASKING = 1500 * MS
_PUBLISHING = 10 * SECOND
_ATTACKING = 10 * SECOND
_BREAKING = 300 * SECOND
_RESTARTING = 1800 * SECOND
_CHANGING = 600 * SECOND
_FOLLOWING = 60 * SECOND
_VISITING = 20 * SECOND
_SEASON = 1200 * SECOND
"""Duration of a publisher's feed, before its next one."""
_MOST_FOLLOWERS = 12
_CALM = 120 * SECOND
"""Time after the end of the traffic for pending requests."""
_LINGER = 90 * SECOND
"""Time for the longest lifetime to end."""
_SAMPLES = 24
"""In each row of the table."""

GROWTH = 1.3
"""Maximum ratio of the last row to the second, in objects of all nodes."""


class Row(NamedTuple):
    """A span of time.

    Attributes:
        until: its end, ns.
        frames, answered: sent by all nodes, and received by clients, in it.
        objects, kilobytes: of all nodes, mean of samples.
        process: objects of the whole process.
        tables: of all nodes, the largest of the samples.
    """

    until: int
    frames: int
    answered: int
    objects: float
    kilobytes: float
    process: int
    tables: dict[str, int]


class Soak:
    """The network and its traffic.

    Args:
        seed: of everything.
        hours: of traffic.
        rows: spans of the traffic; the first one is not judged.

    Attributes:
        rows: results so far.
        events: occurrences by kind.
        errors: transient ones of followers.
    """

    def __init__(self, seed: int, hours: float, rows: int) -> None:
        items.forget_all()
        self.rows: list[Row] = []
        self.events: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.end = round(hours * HOUR)
        self._rng = Random(seed)
        self._span = self.end // rows
        self._samples: list[tuple[int, int]] = []
        self._largest: Counter[str] = Counter()
        self._before = (0, 0)
        self._heard: deque[bytes] = deque(maxlen=64)
        self._starts = 0
        self._ports: dict[str, list[int]] = {}
        self._attached: dict[str, list[tuple[Sequence[bytes], Application]]] = {
            node: [] for node in TOPOLOGY.nodes
        }
        self._faces: dict[int, int] = {}  # of applications, by id()
        self._publishers: dict[str, Publisher] = {}
        self._clients: list[Client] = []
        self._followers: list[tuple[str, Follower]] = []
        self._visitors: list[Visitor] = []
        self._cut: set[int] = set()
        self._choices: dict[bytes, str] = {}
        for site in SITES:
            self._attached[site] += [
                ((name_of(each.name), hinted(each.name)), Producer(each)) for each in SERVED[site].values()
            ]
            self._publishers[site] = self._make_publisher(site)
        for node in _WORKING:
            client = Client(node, SITES, Random(f"{seed} {node}"), _ASKING)
            self._clients.append(client)
            self._attached[node].append(((), client))
        self.hosts: dict[str, Node] = {node: self._make(node, 0) for node in TOPOLOGY.nodes}
        self.network = EmulatedNetwork(TOPOLOGY, self._programs(), seed=seed, capture=None)
        self._repeat(_BREAKING, self._break)
        self._repeat(_RESTARTING, self._restart)
        self._repeat(_CHANGING, self._change_strategy)
        self._repeat(_FOLLOWING // 2, self._follow)
        self._repeat(_VISITING, self._visit)
        self._repeat(_SEASON, self._next_season)
        for number in range(1, rows * _SAMPLES + 1):
            is_last = number % _SAMPLES == 0
            self.network.observe(
                number * self._span // _SAMPLES, self._sample_and_close if is_last else self._sample
            )

    # The network.

    def _face_of(self, node: str, interface: str) -> int:
        """Return a link's face: a node's links are its first faces, in the order of Topology.link_ends."""
        own = [each.name for each in TOPOLOGY.ends_of(node)]
        return own.index(interface) + 1

    def _programs(self) -> dict[str, list[Program]]:
        interfaces = TOPOLOGY.link_ends
        return on_links(
            TOPOLOGY, self.hosts, {each.name: self._face_of(each.node, each.name) for each in interfaces}
        )

    def _make(self, name: str, now: int) -> Node:
        """Create a node without state, with its links, routes and applications."""
        self._starts += 1
        forwarder = Forwarder(
            rng=Random(self._rng.getrandbits(64)),
            cs_capacity=_CACHED,
            feed_store=FeedStore(max_feeds=_FEEDS, max_items=_ITEMS),
        )
        if name == _ATTACKER:
            attacker = Attacker(forwarder, self._heard, self._rng, _ATTACKING)
            attacker.add_link()
            return attacker
        host = Node(forwarder, self._heard)
        for number, interface in enumerate(TOPOLOGY.ends_of(name)):
            host.add_link(rate_mbit=20 if number % 2 else None)
            if interface.link in self._cut:
                host.set_link(self._face_of(name, interface.name), up=False, now=now)
        for site in SITES:
            names = [name_of(each.name) for each in SERVED[site].values()]
            if site == name:
                forwarder.regions.update(names)
            for way, cost in next_hops(TOPOLOGY, site).get(name, ()):
                if way.peer != _ATTACKER:
                    for served in (*names, from_uri(f"/feeds/{site}")):
                        forwarder.fib.add(served, self._face_of(name, way.name), cost)
        for prefix, strategy in self._choices.items():
            forwarder.choose_strategy(prefix, STRATEGIES[strategy])
        for own, application in self._attached[name]:
            self._attach(host, own, application)
        return host

    def _attach(self, host: Host, names: Sequence[bytes], application: Application) -> None:
        face = self._faces[id(application)] = host.attach(application)
        for name in names:
            host.forwarder.fib.add(name, face)

    def _detach(self, node: str, application: Application) -> None:
        self._attached[node] = [pair for pair in self._attached[node] if pair[1] is not application]
        self.hosts[node].remove_face(self._faces.pop(id(application)), self.network.now)
        self._wake_network(node)

    def _wake_network(self, node: str) -> None:
        """Let the network process a manual change to a node."""
        self.network.replace(node, self._programs()[node])

    def _repeat(self, mean: int, action: Callable[[], None]) -> None:
        """Repeat an action at random intervals during the traffic."""
        time = self.network.now + round(self._rng.expovariate(1 / mean))

        def once() -> None:
            action()
            self._repeat(mean, action)

        if time < self.end:
            self.network.change(time, once)

    # Events.

    def _break(self) -> None:
        """Break a link for some time."""
        link = self._rng.randrange(len(LINKS) - 1)
        signalled = self._rng.random() < 0.5
        if link in self._cut:
            return
        self.events[f"link cut{', signalled' if signalled else ''}"] += 1
        self._cut.add(link) if signalled else None
        self.network.set_link(link, up=False, signalled=signalled)

        def mend() -> None:
            self._cut.discard(link)
            self.network.set_link(link, up=True, signalled=signalled)

        self.network.change(self.network.now + self._rng.randint(1, 40) * SECOND, mend)

    def _restart(self) -> None:
        """Restart a node: its tables are empty; its applications keep their persistent data."""
        node = self._rng.choice(_WORKING)
        now = self.network.now
        self.events["node restarted"] += 1
        for visitor in [each for each in self._visitors if each.node is self.hosts[node]]:
            self._visitors.remove(visitor)
        for _, application in self._attached[node]:
            if isinstance(application, Publisher):
                application.restart()
            elif isinstance(application, Follower):
                application.restart(now)
        self.hosts[node] = self._make(node, now)
        self._wake_network(node)

    def _change_strategy(self) -> None:
        """Change it for all prefixes of a site."""
        served = SERVED[self._rng.choice(SITES)]
        strategy = self._rng.choice(sorted(set(STRATEGIES) - {"self-learning"}))
        self.events["strategy changed"] += 1
        names = [name_of(each.name) for each in served.values()]
        self._choices |= dict.fromkeys(names, strategy)
        for node in _WORKING:
            for name in names:
                self.hosts[node].forwarder.choose_strategy(name, STRATEGIES[strategy])

    def _make_publisher(self, site: str) -> Publisher:
        publisher = Publisher(from_uri(f"/feeds/{site}"), self._rng, _PUBLISHING)
        self._attached[site].append(([publisher.feed], publisher))
        return publisher

    def _next_season(self) -> None:
        """Let a publisher end its feed and begin another."""
        site = self._rng.choice(SITES)
        self.events["feed begun"] += 1
        old = self._publishers[site]
        for node, follower in [pair for pair in self._followers if pair[1].publisher is old]:
            self._leave(node, follower)
        self._detach(site, old)
        publisher = self._publishers[site] = self._make_publisher(site)
        self._attach(self.hosts[site], [publisher.feed], publisher)
        self._wake_network(site)

    def _follow(self) -> None:
        """Let a follower come, go, or vanish."""
        if len(self._followers) >= _MOST_FOLLOWERS or (self._followers and self._rng.random() < 0.4):
            self._leave(*self._rng.choice(self._followers))
            return
        node = self._rng.choice(_WORKING)
        publisher = self._publishers[self._rng.choice(SITES)]
        self.events["follower came"] += 1
        follower = Follower(node, publisher, self._rng, self.network.now, self.errors)
        self._followers.append((node, follower))
        self._attached[node].append(((), follower))
        self._attach(self.hosts[node], (), follower)
        self._wake_network(node)

    def _leave(self, node: str, follower: Follower) -> None:
        if self._rng.random() < 0.5:
            self.events["follower cancelled"] += 1
            follower.cancel(self.network.now)
            self.hosts[node].wake(self.network.now)
        else:
            self.events["follower vanished"] += 1
        self._followers.remove((node, follower))
        self._detach(node, follower)

    def _visit(self) -> None:
        """Let a visitor come, or an active one leave."""
        rng, now = self._rng, self.network.now
        if len(self._visitors) >= 8 or (self._visitors and rng.random() < 0.3):
            visitor = rng.choice(self._visitors)
            self._visitors.remove(visitor)
            visitor.leave(now)
        else:
            node = self.hosts[rng.choice(_WORKING)]
            self.events["visitor came"] += 1
            visitor = Visitor(node, rng, reliable=rng.random() < 0.5, local=rng.random() < 0.3)
            self._visitors.append(visitor)
            names = [name_of(served[how].name) for served in SERVED.values() for how in _VISITED]
            visitor.speak(names, [each.feed for each in self._publishers.values()], now)
        self._wake_network(next(name for name, host in self.hosts.items() if host is visitor.node))

    # Measurements.

    def _roots(self) -> list[object]:
        return [part for node in _WORKING for part in (self.hosts[node].forwarder, self.hosts[node]._links)]

    def _sample(self) -> None:
        self._samples.append(objects_of(*self._roots()))
        total: Counter[str] = Counter()
        for node in _WORKING:
            total.update(tables_of(self.hosts[node]))
            gone = strangers(self.hosts[node].forwarder)
            if gone:
                raise Violation("strangers", node, "; ".join(gone))
        for name, size in total.items():
            self._largest[name] = max(self._largest[name], size)

    def _sample_and_close(self) -> None:
        """End a row."""
        self._sample()
        frames = sum(end.sent for end in self.network._ends)
        answered = sum(
            count
            for client in self._clients
            for what, count in client.counts.items()
            if what.endswith(" is answered")
        )
        gc.collect()
        self.rows.append(
            Row(
                self.network.now,
                frames - self._before[0],
                answered - self._before[1],
                statistics.mean(objects for objects, _ in self._samples),
                statistics.mean(held for _, held in self._samples) / 1024,
                len(gc.get_objects()),
                dict(self._largest),
            )
        )
        self._before = (frames, answered)
        self._samples, self._largest = [], Counter()

    def counts(self) -> dict[str, int]:
        """Return the clients' requests and answers."""
        total: Counter[str] = Counter()
        for client in self._clients:
            total.update(client.counts)
        return dict(sorted(total.items()))

    # The whole run.

    def run(self, progress: Callable[[Row], None] = lambda row: None) -> None:
        """Run it, and check the invariants; raise Violation."""
        for number in range(self.end // self._span):
            self.network.run((number + 1) * self._span)
            progress(self.rows[-1])
        self._end_traffic()
        self.network.run(self.end + _CALM)
        self._check_delivered()
        for node, follower in list(self._followers):
            follower.cancel(self.network.now)
            self.hosts[node].wake(self.network.now)
            self._detach(node, follower)
        self.network.run(self.end + _CALM + _LINGER)
        self._check_ended()
        self._check_growth()

    def _end_traffic(self) -> None:
        for client in self._clients:
            client.finish()
        for publisher in self._publishers.values():
            publisher.finish()
        attacker = self.hosts[_ATTACKER]
        if isinstance(attacker, Attacker):
            attacker.stop()
        for visitor in self._visitors:
            visitor.leave(self.network.now)
        for node in _WORKING:
            self._wake_network(node)

    def _check_delivered(self) -> None:
        for client in self._clients:
            if client.missing:
                raise Violation("answer", client.label, f"still waits for {client.missing}")
        for node, follower in self._followers:
            if not follower.is_done:
                tip = follower.publisher.published
                raise Violation("catch-up", node, f"a follower has item {follower.held} of {tip}")

    def _check_ended(self) -> None:
        now = self.network.now
        for node in _WORKING:
            host = self.hosts[node]
            check_ended(node, host)
            check_silent(node, host)
            forwarder = host.forwarder
            for later in (now, now + 10 * SECOND):  # the list expires entries on access
                forwarder.dead_nonces.has(b"", 0, later)
            left = tables_of(host)
            for table in (
                "PIT",
                "PIT timers",
                "dead nonces",
                "feeds",
                "ranges",
                "feed timers",
                "unacknowledged",
            ):
                if left[table]:
                    raise Violation("left", node, f"{table}: {left[table]}")
            if left["faces"] > len(TOPOLOGY.link_ends) + len(self._attached[node]):
                raise Violation("left", node, f"{left['faces']} faces")
        for site, publisher in self._publishers.items():
            if publisher.waiting:
                raise Violation("left", site, f"the publisher holds {publisher.waiting} grants")

    def _check_growth(self) -> None:
        first, last = self.rows[1], self.rows[-1]
        if last.objects > GROWTH * first.objects:
            raise Violation(
                "growth", "all nodes", f"{first.objects:.0f} objects have become {last.objects:.0f}"
            )
