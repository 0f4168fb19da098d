"""Scenarios: TOML files that say what is compared, on which network, under which load."""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from testbed.errors import UserError
from testbed.layerings import LAYERINGS, Parameters
from topologies.conf import read_conf
from topologies.generate import GENERATORS, LinkParameters, generate
from topologies.model import Topology, TopologyError

BUILT_IN = Path(__file__).parent / "scenarios"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkSpec(_Model):
    """Parameters of every link of a generated topology, as in topologies.model.Link."""

    bw_mbit: float | None = None
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    jitter_ms: float = 0.0
    max_queue_size: int = 100


class TopologySpec(_Model):
    """The network: a generator with its own numbers, or a Mini-NDN file."""

    model_config = ConfigDict(extra="allow", frozen=True)

    generator: str | None = None
    file: str | None = None
    link: LinkSpec = LinkSpec()

    def build(self) -> Topology:
        """Return the topology. Raises TopologyError."""
        shape = dict(self.__pydantic_extra__ or {})
        if self.file is not None:
            return read_conf(Path(self.file))
        if self.generator is None:
            raise TopologyError(f"[topology] names no generator ({', '.join(GENERATORS)}) and no file")
        for key, value in shape.items():
            if type(value) is not int:
                raise TopologyError(f"[topology] {key}: {value!r} is not a whole number")
        return generate(self.generator, shape, cast(LinkParameters, self.link.model_dump()))


class Schedule(_Model):
    """When messages are published: by their own timestamps, `speed` times as fast, no silence longer
    than `idle_limit_ms`."""

    speed: float = Field(default=1.0, gt=0)
    idle_limit_ms: float = Field(default=1000.0, gt=0)


class Workload(_Model):
    """What is published: a feed export, or a generated feed of so many items."""

    feed: str | None = None
    items: int = Field(default=235, ge=1, le=1_000_000)
    schedule: Schedule = Schedule()


class Scenario(_Model):
    """A scenario, complete and checked.

    Times: subscribers start at 0, the publisher after `warmup_ms`; subscriptions end `settle_ms` after
    the last item, and the run another `drain_ms` later.
    """

    name: str
    title: str
    layerings: tuple[str, ...]
    seed: int = Field(default=1, ge=0)
    topology: TopologySpec
    publisher: str = "pub"
    subscribers: tuple[str, ...] = ()
    workload: Workload = Workload()
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    warmup_ms: int = Field(default=500, ge=0)
    settle_ms: int = Field(default=1500, ge=0)
    drain_ms: int = Field(default=1500, ge=0)
    sample_interval_ms: float = Field(default=20.0, gt=0)

    @field_validator("layerings")
    @classmethod
    def _known_layerings(cls, layerings: tuple[str, ...]) -> tuple[str, ...]:
        for name in layerings:
            if name not in LAYERINGS:
                raise ValueError(f"unknown layering {name!r}; there are {', '.join(LAYERINGS)}")
        if not layerings or len(set(layerings)) != len(layerings):
            raise ValueError("name at least one layering, each once")
        return layerings

    @cached_property
    def network(self) -> Topology:
        """The topology that `topology` describes."""
        return self.topology.build()

    @cached_property
    def roles(self) -> dict[str, str]:
        """Every node's role: publisher, subscriber or forwarder."""
        return {
            node: "publisher"
            if node == self.publisher
            else "subscriber"
            if node in self.subscribers
            else "forwarder"
            for node in self.network.nodes
        }

    def layering_parameters(self, layering: str) -> Parameters:
        """Return a layering's parameters, defaults filled in."""
        return LAYERINGS[layering].parameters.model_validate(self.parameters.get(layering, {}))


