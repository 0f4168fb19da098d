"""What is not installed: feednet alone is forwarder, peer and client library; extras bring the rest.

The metadata of the installed distribution say which packages an extra brings. Each of them is imported by its
own name in small letters, so a failed import tells the extra.
"""

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from analysis.errors import install_command

_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;.*\bextra == ['\"](\w+)['\"]")


def _known() -> list[tuple[str, str]]:
    """Return (package, extra) for all of them but `dev`, which brings the others."""
    try:
        found = [match.groups() for each in requires("feednet") or () if (match := _REQUIREMENT.match(each))]
    except PackageNotFoundError:  # run from its sources
        return []
    return [(name.lower(), extra) for name, extra in found if extra != "dev"]


def packages_of(extra: str) -> list[str]:
    """Return what an extra brings, by the names that programs import."""
    return [name for name, of in _known() if of == extra and name != "setuptools"]


def missing(extra: str) -> list[str]:
    """Return those of packages_of() that are not installed."""
    return [name for name in packages_of(extra) if find_spec(name) is None]


def extra_of(package: str) -> str | None:
    """Return the extra that brings a package; None if none does."""
    return next((extra for name, extra in _known() if name == package), None)


def lacking(error: ModuleNotFoundError) -> str | None:
    """Return what a failed import lacks, and how to get it; None if it is no extra's package."""
    package = (error.name or "").partition(".")[0]
    extra = extra_of(package)
    return None if extra is None else how_to_get(package, extra)


def how_to_get(package: str, extra: str) -> str:
    """Return the end of a line about what needs a package: it, and the command that installs it."""
    return f"{package}, which comes with the extra `{extra}`: {install_command(extra)}"


def need(extra: str, by: str) -> None:
    """Raise ImportError, with a line for the user, unless all that an extra brings is installed."""
    if absent := missing(extra):
        raise ImportError(f"{by} needs {how_to_get(absent[0], extra)}")
