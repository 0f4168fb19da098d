"""SSB without NDN: peers that replicate by EBT over TCP, across the underlay."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from random import Random
from typing import Any, Final, Literal

from pydantic import Field

from base.endpoint import Address, Program, StreamAction, StreamEvent, StreamPort
from base.key_log import Secret
from base.passive import PassiveEndpoint
from base.timers import earliest
from base.units import MS
from ssb.application import Event
from ssb.ending import end_of
from ssb.message import Message
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.scheduler import SchedulerOptions
from ssb.replication.blobs import Blobs
from ssb.replication.replication import Replication
from ssb.replication.session import DEFAULT_LIMITS, Limits
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.work import WORK
from testbed.layerings.nodes.node import Context, Parameters, StateSize
from testbed.layerings.nodes.peer_role import Publication, Role, RoleNode, peer_identity
from testbed.layerings.nodes.pictures import Album
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feature
from topologies.model import Hop, Topology
from topologies.routing import Routing, routes

CONNECTION_BYTES = 40 + 2 * 56 + 32
"""State of a connection: TCP's 40, key and nonce of both directions, the remote's key."""
EXCHANGE_BYTES = 32 + 3 * 8 + 2
"""State of a feed on a connection: its key, what the remote has, was sent and was told, and both modes."""


class EbtTimes(Parameters):
    """Parameters of peers with EBT."""

    note_delay_ms: int = Field(default=100, ge=0, le=60_000)
    """Longest wait of a note that only tells progress, also of the first one when peers meet again. The wait
    is random, and the note is dropped if the other peer meanwhile says that it has as much. So if the wait is
    longer than a round trip, mostly only one of two peers sends a note."""
    patience_ms: int = Field(default=3000, ge=1, le=3_600_000)
    """How long a peer that is ahead may send nothing before another one is asked."""


class SsbParameters(EbtTimes):
    """Parameters of `ssb`."""

    connect: Literal["publishers", "neighbours"] = "publishers"
    """`publishers`: each subscriber calls the publishers of its feeds. `neighbours`: a peer runs on every
    node, calls its neighbours, and replicates all feeds."""
    hops: int = Field(default=2, ge=1, le=10)
    """With `publishers`: how many follows lead to the feeds that a subscriber replicates. 1: those that it
    follows; 2: also those that their publishers follow. It can hand on what it replicates."""
    encrypt: bool = True
    """Handshake and box stream, as all running peers do. Without them a run shows the cost of encryption."""


class SsbNode(RoleNode, PassiveEndpoint):
    """A node, a StreamEndpoint: a peer, and the application that publishes and follows.

    Args:
        context: see Context.
        home: see Role.

    Attributes: see Node.
    """

    _witness: Witness | None = None

    def __init__(self, context: Context, home: str | None = None) -> None:
        super().__init__(context, home)
        role = self._role
        self._store = store = self._filled(context, role)
        self._forked: set[str] = set()  # followed feeds whose fork was told
        parameters, network = context.parameters, context.network
        # People meet few others at a time, and a bound must not decide an experiment.
        most = 2 * len(network.nodes)
        options = PeerOptions(
            encrypts=parameters.get("encrypt", True),
            connections=most,
            handshakes=most,
            announce=parameters.get("announce_ms", 0) * MS,
            scheduler=SchedulerOptions(places=most, known=most, calls=most),
            replication=limits(parameters),
        )
        seed = hashlib.sha256(f"{context.seed} {context.layering} {context.name} {context.since}".encode())
        self._album = Album(context.workload, context.state.blobs, context.name)
        self._blobs = Blobs(context.state.blobs) if context.workload.pictures else None
        if self._blobs is not None:
            self._blobs.take_new_wants()  # from now on it collects the ended ones
        self._peer = Peer(
            peer_identity(context.seed, context.name),
            store,
            MemoryClocks(context.state.clocks),
            self._first_wanted(context),
            options,
            Random(seed.digest()),
            blobs=self._held_blobs(context),
            replication=self._replication(context, role, store),
            **self._meetings(context),
        )
        self._seed, self._network = context.seed, network
        self._ends = sorted({*context.workload.publishers, *context.workload.follows} - {context.name})
        self._next_hops = self._hops_to_ends(network, context.routing)
        self._route_changes = 0
        self._calls = self._addresses(role.called)
        self.programs = [Program(self, {1: StreamPort(PORT)})]

    def _filled(self, context: Context, role: Role) -> MemoryFeeds:
        """Return the peer's store, with the messages from before a restart."""
        store = MemoryFeeds()
        for feed in role.feeds:
            store.append(feed.messages[: context.state.published[feed.key]], 0.0)
        for feed in role.follows.values():
            store.append(feed.messages[: context.state.delivered[feed.key]], 0.0)
        return store

    def _first_wanted(self, context: Context) -> list[str]:
        """Return the feeds that the peer replicates before it subscribes."""
        role = self._role
        own = {feed.key for feed in role.feeds}
        everywhere = {feed.key for feed in context.workload.feeds} if role.is_everywhere else set()
        return sorted(own | (everywhere - role.later))

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._peer.next_deadline(), self._role.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        self._peer.wake(now)
        self._take_in(now)

    def _join(self, now: int) -> None:
        for key, feed in self._role.follows.items():
            # A peer that replicates all feeds may hold some of it already.
            here = self._store.tips().get(key, 0)
            known = 0 if self._blobs is not None else self.state.delivered[key]  # a picture may be missing
            for message in feed.messages[known:here]:
                self._note(now, "delivered", message)
        for key in self._role.replicated:
            self._peer.want(key, now)

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        messages = [each.message for each in due]
        for message in messages:
            if message.sequence > self._role.reported_elsewhere[message.author]:
                self._note(now, "published", message)
        self._peer.append(messages, now)
        WORK.sign += len(messages)  # they were signed before the run, and a store verifies what it is given
        WORK.verify -= len(messages)

    def _note(self, time: int, event: str, message: Message) -> None:
        """See RoleNode; also note the message's pictures, and want those that are missing."""
        super()._note(time, event, message)
        if self._blobs is not None:
            self._events += self._album.note([self._events.pop()])
            for blob in self._album.take_new():
                self._blobs.want(blob)
            self._peer.connections.update(time)

    def _leave(self, now: int) -> None:
        if self._witness is not None:
            self._observe(self._witness)  # a peer forgets what others said of a feed that it no longer wants
        if self._blobs is not None:
            for blob in self._album.close():
                self._blobs.unwant(blob)
        for key in self._role.replicated:
            self._peer.unwant(key, now)
        if not self._role.stays_connected:
            for remote in self._calls:
                self._peer.remove(remote, now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._peer.on_stream(event, now)
        self._take_in(now)

    def take_actions(self) -> list[StreamAction]:
        return self._peer.take_actions()

    def take_secrets(self) -> list[Secret]:
        """See Node: the keys of box streams."""
        return self._peer.connections.take_secrets()

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: connections, feeds on them, and messages for other nodes."""
        return held_by(self._peer, self._store, self._role.own)

    def counters(self) -> dict[str, Any]:
        """Return the number of connections closed for a fault, and of changed IP routes to peers; of a
        witness, also the number of subscriptions of others that it has learned of.
        """
        refused = self._peer.connections.refused.total()
        counted = {"refused": refused, "route_changes": self._route_changes}
        if self._witness is not None:
            self._observe(self._witness)
            counted["subscriptions_seen"] = len(self._witness.seen)
        return counted

    def _observe(self, witness: Witness) -> None:
        """Take in the subscriptions of others that the peer knows now: notes of EBT tell them."""
        for session in self._peer.replication.sessions.values():
            witness.hears(session.remote, [feed for feed, number in session.clock.items() if number != -1])

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Count changed routes: the cost of IP's own routing."""
        before, self._next_hops = self._next_hops, self._hops_to_ends(network, routing)
        self._route_changes += sum(before[end] != hop for end, hop in self._next_hops.items())

    def _hops_to_ends(self, network: Topology, routing: Routing) -> dict[str, Hop | None]:
        return {end: routes(network, end, routing).get(self.name) for end in self._ends}

    def _replication(self, context: Context, role: Role, store: MemoryFeeds) -> Replication | None:
        """Return the peer's replication protocol; None for EBT."""
        return None

    def _held_blobs(self, context: Context) -> Blobs | None:
        """Return the peer's blobs; None if it handles none."""
        return self._blobs

    def _meetings(self, context: Context) -> dict[str, Any]:
        """Return how the peer meets others whose addresses it does not know: arguments of Peer."""
        return {}

    def _call(self, now: int) -> int | None:
        for remote, address in self._calls.items():
            self._peer.add(remote, address, now, is_kept=True)
        return None

    def _addresses(self, nodes: Iterable[str]) -> dict[str, Address]:
        """Return the listening addresses of nodes' peers, by their references."""
        return {peer_identity(self._seed, node).ref: (self._network.address(node), PORT) for node in nodes}

    def _move(self, message: Message, now: int) -> None:
        """Replicate the successor of a feed that has ended."""
        end = end_of(message.author, message.sequence, message.content)
        if end is None or end.successor is None:
            return
        if end.successor in self._role.follows:
            self._role.later.discard(end.successor)
            self._role.replicated.append(end.successor)
            self._events.append(Event(now, "joined", end.successor))
        self._peer.want(end.successor, now)

    def _learn(self, message: Message, now: int) -> None:
        """Act on the content of a message that has come, of any feed."""

    def _part(self, remote: str, now: int) -> None:
        """Handle the end of a connection; the peer reconnects by itself where it stays connected."""

    def _take_in(self, now: int) -> None:
        """Report deliveries of followed feeds, and pictures that have arrived."""
        for event in self._peer.take_events():
            message, role = event.message, self._role
            if message is not None:
                self._learn(message, event.time)
            if message is not None and role.joins_at is None and message.author in role.follows:
                self._note(event.time, "delivered", message)
                self._move(message, event.time)
            elif message is not None and role.is_everywhere:
                self._move(message, event.time)
            elif event.event == "closed":
                self._part(event.remote, event.time)
            elif event.event == "refused" and event.remote:
                # A slow handshake, over a bad link or with a restarting node, is no error.
                self._note_all(event.time, "error", event.detail)
        for key in (self._store.forks().keys() & self._role.follows.keys()) - self._forked:
            self._forked.add(key)
            _, second = self._store.forks()[key]
            self._events.append(Event(now, "forked", key, second.sequence))
        for blob in self._blobs.take_ended_wants() if self._blobs is not None else ():
            self._events += self._album.arrived(blob, now)


def limits(parameters: Mapping[str, Any]) -> Limits:
    """Return the times of EBT that a run's parameters give."""
    if "patience_ms" not in parameters:  # of another protocol than EBT
        return DEFAULT_LIMITS
    return Limits(patience=parameters["patience_ms"] * MS, note_delay=parameters["note_delay_ms"] * MS)


def held_by(peer: Peer, store: MemoryFeeds, own: Set[str]) -> dict[str, StateSize]:
    """Return a peer's state by kind; messages of the feeds in `own` do not count as held for others."""
    connections = len(peer.connections)
    exchanges = peer.protocol.exchanges()
    tips = store.tips()
    others = [(tips[key], store.bytes(key)) for key in tips if key not in own]
    return {
        "connections": StateSize(connections, CONNECTION_BYTES * connections),
        "exchanges": StateSize(exchanges, EXCHANGE_BYTES * exchanges),
        "messages": StateSize(sum(tip for tip, _ in others), sum(size for _, size in others)),
    }


PEER_FEATURES: Final = frozenset(
    {Feature.MEDIUM, Feature.FOLLOWING, Feature.EXPORT, Feature.GATEWAYS, Feature.PICTURES}
)
"""What layerings of Scuttlebutt peers carry besides feeds."""
