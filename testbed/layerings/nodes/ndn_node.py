"""A node of a run over NDN: a forwarder, the faces of its interfaces, and its applications."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from base.endpoint import LinkPort, Program
from forwarder import strategies
from forwarder.feedcache.cache import FeedStore
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.upstream import Recovery
from forwarder.strategies.multicast import Multicast as MulticastStrategy
from forwarder.tables.face import FIRST_FACE
from forwarder.wire.name import from_uri, to_uri
from ssb.application import Event, Plan
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.blobs import BlobStore
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.following.subscriber import Reporter, Subscriber
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings.archive import Archivist
from ssb_over_ndn.layerings.objects import segment_packet
from ssb_over_ndn.naming import SHA256, log_name, message_packet
from ssb_over_ndn.serving.publisher import Publisher
from ssb_over_ndn.serving.server import Announcer
from testbed.layerings.nodes.authority import Authority, producer_of
from testbed.layerings.nodes.branches import Merging, feed_name_of
from testbed.layerings.nodes.node import Context, EventRows, Node, Parameters, StateSize
from testbed.layerings.nodes.pictures import Album, PictureReader
from testbed.layerings.nodes.workload import Feature, Feed
from topologies.model import Topology
from topologies.routing import Routing, tree, ways

_BULK_BUFFER = 4096
_BULK_LIFETIME_MS = 4000
_OF_CLASSIC_ITEMS = frozenset({Feature.ARCHIVE, Feature.EXPORT, Feature.GATEWAYS})
_OF_GROWING_FEEDS = frozenset(
    {Feature.FOLLOWING, Feature.FORK, Feature.ENDING, Feature.ARCHIVE, Feature.PICTURES}
)


class FollowParameters(Parameters):
    """Parameters of all that follows a feed by Interests."""

    lifetime_ms: int
    """InterestLifetime: the state that a subscription leaves in the network is gone after so much."""


class Multicast(NamedTuple):
    """Interests to subscribers.

    Attributes:
        prefix: feed name -> the prefix of their names.
        among_all: they also go from subscribers to the publisher and to each other.
    """

    prefix: Callable[[bytes], bytes]
    among_all: bool


class MulticastTree(NamedTuple):
    """The routes of Interests to several nodes.

    Attributes:
        prefix: of the Interests' names.
        leaves, roots: nodes: routes lead from each root to all leaves,
        among_all: and from each leaf to the others and the roots.
    """

    prefix: bytes
    leaves: Sequence[str]
    roots: Sequence[str]
    among_all: bool


class RouteChanges:
    """Changes announced to a node by a routing protocol: routes added, removed, or with another cost.

    Attributes:
        routes: number of changes, each of which takes a message, or a part of one.
        name_bytes: of their prefixes, which any such message has to name.
    """

    def __init__(self) -> None:
        self.routes = 0
        self.name_bytes = 0

    def note(self, prefixes: Sequence[bytes]) -> None:
        """Count a change of the routes of some prefixes."""
        self.routes += len(prefixes)
        self.name_bytes += sum(map(len, prefixes))


class NdnLayering(NamedTuple):
    """A Layering over NDN.

    Attributes:
        title: for people, a few words.
        parameters: model of its parameters.
        subscription: (feed name, rng=, and the parameters) -> a Subscription.
        announcer: (feed name, source of nonces, parameters) -> the announcer of new items; None if
            subscribers find out by themselves.
        controlled_push: forwarders know LLIs.
        recovery: forwarders repair gaps.
        persistent: forwarders know persistent Interests.
        multicast: Interests that need routes of their own, None if there are none.
        whole: feeds are complete objects, and their packets are signed by NDN keys of producers.
        node: (context, this layering) -> a node of a run; None for NdnNode.
        branches: it carries feeds whose branches are merged: to it a branch is one more feed.
        packets: (author's keys) -> message -> its Data packet, called in the feed's order; None if items
            carry classic messages as their authors signed them.
    """

    title: str
    parameters: type[FollowParameters]
    subscription: Callable[..., Subscription]
    announcer: Callable[[bytes, Random, Mapping[str, int]], Announcer] | None = None
    controlled_push: bool = False
    recovery: Recovery = Recovery.IN_NETWORK
    persistent: bool = False
    multicast: Multicast | None = None
    whole: bool = False
    node: "Callable[[Context, NdnLayering], NdnNode] | None" = None
    branches: bool = False
    packets: Callable[[Identity], Callable[[Message], bytes]] | None = None

    @property
    def protocol(self) -> str:
        return "ndn"

    @property
    def carries(self) -> frozenset[Feature]:
        carried = frozenset(Feature) - {Feature.MEDIUM, Feature.DELETION}
        if not self.branches:
            carried -= {Feature.MERGE}
        if self.packets is not None:
            carried -= _OF_CLASSIC_ITEMS
        return carried - _OF_GROWING_FEEDS if self.whole else carried

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return (self.node or NdnNode)(context, self)

    def publisher(
        self,
        messages: Sequence[Message],
        times: Sequence[int],
        *,
        stop: int,
        rng: Random,
        producer: Authority | None = None,
        identity: Identity | None = None,
        retain: int | None = None,
        blobs: BlobStore | None = None,
        **parameters: int,
    ) -> Publisher:
        """Return the publisher of a feed; times and `stop` in ns; `producer` signs segments, and `identity`
        items that do not carry their messages' own signatures; `blobs` has those that it serves.
        """
        announcer = (
            None if self.announcer is None else self.announcer(log_name(messages[0].author), rng, parameters)
        )
        packet: Callable[[Message], bytes] = message_packet
        if producer is not None:
            packet = partial(segment_packet, last=messages[-1].sequence, sign=producer.sign)
        if self.packets is not None and identity is not None:
            packet = self.packets(identity)
        return Publisher(
            messages, times, retain=retain, announcer=announcer, stop=stop, packet=packet, blobs=blobs
        )


class NdnNode(Node):
    """One node: its host, the faces of its interfaces, and the applications that its parts give it.

    Attributes: see Node. It is a StrategyNode and a RoutesNode.
    """

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        self.name = context.name
        self.state = context.state
        self._rows = EventRows(context.name, context.state)
        self._context = context
        self._workload = context.workload
        self._layering = layering
        restart = "" if context.since is None else f" {context.since}"
        self._rng = Random(f"{context.seed} {context.layering} {context.name}{restart}")
        self._applications: list[Reporter] = []
        self.host = Host(self._forwarder(), FIRST_FACE)
        faces = {}
        for interface in context.network.ends_of(context.name):
            link = context.network.links[interface.link]
            faces[self.host.add_link(link.mtu, link.bw_mbit)] = interface
        self.programs = [Program(self.host, {face: LinkPort(interface) for face, interface in faces.items()})]
        self._face_toward = {interface.peer: face for face, interface in faces.items()}
        self._over_links: dict[tuple[bytes, int], int] = {}  # routes, by prefix and face, with their costs
        self._sources: list[tuple[tuple[bytes, ...], dict[str, int]]] = []  # prefixes, and their next hops
        self._multicasts: list[MulticastTree] = []
        self._idle = self._workload.idle
        self._to_idle: dict[str, dict[int, int]] = {}  # home of idle feeds -> faces that lead there, costs
        self._route_changes = RouteChanges()
        self._followed: set[bytes] = set()
        self._album: Album | None = None
        if self._workload.pictures:
            self._album = Album(self._workload, context.state.blobs, self.name)
        self._merging: Merging | None = None
        if any(feed.alias for feed in self._workload.feeds):
            self._merging = Merging(context)
        self._feed_words: dict[str, str] = {}  # names of the feeds' counters in samples, in order
        self._follower: int | None = None
        self._add_feeds()
        self._add_bulk()
        for prefix, nodes in context.prefixes.items():
            self._sources.append(((from_uri(prefix),), dict.fromkeys(nodes, 0)))
        self.reroute(context.network, context.routing)
        if context.since is None:
            self._route_changes = RouteChanges()  # the initial routes are no change

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Replace the routes over links by the best ones now."""
        before, self._over_links = self._over_links, {}
        for prefixes, sources in self._sources:
            for peer, cost in ways(network, self.name, sources, routing).items():
                self._lead(prefixes, peer, cost)
        for multicast in self._multicasts:
            self._lead_multicast(multicast, network, routing)
        fib = self.host.forwarder.fib
        changes = self._route_changes
        for prefix, face in before.keys() - self._over_links.keys():
            fib.remove(prefix, face)
            changes.note((prefix,))
        for (prefix, face), cost in self._over_links.items():
            if before.get((prefix, face)) != cost:
                fib.add(prefix, face, cost)
                changes.note((prefix,))
        for home, prefixes in self._idle.items():
            known = self._to_idle.get(home, {})
            found = ways(network, self.name, {home: 0}, routing)
            faces = {self._face_toward[peer]: cost for peer, cost in found.items()}
            for face in known.keys() - faces.keys():
                fib.remove_many(prefixes, face)
                changes.note(prefixes)
            for face, cost in faces.items():
                if known.get(face) != cost:
                    fib.add_many(prefixes, face, cost)
                    changes.note(prefixes)
            self._to_idle[home] = faces

    def choose_strategy(self, prefix: str, strategy: str) -> None:
        choose_strategies(self.host.forwarder, {prefix: strategy})

    def _forwarder(self) -> Forwarder:
        workload, kind = self._workload, self._layering
        limits = self._context.limits
        if workload.retain is not None and self.name in workload.publishers:
            # Items that the publisher does not retain must not stay in its node's caches either.
            limits = limits._replace(
                cs_packets=min(limits.cs_packets, workload.retain),
                feed_items=min(limits.feed_items, workload.retain),
            )
        feeds = FeedStore(limits.feeds, limits.feed_items, limits.feed_bytes, limits.feeds_bytes)
        forwarder = Forwarder(
            rng=self._rng,
            cs_capacity=limits.cs_packets,
            cs_policy=limits.cs_policy,
            pit_capacity=limits.pit_entries,
            controlled_push=kind.controlled_push,
            feed_store=feeds,
            recovery=kind.recovery,
            persistent=kind.persistent,
            observable=True,
        )
        choose_strategies(forwarder, self._context.strategies)
        return forwarder

    def _add_feeds(self) -> None:
        """Attach the publishers and followers of feeds, and route to them."""
        workload = self._workload
        published = {feed.key: feed for feed in workload.feeds if feed.publisher == self.name}
        if workload.branch is not None and workload.branch.publisher == self.name:
            published[workload.branch.key] = workload.branch
            # The first device reports the items that both have.
            reported, key = self.state.published, workload.branch.key
            reported[key] = max(reported[key], workload.common)
        self._follow()
        for feed in workload.feeds:
            sources = workload.sources(feed)
            own = self._publish(published[feed.key]) if feed.key in published else None
            self._route_feed(feed, own)
            self._route_multicast(feed, sources, own)

    def _route_feed(self, feed: Feed, own: int | None) -> None:
        """Route to a feed; `own` is the face of its local publisher, if there is one."""
        name = feed_name_of(feed)
        if own is not None:
            self._route((name, SHA256), own)
            return
        if self.name == self._workload.archive and self._follower is not None:
            self._route((name,), self._follower)
        self._sources.append(((name, SHA256), self._workload.sources(feed)))

    def _publish(self, feed: Feed) -> int:
        if self._merging is not None:
            return self._attach(self._merging.publisher(feed, self._layering.announcer, self._rng))
        application = self._layering.publisher(
            feed.messages,
            [self._context.start + time for time in feed.times],
            stop=self._context.stop,
            rng=self._rng,
            producer=producer_of(self._context.seed, self.name) if self._layering.whole else None,
            identity=feed.identity,
            retain=self._workload.retain,
            blobs=self._context.state.blobs,
            **self._context.parameters,
        )
        return self._attach(application)

    def _follow(self) -> None:
        """Attach the subscriber, or the archive, if there is one and its time is not over."""
        plan, since = self._context.plan, self._context.since
        if self._merging is not None:
            plan = self._merging.plan
        if plan is None:
            return
        if since is not None:
            if since >= plan.stop:
                return
            plan = plan._replace(start=max(plan.start, since))
        if self._merging is not None:
            self._follower = self._attach(self._merging.subscriber(self._subscription, plan))
            return
        feeds = self._workload.followed_first(self.name)
        subscriptions = {name: self._subscription(name) for name in (log_name(feed.key) for feed in feeds)}
        self._followed = {log_name(feed.key) for feed in self._workload.follows[self.name]}
        if self.name != self._workload.archive:
            follower = self._subscriber(subscriptions, plan)
            if self._album is not None:
                follower = PictureReader(follower, self._album, self._context.state.blobs, self._rng)
            self._follower = self._attach(follower)
            return
        (feed,) = feeds
        kept = feed.messages[: self.state.delivered[feed.key]]
        ((name, subscription),) = subscriptions.items()
        self._follower = self._attach(Archivist(name, subscription, plan, kept))

    def _subscription(self, name: bytes, **more: int) -> Subscription:
        """Return a subscription to a feed; `more` goes with the layering's parameters."""
        is_archive = self.name == self._workload.archive and self._layering.controlled_push
        return self._layering.subscription(
            name,
            rng=self._rng,
            **({"is_relay": True} if is_archive else {}),
            **more,
            **self._context.parameters,
        )

    def _subscriber(self, subscriptions: Mapping[bytes, Subscription], plan: Plan) -> Reporter:
        """Return the application that follows feeds."""
        return Subscriber(subscriptions, plan, self._subscription)

    def _add_bulk(self) -> None:
        """Attach the ends of cross traffic, and route to its sources."""
        for transfer in self._context.transfers:
            feed = transfer.feed
            name = log_name(feed.key)
            if feed.publisher == self.name:
                times = [self._context.start] * len(feed.messages)
                self._route((name,), self._attach(Publisher(feed.messages, times)))
                continue
            self._sources.append(((name,), {feed.publisher: 0}))
            if transfer.to == self.name:
                scout = Scout()
                scout.tip = len(feed.messages)
                fetch = Follower(
                    name, scout, rng=self._rng, buffer=_BULK_BUFFER, lifetime_ms=_BULK_LIFETIME_MS
                )
                self._attach(Subscriber({name: fetch}, transfer.plan))

    def _attach(self, application: Reporter) -> int:
        self._applications.append(application)
        return self.host.attach(application)

    def _route(self, prefixes: Iterable[bytes], face: int) -> None:
        self.host.forwarder.fib.add_many(prefixes, face)

    def _lead(self, prefixes: Iterable[bytes], peer: str, cost: int = 0) -> None:
        """Record a route to a neighbour; of several the cheapest counts."""
        for prefix in prefixes:
            way = prefix, self._face_toward[peer]
            self._over_links[way] = min(self._over_links.get(way, cost), cost)

    def _route_multicast(self, feed: Feed, sources: dict[str, int], published: int | None) -> None:
        """Route the layering's multicast Interests, if any, to a feed's followers."""
        multicast = self._layering.multicast
        if multicast is None:
            return
        name = log_name(feed.key)
        prefix = multicast.prefix(name)
        self.host.forwarder.choose_strategy(prefix, MulticastStrategy)
        if name in self._followed and self._follower is not None:
            self._route((prefix,), self._follower)
        if multicast.among_all and published is not None:
            self._route((prefix,), published)
        self._multicasts.append(
            MulticastTree(prefix, self._workload.followers(feed), tuple(sources), multicast.among_all)
        )

    def _lead_multicast(self, multicast: MulticastTree, network: Topology, routing: Routing) -> None:
        for child, parent in tree(network, multicast.leaves, multicast.roots, routing):
            if parent == self.name:
                self._lead((multicast.prefix,), child)
            elif child == self.name and multicast.among_all:
                self._lead((multicast.prefix,), parent)

    def take_events(self) -> list[dict[str, Any]]:
        """Return the applications' events since the last call, as rows of events.jsonl."""
        events: list[Event] = []
        for application in self._applications:
            told = application.take_events()
            if self._album is not None and isinstance(application, Publisher):
                told = self._album.note(told)
            events += told
        return self._rows.of(events)

    def strategies(self) -> dict[str, str]:
        """Return the strategies: name prefix -> the strategy's name, without its parameters, as URIs."""
        chosen = self.host.forwarder.strategies.items()
        return {to_uri(prefix): f"/localhost/nfd/strategy/{strategy.NAME}" for prefix, strategy in chosen}

    def routes(self) -> dict[str, dict[str, int]]:
        peers = {face: peer for peer, face in self._face_toward.items()}
        found: dict[str, dict[str, int]] = {}
        for prefix, hops in self.host.forwarder.fib.items():
            known = found.setdefault(to_uri(prefix), {})
            for hop in reversed(hops):  # the best last: of several applications it counts
                known[peers.get(hop.face, "")] = hop.cost
        return found

    def held(self) -> dict[str, StateSize]:
        """Return the state by kind: the forwarder's tables, and what ends of feeds hold beside them."""
        entries = size = 0
        for application in self._applications:
            feeds, held = application.ends()
            entries += feeds
            size += held
        state = self.host.forwarder.held()
        state["ends"] = StateSize(entries, size)
        return state

    def counters(self) -> dict[str, Any]:
        """Return the forwarder's counters by name."""
        forwarder = self.host.forwarder
        feeds = forwarder.feeds
        granted = None if feeds is None else feeds.size()
        row = {
            "pit_ranges": 0 if granted is None else granted.ranges,
            "pit_credit": 0 if granted is None else granted.credit,
            "pit_satisfied": forwarder.pit_satisfied,
            "pit_expired": forwarder.pit_expired,
            "cs_entries": len(forwarder.cs),
            "fib_entries": len(forwarder.fib),
            "route_changes": self._route_changes.routes,
            "route_change_bytes": self._route_changes.name_bytes,
            **forwarder.counters.as_dict(),
        }
        if feeds is not None:
            counted = feeds.counters
            if len(counted) != len(self._feed_words):  # they only grow
                self._feed_words = {f"feeds_{key}": key for key in sorted(counted)}
            for word, key in self._feed_words.items():
                row[word] = counted[key]
        return row


def choose_strategies(forwarder: Forwarder, chosen: Mapping[str, str]) -> None:
    """Set a scenario's strategies at a forwarder; raise ValueError, with a line for the user."""
    for prefix, text in chosen.items():
        forwarder.choose_strategy(from_uri(prefix), *strategies.parse(text))
