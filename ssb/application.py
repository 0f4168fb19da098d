"""An application that follows or publishes feeds: its plan, and its events, whatever carries the feeds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Plan(NamedTuple):
    """When an application follows feeds, and how fast.

    Attributes:
        start, stop: when it subscribes and unsubscribes, ns.
        pauses: (from, to) in ns, ascending; meanwhile it takes nothing, and stays subscribed.
        drain_per_s: items that it takes a second at most, of all feeds together; None for as they come.
        later: feed's key -> when it subscribes to that feed, ns, if later than `start`.
    """

    start: int
    stop: int
    pauses: tuple[tuple[int, int], ...] = ()
    drain_per_s: float | None = None
    later: Mapping[str, int] = MappingProxyType({})


class Event(NamedTuple):
    """Something that happened at an application: the ground truth that captures are held against.

    Attributes:
        time: ns.
        event: "published" or "delivered", an item; "forked", seq is where; "joined" and "stopped", of a
            subscriber; "error", a subscription's trouble that `detail` names; "mapped" and "resolved", of a
            name service and of who asks it: the feed is elsewhere than before, seq is the record's.
        feed: the feed's key, its author's reference (`@...=.ed25519`).
        seq: the item's sequence number, 0 if it is about none.
        size: of the SSB message, bytes.
        detail: the trouble, in a word.
    """

    time: int
    event: str
    feed: str
    seq: int = 0
    size: int = 0
    detail: str = ""
