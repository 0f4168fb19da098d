"""`FOREIGN=... python -m bare ARGUMENTS`: feednet as `pip install feednet` without extras has it.

No package can be imported that only an extra brings, though it is installed here. What is allowed follows
from the metadata of feednet's distribution, so a requirement that is moved to an extra is missed at once.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, requires
from runpy import run_module, run_path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(distribution: str) -> set[str]:
    """What is installed with a distribution, without extras."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found.add(name)
            wanted = [Requirement(each) for each in requires(name) or ()]
            waiting += [
                each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return found


def foreign() -> set[str]:
    """Return what is installed here and would not be there, by the names that programs import.

    pip comes with every environment.
    """
    allowed = closure("feednet") | {"pip"}
    return {
        package
        for package, names in packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & allowed
    }


class Bare:
    """Stands before another finder, and has it find nothing of these names."""

    def __init__(self, finder: Any, foreign: set[str]) -> None:
        self._finder = finder
        self._foreign = foreign

    def is_foreign(self, name: str) -> bool:
        return name.partition(".")[0] in self._foreign

    def find_spec(self, name: str, *arguments: Any) -> ModuleSpec | None:
        return None if self.is_foreign(name) else self._finder.find_spec(name, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def main() -> None:
    names = set(os.environ["FOREIGN"].split())
    finders = [Bare(finder, names) for finder in sys.meta_path]
    for known in list(sys.modules):
        if finders[0].is_foreign(known):
            del sys.modules[known]
    sys.meta_path[:] = finders
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "feednet":
        run_module("feednet", run_name="__main__", alter_sys=False)
    else:
        run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
