"""The strategies: one file each, discovered in this folder.

A new strategy is a file with a class derived from forwarder.strategies.strategy.Strategy; put it here, pass
its path to load(), or install it as a distribution with an entry point of the group "feednet.strategies".
docs/strategies.md shows how to write one.
"""

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable
from functools import partial
from importlib.machinery import SOURCE_SUFFIXES
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

from base.plugins import Registry, lacking
from forwarder.strategies.strategy import Strategy


def _strategies_in(module: ModuleType) -> Iterable[type[Strategy]]:
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, Strategy) and found.__module__ == module.__name__ and found.NAME:
            yield found


def _all() -> dict[str, type[Strategy]]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for strategy in _strategies_in(importlib.import_module(f"{__name__}.{module.name}")):
            found[strategy.NAME] = strategy
    return found


def _load(point: EntryPoint) -> type[Strategy]:
    strategy: type[Strategy] = point.load()
    lacking("strategy", point, strategy, ("NAME", "VERSION", "after_interest"))
    if point.name != strategy.NAME:
        raise ValueError(f"its NAME is {strategy.NAME!r}")
    return strategy


def _already(strategy: type[Strategy]) -> type[Strategy]:
    return strategy


STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy", {name: partial(_already, strategy) for name, strategy in _all().items()}, _load
)
"""All strategies by name."""


_PREFIX = "/localhost/nfd/strategy/"


def parse(text: str) -> tuple[type[Strategy], dict[str, str]]:
    """Read a strategy's name with its version and parameters, if any, such as "asf/v=5/max-timeouts~5".

    "/localhost/nfd/strategy/" may stand before it. Returns the class, and parameters for it. Raises
    ValueError, with a line for the user, if there is no such strategy, or not of that version.
    """
    name, *rest = text.removeprefix(_PREFIX).split("/")
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"there is no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    parameters = {}
    for number, part in enumerate(rest):
        key, tilde, value = part.partition("~")
        if tilde and key and value:
            parameters[key] = value
        elif number or part != f"v={strategy.VERSION}":
            raise ValueError(
                f"{text!r}: {part!r} is neither v={strategy.VERSION}, the version of {name}, nor a parameter,"
                " which is written NAME~VALUE"
            )
    return strategy, parameters


def check(path: Path) -> None:
    """Raise ValueError, with a line for the user, if a file cannot be one of strategies. Nothing in it is
    executed."""
    if path.suffix not in SOURCE_SUFFIXES:
        raise ValueError(f"{path}: not a Python file")
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'No such file or directory'}")


def load(path: Path) -> list[str]:
    """Execute a Python file, and add its strategies; return their names.

    Raises ValueError, with a line for the user, if the file has none or cannot be loaded.
    """
    check(path)
    spec = importlib.util.spec_from_file_location(f"feednet_strategy_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None  # as it has the suffix
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # any fault of the user's file
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
    found = {strategy.NAME: strategy for strategy in _strategies_in(module)}
    if not found:
        raise ValueError(
            f"{path}: no class derived from forwarder.strategies.strategy.Strategy that has a NAME"
        )
    STRATEGIES.update(found)
    return list(found)
