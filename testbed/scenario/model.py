"""Scenarios: TOML files that say what is compared, on which network, under which load.

testbed.scenario.sections has the tables that a scenario is made of; here they are held against each other and
the network, all before anything is written.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from forwarder import strategies
from forwarder.forwarder import Forwarder
from forwarder.toml_file import parse_toml, problem_of
from testbed.errors import UserError, known, shown
from testbed.layerings.link import candidates
from testbed.layerings.ndn_node import choose_strategies
from testbed.layerings.node import Parameters
from testbed.layerings.registry import LAYERINGS
from testbed.layerings.stock_peer import SSB_SERVER
from testbed.layerings.tiny_isp import Homes
from testbed.layerings.workload import Feature
from testbed.scenario.mobility import read_trace
from testbed.scenario.overrides import (
    SHORT_KEYS,
    STRATEGY,
    InvalidScenario,
    Key,
    Override,
    apply,
    override_of,
    overrides,
)
from testbed.scenario.sections import (
    DAY_MS,
    Archive,
    Arrivals,
    Change,
    CrossTraffic,
    Fork,
    Mobility,
    NodeSpec,
    PlanSpec,
    ProgramSpec,
    RoutingSpec,
    Section,
    Sessions,
    TopologySpec,
    Workload,
    table_keys,
    tables_in,
    written_out,
)
from topologies.graphs import is_graphml
from topologies.library import networks
from topologies.model import Topology, TopologyError
from topologies.routing import coordinates, routes

BUILT_IN = Path(__file__).parent / "files"
STARTING_FILE = Path(__file__).with_name("starting_file.toml")
"""A scenario with a comment at every line, for `feednet new scenario`."""

OTHER = "others"
"""The group of scenarios that name none."""


class Scenario(Section):
    """A scenario, complete and checked.

    Times: subscribers start at 0, the publishers after `warmup_ms`; subscriptions end `settle_ms` after
    the last item and the last thing that `events` and `plans` name, and the run another `drain_ms` later.
    """

    name: str = Field(min_length=1, pattern=r"^[^/\x00]*$")
    """What the scenario is called. Left out: its file's name without the ending."""
    title: str
    """What it is about, in a few words: `feednet list`, and the title of its report."""
    group: str = OTHER
    """The heading under which `feednet list` has it."""
    about: str = ""
    """What it asks, and what to look at. Left out: the comment at the beginning of the file."""
    layerings: tuple[str, ...]
    """The layerings that are compared, in this order: `feednet list` has their names."""
    seed: int = Field(default=1, ge=0)
    """Seed of all that is drawn at random, but for a generator's own."""
    topology: TopologySpec
    """The network."""
    routing: RoutingSpec = RoutingSpec()
    """How routes are chosen."""
    hosts: Literal["auto", "processes", "packed"] = "auto"
    """How nodes run in Mininet: each as a process of its own, or many packed into one process a processor,
    each with its sockets in its own network namespace; "auto" packs more than 64 nodes."""
    publisher: str = "pub"
    """The node that publishes. Left out: `pub`, or the network's first node if it has no `pub`."""
    publishers: tuple[str, ...] = ()
    """The nodes that publish, if they are several; feed k is that of node k, modulo their number. A row
    such as "c1..c9" stands for nine nodes. A node that also subscribes is a peer."""
    subscribers: tuple[str, ...] = ()
    """The nodes that follow feeds: names, "all", or a number: as many nodes from all over the network, the
    same for every seed. Left out: the nodes with one link; if there are none, all. Publishers, the archive
    and a fork's second device do not count."""
    workload: Workload = Workload()
    """What is published, and who follows it."""
    events: tuple[Change, ...] = ()
    """What happens to links and nodes."""
    plans: dict[str, PlanSpec] = Field(default_factory=dict)
    """How single subscribers go about it."""
    arrivals: Arrivals | None = None
    """A crowd that joins."""
    sessions: Sessions | None = None
    """People who come and go."""
    mobility: Mobility | None = None
    """Nodes that move."""
    nodes: dict[str, NodeSpec] = Field(default_factory=dict)
    """What runs on single nodes."""
    programs: tuple[ProgramSpec, ...] = ()
    """Programs of your own on nodes, in Mininet only."""
    fork: Fork | None = None
    """A feed that forks."""
    archive: Archive | None = None
    """A node that keeps what the publisher forgets."""
    cross_traffic: tuple[CrossTraffic, ...] = ()
    """Bulk fetches beside the feeds."""
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Parameters of layerings, by layering."""
    strategy_files: tuple[str, ...] = ()
    """Python files with forwarding strategies of your own; relative to the scenario."""
    strategies: dict[str, str] = Field(default_factory=dict)
    """The forwarding strategies of all nodes: name prefix to strategy and parameters, such as
    "/" = "asf" or "random/seed~3"."""
    warmup_ms: int = Field(default=500, ge=0, le=DAY_MS)
    """Time from the run's start, when subscribers subscribe, to the first item."""
    settle_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    """Time from the last item, and the last thing that happens, to the end of subscriptions."""
    drain_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    """Time from the end of subscriptions to that of the run."""
    sample_interval_ms: float = Field(default=20.0, ge=0.1, le=DAY_MS, allow_inf_nan=False)
    """Time between two samples of every node's state. Many nodes make many samples: raise it for them."""

    @field_validator("publishers", "subscribers")
    @classmethod
    def _written_out(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return written_out(names)

    @field_validator("layerings")
    @classmethod
    def _known_layerings(cls, layerings: tuple[str, ...]) -> tuple[str, ...]:
        for name in layerings:
            if name not in LAYERINGS:
                raise ValueError(f"unknown layering {name!r}; {known(name, LAYERINGS)}")
        if not layerings or len(set(layerings)) != len(layerings):
            raise ValueError("name at least one layering, each once")
        return layerings

    @field_validator("strategy_files")
    @classmethod
    def _load_strategies(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for file in files:
            strategies.load(Path(file))
        return files

    @field_validator("strategies")
    @classmethod
    def _known_strategies(cls, chosen: dict[str, str]) -> dict[str, str]:
        choose_strategies(Forwarder(rng=Random(0), controlled_push=False), chosen)
        return chosen

    @cached_property
    def network(self) -> Topology:
        """The topology that `topology` describes."""
        return self.topology.build()

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The publishing nodes; feed k is that of node k, modulo their number."""
        return self.publishers or (self.publisher,)

    @cached_property
    def feed_count(self) -> int:
        """How many feeds there are."""
        return self.workload.feeds or len(self.sources)

    @cached_property
    def gateways(self) -> dict[str, str]:
        """The nodes that have a gateway, each with that node."""
        return {node: spec.gateway for node, spec in self.nodes.items() if spec.gateway is not None}

    @cached_property
    def stock_peers(self) -> frozenset[str]:
        """The nodes whose Scuttlebutt peer is a stock one."""
        return frozenset(node for node, spec in self.nodes.items() if spec.peer == SSB_SERVER)

    @cached_property
    def other_forwarders(self) -> dict[str, str]:
        """The nodes whose forwarder is a program of its own, each with that program."""
        return {node: spec.forwarder for node, spec in self.nodes.items() if spec.forwarder != "feednet"}

    @cached_property
    def prefixes(self) -> dict[str, tuple[str, ...]]:
        """The names that programs serve, as URIs, each with the nodes of those programs."""
        found: dict[str, tuple[str, ...]] = {}
        for program in self.programs:
            for prefix in program.prefixes:
                found[prefix] = (*found.get(prefix, ()), program.node)
        return found

    @cached_property
    def roles(self) -> dict[str, str]:
        """Every node's role: publisher, subscriber, peer (which is both), archive, gateway or forwarder."""
        roles = dict.fromkeys(self.network.nodes, "forwarder")
        roles |= dict.fromkeys(self.gateways.values(), "gateway")
        roles |= dict.fromkeys(self.subscribers, "subscriber")
        if self.archive is not None:
            roles[self.archive.node] = "archive"
        if self.fork is not None:
            roles[self.fork.publisher] = "publisher"
        both = {*self.sources} & {*self.subscribers}
        return roles | dict.fromkeys(self.sources, "publisher") | dict.fromkeys(both, "peer")

    def plan_of(self, node: str) -> PlanSpec:
        """Return how a node that follows feeds goes about it."""
        plan = self.plans.get(node)
        if plan is None and self.arrivals is not None and node in self.subscribers:
            random = Random(f"{self.seed} arrivals {node}")
            start = random.uniform(self.arrivals.from_ms, self.arrivals.to_ms)
            return PlanSpec(start_ms=round(start, 3))
        return plan or PlanSpec()

    def layering_parameters(self, layering: str) -> Parameters:
        """Return a layering's parameters, defaults filled in."""
        return LAYERINGS[layering].parameters.model_validate(self.parameters.get(layering, {}))


def available() -> dict[str, Path]:
    """Return the scenarios that come with feednet, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def first_comment(text: bytes) -> str:
    """Return the comment at the beginning of a TOML file, as one paragraph; "" if there is none."""
    lines = takewhile(lambda line: line.startswith("#"), text.decode(errors="replace").splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines).strip()


def read(name_or_path: str) -> tuple[dict[str, Any], Path]:
    """Read a scenario's file by name or path; return its table, with paths as they are from here, and where
    it is. Raises UserError."""
    built_in = available()
    path = built_in.get(name_or_path, Path(name_or_path))
    try:
        text = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{shown(name_or_path)}: no such scenario; {known(shown(name_or_path), built_in)};"
            " or give a .toml file's path"
        ) from error
    try:
        table = {"name": path.stem, "about": first_comment(text), **parse_toml(text)}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    _resolve_files(table, path.parent)
    return table, path


def load(name_or_path: str, **options: Any) -> Scenario:
    """Read a scenario by name or path and check all of it; raise UserError. Options are those of check()."""
    return check(*read(name_or_path), **options)


def check(
    said: Mapping[str, Any],
    path: Path,
    *,
    seed: int | None = None,
    layerings: tuple[str, ...] | None = None,
    feed: str | None = None,
    items: int | None = None,
    topology_file: str | None = None,
    loss_percent: float | None = None,
    publisher: str | None = None,
    subscribers: str | None = None,
    parameters: dict[str, dict[str, Any]] | None = None,
    strategy: str | None = None,
    strategy_files: tuple[str, ...] = (),
    changes: dict[str, Any] | None = None,
) -> Scenario:
    """Return the scenario of a table that read() has returned, all of it checked; raise UserError.

    `path` is named in errors. What is given besides replaces what the table says; `subscribers` is "all", a
    number or names with commas between, `parameters` {layering: {name: value}}, `strategy` that of all names
    for which the table has no other, `changes` {key path or "strategy": value}, as {"topology.depth": 2}.
    """
    options: dict[Key, tuple[str, Any]] = {
        ("seed",): ("seed", seed),
        ("workload", "feed"): ("feed", feed),
        ("workload", "items"): ("items", items),
        ("topology", _topology_key(topology_file)): ("topology", topology_file),
        ("topology", "link", "loss_percent"): ("loss", loss_percent),
        ("publisher",): ("publisher", publisher),
        ("subscribers",): ("subscribers", subscribers),
        STRATEGY: ("strategy", strategy),
    }
    wanted = overrides(options, layerings, parameters or {}, changes or {})
    table = deepcopy({**said})
    if topology_file is not None:
        table["topology"] = {}
    if publisher is not None:
        table.pop("publishers", None)
    homeless = apply(table, wanted)
    if strategy_files:
        _add_strategy_files(table, strategy_files)
    _check_effects(table, wanted)
    following = table.get("subscribers")
    if isinstance(following, str | int):
        del table["subscribers"]
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        key, problem = problem_of(error)
        guilty = override_of(wanted, [key])
        if error.errors()[0]["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            problem += f"; {known(key[-1], _known_keys(key, swept=guilty is not None))}"
        raise UserError(f"{guilty.text if guilty else f'{path}: {_place(key)}'}: {problem}") from error
    if homeless:
        keys = _known_keys(homeless[0].path[:1], swept=True)
        raise UserError(f"{homeless[0].text}: unknown key; {known(homeless[0].path[0], keys)}")
    try:
        whole = _complete(scenario, following)
        _check_parameters(whole, wanted)
        _check_features(whole)
    except TopologyError as error:
        file = scenario.topology.file
        if file is not None and str(error).startswith(f"{file}:"):
            raise UserError(str(error)) from error
        guilty = override_of([each for each in wanted if each.value != file], [("topology",)])
        raise UserError(f"{guilty.text if guilty else path}: {error}") from error
    except InvalidScenario as error:
        guilty = override_of(wanted, error.paths)
        raise UserError(f"{guilty.text if guilty else path}: {error}") from error
    return whole


def _place(key: Key) -> str:
    """Return a key's place as an author counts: "[[events]] number 1: at_ms"."""
    at = next((place for place, part in enumerate(key) if part.isdecimal() and place), None)
    if at is None:
        return ".".join(key)
    inner = ".".join(key[at + 1 :])
    return f"[[{'.'.join(key[:at])}]] number {int(key[at]) + 1}{f': {inner}' if inner else ''}"


def _topology_key(name: str | None) -> str:
    """Return the key of [topology] that --topology sets: a file's path may also be a network's name."""
    is_known = name in networks() and not Path(name or "").exists()
    return "library" if is_known else "file"


def _add_strategy_files(table: dict[str, Any], files: Sequence[str]) -> None:
    if not table.get("strategies"):
        raise UserError(f"--strategy-file {shown(files[0])}: no strategy is chosen; name it with --strategy")
    before = table.get("strategy_files", [])
    if isinstance(before, list):
        table["strategy_files"] = [*before, *files]


def _check_effects(table: dict[str, Any], wanted: Sequence[Override]) -> None:
    """Raise UserError for what would change nothing, or not all that it says."""
    topology, load = table.get("topology"), table.get("workload")
    links = topology.get("links") if isinstance(topology, dict) else None
    own = {key for link in links if isinstance(link, dict) for key in link} if isinstance(links, list) else {}
    for each in wanted:
        if each.path[:2] == ("topology", "link") and each.path[-1] in own:
            raise UserError(f"{each.text}: some of [[topology.links]] have a {each.path[-1]} of their own")
        file = topology.get("file") if isinstance(topology, dict) else None
        says_links = isinstance(file, str) and not is_graphml(file)
        if says_links and each.path[:2] == ("topology", "link"):
            raise UserError(f"{each.text}: a topology file says itself what its links are like")
        if isinstance(load, dict) and "feed" in load and each.path == ("workload", "items"):
            raise UserError(f"{each.text}: the export {shown(load['feed'])} is published whole")


def _known_keys(path: Key, *, swept: bool) -> list[str]:
    """Return the keys of the table that an unknown key stands in; with what --sweep calls some of them."""
    table: type = Scenario
    short = SHORT_KEYS if swept and len(path) == 1 else ()
    for name in path[:-1]:  # what is no field is a number in a list or a node's name
        table = next(tables_in(table_keys(table).get(name)), table)
    return [*short, *(key for key in table_keys(table) if key not in short)]


def _resolve_files(table: dict[str, Any], directory: Path) -> None:
    """Take the paths in a scenario file as relative to that file."""
    for section, key in (("topology", "file"), ("workload", "feed"), ("mobility", "trace")):
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = str(directory / inner[key])
    files = table.get("strategy_files")
    if isinstance(files, list):
        table["strategy_files"] = [str(directory / file) if isinstance(file, str) else file for file in files]


def _complete(scenario: Scenario, following: str | int | None) -> Scenario:
    """Fill in what follows from the topology, and check what depends on it.

    `following` says who subscribes, unless the scenario names them. Raises TopologyError for the topology,
    InvalidScenario for the rest.
    """
    nodes = scenario.network.nodes
    publishers = scenario.publishers
    if not publishers:
        chosen = "publisher" in scenario.model_fields_set
        publishers = (scenario.publisher if chosen or scenario.publisher in nodes else nodes[0],)
    _check_nodes("publisher", publishers, nodes, ("publisher",))
    _check_nodes("archive", [scenario.archive.node] if scenario.archive else [], nodes, ("archive",))
    _check_nodes("fork", [scenario.fork.publisher] if scenario.fork else [], nodes, ("fork",))
    others = {*publishers}
    others |= {scenario.archive.node} if scenario.archive else set()
    others |= {scenario.fork.publisher} if scenario.fork else set()
    subscribers = scenario.subscribers or _following(scenario, following, others)
    _check_nodes("subscriber", subscribers, nodes, ("subscribers",))
    whole = scenario.model_copy(
        update={"publisher": publishers[0], "publishers": publishers, "subscribers": subscribers}
    )
    _check_feeds(whole)
    _check_paths(whole)
    _check_events(whole)
    _check_plans(whole)
    _check_gateways(whole)
    _check_stock_peers(whole)
    _check_providers(whole)
    _check_services(whole)
    _check_hub(whole)
    _check_isps(whole)
    for node, forwarder in whole.other_forwarders.items():
        if whole.roles[node] != "forwarder":
            said = f"nodes.{node}.forwarder: {node!r} is a {whole.roles[node]}, and {forwarder} only forwards"
            raise InvalidScenario(said, ("nodes", node, "forwarder"))
    for number, program in enumerate(whole.programs, start=1):
        _check_nodes(f"[[programs]] number {number}:", [program.node], nodes, ("programs",))
    if whole.sessions is not None and whole.network.media:
        said = "sessions: people go offline with their links, and a broadcast medium has none"
        raise InvalidScenario(said, ("sessions",), ("topology", "media"))
    return whole


def _check_nodes(what: str, names: Sequence[str], nodes: tuple[str, ...], key: Key) -> None:
    for name in names:
        if name not in nodes:
            said = f"{what} {name!r} is not a node; {known(name, nodes)}"
            raise InvalidScenario(said, key, ("topology",))
        if names.count(name) > 1:
            raise InvalidScenario(f"{what} {name!r} is named twice; leave one out", key)


def _check_gateways(scenario: Scenario) -> None:
    _check_nodes("nodes:", [*scenario.nodes], scenario.network.nodes, ("nodes",))
    _check_nodes("gateway", [*{*scenario.gateways.values()}], scenario.network.nodes, ("nodes",))
    for node, gateway in scenario.gateways.items():
        where = ("nodes", node, "gateway")
        if scenario.roles[gateway] != "gateway" or gateway in scenario.gateways:
            said = f"nodes.{node}.gateway: {gateway!r} publishes, follows or has a gateway itself"
            raise InvalidScenario(said, where)
        if scenario.roles[node] not in ("publisher", "subscriber", "peer"):
            said = f"nodes.{node}.gateway: {node!r} neither publishes nor follows"
            raise InvalidScenario(said, where)


def _check_stock_peers(scenario: Scenario) -> None:
    for node in scenario.stock_peers:
        for layering in scenario.layerings:
            if LAYERINGS[layering].protocol != "ssb" and node not in scenario.gateways:
                said = f"nodes.{node}.peer: under {layering}, a Scuttlebutt peer needs a gateway"
                raise InvalidScenario(said, ("nodes", node, "peer"), ("layerings",))
        if not scenario.layering_parameters("ssb").model_dump()["encrypt"]:
            said = f"nodes.{node}.peer: {SSB_SERVER} speaks with those who encrypt only"
            raise InvalidScenario(said, ("nodes", node, "peer"), ("parameters", "ssb", "encrypt"))


def _check_providers(scenario: Scenario) -> None:
    """Check that NDN over SSB has a provider next to each node that publishes or asks."""
    if "ndn-over-ssb" not in scenario.layerings:
        return
    ends = {*scenario.sources, *scenario.subscribers}
    for node in sorted(ends):
        neighbours = {hop.into.node for hop in scenario.network.hops if hop.out.node == node}
        if not neighbours - ends:
            said = f"ndn-over-ssb: {node!r} is next to no provider, a node that neither publishes nor asks"
            raise InvalidScenario(said, ("layerings",), ("topology",))


def _check_services(scenario: Scenario) -> None:
    """Check that `link` has a node for its services, and the keys that its records are signed with."""
    if "link" not in scenario.layerings:
        return
    if not candidates(scenario.network, {*scenario.sources, *scenario.subscribers}):
        said = "link: its services need a node that neither publishes nor follows"
        raise InvalidScenario(said, ("layerings",), ("topology",), ("subscribers",))
    if scenario.workload.feed is not None:
        said = "workload.feed: under link an author signs where its feed is, and an export has no secret key"
        raise InvalidScenario(said, ("workload", "feed"), ("layerings",))
    if scenario.gateways:
        node = next(iter(scenario.gateways))
        said = f"nodes.{node}.gateway: gateways do not know link; leave one of both out"
        raise InvalidScenario(said, ("nodes", node, "gateway"), ("layerings",))


def _check_hub(scenario: Scenario) -> None:
    """Check that the node in the middle of layerings is there."""
    for layering in scenario.layerings:
        at = scenario.parameters.get(layering, {}).get("at")
        place = ("parameters", layering, "at")
        if "at" in LAYERINGS[layering].parameters.model_fields and isinstance(at, str) and at:
            _check_nodes(
                "hub" if layering == "hub" else f"{layering}: at", [at], scenario.network.nodes, place
            )


def _check_isps(scenario: Scenario) -> None:
    """Check that tinyISP's providers are there, and that each client has one."""
    if "tiny-isp" not in scenario.layerings:
        return
    parameters = scenario.parameters.get("tiny-isp", {})
    for part, what in (("providers", "provider"), ("hostile", "hostile client")):
        names = parameters.get(part, [])
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            return  # which _check_parameters() says
        place = ("parameters", "tiny-isp", part)
        _check_nodes(f"tiny-isp: {what}", names, scenario.network.nodes, place)
    try:
        Homes.of(scenario.network, parameters, sorted({*scenario.sources, *scenario.subscribers}))
    except UserError as error:
        where = ("layerings",), ("publishers",), ("subscribers",)
        raise InvalidScenario(str(error), ("parameters", "tiny-isp"), *where) from None


def _check_feeds(scenario: Scenario) -> None:
    workload = scenario.workload
    feeds = scenario.feed_count
    if feeds < len(scenario.sources):
        said = f"{len(scenario.sources)} publishers share {feeds} feeds; give each one at least"
        raise InvalidScenario(said, ("workload", "feeds"))
    if workload.feed is not None and (feeds > 1 or scenario.fork):
        said = "workload.feed: an export is one feed, and cannot be forked; leave it out"
        raise InvalidScenario(said, ("workload", "feed"), ("workload", "feeds"), ("fork",))
    if workload.fetch is not None and scenario.fork is not None:
        said = "workload.fetch: objects are complete from the start, and do not fork; leave one of both out"
        raise InvalidScenario(said, ("workload", "fetch"), ("fork",))
    if workload.items < feeds:
        said = f"workload.items: {workload.items} items are too few for {feeds} feeds; give each one at least"
        raise InvalidScenario(said, ("workload", "items"), ("workload", "feeds"))
    if workload.follows is not None and workload.follows > feeds:
        said = f"workload.follows: {workload.follows}, but there are only {feeds} feeds; lower it"
        raise InvalidScenario(said, ("workload", "follows"), ("workload", "feeds"))
    if workload.follows is not None and workload.graph is not None:
        said = "workload.follows, workload.graph: choose one"
        raise InvalidScenario(said, ("workload", "follows"), ("workload", "graph"))
    if workload.fetch is not None:
        others = ("feed", "follows")
        clash = next((key for key in others if getattr(workload, key) is not None), None)
        if clash is not None:
            raise InvalidScenario(
                f"workload.{clash}, workload.fetch: choose one", ("workload", clash), ("workload", "fetch")
            )
    taken = {scenario.fork.publisher: "fork"} if scenario.fork else {}
    if scenario.archive:
        taken[scenario.archive.node] = "archive"
    for node, what in taken.items():
        if node in scenario.sources:
            said = f"{what} {node!r} is the publisher; name another node"
            raise InvalidScenario(said, ("publisher",), (what,))
        if node in scenario.subscribers:
            said = f"{what} {node!r} is a subscriber; name another node"
            raise InvalidScenario(said, ("subscribers",), (what,))
    if (scenario.fork or scenario.archive) and feeds > 1:
        what = "fork" if scenario.fork else "archive"
        raise InvalidScenario(f"{what}: there must be one feed, not {feeds}", ("workload", "feeds"), (what,))
    if scenario.fork and scenario.archive:
        raise InvalidScenario("fork, archive: choose one", ("fork",), ("archive",))
    if scenario.fork and scenario.fork.after >= workload.items:
        said = f"fork.after: {scenario.fork.after}, but there are only {workload.items} items; lower it"
        raise InvalidScenario(said, ("workload", "items"), ("fork", "after"))
    publishing = Counter(scenario.sources[feed % len(scenario.sources)] for feed in range(feeds))
    for node in scenario.subscribers:
        if publishing[node] == feeds:
            said = f"subscriber {node!r} is the publisher; leave it out"
            raise InvalidScenario(said, ("subscribers",), ("publisher",))


def _check_paths(scenario: Scenario) -> None:
    for to in scenario.sources:
        _check_reach(scenario.network, scenario.subscribers, to)
    if scenario.archive:
        _check_reach(scenario.network, [scenario.archive.node], scenario.publisher)
    for number, traffic in enumerate(scenario.cross_traffic, start=1):
        for node in (traffic.source, traffic.to):
            place = f"[[cross_traffic]] number {number}:"
            _check_nodes(place, [node], scenario.network.nodes, ("cross_traffic",))
        _check_reach(scenario.network, [traffic.to], traffic.source)


def _check_reach(network: Topology, nodes: Sequence[str], to: str) -> None:
    unreachable = {*nodes} - {to, *routes(network, to)}
    if unreachable:
        said = f"no path joins {to} and {', '.join(sorted(unreachable))}"
        raise InvalidScenario(said, ("subscribers",), ("publisher",), ("topology",))


def _check_events(scenario: Scenario) -> None:
    nodes = scenario.network.nodes
    for number, change in enumerate(scenario.events, start=1):
        place = f"[[events]] number {number}"
        if change.node is not None:
            _check_nodes(f"{place}: {change.event}:", [change.node], nodes, ("events",))
        elif change.partition is not None:
            some = change.partition.split()
            _check_nodes(f"{place}: partition:", some, nodes, ("events",))
            if not any((link.a in some) != (link.b in some) for link in scenario.network.links):
                said = f"{place}: partition: no link joins {' '.join(some) or 'nothing'} with the others"
                raise InvalidScenario(said, ("events",), ("topology",))
        elif change.membership is not None:
            try:
                scenario.network.attachment_of(*change.membership)
            except TopologyError as error:
                said = f"{place}: {change.event}: {error}"
                raise InvalidScenario(said, ("events",), ("topology",)) from None
        elif not change.heal:
            try:
                link = scenario.network.links[scenario.network.link_between(*change.ends)]
                change.changed(link)
            except TopologyError as error:
                raise InvalidScenario(f"{place}: {error}", ("events",), ("topology",)) from None
    try:
        if scenario.mobility is not None:
            read_trace(scenario.mobility, scenario.network)
    except TopologyError as error:
        raise InvalidScenario(f"[mobility] {error}", ("mobility",), ("topology",)) from None
    if scenario.routing.metric == "hyperbolic":
        try:
            coordinates(scenario.network)
        except TopologyError as error:
            raise InvalidScenario(f"[routing] {error}", ("routing", "metric"), ("topology",)) from None


def _check_plans(scenario: Scenario) -> None:
    following = [*scenario.subscribers, *([scenario.archive.node] if scenario.archive else [])]
    for node in scenario.plans:
        if node not in following:
            said = f"[plans.{node}]: not a subscriber; {known(node, following)}"
            raise InvalidScenario(said, ("plans", node), ("subscribers",), ("publisher",), ("topology",))


def _check_features(scenario: Scenario) -> None:
    """Check that each layering can do what the scenario has."""
    plans = scenario.plans.items()
    wanted = {
        Feature.FORK: ("fork",) if scenario.fork else None,
        Feature.ARCHIVE: ("archive",) if scenario.archive else None,
        Feature.CROSS_TRAFFIC: ("cross_traffic",) if scenario.cross_traffic else None,
        Feature.PAUSES: next((("plans", node, "pauses_ms") for node, plan in plans if plan.pauses_ms), None),
        Feature.SLOW_SUBSCRIBERS: next(
            (("plans", node, "drain_per_s") for node, plan in plans if plan.drain_per_s), None
        ),
        Feature.MEDIUM: ("topology", "media") if scenario.network.media else None,
        Feature.RADIO: ("topology", "radio") if any(each.radio for each in scenario.network.media) else None,
        Feature.FOLLOWING: ("workload",) if scenario.workload.fetch is None else None,
        Feature.GATEWAYS: ("nodes",) if scenario.gateways else None,
        Feature.EXPORT: ("workload", "feed") if scenario.workload.feed is not None else None,
        Feature.REQUESTS: ("workload", "fetch") if scenario.workload.fetch is not None else None,
    }
    for layering in scenario.layerings:
        carried, who = LAYERINGS[layering].carries, layering
        if scenario.gateways:
            carried, who = carried & LAYERINGS["ssb"].carries, f"{layering} with gateways"
        for feature, place in wanted.items():
            if place is not None and feature not in carried:
                said = f"{who} cannot carry {feature.value}, which the scenario has; leave one of both out"
                raise InvalidScenario(said, ("layerings",), place)


def _check_parameters(scenario: Scenario, wanted: Sequence[Override]) -> None:
    for layering in {**dict.fromkeys(scenario.layerings), **scenario.parameters}:
        if layering not in LAYERINGS:
            said = f"[parameters.{layering}]: unknown layering; {known(layering, LAYERINGS)}"
            raise InvalidScenario(said, ("parameters", layering))
        try:
            scenario.layering_parameters(layering)
        except ValidationError as error:
            (name, *_), problem = [*problem_of(error)[0], ""], problem_of(error)[1]
            place = ("parameters", layering, name)
            if name and name not in LAYERINGS[layering].parameters.model_fields:
                there = LAYERINGS[layering].parameters.model_fields
                problem = f"{layering} has no parameter {shown(name)}; {known(name, there)}"
            said = problem if override_of(wanted, [place]) else f"[parameters.{layering}] {name}: {problem}"
            raise InvalidScenario(said, place) from error
    for each in wanted:
        if each.path[0] == "parameters" and each.path[1] not in scenario.layerings:
            running = ", ".join(scenario.layerings)
            raise InvalidScenario(f"{each.path[1]} is not run, but {running}; leave it out", each.path)


def _following(scenario: Scenario, asked_for: str | int | None, others: Container[str]) -> tuple[str, ...]:
    """Return the subscribers that a scenario does not name: all nodes, some, those named, or the leaves."""
    if asked_for is None:
        return _leaves(scenario.network, others)
    text = str(asked_for)
    possible = [node for node in scenario.network.nodes if node not in others]
    if text == "all":
        return tuple(possible)
    if not text.removeprefix("-").isdecimal():
        return tuple(name.strip() for name in text.split(","))
    count = int(text)
    if not 1 <= count <= len(possible):
        raise InvalidScenario(
            f"there can be 1 to {len(possible)} subscribers", ("subscribers",), ("topology",)
        )
    # Of any two numbers, the smaller one's nodes are among the larger one's.
    chosen = Random("subscribers").sample(possible, len(possible))[:count]
    return tuple(node for node in possible if node in chosen)


def _leaves(topology: Topology, taken: Container[str]) -> tuple[str, ...]:
    """Return the nodes with one link that have no other part; all others if there are none."""
    degree = Counter(interface.node for interface in topology.link_ends)
    others = [node for node in topology.nodes if node not in taken]
    return tuple(node for node in others if degree[node] == 1) or tuple(others)