def available() -> dict[str, Path]:
    """Return the scenarios that come with feednet, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def load(name_or_path: str, **overrides: Any) -> Scenario:
    """Read a scenario by name or path and check all of it; raise UserError.

    Args:
        overrides: seed, layerings, feed, items, topology_file, parameters (as {layering: {name: value}});
            None leaves the file's value.
    """
    known = available()
    path = known.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise UserError(
            f"{name_or_path}: no such scenario; there are {', '.join(known)}, or give a .toml file's path"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from error
    table = {"name": path.stem, **table}
    _resolve_files(table, path.parent)
    _override(table, overrides)
    try:
        return _complete(Scenario.model_validate(table))
    except ValidationError as error:
        raise UserError(f"{path}: {_first_line(error)}") from error
    except TopologyError as error:
        source = "" if table.get("topology", {}).get("file") else f"{path}: "
        raise UserError(f"{source}{error}") from error


def _resolve_files(table: dict[str, Any], directory: Path) -> None:
    """Take the paths in a scenario file as relative to that file."""
    for section, key in (("topology", "file"), ("workload", "feed")):
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = str(directory / inner[key])


def _override(table: dict[str, Any], overrides: dict[str, Any]) -> None:
    def put(section: str, values: dict[str, Any]) -> None:
        inner = table.get(section, {})
        if isinstance(inner, dict):  # else the model will say what is wrong with it
            table[section] = {**inner, **values}

    given = {key: value for key, value in overrides.items() if value is not None}
    table |= {key: given[key] for key in ("seed", "layerings") if key in given}
    put("workload", {key: given[key] for key in ("feed", "items") if key in given})
    for layering, values in given.get("parameters", {}).items():
        parameters = table.get("parameters")
        before = parameters.get(layering) if isinstance(parameters, dict) else None
        put("parameters", {layering: {**before, **values} if isinstance(before, dict) else values})
    if "topology_file" in given:
        table["topology"] = {"file": given["topology_file"]}


def _complete(scenario: Scenario) -> Scenario:
    """Fill in what follows from the topology, and check what depends on it."""
    nodes = scenario.network.nodes
    publisher = scenario.publisher
    if publisher not in nodes:
        if "publisher" in scenario.model_fields_set or not scenario.topology.file:
            raise TopologyError(f"publisher {publisher!r} is not a node; there are {', '.join(nodes)}")
        publisher = nodes[0]
    subscribers = scenario.subscribers or _leaves(scenario.network, publisher)
    for node in subscribers:
        if node not in nodes:
            raise TopologyError(f"subscriber {node!r} is not a node; there are {', '.join(nodes)}")
        if node == publisher:
            raise TopologyError(f"subscriber {node!r} is the publisher")
    unreachable = set(subscribers) - set(scenario.network.routes(publisher))
    if unreachable:
        raise TopologyError(f"no path joins {publisher} and {', '.join(sorted(unreachable))}")
    for layering in scenario.layerings:
        try:
            scenario.layering_parameters(layering)
        except ValidationError as error:
            raise TopologyError(f"[parameters.{layering}] {_first_line(error)}") from error
    for layering in scenario.parameters:
        if layering not in LAYERINGS:
            known = ", ".join(LAYERINGS)
            raise TopologyError(f"[parameters.{layering}]: unknown layering; there are {known}")
    return scenario.model_copy(update={"publisher": publisher, "subscribers": subscribers})


def _leaves(topology: Topology, publisher: str) -> tuple[str, ...]:
    """Return the nodes with one link, the publisher aside; all others if there are none."""
    degree = dict.fromkeys(topology.nodes, 0)
    for link in topology.links:
        degree[link.a] += 1
        degree[link.b] += 1
    leaves = tuple(node for node in topology.nodes if degree[node] == 1 and node != publisher)
    return leaves or tuple(node for node in topology.nodes if node != publisher)


_PLAIN = {
    "extra_forbidden": "unknown key",
    "missing": "is missing",
    "model_type": "must be a table",
    "dict_type": "must be a table",
}


def _first_line(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    problem = _PLAIN.get(first["type"], first["msg"].removeprefix("Value error, "))
    got = (
        "" if first["type"] in ("missing", "value_error", "extra_forbidden") else f" (got {first['input']!r})"
    )
    return f"{where}: {problem}{got}"
