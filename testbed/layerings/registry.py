"""The registry of layerings that a scenario can compare.

Another distribution adds a layering by an entry point of the group "feednet.layerings": the layering's name,
and a callable without arguments that returns a testbed.layerings.nodes.node.Layering.
"""

from importlib.metadata import EntryPoint, entry_points

from testbed.errors import UserError
from testbed.layerings.kinds.ladder import RUNGS
from testbed.layerings.kinds.link import LINK
from testbed.layerings.kinds.ndn import NDN_LAYERINGS, PLAIN_NDN
from testbed.layerings.kinds.ndn_over_ssb import NDN_OVER_SSB
from testbed.layerings.kinds.notify_each import NOTIFY_EACH_LAYERING
from testbed.layerings.kinds.social import SOCIAL_LAYERINGS
from testbed.layerings.kinds.ssb import SSB
from testbed.layerings.kinds.sync_all import SYNC_ALL_LAYERING
from testbed.layerings.nodes.node import Layering
from testbed.layerings.tiny.common_set import TINY_LAYERINGS
from testbed.layerings.tiny.isp import TINY_ISP

ENTRY_POINTS = "feednet.layerings"
_PARTS = ("title", "parameters", "protocol", "carries", "build")


def _load(point: EntryPoint) -> Layering:
    """Return the layering of an entry point; raise UserError if it has none."""
    place = f"layering {point.name} of {point.dist.name if point.dist else point.value}"
    if point.name in _OWN:
        raise UserError(f"{place}: feednet has a layering of that name")
    try:
        layering: Layering = point.load()()
    except Exception as error:
        raise UserError(f"{place}: {type(error).__name__}: {error}") from error
    missing = [name for name in _PARTS if not hasattr(layering, name)]
    if missing:
        raise UserError(f"{place}: it has no {', '.join(missing)}")
    return layering


_OWN: dict[str, Layering] = {
    **NDN_LAYERINGS,
    "notify-each": NOTIFY_EACH_LAYERING,
    "sync-all": SYNC_ALL_LAYERING,
    "link": LINK,
    "ndn": PLAIN_NDN,
    **SOCIAL_LAYERINGS,
    **RUNGS,
    "ssb": SSB,
    "ndn-over-ssb": NDN_OVER_SSB,
    **TINY_LAYERINGS,
    "tiny-isp": TINY_ISP,
}

LAYERINGS: dict[str, Layering] = _OWN | {
    point.name: _load(point) for point in sorted(entry_points(group=ENTRY_POINTS))
}
"""Layerings by name, in the order in which they are listed."""
