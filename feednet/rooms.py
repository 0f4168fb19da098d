"""Check that Python finds feednet's other packages, which have common names such as `analysis`.

A file beside a script, or another distribution, may have one of these names. Imports would then take foreign
code for feednet's. So the public names and the command check first, and report conflicts.
"""

import csv
import hashlib
import sys
from base64 import urlsafe_b64encode
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOMS = (
    "analysis",
    "base",
    "captures",
    "forwarder",
    "ndn_over_ssb",
    "ssb",
    "ssb_over_ndn",
    "testbed",
    "topologies",
)
HOME = Path(__file__).absolute().parents[1]
"""The directory of all packages: the parent of this one."""


@cache
def check() -> None:
    """Raise ImportError, with a line for the user, if a package that Python finds is not feednet's."""
    for room in ROOMS:
        own = HOME / room / "__init__.py"
        if not own.exists():
            raise ImportError(f"feednet's package `{room}` is gone from {HOME}: {_again(room)}")
        found = _found(room)
        if found is None or not found.exists() or not found.samefile(own):
            raise ImportError(
                f"{found or 'something'} hides feednet's package `{room}`: give it another name, or take its"
                " directory out of the path"
            )
    for room in _overwritten():
        raise ImportError(f"feednet's package `{room}` was overwritten in {HOME}: {_again(room)}")


def _found(room: str) -> Path | None:
    """Return the file that `import` takes a package from; None if there is none."""
    try:
        spec = find_spec(room)
    except ValueError:  # a module created by hand
        spec = None
    if spec is not None and spec.has_location and spec.origin:
        return Path(spec.origin)
    path = getattr(sys.modules.get(room), "__file__", None)
    return None if path is None else Path(path)


def _overwritten() -> list[str]:
    """Return the packages that differ from the installed ones; unknown for an editable installation.

    Only their `__init__.py` are compared: a distribution with a package of that name has its own.
    """
    records = [*HOME.glob("feednet-*.dist-info/RECORD")]
    if not records:
        return []
    with records[0].open(encoding="utf-8", newline="") as lines:
        digests = {path: digest for path, digest, *_ in csv.reader(lines)}
    return [
        room for room in ROOMS if digests.get(f"{room}/__init__.py") not in ("", None, _digest(HOME / room))
    ]


def _digest(package: Path) -> str:
    """Return a package's digest as in RECORD (packaging.python.org, "Recording installed projects")."""
    digest = hashlib.sha256((package / "__init__.py").read_bytes()).digest()
    return f"sha256={urlsafe_b64encode(digest).decode().rstrip('=')}"


def _again(room: str) -> str:
    """Return the remedy, and the possible cause."""
    from importlib.metadata import distributions  # takes a while

    others = {
        dist.metadata["Name"]
        for dist in distributions()
        if dist.metadata["Name"] != "feednet" and f"{room}/__init__.py" in map(str, dist.files or ())
    }
    whose = f" ({', '.join(sorted(others))} has one, too)" if others else ""
    return f"install feednet again, in an environment of its own{whose}"
