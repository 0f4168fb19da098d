"""The registry of layerings that a scenario can compare. Each is imported on use: a run imports its own.

Another distribution adds a layering by an entry point of the group "feednet.layerings": the layering's name,
and a callable without arguments that returns a testbed.layerings.nodes.node.Layering.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from testbed.errors import UserError
from testbed.layerings.nodes.node import Layering

ENTRY_POINTS = "feednet.layerings"
_PARTS = ("title", "parameters", "protocol", "carries", "build")

_PULLED = ("pull", "poll", "long-lived", "persistent", "notify", "sync", "sync-log")
_PUSHED = ("lli", "lli-go-back-n", "lli-selective")
_SOCIAL = ("ssb-aware-poll", "ssb-aware", "social-routing")
_RUNGS = ("scan", "append-poll", "gossip", "gossip-skip", "flood", "ebt", "hub")

_OWN = {
    **dict.fromkeys((*_PULLED, *_PUSHED), "kinds.ndn:NDN_LAYERINGS"),
    "notify-each": "kinds.notify_each:NOTIFY_EACH_LAYERING",
    "sync-all": "kinds.sync_all:SYNC_ALL_LAYERING",
    "sparse": "kinds.sparse:SPARSE_LAYERING",
    "link": "kinds.link:LINK",
    "ndn": "kinds.ndn:PLAIN_NDN",
    **dict.fromkeys(_SOCIAL, "kinds.social:SOCIAL_LAYERINGS"),
    **dict.fromkeys(_RUNGS, "kinds.ladder:RUNGS"),
    "ssb": "kinds.ssb:SSB",
    "broker": "kinds.broker:BROKER",
    "ndn-over-ssb": "kinds.ndn_over_ssb:NDN_OVER_SSB",
    **dict.fromkeys(("tiny", "tiny-pub"), "tiny.common_set:TINY_LAYERINGS"),
    "tiny-isp": "tiny.isp:TINY_ISP",
}
"""A layering's place: a module of this package, and the name there of the layering, or of a table with it."""


class Layerings(MutableMapping[str, Layering]):
    """Layerings by name, in the order in which they are listed. Raises UserError for those of other
    distributions that cannot be loaded.
    """

    def __init__(self) -> None:
        points = sorted(entry_points(group=ENTRY_POINTS))
        self._places: dict[str, str | EntryPoint] = _OWN | {point.name: point for point in points}
        self._loaded: dict[str, Layering] = {}
        for point in points:
            if point.name in _OWN:
                raise UserError(f"{_origin(point)}: feednet has a layering of that name")

    def __getitem__(self, name: str) -> Layering:
        if name not in self._loaded:
            place = self._places[name]
            self._loaded[name] = _own(name, place) if isinstance(place, str) else _load(place)
        return self._loaded[name]

    def __setitem__(self, name: str, layering: Layering) -> None:
        self._places.setdefault(name, "")
        self._loaded[name] = layering

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _own(name: str, place: str) -> Layering:
    module, _, variable = place.partition(":")
    found = getattr(import_module(f"testbed.layerings.{module}"), variable)
    layering: Layering = found[name] if isinstance(found, dict) else found
    return layering


def _load(point: EntryPoint) -> Layering:
    """Return the layering of an entry point; raise UserError if it has none."""
    place = _origin(point)
    try:
        layering: Layering = point.load()()
    except Exception as error:
        raise UserError(f"{place}: {type(error).__name__}: {error}") from error
    missing = [name for name in _PARTS if not hasattr(layering, name)]
    if missing:
        raise UserError(f"{place}: it has no {', '.join(missing)}")
    return layering


def _origin(point: EntryPoint) -> str:
    return f"layering {point.name} of {point.dist.name if point.dist else point.value}"


LAYERINGS = Layerings()
