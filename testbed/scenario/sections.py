"""The tables of a scenario file, each checked by itself; testbed.scenario.rules checks them
together.

Every number has bounds, so that none can make a run that never ends or that no memory holds.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, TypeGuard, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from base.units import US
from forwarder.wire.name import from_uri
from ssb.store.blobs import MAX_SIZE
from testbed.errors import suggestion
from testbed.layerings.nodes.node import USUAL, Limits
from topologies import library
from topologies.conf import read_conf
from topologies.emulator.processor import Costs
from topologies.generate import GENERATORS, generate
from topologies.graphs import is_graphml, read_graphml
from topologies.link import LINK_PARAMETERS, LinkParameters
from topologies.model import Link, Medium, Topology, TopologyError
from topologies.parameter import declared
from topologies.radio import RADIO_PARAMETERS, Radio, RadioError
from topologies.ranges import expand_ranges
from topologies.routing import Metric, Paths, Routing

DAY_MS = 86_400_000
LAST_MS = 2 * DAY_MS
"""The last time from the start of a run that a scenario can name: a day, and a day after."""

Milliseconds = Annotated[float, Field(ge=0, le=LAST_MS, allow_inf_nan=False)]
"""A time, or a point in time from the start of a run."""


class Section(BaseModel):
    """A table: its keys are known, and what is read stays as it is.

    Each key has its words below it; `feednet describe KEY` and docs/reference.md show them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def table_keys(table: type) -> dict[str, Any]:
    """Return the keys of a table, a Section or LinkParameters or Radio, each with the type of its value."""
    if issubclass(table, Section):
        return {field.alias or name: field.annotation for name, field in table.model_fields.items()}
    return {name: table.__annotations__[name] for name in declared(table)}


def tables_in(annotation: Any) -> Iterator[type]:
    """Yield the tables that a key's type allows, one or many of each."""
    if isinstance(annotation, type) and issubclass(annotation, Section | LinkParameters | Radio):
        yield annotation
    for inner in get_args(annotation):
        yield from tables_in(inner)


_Carrier = TypeVar("_Carrier", Link, Medium)


def _is_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


class Users(Section):
    """Users of a network: nodes with one link each, to a node of the network.

    They are called u1, u2 ... and join the nodes in turn.
    """

    number: int = Field(ge=1, le=10_000)
    """How many."""
    at: tuple[str, ...] = ()
    """The nodes that they join. Left out: all, in the network's order."""
    link: LinkParameters = LinkParameters()
    """What their links are like."""

    def join(self, network: Topology) -> Topology:
        """Return the network with the users. Raises TopologyError."""
        for node in self.at:
            if node not in network.nodes:
                raise TopologyError(
                    f"[topology.users] at: {node!r} is not a node; {suggestion(node, network.nodes)}"
                )
        places = self.at or network.nodes
        names = [f"u{number}" for number in range(1, self.number + 1)]
        taken = next((name for name in names if name in network.nodes), None)
        if taken is not None:
            raise TopologyError(f"[topology.users] the network has a node {taken} already; rename it")
        links = (Link(places[at % len(places)], name, **asdict(self.link)) for at, name in enumerate(names))
        return replace(network, nodes=(*network.nodes, *names), links=(*network.links, *links))


