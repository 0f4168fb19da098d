"""Mini-NDN's `.conf` topology files, read and written.

    [nodes]
    a: _ radius=0.5 angle=1.2
    b: _
    [switches]
    s: _
    [links]
    a:s delay=10ms bw=100 loss=0.5 jitter=1ms max_queue_size=50
    s:b delay=5ms
    [faces]
    a:s cost=42

The file is read by lines, not by configparser, so that every error names its line.

- Blank lines, and lines that start with `#` or `;`, are ignored. Names of nodes keep their capitals, but
  case is ignored in links and faces: to Mini-NDN, A and a are one node.
- `[nodes]`: a name, a colon, then `_` or key=value words, any key. They are settings of other programs for
  the node (network, router, nfd-log-level); radius and angle are the coordinates of hyperbolic routing.
- `[switches]`: written like nodes, and nodes here: a switch forwards like any other node.
- `[links]`: `a:b`, then key=value words that hold in each direction: `delay` and `jitter`, numbers with
  the unit s, ms or us; `bw` in Mbit/s; `loss` in percent; `max_queue_size` in packets. In addition to
  Mini-NDN's: the other parameters of topologies.link, under their names without the unit. Mininet's
  settings of the kernel (use_hfsc, use_tbf, latency_ms, speedup, gro, txo, rxo) are ignored.
- `[faces]`: `a:b cost=42` is the cost of the link from a to b, and back if there is no line for `b:a`;
  `_`, or no cost, sets none.
- `[stations]`, `[accessPoints]` and `[cars]`, of Mini-NDN's wireless networks, are refused: links are wired.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from topologies.link import LINK_PARAMETERS
from topologies.model import Link, Topology, TopologyError
from topologies.parameter import Parameter

_IGNORED = {"use_hfsc", "use_tbf", "use_htb", "latency_ms", "speedup", "gro", "txo", "rxo"}
_SECTIONS = ("nodes", "switches", "links", "faces")
_WIRELESS = ("stations", "accesspoints", "cars")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_WHOLE = re.compile(r"[0-9]+")
_MILLISECONDS = {"s": 1e3, "ms": 1.0, "us": 1e-3}


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _time(text: str) -> float:
    digits = text.rstrip("smu")
    return _number(digits) * _MILLISECONDS.get(text[len(digits) :], math.nan)


class _LinkKey(NamedTuple):
    """A key of a link: its parameter, its parser, and the expected form for errors."""

    parameter: str
    read: Callable[[str], Any]
    wanted: str

    @classmethod
    def of(cls, name: str, parameter: Parameter) -> "_LinkKey":
        """Return the key for a parameter: its values are written in its unit."""
        match parameter.unit:
            case "ms":
                return cls(name, _time, "a number with ms, us or s, such as 10ms")
            case "packets":
                return cls(name, _whole, f"a whole number of packets, at least {parameter.least:g}")
            case "bytes":
                return cls(name, _whole, parameter.wanted)
            case "%":
                return cls(name, _number, f"a number {parameter.range}, in percent, without a sign")
            case "":
                return cls(name, str, parameter.wanted)
            case unit:
                return cls(name, _number, f"a number of {unit} {parameter.range}, without a unit")


_UNITS = ("_mbit", "_ms", "_percent")
_LINK_KEYS = {
    next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name): _LinkKey.of(name, each)
    for name, each in LINK_PARAMETERS.items()
}


@dataclass(frozen=True)
class _Line:
    """A line with content: its file and number, its first word and the words after it."""

    place: str
    section: str
    subject: str
    words: tuple[str, ...]

    def error(self, problem: str) -> TopologyError:
        return TopologyError(f"{self.place}: [{self.section}] {problem}")


def read_conf(path: str | PathLike[str], **link: Any) -> Topology:
    """Return the topology in a Mini-NDN file; `link` are parameters of all links, which override the file's.

    Raises TopologyError if the file cannot be read or is no valid topology; the message is one line,
    `FILE:LINE: [section]` and the reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{fspath(path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{fspath(path)}: is not a text file in UTF-8") from None
    found = parse_conf(text, fspath(path))
    try:
        return replace(found, links=tuple(replace(each, **link) for each in found.links))
    except TopologyError as error:
        raise TopologyError(f"{fspath(path)}: {error}") from None


def parse_conf(text: str, source: str) -> Topology:
    """The topology in a Mini-NDN file's text; `source` is the file's name in errors.

    Raises TopologyError as `read_conf` does.
    """
    nodes: list[tuple[_Line, str]] = []
    links: list[tuple[_Line, Link]] = []
    faces: list[tuple[_Line, _Face]] = []
    switches: list[str] = []
    attributes: dict[str, dict[str, str]] = {}
    for line in _lines(text, source):
        if line.section == "links":
            links.append((line, _link(line)))
        elif line.section == "faces":
            faces.append((line, _face(line)))
        else:
            name, said = _node(line)
            nodes.append((line, name))
            switches += [name] if line.section == "switches" else []
            attributes |= {name: said} if said else {}
    if not nodes:
        raise TopologyError(f"{source}: no nodes; list them in a section [nodes], one `name: _` a line")
    names = tuple(name for _, name in nodes)
    spelt: dict[str, str] = {}
    for line, name in nodes:
        if spelt.setdefault(name.lower(), name) != name:
            raise line.error(f"node {name}: is {spelt[name.lower()]} to Mini-NDN, and named twice")
    links = [(line, _spelt(line, link, spelt)) for line, link in links]
    faces = [
        (line, face._replace(a=spelt.get(face.a.lower(), face.a), b=spelt.get(face.b.lower(), face.b)))
        for line, face in faces
    ]
    try:
        Topology(names, tuple(link for _, link in links))
    except TopologyError:
        raise _refused(nodes, links) from None
    joined = _with_costs([link for _, link in links], faces)
    return Topology(names, joined, switches=tuple(switches), attributes=attributes)


def conf_text(topology: Topology) -> str:
    """Write a topology as a Mini-NDN file, from which `parse_conf` makes the same one.

    Raises TopologyError for broadcast media and attributes with blanks, which the format lacks.
    """
    if topology.media:
        raise TopologyError(f"medium {topology.media[0]}: a Mini-NDN file has no broadcast media")
    lines = ["[nodes]"]
    lines += [_node_text(topology, node) for node in topology.nodes if node not in topology.switches]
    if topology.switches:
        lines += ["[switches]", *(_node_text(topology, node) for node in topology.switches)]
    lines += ["[links]", *(f"{link} {_link_text(link)}" for link in topology.links)]
    costs = [(f"{link.a}:{link.b}", link.cost) for link in topology.links]
    costs += [(f"{link.b}:{link.a}", link.cost_back) for link in topology.links]
    faces = [f"{ends} cost={_shortest(cost)}" for ends, cost in costs if cost is not None]
    return "\n".join([*lines, *(["[faces]", *faces] if faces else [])]) + "\n"


def _node_text(topology: Topology, node: str) -> str:
    words = [f"{key}={value}" for key, value in topology.attributes.get(node, {}).items()]
    for word in words:
        if len(word.split()) != 1:
            raise TopologyError(f"node {node}: a Mini-NDN file cannot say {word!r}; it has a blank")
    return f"{node}: {' '.join(words) or '_'}"


def _link_text(link: Link) -> str:
    words = []
    for key, (name, _, _) in _LINK_KEYS.items():
        value = getattr(link, name)
        if value != Link.__dataclass_fields__[name].default:
            text = value if isinstance(value, str) else _shortest(value)
            words.append(f"{key}={text}{'ms' if name.endswith('_ms') else ''}")
    return " ".join(words) or "_"


def _shortest(value: float) -> str:
    """Return a number in digits that parse to the same value; the format has no exponents."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _lines(text: str, source: str) -> list[_Line]:
    section = ""
    found: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        stripped = raw.strip()
        place = f"{source}:{number}"
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[":
            section = stripped.removeprefix("[").removesuffix("]")
            if section.lower() in _WIRELESS:
                raise TopologyError(
                    f"{place}: {stripped}: wireless networks are not supported;"
                    " give a file with [nodes] and [links]"
                )
            if section not in _SECTIONS or stripped[-1] != "]":
                known = ", ".join(f"[{name}]" for name in _SECTIONS)
                raise TopologyError(f"{place}: {stripped}: the section must be one of {known}")
            continue
        if not section:
            raise TopologyError(f"{place}: {stripped}: a section must come first, such as [nodes]")
        subject, *words = stripped.split()
        found.append(_Line(place, section, subject, tuple(words)))
    return found


def _node(line: _Line) -> tuple[str, dict[str, str]]:
    name, colon, rest = line.subject.partition(":")
    if not colon or rest:
        raise line.error(f"{line.subject}: a node must be written `name: _` or `name: key=value ...`")
    said: dict[str, str] = {}
    for word in line.words:
        key, equals, value = word.partition("=")
        if word != "_" and not equals:
            raise line.error(f"{line.subject} {word}: must be _ or key=value")
        if key in said:
            raise line.error(f"{line.subject} {word}: {key} is given twice")
        said |= {key: value} if equals else {}
    return name, said


class _Face(NamedTuple):
    """The cost of a link from one end to the other, if it is given."""

    a: str
    b: str
    cost: float | None


def _face(line: _Line) -> _Face:
    a, _, b = line.subject.partition(":")
    if not a or not b:
        raise line.error(f"{line.subject}: a face must be written `a:b cost=NUMBER`, or `a:b _`")
    cost: float | None = None
    for word in line.words:
        key, _, value = word.partition("=")
        if word != "_" and key != "cost":
            raise line.error(f"{line.subject} {word}: unknown; a face has cost")
        if key == "cost":
            try:
                cost = _number(value)
            except ValueError:
                raise line.error(f"{line.subject} {word}: cost must be a number from 0") from None
    return _Face(a, b, cost)


def _with_costs(links: list[Link], faces: list[tuple[_Line, _Face]]) -> tuple[Link, ...]:
    index = {ends: number for number, link in enumerate(links) for ends in _both_ways(link)}
    costs: dict[tuple[str, str], float] = {}
    for line, face in faces:
        ends = face.a, face.b
        if ends not in index:
            raise line.error(f"{line.subject}: no link joins {face.a} and {face.b}; name one of [links]")
        if ends in costs:
            raise line.error(f"{line.subject}: its cost is given twice")
        if face.cost is not None:
            costs[ends] = face.cost
    found = []
    for link in links:
        there, back = (costs.get(ends) for ends in _both_ways(link))
        if there is None:
            there, back = back, None
        found.append(replace(link, cost=there, cost_back=None if back == there else back))
    return tuple(found)


def _both_ways(link: Link) -> tuple[tuple[str, str], tuple[str, str]]:
    return (link.a, link.b), (link.b, link.a)


def _link(line: _Line) -> Link:
    a, _, b = line.subject.partition(":")
    if not a or not b:
        raise line.error(f"{line.subject}: a link must be written `a:b key=value ...`")
    try:
        link = Link(a, b)
    except TopologyError as error:
        raise line.error(str(error)) from None
    given: dict[str, Any] = {}
    for word in line.words:
        if word == "_":
            continue
        name, equals, value = word.partition("=")
        if equals and name in _IGNORED:
            continue
        if not equals or name not in _LINK_KEYS:
            raise line.error(f"{line.subject} {word}: unknown; a link has {', '.join(_LINK_KEYS)}")
        key = _LINK_KEYS[name]
        if key.parameter in given:
            raise line.error(f"{line.subject} {word}: {name} is given twice")
        try:
            given[key.parameter] = key.read(value)
        except ValueError:
            given[key.parameter] = math.nan
        if not LINK_PARAMETERS[key.parameter].allows(given[key.parameter]):
            raise line.error(f"{line.subject} {word}: {name} must be {key.wanted}")
    try:
        return replace(link, **given)
    except TopologyError as error:
        raise line.error(str(error)) from None


def _spelt(line: _Line, link: Link, names: dict[str, str]) -> Link:
    """Return a link with the spelling of [nodes]; `names` are by their lower-case letters."""
    try:
        return replace(link, a=names.get(link.a.lower(), link.a), b=names.get(link.b.lower(), link.b))
    except TopologyError as error:  # the two are one node
        raise line.error(str(error)) from None


def _refused(nodes: list[tuple[_Line, str]], links: list[tuple[_Line, Link]]) -> TopologyError:
    """The error of the first line that makes the topology invalid."""
    names = tuple(name for _, name in nodes)
    joined = tuple(link for _, link in links)
    growing = [(line, names[:count], joined[:0]) for count, (line, _) in enumerate(nodes, start=1)]
    growing += [(line, names, joined[:count]) for count, (line, _) in enumerate(links, start=1)]
    for line, some_names, some_links in growing:
        try:
            Topology(some_names, some_links)
        except TopologyError as error:
            return line.error(str(error))
    raise AssertionError("called for a topology that stands")
