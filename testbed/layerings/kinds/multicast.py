"""Feeds by multicast: a tree from each publisher to its readers, whose losses the nodes on it repair."""

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address
from random import Random
from typing import Any, Final

from pydantic import Field

from base.endpoint import Address, LinkPort, Program
from base.passive import PassiveEndpoint
from base.timers import earliest
from base.units import MS
from ssb.application import Event
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.multicast.ends import Beats, Gone, Reader, Source, segments
from ssb.multicast.gaps import Patience
from ssb.multicast.host import Host
from ssb.multicast.packets import ITEM_BYTES, PORT, Channel, InvalidPacket
from ssb.multicast.router import LOCAL, Router
from ssb.store.memory import MemoryFeeds
from ssb.work import WORK
from testbed.layerings.nodes.node import Context, Parameters, SimpleLayering, StateSize
from testbed.layerings.nodes.peer_role import Publication, RoleNode
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature, Feed, Workload
from topologies.model import Topology
from topologies.routing import Routing, routes

_IP_UDP: Final = 28
_FIRST_GROUP: Final = 0xE8000100
"""232.0.1.0: those before it are not for sources to choose (RFC 4607, section 9)."""
_END_BYTES: Final = 32
"""State of an end: its channel, and three numbers or times of 8 bytes each, as of others."""


class MulticastParameters(Parameters):
    """Parameters of `multicast`."""

    heartbeat_ms: int = Field(default=100, ge=1, le=3_600_000)
    """Time from an item to the first heartbeat of its source, by which nodes notice that the last items are
    lost. Each further one comes after twice the time."""
    ambient_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    """Longest time between heartbeats."""
    kept: int = Field(default=256, ge=0, le=4096)
    """Newest segments of each feed that a node keeps for repairs. 0: the source alone repairs."""
    reorder_ms: int = Field(default=2, ge=0, le=10_000)
    """How long a node waits for a segment that its neighbour has sent, and a later one has overtaken."""
    suppression_ms: int = Field(default=100, ge=0, le=60_000)
    """How long a node waits for a segment that its neighbour lacks, too: the neighbour asks for it."""


