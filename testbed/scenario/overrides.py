"""Overrides of a scenario's file by options: the keys that they set, and attribution of errors to options.

Each mistake in a scenario is at a key. If an option has set that key, the error names the option, as the user
wrote it; else the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from testbed.errors import UserError, shown
from topologies.library import networks

Key = tuple[str, ...]
"""Keys of nested tables, the outermost first."""

_SHORT = {"loss": "topology.link.loss_percent", "items": "workload.items"}
SHORT_KEYS = (*_SHORT, "seed", "strategy", "LAYERING.PARAMETER")
"""Names for --sweep besides key paths."""

STRATEGY: Key = ("strategies", "/")
"""The default strategy of a scenario, for all names without another."""


class Override(NamedTuple):
    """A value set by an option: its key, the value, and the text that the user wrote."""

    path: Key
    value: Any
    text: str


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """Options that override a scenario's file; None leaves it unchanged.

    `topology_file` is a path, or the name of a network of the library; `subscribers` "all", a number or names
    with commas between; `parameters` {layering: {name: value}}; `strategy` the scenario's default strategy;
    `changes` {key path or "strategy": value}, as {"topology.depth": 2}. Files of strategies are added to
    those of the scenario. `loss_percent` is that of all links, the users' too; the key
    "topology.link.loss_percent" leaves those of users as they are.
    """

    seed: int | None = None
    feed: str | PathLike[str] | None = None
    items: int | None = None
    topology_file: str | PathLike[str] | None = None
    loss_percent: float | None = None
    publisher: str | None = None
    subscribers: str | None = None
    layerings: Sequence[str] | None = None
    parameters: Mapping[str, Mapping[str, Any]] | None = None
    strategy: str | None = None
    strategy_files: Sequence[str] = ()
    changes: Mapping[str, Any] | None = None

    def overrides(self) -> list[Override]:
        """Return the overrides. Raises UserError if two options set the same."""
        network = _text(self.topology_file)
        # A file's path may also be the name of a network of the library.
        is_known = network in networks() and not Path(network or "").exists()
        options: dict[Key, tuple[str, Any]] = {
            ("seed",): ("seed", self.seed),
            ("workload", "feed"): ("feed", _text(self.feed)),
            ("workload", "items"): ("items", self.items),
            ("topology", "library" if is_known else "file"): ("topology", network),
            ("topology", "link", "loss_percent"): ("loss", self.loss_percent),
            ("publisher",): ("publisher", self.publisher),
            ("subscribers",): ("subscribers", self.subscribers),
            STRATEGY: ("strategy", self.strategy),
        }
        found = [
            Override(path, value, f"--{name} {shown(value)}")
            for path, (name, value) in options.items()
            if value is not None
        ]
        if self.layerings:
            text = " ".join(f"--layering {shown(name)}" for name in self.layerings)
            found.append(Override(("layerings",), tuple(self.layerings), text))
        for layering, values in (self.parameters or {}).items():
            for name, value in values.items():
                text = f"--set {shown(f'{layering}.{name}')}={shown(value)}"
                found.append(Override(("parameters", layering, name), value, text))
        for key, value in (self.changes or {}).items():
            path = STRATEGY if key == "strategy" else tuple(key.split("."))
            found.append(Override(path, value, f"--sweep {shown(short_key(key))}={shown(value)}"))
        for number, each in enumerate(found):
            for other in found[:number]:
                if _overlap(each.path, other.path):
                    raise UserError(f"{each.text}, {other.text}: both say the same; leave one of them out")
        return found


def _text(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else str(path)


class InvalidScenario(ValueError):
    """A mistake in a scenario; `paths` are the keys possibly at fault, the likeliest first."""

    def __init__(self, text: str, *paths: Key) -> None:
        super().__init__(text)
        self.paths = paths


def long_key(name: str) -> str:
    """Return the key path of `loss` or `items`; any other name unchanged."""
    return _SHORT.get(name, name)


def short_key(key: str) -> str:
    """Return the user's name of a key path of --sweep."""
    names = {path: name for name, path in _SHORT.items()}
    return names.get(key, key.removeprefix("parameters."))


def apply(table: dict[str, Any], items: Iterable[Override]) -> list[Override]:
    """Apply overrides to a scenario's table; return those that do not fit."""
    homeless = []
    for each in items:
        *sections, last = each.path
        inner: Any = table
        for name in sections:
            inner = inner.setdefault(name, {}) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner[last] = each.value
        else:
            homeless.append(each)
    return homeless


def override_of(items: Sequence[Override], paths: Iterable[Key]) -> Override | None:
    """Return the override of one of the keys, or of a parent; None if the file itself set them."""
    for path in paths:
        for each in items:
            if _overlap(each.path, path):
                return each
    return None


def _overlap(one: Key, other: Key) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))
