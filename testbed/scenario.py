"""Scenarios: TOML files that say what is compared, on which network, under which load."""

import tomllib
from collections import Counter
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


def load(
    name_or_path: str,
    *,
    seed: int | None = None,
    layerings: tuple[str, ...] | None = None,
    feed: str | None = None,
    items: int | None = None,
    topology_file: str | None = None,
    parameters: dict[str, dict[str, Any]] | None = None,
) -> Scenario:
    """Read a scenario by name or path and check all of it; raise UserError.

    What is given besides replaces what the file says; `parameters` is {layering: {name: value}}.
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
    _replace(table, {"seed": seed, "layerings": layerings})
    _replace_in(table, "workload", {"feed": feed, "items": items})
    for layering, values in (parameters or {}).items():
        _replace_in(table.setdefault("parameters", {}), layering, values)
    if topology_file is not None:
        table["topology"] = {"file": topology_file}
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        raise UserError(f"{path}: {_first_line(error)}") from error
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
    publisher = scenario.publisher
    if publisher not in nodes:
        if "publisher" in scenario.model_fields_set or not scenario.topology.file:
            raise ValueError(f"publisher {publisher!r} is not a node; there are {', '.join(nodes)}")
        publisher = nodes[0]
    subscribers = scenario.subscribers or _leaves(scenario.network, publisher)
    for node in subscribers:
        if node not in nodes:
            raise ValueError(f"subscriber {node!r} is not a node; there are {', '.join(nodes)}")
        if node == publisher:
            raise ValueError(f"subscriber {node!r} is the publisher")
    unreachable = set(subscribers) - set(scenario.network.routes(publisher))
    if unreachable:
        raise ValueError(f"no path joins {publisher} and {', '.join(sorted(unreachable))}")
    for layering in {**dict.fromkeys(scenario.layerings), **scenario.parameters}:
        if layering not in LAYERINGS:
            known = ", ".join(LAYERINGS)
            raise ValueError(f"[parameters.{layering}]: unknown layering; there are {known}")
        try:
            scenario.layering_parameters(layering)
        except ValidationError as error:
            raise ValueError(f"[parameters.{layering}] {_first_line(error)}") from error
    return scenario.model_copy(update={"publisher": publisher, "subscribers": subscribers})


def _leaves(topology: Topology, publisher: str) -> tuple[str, ...]:
    """Return the nodes with one link, the publisher aside; all others if there are none."""
    degree = Counter(interface.node for interface in topology.interfaces())
    others = [node for node in topology.nodes if node != publisher]
    return tuple(node for node in others if degree[node] == 1) or tuple(others)


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
