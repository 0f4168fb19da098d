"""Hosts and links in virtual time, for the layerings alone: links that lose, reorder and duplicate."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from random import Random
from typing import Any

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.strategies.multicast import Multicast
from ssb.application import Event, Plan
from ssb.generate import generate_feed
from ssb.message import Message
from ssb_over_ndn.following.subscriber import Reporter, Subscriber
from ssb_over_ndn.naming import log_name
from testbed.layerings.kinds.ndn import NDN_LAYERINGS

LINE = ("pub", "r1", "r2", "s1")
TREE = {"r1": "pub", "r2": "r1", "r3": "r1", "s1": "r2", "s2": "r2", "s3": "r3", "s4": "r3"}
"""A node's parent, of each."""


@cache
def feed_of(items: int, seed: int = 7) -> tuple[Message, ...]:
    return tuple(generate_feed(Random(seed), items))


@dataclass(frozen=True)
class Link:
    """What happens to a packet on every link: shares of packets, and ns."""

    loss: float = 0.0
    twice: float = 0.0
    delay: int = 5 * MS
    jitter: int = 0


@dataclass
class Sent:
    """A packet as it leaves a node."""

    time: int
    node: str
    peer: str
    packet: bytes


@dataclass
class Network:
    """Nodes in a tree, the publishers at its root, an application or two, and what came of it.

    Attributes:
        parents: the tree: every node but the root, and its parent.
        layering: its name.
        link: how every link is.
        parameters: of the layering, in place of the defaults.
    """

    parents: dict[str, str]
    layering: str
    link: Link = Link()
    seed: int = 1
    parameters: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = NDN_LAYERINGS[self.layering]
        self.values = self.kind.parameters.model_validate(self.parameters).model_dump()
        self.root = next(iter({*self.parents.values()} - {*self.parents}))
        self.rng = Random(f"{self.seed} links")
        self.hosts = {name: self._host(name) for name in (self.root, *self.parents)}
        self.applications: dict[str, Reporter] = {}
        self.sent: list[Sent] = []
        self.now = 0
        self._queue: list[tuple[int, int, str, int, bytes]] = []
        self._faces: dict[tuple[str, str], int] = {}
        for child, parent in self.parents.items():
            for a, b in ((child, parent), (parent, child)):
                self._faces[a, b] = self.hosts[a].add_link()

    def _host(self, name: str) -> Host:
        kind = self.kind
        return Host(
            Forwarder(
                rng=Random(f"{self.seed} {name}"),
                controlled_push=kind.controlled_push,
                recovery=kind.recovery,
                persistent=kind.persistent,
            )
        )

    def publish(
        self, messages: tuple[Message, ...], times: list[int], stop: int, retain: int | None = None
    ) -> bytes:
        """Attach a publisher to the root; return its feed's name."""
        rng = Random(f"{self.seed} publisher")
        application = self.kind.publisher(messages, times, stop=stop, rng=rng, retain=retain, **self.values)
        face = self.hosts[self.root].attach(application)
        self.applications[self.root] = application
        feed = log_name(messages[0].author)
        self.hosts[self.root].forwarder.fib.add(feed, face)
        for child, parent in self.parents.items():
            self.hosts[child].forwarder.fib.add(feed, self._faces[child, parent])
        multicast = self.kind.multicast
        if multicast is not None:
            prefix = multicast.prefix(feed)
            for host in self.hosts.values():
                host.forwarder.choose_strategy(prefix, Multicast)
            for child, parent in self.parents.items():
                self.hosts[parent].forwarder.fib.add(prefix, self._faces[parent, child])
                if multicast.among_all:
                    self.hosts[child].forwarder.fib.add(prefix, self._faces[child, parent])
            if multicast.among_all:
                self.hosts[self.root].forwarder.fib.add(prefix, face)
        return feed

    def subscribe(self, node: str, feeds: list[bytes], plan: Plan) -> None:
        """Attach a subscriber."""
        rng = Random(f"{self.seed} {node} subscriber")
        subscriptions = {feed: self.kind.subscription(feed, rng=rng, **self.values) for feed in feeds}
        application = self.applications[node] = Subscriber(subscriptions, plan)
        face = self.hosts[node].attach(application)
        if self.kind.multicast is not None:
            for feed in feeds:
                self.hosts[node].forwarder.fib.add(self.kind.multicast.prefix(feed), face)

    def run(self, until: int) -> None:
        """Let time pass."""
        for node in self.hosts:
            self._after(node)
        while True:
            alarms = {name: host.next_deadline() for name, host in self.hosts.items()}
            due = min((time for time in alarms.values() if time is not None), default=until + 1)
            arrival = self._queue[0][0] if self._queue else until + 1
            if min(due, arrival) > until:
                break
            if due <= arrival:
                self.now = max(self.now, due)
                for node, time in alarms.items():
                    if time is not None and time <= self.now:
                        self.hosts[node].wake(self.now)
                        self._after(node)
            else:
                self.now, _, node, face, frame = heappop(self._queue)
                self.hosts[node].receive(face, frame, None, self.now)
                self._after(node)
        self.now = until

    def _after(self, node: str) -> None:
        names = {face: peer for (a, peer), face in self._faces.items() if a == node}
        for face, frame, _ in self.hosts[node].take_outputs():
            peer = names[face]
            self.sent.append(Sent(self.now, node, peer, frame))
            if self.rng.random() < self.link.loss:
                continue
            for _ in range(2 if self.rng.random() < self.link.twice else 1):
                arrival = self.now + self.link.delay + round(self.rng.random() * self.link.jitter)
                heappush(
                    self._queue,
                    (arrival, len(self.sent), peer, self._faces[peer, node], frame),
                )

    def events(self, node: str) -> list[Event]:
        """All events of a node so far."""
        self._seen: dict[str, list[Event]] = getattr(self, "_seen", defaultdict(list))
        self._seen[node] += self.applications[node].take_events()
        return self._seen[node]

    def delivered(self, node: str, feed: bytes | None = None) -> list[int]:
        """Sequence numbers in the order that an application got them."""
        return [
            e.seq
            for e in self.events(node)
            if e.event == "delivered" and (feed is None or log_name(e.feed) == feed)
        ]

    def pending(self) -> dict[str, int]:
        """Pending entries by node, where there are any."""
        entries = {name: host.forwarder.pit_entries() for name, host in self.hosts.items()}
        return {name: count for name, count in entries.items() if count}


def line() -> dict[str, str]:
    return dict(zip(LINE[1:], LINE, strict=False))


def publish_every(network: Network, items: int, interval: int, stop: int, **options: Any) -> bytes:
    """Publish a feed, an item every `interval` (ns) from 100 ms on."""
    return network.publish(feed_of(items), [100 * MS + n * interval for n in range(items)], stop, **options)
