"""Code of a scenario: its strategies and programs.

Reading a scenario executes nothing: it is displayed, drawn, checked and estimated as data. Only load()
executes its strategy files, at the beginning of a run. Before that, admit() reports code from outside the
scenario's own directory, or from a bundle: its reader must trust it first.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from forwarder import strategies
from forwarder.forwarder import Forwarder
from testbed.errors import UserError
from testbed.experiment.files import MANIFEST
from testbed.layerings.nodes.ndn_node import choose_strategies
from testbed.scenario.model import Scenario

SUMS = "SHA256SUMS"
"""The checksum file of an unpacked bundle, beside its manifest."""

TRUST = "read it, then --trust it"


def named(table: Mapping[str, Any]) -> list[str]:
    """Return the code in a scenario's table, valid or not: strategy files, and programs by their words."""
    return [*map(_whole, _files(table)), *_programs(table)]


def admit(table: Mapping[str, Any], path: Path) -> None:
    """Raise UserError if a scenario from testbed.scenario.reader.read() has code from outside its own
    directory or from a bundle.
    """
    own = path.parent.resolve()
    foreign = [
        _whole(file)
        for file in _files(table)
        if not Path(file).resolve().is_relative_to(own) or _is_from_bundle(Path(file))
    ]
    if _is_from_bundle(path):
        foreign += _programs(table)
    if foreign:
        raise UserError(
            f"{path}: it has code from outside its own directory, or from a bundle: {', '.join(foreign)};"
            f" {TRUST}"
        )


def _files(table: Mapping[str, Any]) -> list[str]:
    files = table.get("strategy_files")
    return [*map(str, files)] if isinstance(files, list) else []


def _programs(table: Mapping[str, Any]) -> list[str]:
    programs = table.get("programs")
    words = [
        program.get("run")
        for program in (programs if isinstance(programs, list) else ())
        if isinstance(program, Mapping)
    ]
    return [_whole(shlex.join(map(str, each)) if isinstance(each, list) else str(each)) for each in words]


def _whole(text: str) -> str:
    """Return the code to trust in full: nothing is omitted or hidden."""
    return text if text.isprintable() else repr(text)


def _is_from_bundle(path: Path) -> bool:
    return any((each / SUMS).exists() and (each / MANIFEST).exists() for each in path.resolve().parents)


def load(scenario: Scenario) -> None:
    """Execute a scenario's strategy files, and check the strategies chosen from them. Raises UserError."""
    if not scenario.strategy_files:
        return
    try:
        for file in scenario.strategy_files:
            strategies.load(Path(file))
        for chosen in (scenario.strategies, *(change.choice for change in scenario.events)):
            choose_strategies(Forwarder(rng=Random(0), controlled_push=False), chosen)
    except ValueError as error:
        raise UserError(f"strategies: {error}") from error
