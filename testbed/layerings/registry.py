"""The registry of layerings that a scenario can compare. Each is imported on use: a run imports its own.

Another distribution adds a layering by an entry point of the group "feednet.layerings": the layering's name,
and a callable without arguments that returns a testbed.layerings.nodes.node.Layering.
"""

from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from base.plugins import Registry, lacking
from testbed.layerings.nodes.titles import TITLES

if TYPE_CHECKING:
    from testbed.layerings.nodes.node import Layering

_PARTS = ("title", "parameters", "protocol", "carries", "build")

_PULLED = ("pull", "poll", "long-lived", "persistent", "notify", "sync", "sync-log")
_PUSHED = ("lli", "lli-go-back-n", "lli-selective")
_SOCIAL = ("ssb-aware-poll", "ssb-aware", "social-routing")
_RUNGS = ("scan", "append-poll", "gossip", "gossip-skip", "flood", "ebt", "hub")

_OWN = {
    **dict.fromkeys((*_PULLED, *_PUSHED), "kinds.ndn:NDN_LAYERINGS"),
    "notify-each": "kinds.notify_each:NOTIFY_EACH_LAYERING",
    **dict.fromkeys(("sync-all", "psync", "sync-ps"), "kinds.sync_all:GROUP_LAYERINGS"),
    "sparse": "kinds.sparse:SPARSE_LAYERING",
    "link": "kinds.link:LINK",
    "ndn": "kinds.ndn:PLAIN_NDN",
    **dict.fromkeys(_SOCIAL, "kinds.social:SOCIAL_LAYERINGS"),
    **dict.fromkeys(_RUNGS, "peers.ladder:RUNGS"),
    "holes": "peers.holes:HOLES",
    "ssb": "peers.branches:SSB",
    "invite": "peers.invite:INVITE",
    "room": "peers.room:ROOM",
    "lan": "peers.lan:LAN",
    "broker": "kinds.broker:BROKER",
    "multicast": "kinds.multicast:MULTICAST",
    "moq": "kinds.moq:MOQ",
    "ndn-over-ssb": "kinds.ndn_over_ssb:NDN_OVER_SSB",
    **dict.fromkeys(("tiny", "tiny-pub"), "tiny.common_set:TINY_LAYERINGS"),
    "tiny-isp": "tiny.isp:TINY_ISP",
}
"""A layering's place: a module of this package, and the name there of the layering, or of a table with it."""


def _own(name: str, place: str) -> "Layering":
    module, _, variable = place.partition(":")
    found = getattr(import_module(f"testbed.layerings.{module}"), variable)
    layering: Layering = found[name] if isinstance(found, dict) else found
    return layering


def _load(point: EntryPoint) -> "Layering":
    layering: Layering = point.load()()
    lacking("layering", point, layering, _PARTS)
    return layering


LAYERINGS: "Registry[Layering]" = Registry(
    "layering", {name: partial(_own, name, place) for name, place in _OWN.items()}, _load
)
"""Layerings by name, in the order in which they are listed."""


def titles() -> dict[str, dict[str, str]]:
    """Return the titles of all layerings by protocol and name. Of feednet's own none is imported."""
    found = {protocol: dict(of) for protocol, of in TITLES.items()}
    for name in LAYERINGS:
        if name not in _OWN:
            layering = LAYERINGS[name]
            found.setdefault(layering.protocol, {})[name] = layering.title
    return found
