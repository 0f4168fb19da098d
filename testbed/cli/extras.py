"""Missing extras: feednet alone is forwarder, peer and client library; extras bring the rest.

The metadata of the installed distribution list the packages of extras. But for two that others need, each is
imported by its own name in small letters, so a failed import identifies the extra.
"""

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from analysis.errors import install_command

_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;.*\bextra == ['\"](\w+)['\"]")

_OF_OTHERS = {"setuptools", "protobuf"}
"""Packages that only other packages import, and under other names."""


def _known() -> list[tuple[str, str]]:
    """Return (package, extra) for all extras but `dev`; an extra that `lab` includes is not repeated."""
    try:
        found = [match.groups() for each in requires("feednet") or () if (match := _REQUIREMENT.match(each))]
    except PackageNotFoundError:  # run from its sources
        return []
    return [(name.lower(), extra) for name, extra in found if extra != "dev" and name != "feednet"]


def packages_of(extra: str) -> list[str]:
    """Return the packages of an extra, by their import names."""
    return [name for name, of in _known() if of == extra and name not in _OF_OTHERS]


def missing(extra: str) -> list[str]:
    """Return the missing packages of an extra."""
    return [name for name in packages_of(extra) if find_spec(name) is None]


def extra_of(package: str) -> str | None:
    """Return a package's extra; None if there is none."""
    return next((extra for name, extra in _known() if name == package), None)


def lacking(error: ModuleNotFoundError) -> str | None:
    """Return a failed import's missing extra, and its installation command; None for other packages."""
    package = (error.name or "").partition(".")[0]
    extra = extra_of(package)
    return None if extra is None else how_to_get(package, extra)


def how_to_get(package: str, extra: str) -> str:
    """Return the end of a message about a missing package: its name, and the installation command."""
    return f"{package}, which comes with the extra `{extra}`: {install_command(extra)}"


def need(extra: str, by: str) -> None:
    """Raise ImportError, with a line for the user, unless an extra is completely installed."""
    if absent := missing(extra):
        raise ImportError(f"{by} needs {how_to_get(absent[0], extra)}")
