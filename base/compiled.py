"""Compiled modules of a source tree: the same code, faster, from a directory of their own.

`make setup` compiles the modules that setup.py names into .compiled, if there is a C compiler. use() makes
Python import them from there, as long as their sources have not changed since; the environment variable
FEEDNET_PLAIN=1 turns that off. The packages stay in the tree, and so do all other modules.

    python -m base.compiled WHEEL DIRECTORY

takes the compiled modules out of a wheel.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
DIRECTORY = ROOT / ".compiled"
PLAIN = "FEEDNET_PLAIN"
_SOURCES = "sources.json"
_SUFFIX = EXTENSION_SUFFIXES[0]


class _Finder:
    """Finds compiled modules, a finder of sys.meta_path.

    Attributes:
        files: of modules, by their full names.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        file = self.files.get(name)
        return None if file is None else spec_from_file_location(name, file)


def state(directory: Path = DIRECTORY) -> str:
    """Return "in use", or why compiled modules are not: "absent", "turned off", "out of date"."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return "in use"
    if not (directory / _SOURCES).exists():
        return "absent"
    if os.environ.get(PLAIN):
        return "turned off"
    return "out of date"


def use(directory: Path = DIRECTORY) -> bool:
    """Import compiled modules from now on; return whether it is so. Modules that were compiled together are
    used together: none if the source of one has changed, or one has been imported already.
    """
    before = state(directory)
    if before != "out of date":  # which it is unless the digests below are right
        return before == "in use"
    sources: dict[str, str] = json.loads((directory / _SOURCES).read_text(encoding="utf-8"))
    if any(name in sys.modules or _digest(name) != digest for name, digest in sources.items()):
        return False
    found = {_name(path, directory): path for path in directory.rglob(f"*{_SUFFIX}")}
    if not found.keys() >= sources.keys():  # by another Python
        return False
    sys.meta_path.insert(0, _Finder(found))
    return True


def extract(wheel: Path, directory: Path) -> None:
    """Take the compiled modules out of a wheel, with the digests of their sources."""
    with ZipFile(wheel) as archive:
        archive.extractall(directory, [name for name in archive.namelist() if name.endswith(_SUFFIX)])
    names = (_name(path, directory) for path in sorted(directory.rglob(f"*{_SUFFIX}")))
    sources = {name: digest for name in names if (digest := _digest(name))}
    (directory / _SOURCES).write_text(json.dumps(sources, indent=1) + "\n", encoding="utf-8")


def _name(path: Path, directory: Path) -> str:
    return ".".join(path.relative_to(directory).parts).removesuffix(_SUFFIX)


def _digest(name: str) -> str:
    """Return the digest of a module's source, "" if there is none."""
    try:
        source = ROOT.joinpath(*name.split(".")).with_suffix(".py").read_bytes()
    except FileNotFoundError:
        return ""
    return hashlib.sha256(source).hexdigest()


if __name__ == "__main__":
    extract(Path(sys.argv[1]), Path(sys.argv[2]))
