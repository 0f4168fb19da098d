"""What a layering is, what it builds a node from, and what a run asks of the node."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from base.endpoint import Program
from base.key_log import Secret
from ssb.application import Event, Plan
from testbed.layerings.nodes.workload import Feature, Feed, Workload
from topologies.model import Topology
from topologies.routing import BY_DELAY, Routing


class Parameters(BaseModel):
    """Parameters of a layering, as a scenario's table [parameters.<layering>] gives them.

    Each has a default and both bounds; `feednet describe` shows them, with what is said below each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


@dataclass
class AppState:
    """What the applications of a node keep when it starts anew: how far they are in each feed.

    Attributes:
        published: feed key -> items whose publication has been reported.
        delivered: feed key -> items that the subscriber has.
        clocks: peer -> how far it said it was, of a Scuttlebutt peer.
        log: the messages of the node's own feed, if its peer writes one besides the workload's.
        store: the disk of a tinySSB node.
    """

    published: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    store: bytes = b""


class EventRows:
    """Makes rows of a node's application events, without those that it reported before a restart.

    A row names a feed by its key.

    Args:
        node: its name.
        state: what its applications keep; kept up to date.
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
    """Cross traffic: a feed that one node fetches from another in bulk, by a plan of its own."""

    feed: Feed
    to: str
    plan: Plan


class Process(NamedTuple):
    """A program that runs on a node beside the node's own, with sockets of its own; in Mininet only.

    Attributes:
        argv: its words; it runs in a directory of its own, which is its HOME, too.
        files: what is in the directory at first: name -> text.
        ready: the address and TCP port at which it listens when it is ready.
    """

    argv: tuple[str, ...]
    files: Mapping[str, str]
    ready: tuple[str, int]


class Limits(NamedTuple):
    """What a forwarder holds at most; see Forwarder, ContentStore and FeedStore.

    Attributes:
        cs_packets, cs_policy: of the content store.
        pit_entries: Interests pending.
        feeds: feeds whose items are cached.
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
"""The bounds of a node whose scenario says nothing of them."""


@dataclass(frozen=True)
class Context:
    """What a layering builds a node from.

    Attributes:
        name: the node's.
        network: all nodes and links.
        workload: all that is published and followed.
        layering: the layering's name, and
        parameters: its parameters.
        seed: of the run; what a node draws follows from it, the layering and the node.
        start, stop: when subscribers without plans subscribe and unsubscribe, ns on the run's clock.
        plan: when this node follows feeds; None if it does not.
        transfers: the cross traffic.
        strategies: name prefix -> forwarding strategy, for layerings over NDN.
        gateways: node with a Scuttlebutt peer -> the node by whose gateway it reaches an NDN network.
        stock: nodes whose Scuttlebutt peer is a stock one.
        state: what the node's applications know from before a restart, and are to keep.
        since: when the node was restarted, ns; None at the run's start.
        routing: how routes over the network are chosen, and what of it is down.
        prefixes: names, as URIs, that programs besides the run's own serve -> their nodes.
        limits: what its forwarder holds at most, for layerings over NDN.
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


class StateSize(NamedTuple):
    """State of one kind: the entries that a node holds, and their bytes by docs/architecture.md."""

    entries: int
    bytes: int


class Node(Protocol):
    """A node of a run.

    Attributes:
        name: the node's.
        programs: what runs on it.
        state: what its applications keep; kept up to date by take_events().
    """

    name: str
    programs: list[Program]
    state: AppState

    def take_events(self) -> list[dict[str, Any]]:
        """Return the applications' events since the last call, as rows: see EventRows."""
        ...

    def take_secrets(self) -> list[Secret]:
        """Return the secrets since the last call by which what the node sent and received can be read: they
        go into the capture and the key log of the run."""
        ...

    def held(self) -> dict[str, StateSize]:
        """Return what the node holds for other nodes and for feeds, by kind: always the same kinds."""
        ...

    def counters(self) -> dict[str, Any]:
        """Return what else it counts, by name."""
        ...


@runtime_checkable
class Rerouted(Protocol):
    """A node that has routes of its own, besides those of IP."""

    def reroute(self, network: Topology, routing: Routing) -> None:
        """Take the routes that are best now."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A node that forwards by strategies."""

    def choose_strategy(self, prefix: str, strategy: str) -> None:
        """Forward names under a prefix by another strategy from now on; both as scenarios write them."""
        ...


@runtime_checkable
class Routed(Protocol):
    """A node that tells its routes by names."""

    def routes(self) -> dict[str, dict[str, int]]:
        """Return them: name prefix, a URI -> {neighbour: cost}; "" stands for applications of the node."""
        ...


def sample(node: Node, now: int) -> dict[str, Any]:
    """Return the state and the counters of a node, as a row of counters.jsonl."""
    state = {kind: held._asdict() for kind, held in node.held().items()}
    return {"time": now, "node": node.name, "state": state} | node.counters()


def report_of(node: Node, now: int) -> dict[str, Any]:
    """Return a node's state as JSON has it; the node's events must have been taken before."""
    row = sample(node, now)
    return {
        "published": dict(node.state.published),
        "delivered": dict(node.state.delivered),
        "held": row.pop("state"),
        "routes": node.routes() if isinstance(node, Routed) else {},
        "counters": {name: value for name, value in row.items() if name not in ("time", "node")},
    }


class Layering(Protocol):
    """One way to carry feeds.

    Attributes:
        title: for people, a few words.
        parameters: model of its parameters.
        protocol: what carries feeds between nodes, by its name in analysis/decode/protocols.
        carries: what it can do besides carrying feeds.
    """

    @property
    def protocol(self) -> str: ...  # noqa: D102

    @property
    def carries(self) -> frozenset[Feature]: ...  # noqa: D102

    @property
    def title(self) -> str: ...  # noqa: D102

    @property
    def parameters(self) -> type[Parameters]: ...  # noqa: D102

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        ...
