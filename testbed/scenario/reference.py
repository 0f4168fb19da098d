"""Reference of every scenario key and layering parameter, as `feednet describe` prints it.

All of it is derived from the models: testbed.scenario.model and its sections, topologies.link, the generators
and the registry of layerings. Units are those of analysis.run.keys. As a program it writes docs/reference.md:

    python -m testbed.scenario.reference > docs/reference.md
"""

import ast
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from analysis.metrics.catalogue import METRICS
from analysis.run.keys import words
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Section, table_keys, tables_in
from topologies import generate as generators
from topologies.generate import GENERATORS, arguments
from topologies.link import LinkParameters
from topologies.parameter import declared
from topologies.radio import Radio

_NAMED = {"plans": "NODE", "nodes": "NODE", "strategies": "PREFIX"}
"""Tables of tables: placeholders of the inner names, which the scenario's author chooses."""

_KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_TYPES = {bool: "true or false", int: "whole number", str: "one word", float: "number"}
_SHOWN = 4


class Entry(NamedTuple):
    """A key of a scenario file, or a parameter of a layering.

    Attributes:
        key: its path; a name that the author chooses is in capitals.
        kind: type of its value.
        unit: of the value; "" if it has none.
        default: as TOML writes it; "" if optional, None if required.
        bounds: of its value; "" if unbounded.
        says: its meaning.
    """

    key: str
    kind: str
    unit: str
    default: str | None
    bounds: str
    says: str

    @property
    def facts(self) -> str:
        """Return its kind, unit, bounds and default: "whole number of items, from 1 to 9; default 3"."""
        kind = f"{self.kind}, {self.unit}" if self.unit else self.kind
        default = {None: "needed", "": "may be left out"}.get(self.default, f"default {self.default}")
        return "; ".join(filter(None, (kind, self.bounds, default)))


class Table(NamedTuple):
    """A table of a scenario file: its heading there, its purpose, and its keys."""

    heading: str
    says: str
    entries: list[Entry]


@cache
def tables() -> list[Table]:
    """Return the tables of a scenario file, the outermost first."""
    return [*_tables_of(Scenario, (), "")]


@cache
def layering_entries(layering: str) -> list[Entry]:
    """Return a layering's parameters."""
    return [*_entries(LAYERINGS[layering].parameters, ("parameters", layering))]


@cache
def entries() -> dict[str, Entry]:
    """Return all keys and all parameters, by their paths."""
    every = [entry for table in tables() for entry in table.entries]
    every += [entry for layering in LAYERINGS for entry in layering_entries(layering)]
    return {entry.key: entry for entry in every}


@cache
def users() -> dict[str, list[str]]:
    """Return the library's scenarios with each key, by key."""
    found: dict[str, list[str]] = {}
    for name, path in scenarios().items():
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        for key in dict.fromkeys(_keys_of(told, ())):
            found.setdefault(key, []).append(name)
    return found


def looked_up(text: str) -> list[Entry]:
    """Return the entries that match a text: a key, all keys of a table, or keys by their last parts."""
    every = entries()
    if text in every and "table" not in every[text].kind:
        return [every[text]]
    inside = [entry for key, entry in every.items() if key == text or key.startswith(f"{text}.")]
    return inside or [entry for key, entry in every.items() if key.endswith(f".{text}")]


def _tables_of(model: type[Section], path: tuple[str, ...], array: str) -> Iterator[Table]:
    name = ".".join(path)
    heading = f"[[{name}]]" if array else f"[{name}]" if name else ""
    own = [*_entries(model, path)]
    if name == "topology":
        own += _of_generators()
    yield Table(heading, _paragraph(model.__doc__), own)
    for key, annotation in table_keys(model).items():
        is_list = getattr(annotation, "__origin__", None) is tuple
        inner = (*path, key, _NAMED[key]) if key in _NAMED else (*path, key)
        for table in tables_in(annotation):
            if table in (LinkParameters, Radio):
                yield Table(f"[{'.'.join(inner)}]", _paragraph(table.__doc__), [*_declared(table, inner)])
            elif issubclass(table, Section):
                yield from _tables_of(table, inner, "array" if is_list else "")


