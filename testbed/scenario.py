"""Scenarios: TOML files that say what is compared, on which network, under which load.

testbed.sections has the tables that a scenario is made of; here they are held against each other and the
network, all before anything is written.
"""

from collections import Counter
from collections.abc import Container, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from pydantic import Field, ValidationError, field_validator

from forwarder import strategies
from forwarder.forwarder import Forwarder
from forwarder.toml_file import first_problem, parse_toml
from forwarder.wire.name import from_uri
from testbed.errors import UserError, shown
from testbed.layerings import LAYERINGS, Parameters
from testbed.sections import (
    DAY_MS,
    Archive,
    Change,
    CrossTraffic,
    Fork,
    PlanSpec,
    Section,
    TopologySpec,
    Workload,
)
from topologies.model import Topology, TopologyError

BUILT_IN = Path(__file__).parent / "scenarios"


class Scenario(Section):
    """A scenario, complete and checked.

    Times: subscribers start at 0, the publishers after `warmup_ms`; subscriptions end `settle_ms` after
    the last item and the last thing that `events` and `plans` name, and the run another `drain_ms` later.

    `strategies` are those of all nodes' forwarders: name prefix -> strategy and parameters, as
    forwarder.strategies.parse() reads them. `strategy_files` define more of them than there are.
    """

    name: str = Field(min_length=1, pattern=r"^[^/\x00]*$")
    title: str
    layerings: tuple[str, ...]
    seed: int = Field(default=1, ge=0)
    topology: TopologySpec
    publisher: str = "pub"
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    workload: Workload = Workload()
    events: tuple[Change, ...] = ()
    plans: dict[str, PlanSpec] = Field(default_factory=dict)
    fork: Fork | None = None
    archive: Archive | None = None
    cross_traffic: tuple[CrossTraffic, ...] = ()
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    strategy_files: tuple[str, ...] = ()
    strategies: dict[str, str] = Field(default_factory=dict)
    warmup_ms: int = Field(default=500, ge=0, le=DAY_MS)
    settle_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    drain_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    sample_interval_ms: float = Field(default=20.0, ge=0.1, le=DAY_MS, allow_inf_nan=False)

    @field_validator("layerings")
    @classmethod
    def _known_layerings(cls, layerings: tuple[str, ...]) -> tuple[str, ...]:
        for name in layerings:
            if name not in LAYERINGS:
                raise ValueError(f"unknown layering {name!r}; there are {', '.join(LAYERINGS)}")
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
    def roles(self) -> dict[str, str]:
        """Every node's role: publisher, archive, subscriber or forwarder."""
        roles = dict.fromkeys(self.network.nodes, "forwarder")
        roles |= dict.fromkeys(self.subscribers, "subscriber")
        if self.archive is not None:
            roles[self.archive.node] = "archive"
        if self.fork is not None:
            roles[self.fork.publisher] = "publisher"
        return roles | dict.fromkeys(self.sources, "publisher")

    def layering_parameters(self, layering: str) -> Parameters:
        """Return a layering's parameters, defaults filled in."""
        return LAYERINGS[layering].parameters.model_validate(self.parameters.get(layering, {}))


def choose_strategies(forwarder: Forwarder, chosen: dict[str, str]) -> None:
    """Give a forwarder the strategies of a scenario; raise ValueError, with a line for the user."""
    for prefix, text in chosen.items():
        forwarder.choose_strategy(from_uri(prefix), *strategies.parse(text))


