"""An application that follows or publishes feeds: its plan and its events, over any transport."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Plan(NamedTuple):
    """When an application follows feeds, and how fast.

    Attributes:
        start, stop: when it subscribes and unsubscribes, ns.
        pauses: (from, to) in ns, ascending; meanwhile it processes nothing, and stays subscribed.
        drain_per_s: most items that it processes per second, over all feeds; None for no limit.
        later: feed's key -> when it subscribes to that feed, ns, if later than `start`.
    """

    start: int
    stop: int
    pauses: tuple[tuple[int, int], ...] = ()
    drain_per_s: float | None = None
    later: Mapping[str, int] = MappingProxyType({})


class Event(NamedTuple):
    """An event at an application: the ground truth for captures.

    Attributes:
        time: ns.
        event: "published" or "delivered", an item; "forked", seq is where; "joined" and "stopped", of a
            subscriber; "error", a subscription's error, given by `detail`; "mapped" and "resolved", of a
            name service and of its client: the feed has moved, seq is the record's; "shared" and "shown", the
            picture of an item, at its author and at a reader who has the item, too.
        feed: the feed's key, its author's reference (`@...=.ed25519`).
        seq: the item's sequence number, 0 for none.
        size: of the SSB message, or of the picture, bytes.
        detail: the error, in a word, or the picture's name, a URI.
    """

    time: int
    event: str
    feed: str
    seq: int = 0
    size: int = 0
    detail: str = ""
