"""Feeds by relays of Media over QUIC: a relay on every node, and one subscription a track on each hop."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from base.endpoint import Address, Program, StreamAction, StreamEvent, StreamPort
from base.passive import PassiveEndpoint
from base.timers import earliest
from base.units import MS
from ssb.message import InvalidMessage, Message
from ssb.moq.hops import PORT
from ssb.moq.messages import Location, Track
from ssb.moq.relay import Relay
from ssb.moq.tracks import feed_of, sequence_of, track_of
from ssb.store.memory import MemoryFeeds
from ssb.work import WORK
from testbed.layerings.nodes.node import Context, Node, Parameters, SimpleLayering, StateSize
from testbed.layerings.nodes.peer_role import Publication, RoleNode
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature
from topologies.model import Topology
from topologies.routing import Routing, nearer

STREAM_BYTES: Final = 40
"""State of an end of a stream: TCP's, as a broker's."""
_HOP_BYTES: Final = 8
"""State of a next hop of a route, as a forwarder's."""


class MoqParameters(Parameters):
    """Parameters of `moq`."""

    cache: int = Field(default=65_536, ge=0, le=1 << 20)
    """Items of others that a relay keeps, the newest; as many as packets of a content store. 0: none, so past
    items come from the publisher."""
    idle_ms: int = Field(default=10_000, ge=10, le=3_600_000)
    """Silence after which a session is given up. A relay that has subscribed asks for a sign of life after
    two fifths of it. Default: that of moq-rs."""


class RelayNode(RoleNode, PassiveEndpoint):
    """A node, a StreamEndpoint: a relay, and what publishes and follows feeds there.

    Attributes: see Node.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        role, state = self._role, context.state
        self._store = MemoryFeeds()
        for feed in role.follows.values():
            self._store.append(feed.messages[: state.delivered[feed.key]], 0.0)
        self._rejected = self._route_changes = 0
        self._has_new_routes = False
        others = [feed for feed in context.workload.feeds if feed.publisher != context.name]
        self._publishers = {track_of(feed.key): feed.publisher for feed in others}
        self._routes = self._found(context.network, context.routing)
        idle = context.parameters["idle_ms"] * MS
        self._relay = Relay(lambda track: self._routes.get(track, ()), idle, context.parameters["cache"])
        for feed in role.feeds:
            self._relay.announce(track_of(feed.key))
            for message in feed.messages[: state.published[feed.key]]:
                self._relay.publish(track_of(feed.key), message.encoded, context.since or 0)
        self.programs = [Program(self, {1: StreamPort(PORT)})]

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._has_new_routes:
            return 0  # reroute() is not told the time
        return earliest(self._relay.next_deadline(), self._role.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        if self._has_new_routes:
            self._has_new_routes = False
            self._relay.reroute(now)
        self._relay.wake(now)
        self._take_in(now)

    def _join(self, now: int) -> None:
        for key in self._role.follows:
            self._relay.follow(track_of(key), self._store.tips().get(key, 0), now)

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        WORK.sign += len(due)  # they were signed before the run
        for each in due:
            self._note(now, "published", each.message)
            self._relay.publish(track_of(each.message.author), each.message.encoded, now)

    def _leave(self, now: int) -> None:
        for track in self._publishers:
            self._relay.leave(track, now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._relay.on_stream(event, now)
        self._take_in(now)

    def _take_in(self, now: int) -> None:
        """Deliver what came, if it is valid: relays do not look at it."""
        received, self._relay.received = self._relay.received, []
        for track, number, payload in received:
            feed = feed_of(track)
            if feed is None or feed not in self._role.follows:
                continue
            try:
                message = Message.from_text(payload)
            except InvalidMessage:
                self._rejected += 1
                continue
            is_it = message.author == feed and message.sequence == sequence_of(Location(0, number))
            if is_it and feed not in self._store.append([message], 0.0).refused:
                self._note(now, "delivered", message)
            else:
                self._rejected += 1

    def take_actions(self) -> list[StreamAction]:
        actions, self._relay.actions = self._relay.actions, []
        return actions

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Move subscriptions to the relays that are the best now."""
        before, self._routes = self._routes, self._found(network, routing)
        self._route_changes += sum(before.get(track) != hops for track, hops in self._routes.items())
        self._has_new_routes = True

    def _found(self, network: Topology, routing: Routing) -> dict[Track, tuple[Address, ...]]:
        """Return the routes: the neighbours that are nearer to a track's publisher, the best first."""
        found = {}
        for track, publisher in self._publishers.items():
            hops = nearer(network, publisher, routing).get(self.name, ())
            if hops:
                found[track] = tuple((network.address(hop), PORT) for hop in hops)
        return found

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: sessions, subscriptions and fetches, routes. A cache does not count."""
        streams = self._relay.streams
        routes = sum(track.size + _HOP_BYTES * len(hops) for track, hops in self._routes.items())
        return {
            "connections": StateSize(streams, STREAM_BYTES * streams),
            "exchanges": StateSize(*self._relay.state()),
            "routes": StateSize(len(self._routes), routes),
        }

    def counters(self) -> dict[str, Any]:
        """Return sessions closed for a fault, items that are none, and changed routes."""
        refused = self._relay.counters.total()
        return {"refused": refused, "rejected": self._rejected, "route_changes": self._route_changes}


def _node(context: Context) -> Node:
    return RelayNode(context)


_FEATURES: Final = frozenset({Feature.MEDIUM, Feature.FOLLOWING, Feature.EXPORT})
MOQ: Final = SimpleLayering(title("moq"), MoqParameters, _node, "moq", _FEATURES)
"""Layering `moq`."""