def _entries(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[Entry]:
    """Yield the keys of a model, from its JSON schema."""
    schema = model.model_json_schema()
    needed = schema.get("required", ())
    meaning = meanings(model)
    by_alias = {field.alias: name for name, field in model.model_fields.items() if field.alias}
    for name, told in schema.get("properties", {}).items():
        key = ".".join((*path, name))
        value = next((each for each in told.get("anyOf", [told]) if each.get("type") != "null"), told)
        says = _paragraph(meaning[by_alias.get(name, name)])
        default = None if name in needed and "Left out" not in says else _toml(told.get("default"))
        kind = _kind(value)
        yield Entry(key, kind, words(key).unit, "" if "table" in kind else default, _bounds(value), says)


@cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the words that stand below each key of a model in its source.

    pydantic would read the source of every model at each start.
    """
    found = {name: field.description or "" for name, field in model.model_fields.items()}
    for each in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        try:
            table = ast.parse(dedent(getsource(each))).body[0]
        except (OSError, TypeError):  # it was not made from source
            continue
        assert isinstance(table, ast.ClassDef)
        for key, says in pairwise(table.body):
            match key, says:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = cleandoc(text)
    return found


def _kind(told: Mapping[str, Any]) -> str:
    if "$ref" in told or told.get("type") == "object":
        if "additionalProperties" not in told:
            return "table"
        return "texts by name" if told["additionalProperties"] == {"type": "string"} else "tables by name"
    if told.get("type") == "array":
        inner = _kind(told["items"]) if "items" in told else ""
        return {"table": "list of tables", "tables by name": "list of tables", "text": "list of texts"}.get(
            inner, "list of pairs"
        )
    if "const" in told or "enum" in told:
        return "true" if told.get("const") is True else "one word"
    return _KINDS.get(told.get("type", ""), "value")


def _bounds(told: Mapping[str, Any]) -> str:
    if "enum" in told:
        return ", ".join(filter(None, told["enum"]))
    least = told.get("minimum", told.get("exclusiveMinimum"))
    most = told.get("maximum", told.get("exclusiveMaximum"))
    lower = "" if least is None else f"{'above' if 'exclusiveMinimum' in told else 'from'} {_plain(least)}"
    return lower + ("" if most is None else f" to {_plain(most)}")


def _plain(number: float) -> str:
    return f"{number:,.15g}"


def _toml(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _declared(table: type[LinkParameters] | type[Radio], path: tuple[str, ...]) -> Iterator[Entry]:
    """Yield the parameters of links or of radios."""
    parameters = declared(table)
    for each in fields(table):
        told = parameters[each.name]
        types = (each.type, *get_args(each.type))
        kind = next(word for kind, word in _TYPES.items() if kind in types)
        bounds = "" if bool in types else told.listed or told.range
        yield Entry(".".join((*path, each.name)), kind, told.unit, _toml(each.default), bounds, told.means)


def _of_generators() -> Iterator[Entry]:
    """Yield the generators' numbers, which are keys of [topology] besides those of its model."""
    generators: dict[str, list[str]] = {}
    for generator in GENERATORS:
        for name in arguments(generator):
            generators.setdefault(name, []).append(generator)
    for name, of in generators.items():
        told = arguments(of[0])[name]
        key = f"topology.{name}"
        what, unit = words(key)
        default = None if told.default is told.empty else _toml(told.default)
        says = f"{what[0].upper()}{what[1:]}: a number of the generator{'s' * (len(of) > 1)} {', '.join(of)}."
        yield Entry(key, "whole number" if told.annotation is int else "number", unit, default, "", says)


def _keys_of(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys of a scenario's table and of its inner tables, as entries() names them."""
    for name, value in table.items():
        is_chosen = len(path) == 1 and path[0] in _NAMED
        inner = (*path, _NAMED[path[0]] if is_chosen else name)
        yield ".".join(inner)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from _keys_of(each, inner)


def _paragraph(text: str | None) -> str:
    return " ".join((text or "").split())


def _markdown() -> Iterator[str]:
    yield _HEAD
    yield "| node | role |\n|---|---|"
    for node, role in ROLES:
        yield f"| {node} | {role} |"
    yield _AFTER_ROLES
    for table in tables():
        yield f"### `{table.heading}`\n" if table.heading else "### At the top of the file\n"
        yield f"{table.says}\n" if table.heading else ""
        yield from _rows(table.entries)
    yield "## Generators\n"
    yield "| generator | numbers | network |\n|---|---|---|"
    for name, numbers, says in generators.rows():
        yield f"| `{name}` | {numbers} | {_cell(says)} |"
    yield "\n## Metrics\n"
    yield "The comparison of a run has these, and `[question]` names some of them.\n"
    yield "| metric | what | unit | better |\n|---|---|---|---|"
    for metric in METRICS:
        yield f"| `{metric.key}` | {_cell(metric.title)} | {metric.unit} | {metric.better} |"
    yield "\n## Layerings\n"
    for name, layering in LAYERINGS.items():
        yield f"### `{name}`\n\n{layering.title}.\n"
        yield from _rows(layering_entries(name))


def _rows(rows: Iterable[Entry]) -> Iterator[str]:
    yield "| key | value | default | what | scenarios |\n|---|---|---|---|---|"
    for entry in rows:
        value = "; ".join(filter(None, (entry.kind, entry.unit, entry.bounds)))
        default = "needed" if entry.default is None else f"`{entry.default}`" if entry.default else ""
        cells = (f"`{entry.key}`", value, default, entry.says, used_by(entry.key))
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""


def used_by(key: str) -> str:
    """Return the library's scenarios with a key in words: all, none, some, or some and how many more."""
    found = users().get(key, [])
    if len(found) == len(scenarios()):
        return "all"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD = """# Reference of scenario files

Every key of a scenario file and every parameter of a layering. `feednet describe workload.items` prints the
same of a key, `feednet describe workload` of a table, `feednet describe poll` of a layering.
`python -m testbed.scenario.reference > docs/reference.md` writes this page from the models.
[scenarios.md](scenarios.md) introduces scenarios, [topologies.md](topologies.md) networks.

In keys, `NODE` and `PREFIX` stand for names that you choose. Keys are paths: `workload.items` is `items` in
the table `[workload]`. `--sweep` takes the same paths. The last column names scenarios that use the key.

## Who publishes, who follows

A topology says nothing of roles, be it a file or not. They follow from the scenario's keys, or from the
options of the same names:
"""

ROLES = (
    (
        "named by `publisher` or `publishers` (`--publisher`)",
        "publisher. If neither is given: `pub`, or the network's first node if it has no `pub`.",
    ),
    (
        "named by `subscribers` (`--subscribers`)",
        'subscriber: names, `"all"`, or a number of nodes. If it is left out: the nodes with one link; if'
        " there are none, all.",
    ),
    (
        "in both",
        'peer, which publishes and follows. Only names make peers: `"all"` and numbers leave publishers out.',
    ),
    (
        "in `archive.node`, `fork.publisher`, `nodes.NODE.gateway`",
        "archive; a fork's second device, which is a publisher; gateway.",
    ),
    (
        "any other",
        "forwarder: of NDN's packets; of IP's, if NDN is not used. Under NDN over SSB it is a provider.",
    ),
)
"""Assignment of nodes to roles."""

_AFTER_ROLES = """
`feednet describe SCENARIO` shows the roles, `feednet run SCENARIO --topology FILE --dry-run` those in a
network of yours. A switch of a Mini-NDN file is a forwarder.

## Keys
"""


if __name__ == "__main__":
    print("\n".join(_markdown()).rstrip())