class MulticastNode(RoleNode, PassiveEndpoint):
    """A node: a router of trees, the sources of its feeds, and the readers of those that it follows.

    Attributes: see Node.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._role.calls_at = None
        self._context = context
        parameters = context.parameters
        self._patience = Patience(parameters["reorder_ms"] * MS, parameters["suppression_ms"] * MS)
        ports = dict(enumerate(context.network.ends_of(context.name), start=LOCAL + 1))
        self._port_towards = {end.peer: port for port, end in reversed(ports.items())}
        self._of_feed = channels(context.network, context.workload)
        router = Router(
            ports,
            self._routes(context.network, context.routing),
            parameters["kept"],
            self._patience,
            Random(f"{context.seed} multicast {context.name} {context.since}"),
            context.since,
        )
        self._host = Host(router)
        self._moved: tuple[int, dict[bytes, int]] | None = (
            None  # routes that have changed, and the time before
        )
        self._now = context.since or 0
        self._size = context.network.least_mtu - _IP_UDP - ITEM_BYTES
        for feed in self._role.feeds:
            self._host.add(self._of_feed[feed.key], self._source(feed), self._now)
        self._keys = {channel: key for key, channel in self._of_feed.items()}
        self._store = MemoryFeeds()
        self._forked: set[str] = set()
        self._rejected = self._malformed = 0
        self.programs = [Program(self, {port: LinkPort(end, PORT) for port, end in ports.items()})]

    def _routes(self, network: Topology, routing: Routing) -> dict[bytes, int]:
        """Return the port towards each publisher that can be reached."""
        found = {_address(network, self.name): LOCAL}
        for publisher in self._context.workload.publishers - {self.name}:
            hop = routes(network, publisher, routing).get(self.name)
            if hop is not None and hop.into.node in self._port_towards:
                found[_address(network, publisher)] = self._port_towards[hop.into.node]
        return found

    def _source(self, feed: Feed) -> Source:
        parameters = self._context.parameters
        beats = Beats(parameters["heartbeat_ms"] * MS, parameters["ambient_ms"] * MS)
        log = [message.encoded for message in feed.messages[: self.state.published[feed.key]]]
        return Source(self._of_feed[feed.key], self._size, log, beats=beats)

    def reroute(self, network: Topology, routing: Routing) -> None:
        """See ReroutableNode: trees move as soon as the node is woken."""
        self._moved = self._now, self._routes(network, routing)

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self._now = now
        try:
            self._host.receive(port, payload, now)
        except InvalidPacket:
            self._malformed += 1
        self._take_items(now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        self._now = now
        self._host.set_link(port, up, now)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        outputs, self._host.outputs = self._host.outputs, []
        return [(port, packet, None) for port, packet in outputs]

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        moved = None if self._moved is None else self._moved[0]
        return earliest(moved, self._role.next_deadline(), self._host.next_deadline())

    def wake(self, now: int) -> None:
        self._now = now
        if self._moved is not None:
            self._host.reroute(self._moved[1], now)
            self._moved = None
        super().wake(now)
        self._host.wake(now)
        self._take_items(now)

    def _join(self, now: int) -> None:
        for key, feed in self._role.follows.items():
            here = feed.messages[: self.state.delivered[key]]
            self._store.append(here, 0.0)
            floor = sum(len([*segments(message.encoded, self._size)]) for message in here)
            channel = self._of_feed[key]
            self._host.add(channel, Reader(channel, floor, self._patience), now)

    def _leave(self, now: int) -> None:
        for channel in [each for each, end in self._host.ends.items() if isinstance(end, Reader)]:
            self._host.remove(channel, now)

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        WORK.sign += len(due)  # they were signed before the run
        for each in due:
            self._note(now, "published", each.message)
            self._host.publish(self._of_feed[each.message.author], each.message.encoded, now)

    def _take_items(self, now: int) -> None:
        items, self._host.items = self._host.items, []
        for channel, item in items:
            self._take_in(self._keys[channel], item, now)

    def _take_in(self, feed: str, item: bytes | Gone, now: int) -> None:
        """Deliver a feed's next item. Nobody signs packets, so what is no valid message of it is dropped."""
        if feed in self._forked or feed not in self._role.follows:
            return
        if isinstance(item, Gone):
            self._note_error(feed, f"segments {item.first} to {item.last} are gone", now)
            return
        try:
            message = Message.from_text(item)
        except InvalidMessage:
            self._rejected += 1
            return
        is_next = message.author == feed and message.sequence == self._store.tips().get(feed, 0) + 1
        error = self._store.append([message], 0.0).refused.get(feed) if is_next else None
        if isinstance(error, ForkedFeed):
            self._forked.add(feed)
            self._note_error(feed, str(error), now)
        elif error is not None or not is_next:
            self._rejected += 1
        else:
            self._note(now, "delivered", message)

    def _note_error(self, feed: str, error: str, now: int) -> None:
        self._events.append(Event(now, "error", feed, detail=error))

    def held(self) -> dict[str, StateSize]:
        """Return the node's state: trees, repairs under way, and its sources and readers."""
        ends = len(self._host.ends)
        return {
            "trees": StateSize(*self._host.router.trees()),
            "repairs": StateSize(*self._host.router.repairs()),
            "ends": StateSize(ends, _END_BYTES * ends),
        }

    def counters(self) -> dict[str, Any]:
        """Return the bytes kept for repairs, and what was dropped."""
        return {
            "kept_bytes": self._host.router.kept_bytes,
            "strays": self._host.router.strays,
            "malformed": self._malformed,
            "rejected": self._rejected,
        }


def channels(network: Topology, workload: Workload) -> dict[str, Channel]:
    """Return the channel of each feed, by its key: its publisher's address, and one of its groups."""
    found: dict[str, Channel] = {}
    groups: Counter[str] = Counter()
    for feed in workload.feeds:
        group = (_FIRST_GROUP + groups[feed.publisher]).to_bytes(4)
        groups[feed.publisher] += 1
        found[feed.key] = Channel(_address(network, feed.publisher), group)
    return found


def _address(network: Topology, node: str) -> bytes:
    return IPv4Address(network.address(node)).packed


_FEATURES: Final = frozenset({Feature.FOLLOWING, Feature.EXPORT})
MULTICAST: Final = SimpleLayering(
    title("multicast"), MulticastParameters, MulticastNode, "multicast", _FEATURES
)
"""Layering `multicast`."""
