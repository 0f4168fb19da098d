"""Interfaces of layerings and nodes: a layering's inputs and a node's duties in a run."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, Protocol, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict

from base.endpoint import Program
from base.key_log import Secret
from forwarder.pipelines.pit_size import StateSize as StateSize  # noqa: PLC0414 - layerings take it from here
from ssb.application import Event, Plan
from ssb.store.blobs import MemoryBlobs
from ssb.tiny.memory import MemoryTables
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Feature, Feed, Workload
from topologies.model import Topology
from topologies.ranges import expand_ranges
from topologies.routing import BY_DELAY, Routing

SSB_SERVER: Final = "ssb-server"
"""The stock Scuttlebutt peer."""
MOSQUITTO: Final = "mosquitto"
"""Debian's broker of MQTT."""


class Parameters(BaseModel):
    """Parameters of a layering, as a scenario's table [parameters.<layering>] gives them.

    Each has a default and both bounds; `feednet describe` shows them, with what is said below each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


NodeNames = Annotated[list[str], AfterValidator(lambda names: [*expand_ranges(names)])]
"""A parameter of names of nodes; a range stands for each of its names."""


@dataclass
class AppState:
    """Application state of a node that survives a restart: its progress in each feed.

    Attributes:
        published: feed key -> items with a reported publication.
        delivered: feed key -> items of the subscriber.
        clocks: peer -> its reported position, of a Scuttlebutt peer.
        log: the messages of the node's own feed, if its peer writes one besides the workload's.
        store: the disk of a tinySSB node.
        blobs: the blobs on its disk.
    """

    published: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    store: MemoryTables = field(default_factory=MemoryTables)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)


class EventRows:
    """Makes rows of a node's application events, without those reported before a restart.

    A row names a feed by its key.

    Args:
        node: its name.
        state: application state; kept up to date.
    """

    def __init__(self, node: str, state: AppState) -> None:
        self._node = node
        self._state = state
        self._delivered_before = state.delivered.copy()

    def of(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Return the rows of some events."""
        rows = []
        for event in events:
            if event.event == "published":
                if event.seq <= self._state.published[event.feed]:
                    continue
                self._state.published[event.feed] = event.seq
            elif event.event == "delivered":
                if event.seq <= self._delivered_before[event.feed]:
                    continue
                self._state.delivered[event.feed] = event.seq
            row = {
                "time": event.time,
                "node": self._node,
                "event": event.event,
                "feed": event.feed,
                "seq": event.seq,
                "bytes": event.size,
            }
            rows.append(row | ({"detail": event.detail} if event.detail else {}))
        return rows


@dataclass(frozen=True)
class Transfer:
    """Cross traffic: bulk transfer of a feed to one node, by a plan of its own."""

    feed: Feed
    to: str
    plan: Plan


class Process(NamedTuple):
    """A program on a node besides the node's own, with sockets of its own; in Mininet only.

    Attributes:
        argv: its words; it runs in a directory of its own, which is its HOME, too.
        files: initial files of the directory: name -> text.
        ready: its listening address and TCP port, once it is ready.
    """

    argv: tuple[str, ...]
    files: Mapping[str, str]
    ready: tuple[str, int]


class Limits(NamedTuple):
    """Bounds of a forwarder; see Forwarder, ContentStore and FeedStore.

    Attributes:
        cs_packets, cs_policy: of the content store.
        pit_entries: Interests pending.
        feeds: feeds with cached items.
        feed_items, feed_bytes: of each of them.
        feeds_bytes: of all of them.
    """

    cs_packets: int = 65_536
    cs_policy: str = "lru"
    pit_entries: int = 1 << 20
    feeds: int = 1024
    feed_items: int = 256
    feed_bytes: int = 1 << 20
    feeds_bytes: int = 64 << 20


USUAL = Limits()
"""The default bounds of a node."""