class TopologySpec(Section):
    """The network: a generator with its own numbers, a file, a network of the library, or links and media one
    by one.

    A generator's own numbers are keys of this table, too.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    generator: str | None = None
    """The kind of a network that is made by numbers, which are keys of this table, too."""
    file: str | None = None
    """A file of Mini-NDN, or GraphML if its name ends in `.graphml` or `.xml`; relative to the scenario."""
    library: str | None = None
    """A real network of the library: `feednet list` has their names."""
    links: tuple[dict[str, Any], ...] = ()
    """Links one by one. Each has `a` and `b`, the two nodes that it joins, `cost` and `cost_back` for routing
    by cost, and what differs from `link`. If `b` is a range such as "c1..c9", there is
    one link to each node in the range."""
    media: tuple[dict[str, Any], ...] = ()
    """Broadcast media. Each has `name`, `members` (nodes, or ranges of them), what differs from `link`, and
    `losses`: the loss_percent of receivers that have another."""
    attributes: dict[str, dict[str, str]] = Field(default_factory=dict)
    """What is said of single nodes, such as their coordinates. It also puts them in another order than that
    in which links name them, which decides on addresses."""
    link: LinkParameters = LinkParameters()
    """What all links and media are like. It replaces what a file or the library says of links."""
    replaced: tuple[str, ...] | None = None
    """The parameters of `link` that do so. Left out: those that `link` names."""
    users: Users | None = None
    """Nodes that are added to the network, as users are to a backbone."""

    radio: Radio | None = None
    """What makes all media radio cells, but those that say `radio = false`; one whose `radio` is a table has
    what differs."""

    @model_validator(mode="before")
    @classmethod
    def _names_what_is_replaced(cls, table: Any) -> Any:
        if isinstance(table, dict) and (table.get("file") or table.get("library")):
            link = table.get("link")
            return {"replaced": [*link] if isinstance(link, dict) else None, **table}
        return table

    @field_validator("replaced")
    @classmethod
    def _are_parameters(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if name not in LINK_PARAMETERS:
                raise ValueError(f"{name!r} is no parameter of links; {suggestion(name, LINK_PARAMETERS)}")
        return names

    @field_validator("radio", mode="before")
    @classmethod
    def _in_range(cls, value: Any) -> Any:
        return _radio(Radio(), value) if isinstance(value, dict) else value

    @classmethod
    def listed(cls, topology: Topology) -> dict[str, Any]:
        """Return the table [topology] that lists a topology's links."""
        plain = asdict(LinkParameters())
        links = [_differing(asdict(link), plain) for link in topology.links]
        media = [_differing(asdict(medium), plain) for medium in topology.media]
        attributes = {node: dict(topology.attributes.get(node, {})) for node in topology.nodes}
        return {"links": links, "media": media, "attributes": attributes}

    @property
    def replacing(self) -> dict[str, Any]:
        """The link parameters that override a file or the library, by name."""
        return {name: getattr(self.link, name) for name in self.replaced or ()}

    def build(self) -> Topology:
        """Return the topology. Raises TopologyError."""
        network = self._network()
        return network if self.users is None else self.users.join(network)

    def _network(self) -> Topology:
        shape = dict(self.__pydantic_extra__ or {})
        given = [key for key in ("generator", "file", "library") if getattr(self, key)]
        given += ["links"] if self.links or self.media else []
        if len(given) != 1:
            names = ", ".join(GENERATORS)
            said = f"one of generator ({names}), file, library ({', '.join(library.networks())})"
            raise TopologyError(f"[topology] needs {said}, or links and media")
        if self.attributes and given != ["links"]:
            raise TopologyError("[topology] attributes: belongs to links and media")
        if self.radio is not None and not self.media:
            raise TopologyError("[topology.radio]: there are no media that could be radio cells")
        if given != ["generator"] and shape:
            raise TopologyError(f"[topology] {next(iter(shape))}: unknown key")
        changed = self.replacing
        if self.library:
            return library.build(self.library, **changed)
        if self.file and is_graphml(self.file):
            return read_graphml(self.file, **changed)
        if self.file:
            return read_conf(self.file, **changed)
        if self.links or self.media:
            return self._listed()
        assert self.generator is not None
        return generate(self.generator, shape, asdict(self.link))

    def _listed(self) -> Topology:
        links = []
        for number, fields in enumerate(self.links, start=1):
            place = f"[[topology.links]] number {number}"
            if not all(isinstance(fields.get(end), str) for end in ("a", "b")):
                raise TopologyError(f"{place}: a and b must name the two nodes that it joins")
            for b in _in_topology(place, [fields["b"]]):
                links.append(self._made(Link, fields | {"b": b}, f"{place}: it has a, b, cost, cost_back"))
        media = []
        for number, fields in enumerate(self.media, start=1):
            place = f"[[topology.media]] number {number}"
            members, losses = fields.get("members"), fields.get("losses", {})
            if not isinstance(fields.get("name"), str) or not _is_texts(members):
                raise TopologyError(f"{place}: name must be a text, and members name the nodes on it")
            if not isinstance(losses, dict):
                raise TopologyError(f"{place}: losses must be a table of members and percentages")
            has = f"{place}: it has name, members, losses, radio"
            radio = self.radio
            if fields.get("radio") is False:
                radio = None
            elif isinstance(fields.get("radio"), dict):
                try:
                    radio = _radio(self.radio or Radio(), fields["radio"])
                except RadioError as error:
                    raise TopologyError(f"{place}: radio: {error}") from None
            elif "radio" in fields:
                raise TopologyError(f"{place}: radio must be a table, or false")
            own = fields
            if radio is not None:  # a link's rate does not apply to it
                own = {"bw_mbit": None, **fields}
            whole = {**own, "members": _in_topology(place, members), "radio": radio}
            media.append(self._made(Medium, whole, has))
        joined = [node for link in links for node in (link.a, link.b)]
        joined += [node for medium in media for node in medium.members]
        nodes = tuple(dict.fromkeys([*self.attributes, *joined]))
        attributes = {node: said for node, said in self.attributes.items() if said}
        return Topology(nodes, tuple(links), tuple(media), attributes=attributes)

    def _made(self, kind: type[_Carrier], fields: dict[str, Any], has: str) -> _Carrier:
        try:
            return kind(**{**asdict(self.link), **fields})
        except TypeError:
            raise TopologyError(f"{has} and the parameters {', '.join(LINK_PARAMETERS)}") from None