def available() -> dict[str, Path]:
    """Return the scenarios that come with feednet, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def load(
    name_or_path: str,
    *,
    seed: int | None = None,
    layerings: tuple[str, ...] | None = None,
    feed: str | None = None,
    items: int | None = None,
    topology_file: str | None = None,
    loss_percent: float | None = None,
    parameters: dict[str, dict[str, Any]] | None = None,
    strategy: str | None = None,
    strategy_files: tuple[str, ...] = (),
    changes: dict[str, Any] | None = None,
) -> Scenario:
    """Read a scenario by name or path and check all of it; raise UserError.

    What is given besides replaces what the file says; `parameters` is {layering: {name: value}}, `strategy`
    that of all names for which the file has no other, `changes` {key path: value}, such as
    {"topology.depth": 2}.
    """
    known = available()
    path = known.get(name_or_path, Path(name_or_path))
    try:
        text = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{shown(name_or_path)}: no such scenario; there are {', '.join(known)},"
            " or give a .toml file's path"
        ) from error
    try:
        table = {"name": path.stem, **parse_toml(text)}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    _resolve_files(table, path.parent)
    _replace(table, {"seed": seed, "layerings": layerings})
    _replace_in(table, "workload", {"feed": feed, "items": items})
    for layering, values in (parameters or {}).items():
        _replace_in(table.setdefault("parameters", {}), layering, values)
    _replace(table, {"strategy_files": [*table.get("strategy_files", ()), *strategy_files] or None})
    _replace_in(table, "strategies", {"/": strategy})
    if topology_file is not None:
        table["topology"] = {"file": topology_file}
    if loss_percent is not None:
        if topology_file is not None:
            raise UserError("--loss: a topology file says itself what its links lose")
        _replace_in(table.get("topology"), "link", {"loss_percent": loss_percent})
    for key, value in (changes or {}).items():
        *sections, last = key.split(".")
        inner: Any = table
        for name in sections:
            inner = inner.setdefault(name, {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            raise UserError(f"{path}: {key}: there is no such key")
        inner[last] = value
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}") from error
    try:
        return _complete(scenario)
    except TopologyError as error:
        # A topology file's errors name that file themselves.
        raise UserError(str(error) if scenario.topology.file else f"{path}: {error}") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


def _resolve_files(table: dict[str, Any], directory: Path) -> None:
    """Take the paths in a scenario file as relative to that file."""
    for section, key in (("topology", "file"), ("workload", "feed")):
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = str(directory / inner[key])
    files = table.get("strategy_files")
    if isinstance(files, list):
        table["strategy_files"] = [str(directory / file) if isinstance(file, str) else file for file in files]


def _replace(table: Any, values: dict[str, Any]) -> None:
    """Put the values that are given into a table; if it is none, the model will say so."""
    if isinstance(table, dict):
        table |= {key: value for key, value in values.items() if value is not None}


def _replace_in(table: Any, key: str, values: dict[str, Any]) -> None:
    if isinstance(table, dict):
        _replace(table.setdefault(key, {}), values)


def _complete(scenario: Scenario) -> Scenario:
    """Fill in what follows from the topology, and check what depends on it.

    Raises TopologyError for the topology, ValueError for the rest.
    """
    nodes = scenario.network.nodes
    publishers = scenario.publishers
    if not publishers:
        chosen = "publisher" in scenario.model_fields_set or not scenario.topology.file
        publishers = (scenario.publisher if chosen or scenario.publisher in nodes else nodes[0],)
    _check_nodes("publisher", publishers, nodes)
    _check_nodes("archive", [scenario.archive.node] if scenario.archive else [], nodes)
    _check_nodes("fork", [scenario.fork.publisher] if scenario.fork else [], nodes)
    others = {*publishers}
    others |= {scenario.archive.node} if scenario.archive else set()
    others |= {scenario.fork.publisher} if scenario.fork else set()
    subscribers = scenario.subscribers or _leaves(scenario.network, others)
    _check_nodes("subscriber", subscribers, nodes)
    whole = scenario.model_copy(
        update={"publisher": publishers[0], "publishers": publishers, "subscribers": subscribers}
    )
    _check_feeds(whole)
    _check_paths(whole)
    _check_events(whole)
    _check_plans(whole)
    _check_parameters(whole)
    return whole


def _check_nodes(what: str, names: Sequence[str], nodes: tuple[str, ...]) -> None:
    for name in names:
        if name not in nodes:
            raise ValueError(f"{what} {name!r} is not a node; there are {', '.join(nodes)}")
        if names.count(name) > 1:
            raise ValueError(f"{what} {name!r} is named twice")


def _check_feeds(scenario: Scenario) -> None:
    workload = scenario.workload
    feeds = scenario.feed_count
    if feeds < len(scenario.sources):
        raise ValueError(f"{len(scenario.sources)} publishers share {feeds} feeds; give each one at least")
    if workload.feed is not None and (feeds > 1 or scenario.fork):
        raise ValueError("workload.feed: an export is one feed, and cannot be forked; leave it out")
    if workload.items < feeds:
        raise ValueError(f"workload.items: {workload.items} items are too few for {feeds} feeds")
    if workload.follows is not None and workload.follows > feeds:
        raise ValueError(f"workload.follows: {workload.follows}, but there are only {feeds} feeds")
    taken = {scenario.fork.publisher: "fork"} if scenario.fork else {}
    if scenario.archive:
        taken[scenario.archive.node] = "archive"
    for node, what in taken.items():
        if node in scenario.sources:
            raise ValueError(f"{what} {node!r} is the publisher")
        if node in scenario.subscribers:
            raise ValueError(f"{what} {node!r} is a subscriber")
    if (scenario.fork or scenario.archive) and feeds > 1:
        raise ValueError(f"{'fork' if scenario.fork else 'archive'}: there must be one feed, not {feeds}")
    if scenario.fork and scenario.archive:
        raise ValueError("fork, archive: choose one")
    if scenario.fork and scenario.fork.after >= workload.items:
        raise ValueError(f"fork.after: {scenario.fork.after}, but there are only {workload.items} items")
    publishing = Counter(scenario.sources[feed % len(scenario.sources)] for feed in range(feeds))
    for node in scenario.subscribers:
        if publishing[node] == feeds:
            raise ValueError(f"subscriber {node!r} is the publisher")


def _check_paths(scenario: Scenario) -> None:
    for to in scenario.sources:
        _check_reach(scenario.network, scenario.subscribers, to)
    if scenario.archive:
        _check_reach(scenario.network, [scenario.archive.node], scenario.publisher)
    for number, traffic in enumerate(scenario.cross_traffic, start=1):
        _check_nodes(f"[[cross_traffic]] number {number}:", [traffic.source], scenario.network.nodes)
        _check_nodes(f"[[cross_traffic]] number {number}:", [traffic.to], scenario.network.nodes)
        _check_reach(scenario.network, [traffic.to], traffic.source)


def _check_reach(network: Topology, nodes: Sequence[str], to: str) -> None:
    unreachable = {*nodes} - {to, *network.routes(to)}
    if unreachable:
        raise ValueError(f"no path joins {to} and {', '.join(sorted(unreachable))}")


def _check_events(scenario: Scenario) -> None:
    for number, change in enumerate(scenario.events, start=1):
        place = f"[[events]] number {number}"
        if change.restart is not None:
            _check_nodes(f"{place}: restart:", [change.restart], scenario.network.nodes)
        else:
            try:
                scenario.network.link_between(*change.ends)
            except TopologyError as error:
                raise ValueError(f"{place}: {error}") from None


def _check_plans(scenario: Scenario) -> None:
    following = [*scenario.subscribers, *([scenario.archive.node] if scenario.archive else [])]
    for node in scenario.plans:
        if node not in following:
            raise ValueError(f"[plans.{node}]: not a subscriber; there are {', '.join(following)}")


def _check_parameters(scenario: Scenario) -> None:
    for layering in {**dict.fromkeys(scenario.layerings), **scenario.parameters}:
        if layering not in LAYERINGS:
            known = ", ".join(LAYERINGS)
            raise ValueError(f"[parameters.{layering}]: unknown layering; there are {known}")
        try:
            scenario.layering_parameters(layering)
        except ValidationError as error:
            raise ValueError(f"[parameters.{layering}] {first_problem(error)}") from error


def _leaves(topology: Topology, taken: Container[str]) -> tuple[str, ...]:
    """Return the nodes with one link that have no other part; all others if there are none."""
    degree = Counter(interface.node for interface in topology.interfaces())
    others = [node for node in topology.nodes if node not in taken]
    return tuple(node for node in others if degree[node] == 1) or tuple(others)
