"""The rungs of the replication ladder, as layerings: swarms of peers over the underlay."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any

from pydantic import Field

from base.units import MS
from ssb.replication.replication import Replication
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.gossip import Gossip
from ssb.replication.rungs.hub import Hub, HubClient
from ssb.replication.rungs.poll import Poll
from ssb.replication.rungs.rung import Rung
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from testbed.layerings.nodes.node import Context, Parameters, SimpleLayering
from testbed.layerings.nodes.peer_role import Role, peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ssb import PEER_FEATURES, EbtTimes, SsbNode
from topologies.model import Topology

_POLLS = ("scan", "append-poll")


class RungParameters(Parameters):
    """Parameters of all rungs."""

    hops: int = Field(default=1, ge=1, le=10)
    """How many follows lead to the feeds that a subscriber replicates. 1: those that it follows."""
    encrypt: bool = True
    """Handshake and box stream. Without them a run shows the cost of encryption."""


class PollParameters(RungParameters):
    """Parameters of rungs that call others now and then."""

    interval_ms: int = Field(default=1000, ge=10, le=86_400_000)
    """Time from one call to the next: of each publisher under polls, of one random peer under gossip."""


class HubParameters(RungParameters):
    """Parameters of `hub`."""

    interval_ms: int = Field(default=0, ge=0, le=86_400_000)
    """Time from one call of the hub to the next. 0: clients call once, and stay connected."""
    at: str | None = None
    """The node where the hub is. Left out: the one with most links, the first of them."""


class FloodParameters(RungParameters):
    """Parameters of `flood`."""

    connections: int = Field(default=5, ge=1, le=1000)
    """Random peers that each peer calls, and stays connected with."""


class EbtParameters(EbtTimes, FloodParameters):
    """Parameters of `ebt`."""


class RungNode(SsbNode):
    """A node whose peer replicates by a rung.

    Publishers and subscribers are one swarm, in which each may call each.
    """

    def __init__(self, context: Context) -> None:
        self._kind = context.layering
        self._most: int = context.parameters.get("connections", 0)
        self._interval: int = context.parameters.get("interval_ms", 0) * MS
        self._hub = hub_of(context.network, context.parameters) if self._kind == "hub" else ""
        seed = f"swarm {context.seed} {context.layering} {context.name}"
        self._luck = Random(hashlib.sha256(seed.encode()).digest())
        swarm = context.workload.publishers | context.workload.follows.keys()
        self._others = [self._hub] if self._hub else sorted(swarm - {context.name})
        self._rung: Rung | None = None
        self._called: set[str] = set()  # and not ended since
        self._witness = Witness(context) if self._hub == context.name else None
        super().__init__(context)
        if context.name not in swarm and context.name != self._hub:
            self.programs = []
        if self._kind not in _POLLS:
            self._role.stays_connected = True
            self._role.calls_at = None
            if context.name in swarm and self._others not in ([], [context.name]):
                first = int(self._luck.random() * self._interval)
                self._role.calls_at = (context.since or 0) + first

    def counters(self) -> dict[str, Any]:
        """Return SsbNode's counters; below EBT, also clock elements sent, and redundant messages received."""
        counted = super().counters()
        if self._rung is not None:
            counted |= {"clock_elements": self._rung.elements, "repeated": self._rung.repeated}
        return counted

    def _observe(self, witness: Witness) -> None:
        """See SsbNode; a hub knows the feeds that its clients follow."""
        for session in self._rung.sessions.values() if self._rung is not None else ():
            witness.hears(session.remote, session.clock)

    def _replication(self, context: Context, role: Role, store: MemoryFeeds) -> Replication | None:
        wanted = sorted(feed.key for feed in role.feeds)
        match self._kind:
            case "scan" | "append-poll":
                authors = defaultdict(list)
                for feed in role.follows.values():
                    authors[peer_identity(context.seed, feed.publisher).ref].append(feed.key)
                self._rung = Poll(store, wanted, authors, whole=self._kind == "scan")
            case "flood":
                self._rung = Flood(store, wanted)
            case "hub" if context.name == self._hub:
                self._rung = Hub(store, MemoryClocks(context.state.clocks), wanted)
            case "hub":
                clocks = MemoryClocks(context.state.clocks)
                self._rung = HubClient(store, wanted, wanted, clocks, stays=not self._interval)
            case "ebt" | "holes":
                return None
            case kind:
                skips = kind == "gossip-skip"
                self._rung = Gossip(store, wanted, MemoryClocks(context.state.clocks) if skips else None)
        return self._rung

    def _call(self, now: int) -> int | None:
        if not self._role.follows and not self._role.feeds:
            return None
        busy = self._peer.connections.called | {
            connection.remote for connection in self._peer.connections.values()
        }
        for remote in sorted(self._called - busy):  # it was unreachable
            self._called.discard(remote)
            self._peer.remove(remote, now)
        if self._kind not in _POLLS:
            count = min(self._most, len(self._others)) if self._most else 1
            self._calls = self._addresses(self._luck.sample(self._others, count))
        super()._call(now)
        self._called |= self._calls.keys()
        return now + self._interval if self._interval else None

    def _part(self, remote: str, now: int) -> None:
        """See SsbNode: the call is complete."""
        if self._interval:
            self._called.discard(remote)
            self._peer.remove(remote, now)


def hub_of(network: Topology, parameters: Mapping[str, Any]) -> str:
    """Return the node of the hub."""
    links = Counter(interface.node for interface in network.interfaces)
    return parameters["at"] or max(network.nodes, key=lambda node: links[node])


def _rung(name: str, parameters: type[Parameters]) -> SimpleLayering:
    # Those that poll hang up once feeds are complete, and pictures take longer.
    carries = PEER_FEATURES - ({Feature.PICTURES} if parameters is PollParameters else set())
    return SimpleLayering(title(name), parameters, RungNode, "ssb", carries)


RUNGS = {
    "scan": _rung("scan", PollParameters),
    "append-poll": _rung("append-poll", PollParameters),
    "gossip": _rung("gossip", PollParameters),
    "gossip-skip": _rung("gossip-skip", PollParameters),
    "flood": _rung("flood", FloodParameters),
    "ebt": _rung("ebt", EbtParameters),
    "hub": _rung("hub", HubParameters),
}
"""The rungs by name."""