def _in_topology(place: str, names: Iterable[str]) -> tuple[str, ...]:
    try:
        return expand_ranges(names)
    except ValueError as error:
        raise TopologyError(f"{place}: {error}") from None


def _differing(fields: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a link's or medium's parameters that differ from the common ones; no None, which TOML lacks."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value is not None and (name not in plain or value != plain[name])
    }


def _radio(common: Radio, different: dict[str, Any]) -> Radio:
    """Return a radio with changed parameters. Raises RadioError."""
    for name in different:
        if name not in RADIO_PARAMETERS:
            raise RadioError(f"{name}: unknown key; there are {', '.join(RADIO_PARAMETERS)}")
    return replace(common, **different)


class Schedule(Section):
    """When messages are published: by their own timestamps, faster, with long silences cut short."""

    speed: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How many times as fast as their timestamps say."""
    idle_limit_ms: float = Field(default=1000.0, gt=0, le=DAY_MS, allow_inf_nan=False)
    """The longest silence between two messages of the first feed."""


class NodeSpec(Section):
    """What runs on a node, where that does not follow from its role."""

    peer: Literal["feednet", "ssb-server"] = "feednet"
    """The program that is its Scuttlebutt peer: feednet's, or npm's ssb-server, in Mininet only."""
    forwarder: Literal["feednet", "feednetd", "nfd"] = "feednet"
    """The program that forwards NDN packets: feednet's own, inside the run; `feednetd`, which is `feednet
    forward` as a program of its own; or `nfd`. The latter two are for nodes that only forward, in Mininet."""
    gateway: str | None = None
    """The node by which this one, a Scuttlebutt peer, reaches an NDN network; without effect under layerings
    that are not over NDN."""


class ForwardersSpec(Section):
    """What NDN's forwarders hold at most, at each node.

    A forwarder that is a program of its own has bounds of its own.
    """

    cs_packets: int = Field(default=USUAL.cs_packets, ge=0, le=10_000_000)
    """Data packets in a content store; 0 switches it off."""
    cs_policy: Literal["lru", "priority_fifo"] = "lru"
    """Which of them goes first: the one that was used least recently; or, in this order, one that nobody had
    asked for, one that is stale, the oldest."""
    pit_entries: int = Field(default=USUAL.pit_entries, ge=1, le=100_000_000)
    """Interests that are pending. What would be more is refused: a Nack says Congestion."""
    feeds: int = Field(default=USUAL.feeds, ge=1, le=1_000_000)
    """Feeds whose items forwarders cache that push them."""
    feed_items: int = Field(default=USUAL.feed_items, ge=1, le=1_000_000)
    """Items of each such feed."""
    feed_bytes: int = Field(default=USUAL.feed_bytes, ge=1, le=1 << 40)
    """Bytes of each such feed's packets."""
    feeds_bytes: int = Field(default=USUAL.feeds_bytes, ge=1, le=1 << 40)
    """Bytes of all such packets."""

    @property
    def limits(self) -> Limits:
        """The bounds, for a node."""
        return Limits(**self.model_dump())


MACHINES: Final = {
    "xeon-vm": {"forward_us": 4.0, "verify_us": 47.0, "sign_us": 20.0, "hash_us": 80.0, "store_us": 130.0},
}
"""Times of machines, measured by `python -m testbed.bench.runs.cost`."""


class CostSpec(Section):
    """What operations cost nodes, in time: emulated ones take none by default.

    A node's programs share one processor, which does one thing after another. What arrives meanwhile waits.
    Routers of IP packets, and the kernels of nodes, take no time.
    """

    machine: Literal["", "xeon-vm"] = ""
    """A machine whose times hold where no others are given: `xeon-vm`, a core of an Intel Xeon in a virtual
    machine, and feednet in plain Python (4, 47, 20, 80 and 130 µs)."""
    forward_us: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """Of a frame that a program receives or sends, and all else that it does about it."""
    verify_us: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """Of verifying a signature."""
    sign_us: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """Of making a signature."""
    hash_us: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """Of hashing an item, and all else about it besides frames and signatures: reading it, comparing it with
    the items beside it, credit."""
    store_us: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """Of a message that a Scuttlebutt peer, or the keeper of an SSB-aware forwarder, stores."""
    batch: int = Field(default=64, ge=1, le=65536)
    """Frames that have come while the processor was busy and that it takes up at once. Under controlled push,
    the items of a feed among them are verified by one signature. 1: each is verified for itself."""
    queue: int = Field(default=1000, ge=1, le=1_000_000)
    """Frames that wait at a node at most; what comes then is dropped. Streams wait without a bound."""

    @property
    def costs(self) -> Costs | None:
        """The costs, for nodes; None if all is free."""
        given = self.model_dump(exclude={"machine", "batch", "queue"}, exclude_none=True)
        times = {
            name.removesuffix("_us"): round(time * US)
            for name, time in (MACHINES.get(self.machine, {}) | given).items()
        }
        return Costs(**times, batch=self.batch, queue=self.queue) if any(times.values()) else None


class ProgramSpec(Section):
    """A program of the user's own on a node, in Mininet only.

    It runs in the node's network namespace, in the directory in which the run was started, with a HOME of the
    node's own, and finds the node's forwarder. What it prints is in LAYERING/programs/NODE-NUMBER.txt.
    """

    node: str
    """Where it runs."""
    run: tuple[str, ...] = Field(min_length=1)
    """Its words; a text is cut into words as a shell does."""
    at_ms: Milliseconds = 0.0
    """When it is started, from the run's start; it is ended with the run."""
    prefixes: tuple[str, ...] = ()
    """Names that it serves: the forwarders of all other nodes have routes for them to its node."""

    @field_validator("run", mode="before")
    @classmethod
    def _words(cls, run: Any) -> Any:
        return tuple(shlex.split(run)) if isinstance(run, str) else run

    @field_validator("prefixes")
    @classmethod
    def _names(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in prefixes:
            from_uri(prefix)
        return prefixes


class FollowGraph(Section):
    """Who follows whom among people: a graph that grows, by testbed.scenario.follow_graph."""

    follows: int = Field(default=2, ge=1, le=10_000)
    """People whom each follows who joins; all who are there, if they are fewer."""
    closure: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)
    """Probability that a follow goes to somebody whom the one chosen before follows: a friend of a friend.
    Else it goes to anybody."""
    mutual: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)
    """Probability that a follow is returned."""
    hubs: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    """Probability that anybody is the more likely chosen the more followers they have; else all are equally
    likely."""
    blocks: int = Field(default=0, ge=0, le=10_000)
    """People whom each blocks, of those whom they do not follow."""
    stated: bool = False
    """Whether feeds begin with messages of type contact, by which their authors follow and block. They come
    on top of the workload's items. Without them nobody can learn the graph from feeds."""


class Fetch(Section):
    """Feeds that are complete from the start: objects, which subscribers ask for one by one."""

    requests: int = Field(default=10, ge=1, le=10_000)
    """Objects that each subscriber asks for, none of them twice; all, if there are fewer."""
    popularity_exponent: float = Field(default=0.8, ge=0, le=10, allow_inf_nan=False)
    """The k-th object is chosen with a probability in proportion to 1 / k ** exponent (Zipf's law). With a
    graph, the objects of those who have most followers come first."""
    interval_ms: float = Field(default=500.0, gt=0, le=DAY_MS, allow_inf_nan=False)
    """Mean time from one request of a subscriber to its next; drawn exponentially."""
    segment_bytes: int = Field(default=4_000, ge=1, le=7_000)
    """Content in each message."""


class Pictures(Section):
    """Pictures of messages: blobs that a message names, and that its readers fetch when they have it."""

    every: int = Field(default=4, ge=1, le=1_000_000)
    """Of so many messages of a feed, the first has a picture."""
    size_bytes: int = Field(default=50_000, ge=64, le=MAX_SIZE)
    """Bytes of each picture."""


class Application(Section):
    """An application, whose messages authors write: each answers what its author can know, of feeds that the
    author follows, and read. Otherwise all messages are posts that name nothing."""

    kind: Literal["threads", "likes", "gatherings", "chess"] = "threads"
    """In `threads` all posts are in one thread: the first post of all is its root, and each later one names
    the newest ones as its `branch`. In `likes` one message in five is a post, and the others like a post or
    take that back. In `gatherings` people announce gatherings, change them, come and stay away. In `chess`
    each player invites two others, and all see the games."""
    reading_ms: Milliseconds = 500.0
    """Time from the publication of a message, or the repair of the links on its way, until others have read
    it. Messages cross links that are up at once, and nodes keep them for links that come up later. So under a
    slow layering an author may answer a message that has not arrived yet."""
    clock_error_ms: Milliseconds = 0.0
    """The clocks of authors are wrong by up to this, drawn for each. Messages claim these clocks' times."""


class Workload(Section):
    """What is published, and who follows it."""

    feed: str | None = None
    """A feed's export (`ssb-server log`), which is published whole; relative to the scenario. Else feeds are
    made."""
    items: int = Field(default=235, ge=1, le=1_000_000)
    """Items of all made feeds together."""
    feeds: int | None = Field(default=None, ge=1, le=10_000)
    """How many feeds there are; they go to the publishers in turn. Left out: one for each publisher."""
    item_bytes: int | None = Field(default=None, ge=400, le=8192)
    """Bytes of each made item's message, without contact messages and the names of pictures. Left out: drawn,
    as in a real feed (386 to 7,607, half of them below 532)."""
    activity_exponent: float = Field(default=1.0, ge=0, le=10, allow_inf_nan=False)
    """The k-th feed has 1 / k ** activity_exponent of the first one's items, and is as much slower, so that
    all go on for about the same time."""
    follows: int | None = Field(default=None, ge=1)
    """How many feeds each subscriber follows, chosen by the seed; all if it is left out."""
    graph: FollowGraph | None = None
    """Who follows whom instead, by the feeds' publishers. With `fetch`: whose feeds a node may hold
    anyway."""
    fetch: Fetch | None = None
    """Who asks for what instead; all is published at the end of the warm-up."""
    pictures: Pictures | None = None
    """Pictures in messages."""
    application: Application | None = None
    """The application of all messages, whose views by readers the report compares."""
    schedule: Schedule = Schedule()
    """When items are published."""
    idle_feeds: int = Field(default=0, ge=0, le=1_000_000)
    """How many feeds there are besides, at the publishers in turn, that nobody writes or reads meanwhile.
    NDN's forwarders have routes to them as to all others; under `link` the name service has their records;
    IP knows no feeds."""


class Change(Section):
    """One thing that happens to the network: to a link, to a node, or to many links at once.

    It has one of `at_ms`, `at_item` and `at_copy`, and one thing that happens.
    """

    at_ms: Milliseconds | None = None
    """When: from the run's start."""
    at_item: int | None = Field(default=None, ge=1)
    """When: as the first feed's item of that number is published."""
    at_copy: int | None = Field(default=None, ge=1)
    """When: as the first follower has that item, which differs between layerings. It is looked for whenever
    states are sampled (sample_interval_ms), and may never happen."""
    link_down: str | None = None
    """A link breaks; it is named by its two nodes with a space between."""
    link_up: str | None = None
    """A link is mended."""
    link_change: str | None = None
    """From now on a link has the parameters in `set`, in both directions."""
    restart: str | None = None
    """A node starts anew; it loses all but what its applications have published and delivered."""
    stop: str | None = None
    """A node's programs end. The node goes on forwarding IP."""
    start: str | None = None
    """The programs of a node that has stopped start anew."""
    partition: str | None = None
    """Nodes, with spaces between: all links from them to the others break."""
    heal: Literal[True] | None = None
    """All links that partitions have broken are mended."""
    join: str | None = None
    """A member of a medium comes into its reach: "node medium"."""
    leave: str | None = None
    """A member of a medium goes out of its reach: "node medium"."""
    strategy: str | None = None
    """From now on nodes forward names under `prefix` by this strategy: its name and parameters, as in
    [strategies]."""
    prefix: str | None = None
    """The names for which they do, which belongs to `strategy`. Left out: "/"."""
    on: str | None = None
    """The nodes that do, with spaces between; belongs to `strategy`. Left out: all."""
    set: dict[str, float | str] | None = None
    """Parameters of the link, as in [topology.link]; belongs to `link_change`."""
    signalled: bool | None = None
    """Whether a link's two nodes notice that it breaks, or is mended; else frames just vanish. Left out: they
    notice."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "Change":
        if [self.at_ms, self.at_item, self.at_copy].count(None) != 2:
            raise ValueError("give one of at_ms, at_item and at_copy")
        given = [name for name in _EVENTS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_EVENTS[:-1])} and {_EVENTS[-1]}")
        (name,) = given
        if self.at_copy is not None and name not in ("link_down", "link_up"):
            raise ValueError("at_copy belongs to link_down and link_up")
        breaks = name in ("link_down", "link_up", "partition", "heal")
        if self.signalled is not None and not breaks:
            raise ValueError("signalled belongs to link_down, link_up, partition and heal")
        for key in ("prefix", "on"):
            if getattr(self, key) is not None and name != "strategy":
                raise ValueError(f"{key} belongs to strategy")
        if self.prefix is not None:
            from_uri(self.prefix)
        if self.on is not None and not self.on.split():
            raise ValueError("on must name a node; leave it out for all")
        if (self.set is None) == (name == "link_change"):
            raise ValueError("set belongs to link_change, and says what the link is like from then on")
        if name.startswith("link_") and len(getattr(self, name).split()) != 2:
            raise ValueError(f'{getattr(self, name)!r} is no link; write it as "a b"')
        if name in ("join", "leave") and len(getattr(self, name).split()) != 2:
            raise ValueError(f'{getattr(self, name)!r} is no member of a medium; write it as "node medium"')
        return self

    @property
    def event(self) -> str:
        """The event's name in events.jsonl."""
        return next(name for name in _EVENTS if getattr(self, name) is not None).replace("_", "-")

    @property
    def node(self) -> str | None:
        """The node that restarts, stops or starts; None for other changes."""
        return self.restart or self.stop or self.start

    @property
    def choice(self) -> dict[str, str]:
        """The chosen strategy by its prefix; empty for other changes."""
        return {} if self.strategy is None else {self.prefix or "/": self.strategy}

    def chooses(self, node: str) -> bool:
        """Return whether it changes a node's strategy."""
        return self.strategy is not None and (self.on is None or node in self.on.split())

    @property
    def ends_programs(self) -> bool:
        """Whether it ends the programs of its node."""
        return self.restart is not None or self.stop is not None

    @property
    def is_signalled(self) -> bool:
        """Whether the link's two nodes notice."""
        return self.signalled is not False

    def tells(self, node: str) -> bool:
        """Return whether it concerns a link of a node whose link layer would notice."""
        is_break = self.link_down is not None or self.link_up is not None
        return is_break and self.is_signalled and node in self.ends

    @property
    def membership(self) -> tuple[str, str] | None:
        """The node and the medium that it joins or leaves; None for other changes."""
        said = self.join or self.leave
        if said is None:
            return None
        node, medium = said.split()
        return node, medium

    @property
    def ends(self) -> tuple[str, str]:
        """The link's two nodes; for changes of one link only."""
        a, b = (self.link_down or self.link_up or self.link_change or "").split()
        return a, b

    def changed(self, link: Link) -> Link:
        """Return the link after a link_change. Raises TopologyError."""
        for name, value in (self.set or {}).items():
            if name not in LINK_PARAMETERS:
                raise TopologyError(f"link {link}: it has no {name}; it has {', '.join(LINK_PARAMETERS)}")
            if name == "mtu":  # faces and connections have taken it over
                raise TopologyError(f"link {link}: its mtu stays as it is in a run")
            wanted = str if LINK_PARAMETERS[name].choices else float
            if not isinstance(value, wanted):
                raise TopologyError(
                    f"link {link}: {name} must be {LINK_PARAMETERS[name].wanted}, not {value!r}"
                )
        whole = {
            name: int(value) if LINK_PARAMETERS[name].is_whole else value
            for name, value in (self.set or {}).items()
        }
        return replace(link, **whole)  # type: ignore[arg-type]


_EVENTS = (
    *("link_down", "link_up", "link_change", "restart", "stop", "start", "partition", "heal"),
    *("join", "leave", "strategy"),
)
"""The keys of a Change that select the event."""


class RoutingSpec(Section):
    """How routes are chosen, as topologies.routing explains it."""

    metric: Metric = "delay"
    """What makes a way good."""
    paths: Paths = "all"
    """Which of the ways forwarders get."""
    k: int = Field(default=3, ge=1, le=100)
    """How many paths, if `paths` is "k-shortest"."""
    converge_ms: Milliseconds | None = None
    """How long after each thing that happens all nodes have the routes that are best then, as a routing
    protocol would make them; without it, routes stay as they are."""
    idle_names: Literal["flat", "aggregated"] = "flat"
    """What leads to idle feeds. Ids are "flat": a route a feed. If names began with their publisher's place,
    routes would be "aggregated": one a publisher."""

    @property
    def routing(self) -> Routing:
        """The routing method, with all links up."""
        return Routing(self.metric, self.paths, self.k)


class Mobility(Section):
    """Nodes that move: of the topology's links, those are up whose ends are near each other."""

    trace: str
    """A file of CSV with the columns time_s, node, x_m and y_m: where nodes are at a time; relative to the
    scenario. Between two such times a node goes straight on; before the first and after the last it
    stands."""
    range_m: float = Field(gt=0, allow_inf_nan=False)
    """A link between two nodes of the trace is down while they are further apart than this."""
    every_ms: float = Field(default=100.0, ge=1, le=DAY_MS, allow_inf_nan=False)
    """How often that is looked at."""
    signalled: bool = True
    """Whether nodes notice that links break and are mended."""


class PlanSpec(Section):
    """How one subscriber goes about it; times from the run's start."""

    start_ms: Milliseconds = 0.0
    """When it subscribes."""
    stop_ms: Milliseconds | None = None
    """When it unsubscribes, if not with all others."""
    pauses_ms: tuple[tuple[Milliseconds, Milliseconds], ...] = ()
    """Pairs [from, to] of times between which its application takes nothing."""
    drain_per_s: float | None = Field(default=None, ge=0.001, le=1e6, allow_inf_nan=False)
    """Items that its application takes a second, at most. Left out: as many as come."""

    @model_validator(mode="after")
    def _in_order(self) -> "PlanSpec":
        times = [self.start_ms, *(time for pause in self.pauses_ms for time in pause)]
        if self.stop_ms is not None:
            times.append(self.stop_ms)
        if any(before >= after for before, after in pairwise(times)):
            raise ValueError("start_ms, each pause's [from, to] and stop_ms must follow each other in time")
        return self

    @property
    def last_ms(self) -> float:
        """The last time that it names."""
        return max(self.start_ms, self.stop_ms or 0, *(end for _, end in self.pauses_ms))


class Arrivals(Section):
    """A crowd: each subscriber without a plan of its own joins at a time drawn uniformly by the seed."""

    from_ms: Milliseconds = 0.0
    """The earliest time, from the run's start."""
    to_ms: Milliseconds
    """The latest time, from the run's start."""

    @model_validator(mode="after")
    def _in_order(self) -> "Arrivals":
        if self.to_ms < self.from_ms:
            raise ValueError("to_ms must not be before from_ms")
        return self


class Sessions(Section):
    """People come and go: every node that publishes or follows is online and offline in turn.

    The links of a node that is offline are down. Both kinds of times are drawn from the seed, exponentially,
    from the first item to the last; before and after them all are online.
    """

    online_ms: float = Field(ge=1, le=DAY_MS, allow_inf_nan=False)
    """Mean time online."""
    offline_ms: float = Field(ge=1, le=DAY_MS, allow_inf_nan=False)
    """Mean time offline."""
    day_ms: float | None = Field(default=None, ge=1, le=DAY_MS, allow_inf_nan=False)
    """The length of a day, at whose end people are offline for a night; left out, there are no nights."""
    zones: int = Field(default=1, ge=1, le=1000)
    """Time zones, evenly around the world. The n-th person, publishers first, is in zone n modulo their
    number; those of a zone have their nights together. In zone 0 a day begins with the first item."""
    night: float = Field(default=1 / 3, ge=0, le=0.99, allow_inf_nan=False)
    """The share of a day that is night."""

    @model_validator(mode="after")
    def _days_have_a_length(self) -> "Sessions":
        for key in ("zones", "night"):
            if self.day_ms is None and getattr(self, key) != Sessions.model_fields[key].default:
                raise ValueError(f"{key} belongs to day_ms")
        return self


class Fork(Section):
    """A second device of the feed's author, which from some item on writes items of its own."""

    publisher: str
    """The node of the second device."""
    after: int = Field(ge=1)
    """The last item before the second device writes, too."""
    cure: Literal["none", "lock", "feeds", "merge"] = "none"
    """What is done about forks. `none`: both devices write with one key, and the feed is forked. `lock`: only
    the first device may write; what the author would write on the second is refused. `feeds`: each device has
    a feed of its own, and subscribers follow both. `merge`: both write with one key, readers keep both
    branches, and each device names in its next message what it has read of the other's (`ssb`, and over NDN
    `pull`, `poll`, `long-lived`, `persistent` and those of controlled push)."""


class Ending(Section):
    """The feed ends, and its author goes on in another one with another key, or not at all."""

    after: int = Field(ge=1)
    """The feed's last item."""
    successor: str | None = None
    """The node that publishes later items, as a feed of its own. Left out: nobody does."""
    is_told: bool = Field(default=True, alias="told")
    """The last item says that it is the last, and names the successor, which has signed that, too. If false,
    it is a post, and nobody learns of either."""
    suite: Literal["ed25519", "ed448"] = "ed25519"
    """Hash and signature of the successor's messages. With ed448 they are countersigned by a key that the end
    names, and subscribers over NDN take no others."""


class Deletion(Section):
    """The log has hashes of its contents, which travel beside it; its author asks to delete some of them."""

    items: int = Field(ge=1, le=100)
    """How many items are to be deleted, from the first on."""
    after: int = Field(ge=1)
    """The item after which the author asks: the next one is the request."""
    ignored_percent: float = Field(default=0.0, ge=0, le=100, allow_inf_nan=False)
    """The share of the subscribers that do not obey; the seed chooses them."""


class Archive(Section):
    """A node that subscribes, keeps all, and serves it under the feed's own name.

    Routes lead to the publisher and to it, to the publisher first.
    """

    node: str
    """The node that keeps all."""
    retain: int = Field(ge=1)
    """The newest items, which are all that the publisher, and its node's caches, hold."""


class CrossTraffic(Section):
    """A classic bulk fetch, whose window of Interests follows congestion."""

    source: str = Field(alias="from")
    """The node that has what is fetched."""
    to: str
    """The node that fetches it."""
    start_ms: Milliseconds = 0.0
    """When it begins, from the run's start."""
    stop_ms: Milliseconds | None = None
    """When it ends, if not when all is there."""
    items: int = Field(default=2000, ge=1, le=100_000)
    """Items of 800 bytes of text."""

    @model_validator(mode="after")
    def _in_order(self) -> "CrossTraffic":
        if self.source == self.to:
            raise ValueError(f"from and to are both {self.to}")
        if self.stop_ms is not None and self.stop_ms <= self.start_ms:
            raise ValueError("stop_ms must be after start_ms")
        return self

    @property
    def last_ms(self) -> float:
        """The last time that it names."""
        return max(self.start_ms, self.stop_ms or 0)