@dataclass(frozen=True)
class Context:
    """The inputs of a layering for building a node.

    Attributes:
        name: the node's.
        network: all nodes and links.
        workload: all publications and subscriptions.
        layering: the layering's name, and
        parameters: its parameters.
        seed: of the run; with the layering and the node it determines the node's random choices.
        start, stop: default times to subscribe and unsubscribe, ns on the run's clock.
        plan: when this node follows feeds; None if it does not.
        transfers: the cross traffic.
        strategies: name prefix -> forwarding strategy, for layerings over NDN.
        gateways: node with a Scuttlebutt peer -> the node of its gateway to an NDN network.
        stock: nodes with a stock Scuttlebutt peer.
        state: application state from before a restart, to be kept up to date.
        since: when the node was restarted, ns; None at the run's start.
        routing: the routing method, and failed parts of the network.
        prefixes: names, as URIs, served by other programs -> their nodes.
        limits: bounds of its forwarder, for layerings over NDN.
    """

    name: str
    network: Topology
    workload: Workload
    layering: str
    parameters: Mapping[str, Any]
    seed: int
    start: int
    stop: int
    plan: Plan | None
    transfers: tuple[Transfer, ...] = ()
    strategies: Mapping[str, str] = field(default_factory=dict)
    gateways: Mapping[str, str] = field(default_factory=dict)
    stock: frozenset[str] = frozenset()
    state: AppState = field(default_factory=AppState)
    since: int | None = None
    routing: Routing = BY_DELAY
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: Limits = USUAL


class Node(Protocol):
    """A node of a run; by default it has no events, no secrets, no state and no counters.

    Attributes:
        name: the node's.
        programs: its programs.
        state: application state; kept up to date by take_events().
    """

    name: str
    programs: list[Program]
    state: AppState

    def take_events(self) -> list[dict[str, Any]]:
        """Return the applications' events since the last call, as rows: see EventRows."""
        return []

    def take_secrets(self) -> list[Secret]:
        """Return the decryption secrets of the node's traffic since the last call: they go into the capture
        and the key log of the run.
        """
        return []

    def held(self) -> dict[str, StateSize]:
        """Return the state held for other nodes and for feeds, by kind: always the same kinds."""
        return {}

    def counters(self) -> dict[str, Any]:
        """Return its other counters, by name."""
        return {}


@runtime_checkable
class ReroutableNode(Protocol):
    """A node with routes of its own, besides those of IP."""

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Update to the best routes now."""
        ...


@runtime_checkable
class StrategyNode(Protocol):
    """A node with forwarding strategies."""

    def choose_strategy(self, prefix: str, strategy: str) -> None:
        """Change the strategy of a name prefix; both as scenarios write them."""
        ...


@runtime_checkable
class RoutesNode(Protocol):
    """A node with a readable table of routes."""

    def routes(self) -> dict[str, dict[str, int]]:
        """Return the routes: name prefix, a URI -> {neighbour: cost}; "" for applications of the node."""
        ...


def sample(node: Node, now: int) -> dict[str, Any]:
    """Return the state and the counters of a node, as a row of counters.jsonl."""
    state = {kind: {"entries": entries, "bytes": size} for kind, (entries, size) in node.held().items()}
    return {"time": now, "node": node.name, "state": state, **node.counters()}


def report_of(node: Node, now: int) -> dict[str, Any]:
    """Return a node's state as JSON has it; the node's events must have been taken before."""
    row = sample(node, now)
    return {
        "published": dict(node.state.published),
        "delivered": dict(node.state.delivered),
        "held": row.pop("state"),
        "routes": node.routes() if isinstance(node, RoutesNode) else {},
        "counters": {name: value for name, value in row.items() if name not in ("time", "node")},
    }


class Layering(Protocol):
    """One way to carry feeds.

    Attributes:
        title: for people, a few words.
        parameters: model of its parameters.
        protocol: carries feeds between nodes, by its name in analysis/decode/protocols.
        carries: its features besides carrying feeds.
    """

    @property
    def protocol(self) -> str: ...

    @property
    def carries(self) -> frozenset[Feature]: ...

    @property
    def title(self) -> str: ...

    @property
    def parameters(self) -> type[Parameters]: ...

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        ...


class SimpleLayering(NamedTuple):
    """A Layering that is no more than its parts.

    Attributes: see Layering. node: makes a node of a run.
    """

    title: str
    parameters: type[Parameters]
    node: Callable[[Context], Node]
    protocol: str
    carries: frozenset[Feature]

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return self.node(context)


def middle_of(layering: str, network: Topology, ends: Collection[str], at: str | None) -> str:
    """Return the node of a layering's broker or room: `at`, or the one with most links that is no end.

    Raises UserError if `at` publishes or follows, or all nodes do.
    """
    links = Counter(interface.node for interface in network.interfaces)
    places = [node for node in network.nodes if node not in ends]
    if not places:
        raise UserError(
            f"{layering}: every node publishes or follows; {layering} needs one that does neither"
        )
    if at in ends:
        raise UserError(f"{layering}: at: {at!r} publishes or follows, and its place has to do neither")
    return at or max(places, key=lambda node: links[node])
