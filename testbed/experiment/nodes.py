"""The nodes of a run: what the emulator and the processes in Mininet both build from a scenario."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.strategies.multicast import Multicast
from forwarder.wire.name import to_uri
from ssb_over_ndn.archive import Archivist
from ssb_over_ndn.follower import Follower, Scout
from ssb_over_ndn.naming import SHA256
from ssb_over_ndn.publisher import Publisher
from ssb_over_ndn.subscriber import Subscriber, Subscription
from testbed.scenario.layerings import LAYERINGS, Endpoint
from testbed.scenario.model import Scenario, choose_strategies
from testbed.scenario.sections import Change, PlanSpec
from testbed.scenario.timeline import Timeline
from testbed.scenario.workload import Feed, Load
from topologies import routing
from topologies.model import Interface

_BULK_BUFFER = 4096
_BULK_LIFETIME_MS = 4000


@dataclass
class Memory:
    """What the applications of a node keep when it starts anew: how far they are in each feed.

    Attributes:
        published: feed name -> items that need no telling of.
        delivered: feed name -> items that the subscriber has.
    """

    published: Counter[bytes] = field(default_factory=Counter)
    delivered: Counter[bytes] = field(default_factory=Counter)


class Node:
    """One node: its host, the faces of its interfaces, and the applications that its parts give it.

    Args:
        scenario, layering, load, timeline: what is run.
        name: the node's.
        memory: what its applications know from before a restart; None at first.
        since: when it was restarted, ns; None if it was not.

    Attributes:
        host: the forwarder with its links and applications.
        faces: (interface, face number) in topology order.
        memory: kept up to date by take_events().
    """

    def __init__(
        self,
        scenario: Scenario,
        layering: str,
        name: str,
        load: Load,
        timeline: Timeline,
        *,
        memory: Memory | None = None,
        since: int | None = None,
    ) -> None:
        self.name = name
        self.memory = memory or Memory()
        self._delivered_before = self.memory.delivered.copy()
        self._scenario = scenario
        self._load = load
        self._timeline = timeline
        self._since = since
        self._kind = LAYERINGS[layering]
        self._parameters = scenario.layering_parameters(layering).model_dump()
        self._rng = Random(f"{scenario.seed} {layering} {name}" + (f" {since}" if memory is not None else ""))
        self._applications: list[Endpoint] = []
        self.host = Host(self._forwarder())
        self.faces: list[tuple[Interface, int]] = [
            (interface, self.host.add_link(rate_mbit=scenario.network.links[interface.link].bw_mbit))
            for interface in scenario.network.interfaces()
            if interface.node == name
        ]
        self._face_toward = {interface.peer: face for interface, face in self.faces}
        self._followed: dict[bytes, Subscription] = {}
        self._follower: int | None = None
        self._add_feeds()
        self._add_bulk()

    def _forwarder(self) -> Forwarder:
        archive = self._scenario.archive
        limits: dict[str, Any] = {}
        if archive is not None and self.name in self._scenario.sources:
            # What the publisher does not retain, its own node's caches do not either.
            limits = {"cs_capacity": archive.retain, "feed_store": FeedStore(max_items=archive.retain)}
        forwarder = Forwarder(
            rng=self._rng,
            controlled_push=self._kind.controlled_push,
            recovery=self._kind.recovery,
            persistent=self._kind.persistent,
            observable=True,
            **limits,
        )
        choose_strategies(forwarder, self._scenario.strategies)
        return forwarder

    def _add_feeds(self) -> None:
        """Attach what publishes and follows feeds, and route to it."""
        scenario, load = self._scenario, self._load
        published = {feed.name: feed for feed in load.feeds if feed.publisher == self.name}
        if load.branch is not None and load.branch.publisher == self.name:
            published[load.branch.name] = load.branch
            # The first device tells of what both have.
            told = self.memory.published
            told[load.branch.name] = max(told[load.branch.name], load.common)
        self._follow()
        for feed in load.feeds:
            sources = load.sources(scenario, feed)
            own = self._publish(published[feed.name]) if feed.name in published else None
            if own is not None:
                self._route((feed.name, SHA256), own)
            else:
                if scenario.roles[self.name] == "archive" and self._follower is not None:
                    self._route((feed.name,), self._follower)
                self._route_toward((feed.name, SHA256), sources)
            self._route_multicast(feed, sources, own)

    def _publish(self, feed: Feed) -> int:
        archive = self._scenario.archive
        application = self._kind.publisher(
            feed.messages,
            [self._timeline.start + time for time in feed.times],
            stop=self._timeline.stop,
            rng=self._rng,
            retain=None if archive is None else archive.retain,
            **self._parameters,
        )
        return self._attach(application)

    def _follow(self) -> None:
        """Attach the subscriber, or the archive, if there is one and its time is not over."""
        role = self._scenario.roles[self.name]
        plan = self._timeline.plan(self._scenario.plans.get(self.name, PlanSpec()))
        if role != "archive" and self.name not in self._scenario.subscribers:
            return
        if self._since is not None:
            if self._since >= plan.stop:
                return
            plan = plan._replace(start=max(plan.start, self._since))
        feeds = self._load.followed_by(self._scenario, self.name)
        self._followed = {
            feed.name: self._kind.subscription(feed.name, rng=self._rng, **self._parameters) for feed in feeds
        }
        if role != "archive":
            self._follower = self._attach(Subscriber(self._followed, plan))
            return
        (feed,) = feeds
        kept = feed.messages[: self.memory.delivered[feed.name]]
        self._follower = self._attach(Archivist(feed.name, self._followed[feed.name], plan, kept))

    def _add_bulk(self) -> None:
        """Attach the ends of cross traffic, and route to where it comes from."""
        for traffic, feed in zip(self._scenario.cross_traffic, self._load.bulk, strict=True):
            if traffic.source == self.name:
                times = [self._timeline.start] * len(feed.messages)
                self._route((feed.name,), self._attach(Publisher(feed.messages, times)))
                continue
            self._route_toward((feed.name,), {traffic.source: 0})
            if traffic.to == self.name:
                scout = Scout()
                scout.tip = len(feed.messages)
                fetch = Follower(
                    feed.name, scout, rng=self._rng, buffer=_BULK_BUFFER, lifetime_ms=_BULK_LIFETIME_MS
                )
                spec = PlanSpec(start_ms=traffic.start_ms, stop_ms=traffic.stop_ms)
                self._attach(Subscriber({feed.name: fetch}, self._timeline.plan(spec)))

    def _attach(self, application: Endpoint) -> int:
        self._applications.append(application)
        return self.host.attach(application)

    def _route(self, prefixes: Iterable[bytes], face: int, cost: int = 0) -> None:
        for prefix in prefixes:
            self.host.forwarder.fib.add(prefix, face, cost)

    def _route_toward(self, prefixes: Iterable[bytes], sources: dict[str, int]) -> None:
        for peer, cost in routing.ways(self._scenario.network, self.name, sources).items():
            self._route(prefixes, self._face_toward[peer], cost)

    def _route_multicast(self, feed: Feed, sources: Iterable[str], published: int | None) -> None:
        """Route the layering's multicast Interests, if it has such, to who follows a feed."""
        multicast = self._kind.multicast
        if multicast is None:
            return
        prefix = multicast.prefix(feed.name)
        self.host.forwarder.choose_strategy(prefix, Multicast)
        faces = [self._follower] if feed.name in self._followed else []
        if multicast.among_all:
            faces.append(published)
        followers = self._load.followers(self._scenario, feed)
        for child, parent in routing.tree(self._scenario.network, followers, sources):
            if parent == self.name:
                faces.append(self._face_toward[child])
            elif child == self.name and multicast.among_all:
                faces.append(self._face_toward[parent])
        for face in faces:
            if face is not None:
                self._route((prefix,), face)

    def is_told_of(self, change: Change) -> bool:
        """Tell whether a change is to a link of this node that its link layer would notice."""
        return change.restart is None and change.is_signalled and self.name in change.ends

    def change(self, change: Change, now: int) -> None:
        """Tell the host of a change of a link of this node."""
        peer = next(end for end in change.ends if end != self.name)
        self.host.set_link(self._face_toward[peer], change.link_up is not None, now)

    def take_events(self) -> list[dict[str, Any]]:
        """Return what the applications report since the last call, as rows of events.jsonl."""
        rows = []
        known = self._delivered_before
        for application in self._applications:
            for event in application.take_events():
                if event.event == "published":
                    if event.seq <= self.memory.published[event.feed]:
                        continue
                    self.memory.published[event.feed] = event.seq
                elif event.event == "delivered":
                    if event.seq <= known[event.feed]:
                        continue
                    self.memory.delivered[event.feed] = event.seq
                row = {
                    "time": event.time,
                    "node": self.name,
                    "event": event.event,
                    "feed": to_uri(event.feed),
                    "seq": event.seq,
                    "bytes": event.size,
                }
                rows.append(row | ({"detail": event.detail} if event.detail else {}))
        return rows

    def sample(self, now: int) -> dict[str, Any]:
        """Return the forwarder's state and counters, as a row of counters.jsonl."""
        forwarder = self.host.forwarder
        row = {
            "time": now,
            "node": self.name,
            "pit_entries": forwarder.pit_entries(),
            "pit_bytes": forwarder.pit_bytes(),
            "pit_ranges": forwarder.pit_ranges(),
            "pit_credit": forwarder.pit_credit(),
            "pit_satisfied": forwarder.pit_satisfied,
            "pit_expired": forwarder.pit_expired,
            "cs_entries": len(forwarder.cs),
            **forwarder.counters.as_dict(),
        }
        if forwarder.feeds is not None:
            row |= {f"feeds_{key}": value for key, value in sorted(forwarder.feeds.counters.items())}
        return row
