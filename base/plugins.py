"""What other distributions add to feednet: layerings, strategies, metrics and figures, by entry points.

A distribution names what it adds in the groups GROUPS of its metadata; `feednet new` writes such ones.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

GROUPS = {
    "layering": "feednet.layerings",
    "strategy": "feednet.strategies",
    "metric": "feednet.metrics",
    "figure": "feednet.figures",
}
"""The group of entry points of each kind. An entry point's name is that of the layering and so on."""


class PluginError(ValueError):
    """A part of another distribution that cannot be used. The message is one line: which, whose, and why."""


def installed(kind: str, own: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return what other distributions add of a kind of GROUPS, by name, in the order of names.

    Raises PluginError for a name that is among `own`, feednet's, or in two distributions.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUPS[kind])):
        if point.name in own or point.name in found:
            whose = "feednet" if point.name in own else "another distribution"
            raise PluginError(f"{_origin(kind, point)}: {whose} has a {kind} of that name")
        found[point.name] = point
    return found


@contextmanager
def blamed(kind: str, point: EntryPoint) -> Iterator[None]:
    """Raise what goes wrong in code of another distribution as PluginError, which names it."""
    try:
        yield
    except PluginError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        raise PluginError(f"{_origin(kind, point)}: {type(error).__name__}: {said}") from error


def lacking(kind: str, point: EntryPoint, found: object, parts: Collection[str]) -> None:
    """Raise PluginError if an object of another distribution lacks attributes."""
    missing = [name for name in parts if not hasattr(found, name)]
    if missing:
        raise PluginError(f"{_origin(kind, point)}: it has no {', '.join(missing)}")


def sources() -> Iterator[bytes]:
    """Yield for each entry point what it is, and the content of its module's file.

    Raises PluginError.
    """
    for kind in GROUPS:
        for point in installed(kind).values():
            with blamed(kind, point):
                spec = find_spec(point.module)
                yield f"{kind} {point.name} {point.value}\0".encode()
                if spec is not None and spec.origin is not None:
                    yield Path(spec.origin).read_bytes()


def _origin(kind: str, point: EntryPoint) -> str:
    return f"{kind} {point.name} of {point.dist.name if point.dist else point.value}"


class Registry(MutableMapping[str, T]):
    """All of a kind by name: feednet's own first, then those of other distributions.

    Each is made when it is first asked for. Other distributions are looked for when a name is asked for that
    is not feednet's, or all names. These raise PluginError.

    Args:
        kind: of GROUPS.
        own: makers of feednet's own, by name.
        load: makes that of an entry point; may raise anything.
    """

    def __init__(
        self, kind: str, own: Mapping[str, Callable[[], T]], load: Callable[[EntryPoint], T]
    ) -> None:
        self._kind, self._load = kind, load
        self._own = frozenset(own)
        self._makers = dict(own)
        self._made: dict[str, T] = {}
        self._is_complete = False

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._look(name)
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, value: T) -> None:
        self._makers[name] = lambda: value
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        self._look(name)
        del self._makers[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        self._look(name)
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        self._look(None)
        return iter(self._makers)

    def __len__(self) -> int:
        self._look(None)
        return len(self._makers)

    def _look(self, name: object) -> None:
        """Add those of other distributions, unless the name is known."""
        if self._is_complete or name in self._makers:
            return
        for each, point in installed(self._kind, self._own).items():
            self._makers.setdefault(each, partial(self._loaded, point))
        self._is_complete = True

    def _loaded(self, point: EntryPoint) -> T:
        with blamed(self._kind, point):
            return self._load(point)
