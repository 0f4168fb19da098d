"""Reader of Mini-NDN's `.conf` topology files.

    [nodes]
    a: _ radius=0.5 angle=1.2
    b: _
    [links]
    a:b delay=10ms bw=100 loss=0.5 jitter=1ms max_queue_size=50

The file is read by lines, not by configparser, so that every error names its line.

- Blank lines, and lines that start with `#` or `;`, say nothing. Names of nodes are lower-cased.
- `[nodes]`: a name, a colon, then `_` or key=value words. They describe what other programs do with the
  node (radius, angle, network, router, nfd-log-level): any key is accepted, none is used.
- `[links]`: `a:b`, then key=value words that hold in each direction: `delay` and `jitter`, numbers with
  the unit s, ms or us; `bw` in Mbit/s; `loss` in percent; `max_queue_size` in packets. Beyond what
  Mini-NDN knows: `duplicate` in percent.
- `[switches]` must be empty: links here join two nodes.
- `[stations]`, `[accessPoints]` and `[cars]`, of Mini-NDN's wireless networks, are refused: links are wired.
- `[faces]` lists costs for Mini-NDN's routing; routes here follow from delays, so it is passed over.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from topologies.link import PARAMETERS, Parameter
from topologies.model import Link, Topology, TopologyError

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
    """A key of a link: the parameter that it sets, how it is read, and what an error asks for."""

    parameter: str
    read: Callable[[str], Any]
    wanted: str

    @classmethod
    def of(cls, name: str, parameter: Parameter) -> "_LinkKey":
        """Return the key for a parameter: its value is written as its unit asks for."""
        match parameter.unit:
            case "ms":
                return cls(name, _time, "a number with ms, us or s, such as 10ms")
            case "packets":
                return cls(name, _whole, f"a whole number of packets, at least {parameter.least:g}")
            case "%":
                return cls(name, _number, f"a number {parameter.range}, in percent, without a sign")
            case unit:
                return cls(name, _number, f"a number of {unit} {parameter.range}, without a unit")


_UNITS = ("_mbit", "_ms", "_percent")
_LINK_KEYS = {
    next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name): _LinkKey.of(name, each)
    for name, each in PARAMETERS.items()
}


@dataclass(frozen=True)
class _Line:
    """A line that says something: where it stands, its first word and the words after it."""

    place: str
    section: str
    subject: str
    words: tuple[str, ...]

    def error(self, problem: str) -> TopologyError:
        return TopologyError(f"{self.place}: [{self.section}] {problem}")


def read_conf(path: str | PathLike[str]) -> Topology:
    """The topology in a Mini-NDN file.

    Raises TopologyError if the file cannot be read or says what a topology cannot be; the message is one
    line, `FILE:LINE: [section] what and why`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{fspath(path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{fspath(path)}: is not a text file in UTF-8") from None
    return parse_conf(text, fspath(path))


def parse_conf(text: str, source: str) -> Topology:
    """The topology in a Mini-NDN file's text; `source` is the name that errors give it.

    Raises TopologyError as `read_conf` does.
    """
    nodes: list[tuple[_Line, str]] = []
    links: list[tuple[_Line, Link]] = []
    for line in _lines(text, source):
        if line.section == "nodes":
            nodes.append((line, _node(line)))
        elif line.section == "links":
            links.append((line, _link(line)))
        elif line.section == "switches":
            raise line.error(
                f"{line.subject.rstrip(':')}: switches are not supported; link the nodes to each other"
            )
    if not nodes:
        raise TopologyError(f"{source}: no nodes; list them in a section [nodes], one `name: _` a line")
    names = tuple(name for _, name in nodes)
    try:
        return Topology(names, tuple(link for _, link in links))
    except TopologyError:
        raise _refused(nodes, links) from None


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


def _node(line: _Line) -> str:
    name, colon, rest = line.subject.partition(":")
    if not colon or rest:
        raise line.error(f"{line.subject}: a node must be written `name: _` or `name: key=value ...`")
    for word in line.words:
        if word != "_" and "=" not in word:
            raise line.error(f"{line.subject} {word}: must be _ or key=value")
    return name.lower()


def _link(line: _Line) -> Link:
    a, _, b = line.subject.lower().partition(":")
    if not a or not b:
        raise line.error(f"{line.subject}: a link must be written `a:b key=value ...`")
    try:
        link = Link(a, b)
    except TopologyError as error:
        raise line.error(str(error)) from None
    given: set[str] = set()
    for word in line.words:
        if word == "_":
            continue
        name, equals, value = word.partition("=")
        if not equals or name not in _LINK_KEYS:
            raise line.error(f"{line.subject} {word}: unknown; a link has {', '.join(_LINK_KEYS)}")
        if name in given:
            raise line.error(f"{line.subject} {word}: {name} is given twice")
        given.add(name)
        key = _LINK_KEYS[name]
        try:
            link = replace(link, **{key.parameter: key.read(value)})
        except ValueError:
            raise line.error(f"{line.subject} {word}: {name} must be {key.wanted}") from None
    return link


def _refused(nodes: list[tuple[_Line, str]], links: list[tuple[_Line, Link]]) -> TopologyError:
    """The error of the first line without which the topology would stand."""
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
