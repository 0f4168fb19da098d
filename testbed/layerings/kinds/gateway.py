"""Nodes of a network in which Scuttlebutt peers reach NDN by gateways, for every layering over NDN.

A peer connects only with its gateway, which publishes and follows on its behalf in the NDN network.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from base.endpoint import Program, StreamPort
from base.key_log import Secret
from ssb.graph import CONTACT, Graph
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import read_log
from ssb.store.memory import MemoryFeeds
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.gateway.gateway import Gateway
from ssb_over_ndn.naming import log_name
from ssb_over_ndn.serving.server import Announcer
from testbed.layerings.nodes.ndn_node import NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Node, StateSize
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.stock_peer import StockNode
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.layerings.peers.ssb import SsbNode, SsbParameters, held_by

_PORT_OF_PEERS = 1


def build(context: Context, layering: NdnLayering) -> Node:
    """Build a node of a run with gateways."""
    gateways = context.gateways
    home = gateways.get(context.name)
    if home is not None:
        parameters = SsbParameters(hops=1).model_dump()
        kind = StockNode if context.name in context.stock else SsbNode
        return kind(replace(context, parameters=parameters), home)
    seen = replace(context, workload=_behind(context.workload, gateways))
    if context.name in gateways.values():
        return GatewayNode(seen, layering)
    return NdnNode(seen, layering)


def _behind(workload: Workload, gateways: Mapping[str, str]) -> Workload:
    """Return a workload as seen by the NDN network: gateways publish and follow on behalf of their peers."""
    feeds = {
        feed.key: replace(feed, publisher=gateways.get(feed.publisher, feed.publisher))
        for feed in workload.feeds
    }
    follows: dict[str, dict[str, Feed]] = {}
    for node, followed in workload.follows.items():
        there = follows.setdefault(gateways.get(node, node), {})
        there |= {feed.key: feeds[feed.key] for feed in followed}
    for gateway in {*gateways.values()}:  # a local feed is not followed from there
        follows[gateway] = {
            key: feed for key, feed in follows.get(gateway, {}).items() if feed.publisher != gateway
        }
    return replace(
        workload,
        feeds=tuple(feeds.values()),
        follows={node: tuple(followed.values()) for node, followed in follows.items()},
    )


class GatewayNode(NdnNode):
    """A node with a gateway: a forwarder, a peer, and their connection."""

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        name = context.name
        random = Random(f"{context.seed} {context.layering} {name} {context.since} gateway")
        feeds = MemoryFeeds()
        for feed in context.workload.feeds:
            feeds.append(feed.messages[: context.state.delivered[feed.key]], 0.0)
        identity = peer_identity(context.seed, name)
        graph = Graph(identity.ref)
        for stored in read_log(feeds, 0, {CONTACT}):
            graph.add(stored.message)
        self._peer = Peer(
            identity,
            feeds,
            MemoryClocks(context.state.clocks),
            sorted(feed.key for feed in context.workload.feeds if feed.publisher == name),
            PeerOptions(),
            random,
        )
        self._store = feeds
        self._gateway = Gateway(
            self._peer,
            self._peer,
            feeds,
            None,
            graph,
            self._subscribe,
            self._announce,
            random,
            self._settle,
        )
        self._face: int | None = None
        super().__init__(context, layering)
        self.programs.append(Program(self._gateway, {_PORT_OF_PEERS: StreamPort(PORT)}))

    def take_events(self) -> list[dict[str, Any]]:
        """Return no events: peers report theirs."""
        self._gateway.take_events()
        self.state.delivered |= Counter(self._store.tips())
        return []

    def take_secrets(self) -> list[Secret]:
        """See Node: the keys of box streams."""
        return self._peer.connections.take_secrets()

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: an NDN node's, connections, and feeds, which all belong to others."""
        return super().held() | held_by(self._peer, self._store, set())

    def counters(self) -> dict[str, Any]:
        """Return the counters of forwarder, peer and gateway."""
        troubles: Counter[str] = self._gateway.counters
        return super().counters() | {
            "refused": self._peer.connections.refused.total(),
            "gateway_troubles": troubles.total(),
        }

    def _settle(self, now: int) -> None:
        self.host.settle(now)

    def _publish(self, feed: Feed) -> int:
        self._gateway.application.add_home(feed.key, self._context.since or 0)
        return self._attached()

    def _follow(self) -> None:
        self._followed = {log_name(feed.key) for feed in self._workload.follows.get(self.name, ())}
        self._follower = self._attached()

    def _attached(self) -> int:
        """Return the face of the gateway's application, which does both."""
        if self._face is None:
            self._face = self.host.attach(self._gateway.application)
        return self._face

    def _subscribe(self, feed: bytes, after: int) -> Subscription:
        return self._layering.subscription(feed, rng=self._rng, after=after, **self._context.parameters)

    def _announce(self, feed: bytes) -> Announcer | None:
        if self._layering.announcer is None:
            return None
        return self._layering.announcer(feed, self._rng, self._context.parameters)
