"""`feednet new`: starting files, and packages that add to feednet."""

import os
import re
from collections.abc import Container
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

import click

from base.files import write_whole
from base.plugins import GROUPS, installed
from testbed.errors import UserError, shown
from testbed.scenario.reader import STARTING_FILE

_TEMPLATES = Path(__file__).parents[2] / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", re.ASCII)
_LONGEST = 40
_REPORTED = "feednet run fanout --net emulated"


class _Kind(NamedTuple):
    """What a package adds: the object that its entry point names, the command that uses it, and what follows
    from that.
    """

    named: str
    used: str
    said: str


_KINDS = {
    "layering": _Kind(
        "layering", "feednet run line --net emulated --layering poll --layering mine", "compares it"
    ),
    "strategy": _Kind("Mine", "feednet run failover --net emulated --strategy mine", "forwards by it"),
    "metric": _Kind("metric", _REPORTED, "its report compares by it"),
    "figure": _Kind("figure", _REPORTED, "its report has it"),
}
"""By the kinds of base.plugins.GROUPS; `mine` stands for the name."""


@click.group()
def new() -> None:
    """Write files to begin with: a scenario, or a package that adds to feednet.

    A package has a pyproject.toml, which tells feednet of it, a module, a test that runs it in the emulator,
    and a README. What is there stays.
    """


@new.command()
@click.argument("name", metavar="NAME", type=click.Path(path_type=Path))
def scenario(name: Path) -> None:
    """Write NAME.toml: a commented scenario that runs as it is. A file that is there stays."""
    if not name.name or name.name == "..":
        raise UserError(f"NAME {shown(os.fspath(name))}: name a file; NAME.toml is written")
    path = name if name.suffix == ".toml" else name.with_name(f"{name.name}.toml")
    _write({path: STARTING_FILE.read_text(encoding="utf-8")}, path)
    click.echo(f"{path}: edit it, then: feednet run {path}")


@new.command()
@click.argument("name", metavar="NAME")
def layering(name: str) -> None:
    """Write the package NAME, which adds a layering: one Interest at a time, to be changed."""
    _write_package("layering", name)


@new.command()
@click.argument("name", metavar="NAME")
def strategy(name: str) -> None:
    """Write the package NAME, which adds a forwarding strategy: load split among equal ways."""
    _write_package("strategy", name)


@new.command()
@click.argument("name", metavar="NAME")
def metric(name: str) -> None:
    """Write the package NAME, which adds a metric to comparisons: deliveries within 100 ms."""
    _write_package("metric", name)


@new.command()
@click.argument("name", metavar="NAME")
def figure(name: str) -> None:
    """Write the package NAME, which adds a figure to reports: the longest wait of each subscriber."""
    _write_package("figure", name)


def _write_package(kind: str, name: str) -> None:
    """Write a package into a new folder, and say how it is used. Raises UserError."""
    _check(kind, name)
    module = name.replace("-", "_")
    folder = Path(name)
    shared = {each: _of_kind(_template(each), kind) for each in ("pyproject.toml", "README.md")}
    own = {f"{module}.py": _template(f"{kind}.py"), f"test_{module}.py": _template(f"test_{kind}.py")}
    files = {folder / place: _filled(text, kind, name) for place, text in (shared | own).items()}
    _write(files, folder)
    click.echo(f"{folder}: pip install --editable {folder}, then: {_KINDS[kind].used.replace('mine', name)}")


def _check(kind: str, name: str) -> None:
    """Raise UserError for a name that a package cannot have."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UserError(
            f"NAME {shown(name)}: it has small letters, digits, and - or _ between them, at most {_LONGEST}"
        )
    if name in _known(kind):
        raise UserError(f"NAME {name}: there is a {kind} of that name; choose another name")
    module = name.replace("-", "_")
    _refuse_what_exists(Path(name))
    if iskeyword(module) or find_spec(module) is not None:
        raise UserError(f"NAME {name}: Python has the word, or a module, {module}; choose another name")


def _known(kind: str) -> Container[str]:
    """Return the names that a kind has already."""
    from analysis.metrics.catalogue import BY_KEY
    from forwarder.strategies import STRATEGIES
    from testbed.layerings.registry import LAYERINGS

    known: dict[str, Container[str]] = {"layering": LAYERINGS, "strategy": STRATEGIES, "metric": BY_KEY}
    return known.get(kind) or installed(kind)


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _of_kind(text: str, kind: str) -> str:
    """Return a template that all kinds share, which is written for a layering, for another kind."""
    named, used, said = _KINDS[kind]
    text = text.replace("USE", f"{used}    # {said}").replace("feednet.layerings", GROUPS[kind])
    text = text.replace("templates.layering:layering", f"templates.{kind}:{named}")
    return re.sub(r"(?<!--)\blayering\b", kind, text)


def _filled(text: str, kind: str, name: str) -> str:
    """Return a template with a name in place of `mine`, for the module and the class, too."""
    module = name.replace("-", "_")
    class_name = "".join(part.capitalize() for part in module.split("_"))
    text = text.replace(f"testbed.templates.{kind}", module).replace("test_mine", f"test_{module}")
    return re.sub(r"\bMine(?=\b|Parameters)", class_name, re.sub(r"\bmine\b", name, text))


def _refuse_what_exists(place: Path) -> None:
    if os.path.lexists(place):
        raise UserError(f"{place}: exists already; choose another name")


def _write(files: dict[Path, str], place: Path) -> None:
    """Write files into `place`, which must be new. Raises UserError."""
    try:
        _refuse_what_exists(place)
        for path, text in files.items():
            if path != place:  # which is a folder
                path.parent.mkdir(exist_ok=True)
            write_whole(path, text)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{shown(os.fspath(place))}: {why}") from error
