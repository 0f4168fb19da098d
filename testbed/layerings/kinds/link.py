"""Layering `link`: no routes to feeds, but a name service that maps feeds to storage providers.

Services run on nodes that neither publish nor follow, those with most links first. The k-th server of the
name service is on the k-th of them, and so is the k-th storage provider; they share nodes.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Literal, NamedTuple

from pydantic import Field

from base.units import MS
from forwarder.wire.packet import parse_data
from ssb.application import Plan
from ssb.keys import Identity
from ssb_over_ndn.following.subscriber import Reporter
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings.lookahead import Lookahead
from ssb_over_ndn.mapping.device import Device
from ssb_over_ndn.mapping.messages import server_name, server_of, store_name
from ssb_over_ndn.mapping.reader import Reader
from ssb_over_ndn.mapping.record import MAP, MOST_TTL_MS, make_record
from ssb_over_ndn.mapping.resolver import Resolver
from ssb_over_ndn.mapping.server import NameServer
from ssb_over_ndn.mapping.storage import Storage
from ssb_over_ndn.naming import LOGS, SHA256, log_name
from ssb_over_ndn.serving.publisher import Publisher
from testbed.layerings.kinds.ndn import PollParameters
from testbed.layerings.nodes.ndn_node import NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Node, StateSize
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature, Feed
from topologies.model import Topology
from topologies.routing import Routing, ways

_IDLE_LIFETIME = 365 * 86_400 * 1_000 * MS


class LinkParameters(PollParameters):
    """Parameters of `link`. Readers poll the storage as `poll` polls the publisher."""

    servers: int = Field(default=1, ge=1, le=100)
    """Nodes that serve the name service; each has the records of a part of the ids."""
    stores: int = Field(default=2, ge=1, le=100)
    """Storage providers; as many as there are nodes for, if these are fewer."""
    storage: Literal["stays", "follows"] = "stays"
    """Where a device that moves uploads to: to the provider that was nearest at the start, or to the one that
    is nearest now, with the log and the record following it."""
    ttl_ms: int = Field(default=2000, ge=1, le=3_600_000)
    """Time to live of a record: so long may resolvers, and each cache on the way, use it without asking."""
    record_ms: int = Field(default=30_000, ge=2000, le=86_400_000)
    """How long a record counts; devices renew it when half of that is over."""


def candidates(network: Topology, ends: Iterable[str]) -> list[str]:
    """Return the candidate nodes of services, all but `ends`, those with most links first."""
    degree = dict.fromkeys(network.nodes, 0)
    for end in network.link_ends:
        degree[end.node] += 1
    taken = {*ends}
    return sorted((node for node in network.nodes if node not in taken), key=lambda node: -degree[node])


class Services(NamedTuple):
    """Locations of services: names -> nodes."""

    servers: dict[bytes, str]
    stores: dict[bytes, str]

    @classmethod
    def of(cls, context: Context) -> "Services":
        """Return the locations in a run."""
        workload = context.workload
        nodes = candidates(context.network, {*workload.publishers, *workload.follows})
        servers, stores = int(context.parameters["servers"]), int(context.parameters["stores"])
        return cls(
            {server_name(number): nodes[number % len(nodes)] for number in range(servers)},
            {store_name(node): node for node in nodes[:stores]},
        )


class LinkLayering(NdnLayering):
    """See the module."""

    __slots__ = ()

    @property
    def carries(self) -> frozenset[Feature]:
        return frozenset({Feature.FOLLOWING, Feature.CROSS_TRAFFIC, Feature.PAUSES, Feature.SLOW_SUBSCRIBERS})

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return LinkNode(context, self)


class LinkNode(NdnNode):
    """A node, with its services.

    Args:
        context, layering: see NdnNode.

    Attributes:
        services: locations of all.
        devices: the uploading side of each feed published here.
        reader, server, storage: local parts, None if absent.
    """

    def __init__(self, context: Context, layering: LinkLayering) -> None:
        self.services = Services.of(context)
        self._home: bytes | None = None  # the devices' storage
        self._attachment: tuple[bytes, frozenset[str]] | None = None
        self.devices: list[Device] = []
        self.reader: Reader | None = None
        self.server: NameServer | None = None
        self.storage: Storage | None = None
        super().__init__(context, layering)

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Update to the best routes; devices with a new attachment choose their storage."""
        super().reroute(network, routing)
        distance = {
            name: min(found.values())
            for name, node in self.services.stores.items()
            if (found := ways(network, self.name, {node: 0}, routing))
        }
        if not distance:
            return
        nearest = min(distance, key=lambda name: (distance[name], name))
        if self._home is None or self._context.parameters["storage"] == "follows":
            self._home = nearest
        # Called at each change of routes: only the node's own links reveal its moves.
        attached = frozenset(
            peer for peer in self._face_toward if network.link_between(self.name, peer) not in routing.down
        )
        if (self._home, attached) != self._attachment:
            self._attachment = self._home, attached
            for device in self.devices:
                device.move(self._home)
            self.host.stir()

    def _add_feeds(self) -> None:
        self._idle = {}  # ids have no routes, nor have those of idle feeds
        super()._add_feeds()
        self._add_services()

    def _add_services(self) -> None:
        """Attach the node's services, and route to others'."""
        forwarder = self.host.forwarder
        for names in self.services:
            for name, node in names.items():
                if node == self.name:
                    forwarder.regions.add(name)
                else:
                    self._sources.append(((name,), {node: 0}))
        if self.name in self.services.servers.values():
            self.server = NameServer()
            self._register_idle(self.server)
            self._route((MAP,), self._attach(self.server))
        if self.name in self.services.stores.values():
            self.storage = Storage()
            self._route((LOGS,), self.host.attach(self.storage))

    def _register_idle(self, server: NameServer) -> None:
        """Register a server's part of the idle feeds, by genuine records.

        They outlast any run, so that nobody has to renew them. A million take two minutes.
        """
        own = {name for name, node in self.services.servers.items() if node == self.name}
        names, stores = [*self.services.servers], [*self.services.stores]
        rng = Random(f"{self._context.seed} idle ids")
        now = self._context.start
        for number in range(self._workload.idle_feeds):
            author = Identity.from_seed(rng.randbytes(32))
            if server_of(author.ref, names) in own:
                store = (stores[number % len(stores)],)
                wire = make_record(
                    author.ref, author.sign, 1, store, now=now, lifetime=_IDLE_LIFETIME, ttl=MOST_TTL_MS * MS
                )
                server.ledger.add(parse_data(wire), author.ref, now)

    def _route_feed(self, feed: Feed, own: int | None) -> None:
        if own is not None:
            self._route((log_name(feed.key), SHA256), own)

    def _publish(self, feed: Feed) -> int:
        context, parameters = self._context, self._context.parameters
        assert feed.identity is not None  # testbed.scenario.rules checks that
        device = Device(
            feed.key,
            feed.identity.sign,
            [*self.services.servers],
            rng=self._rng,
            lifetime=parameters["record_ms"] * MS,
            ttl=parameters["ttl_ms"] * MS,
        )
        self.devices.append(device)
        times = [context.start + time for time in feed.times]
        return self._attach(Publisher(feed.messages, times, announcer=device, stop=context.stop))

    def _subscriber(self, subscriptions: Mapping[bytes, Subscription], plan: Plan) -> Reporter:
        self.reader = Reader(subscriptions, plan, Resolver([*self.services.servers], rng=self._rng))
        return self.reader

    def held(self) -> dict[str, StateSize]:
        """Return the state by kind: also messages that are stored for others."""
        stored = (0, 0) if self.storage is None else (self.storage.messages, self.storage.size)
        return super().held() | {"messages": StateSize(*stored)}

    def counters(self) -> dict[str, Any]:
        """Return the counters of forwarder, services, devices and resolver."""
        row = super().counters()
        row["uploads"] = sum(device.counters["uploads"] for device in self.devices)
        row["map_updates_sent"] = sum(device.counters["updates"] for device in self.devices)
        if self.reader is not None:
            row["map_queries_sent"], row["map_refused"], row["resolver_entries"] = self.reader.counts
        if self.server is not None:
            row["map_records"] = len(self.server.ledger)
            row["map_updates"] = self.server.counters["updates"]
            row["map_queries"] = self.server.counters["queries"]
            row["map_refused"] = row.get("map_refused", 0) + self.server.ledger.refused.total()
        if self.storage is not None:
            row["stored_messages"], row["stored_bytes"] = self.storage.messages, self.storage.size
        return row


def _subscription(feed: bytes, *, rng: Random, window: int, lifetime_ms: int, **others: Any) -> Subscription:
    return Lookahead(feed, rng=rng, window=window, lifetime_ms=lifetime_ms, is_patient=False)


LINK = LinkLayering(title("link"), LinkParameters, _subscription)
