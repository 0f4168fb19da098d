"""State of a set that a node replicates."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from base.token_bucket import TokenBucket
from ssb.tiny.entry import MAX_CONTENT
from ssb.tiny.goset import GrowOnlySet
from ssb.tiny.requests import OutstandingChunks, RequestTimer, Timing
from ssb.tiny.vectors import CREDIT


class Heard(NamedTuple):
    """Contents of the latest want vectors from others; unsigned.

    Attributes:
        time: when the last one came, ns.
        wanted: feed -> the number of the next entry that somebody wants.
    """

    time: int
    wanted: dict[bytes, int]


class Limit(NamedTuple):
    """Limits of the feeds of a set: entries a feed, and bytes of content an entry."""

    entries: int
    content: int = MAX_CONTENT


_REPEATS = 32
"""Packets that are sent again at once."""
_MOST_NOTED = 128
"""Entries of a feed of which it is known which packets were sent; older ones count as sent."""


class Repeats:
    """A limit of the packets that are sent again, for a set of two nodes: nobody signs what he asks for.

    For each new packet, one earlier packet may be sent again, because it may have been lost. In addition,
    packets are sent again at twice the rate at which a node asks while no answer reaches it.

    Args:
        timing: how often a node asks.
        now: ns.
    """

    def __init__(self, timing: Timing, now: int) -> None:
        self._again = TokenBucket(max(timing.round // (2 * CREDIT), 1), _REPEATS, now)
        self._sent: dict[bytes, dict[int, int]] = {}  # feed -> entry -> the last of its packets
        self._older: dict[bytes, int] = {}  # feed -> the last entry that is not noted any more

    def take(self, feed: bytes, sequence: int, number: int, now: int) -> bool:
        """Note that a packet is sent, and return True; False if it was sent before and must not be again.

        `number` is 0 for the entry, and n for its n-th chunk.
        """
        sent = self._sent.setdefault(feed, {})
        if sequence <= self._older.get(feed, 0) or number <= sent.get(sequence, -1):
            return self._again.take(now)
        self._again.give_back()
        sent[sequence] = number
        if len(sent) > _MOST_NOTED:
            oldest = min(sent)
            del sent[oldest]
            self._older[feed] = oldest
        return True


class Replica:
    """A set that is replicated.

    Attributes:
        number: among those that the node has joined.
        keys: its keys.
        priority: of its packets, lowest first.
        limit: what is taken of its feeds.
        repeats: how much is sent again; None for a set of many nodes, as one asks for others.
        wants, chunks: when to ask for entries and for chunks.
        under_way: chunks that were asked for.
        beacon_at: when to tell of an open set, ns; None for a fixed one.
        offset: the place of the first feed of the next want vector.
        heard: what others have wanted.
        waiting: own feed -> how many entries that are not yet written somebody has asked for.
        ports: where others have spoken of it.
        routes: demultiplexers of packets about it.
    """

    def __init__(
        self,
        number: int,
        keys: GrowOnlySet,
        priority: int,
        limit: Limit | None,
        repeats: Repeats | None,
        timing: Timing,
        random: Random,
        now: int,
        changed: Callable[["Replica"], None],
    ) -> None:
        self.number = number
        self.keys = keys
        self.limit = limit
        self.repeats = repeats
        self.priority = priority
        self.wants = RequestTimer(timing, now, random, partial(changed, self))
        self.chunks = RequestTimer(timing, None, random, partial(changed, self))
        self.under_way = OutstandingChunks(timing)
        self.beacon_at: int | None = None if keys.is_fixed else now
        self.offset = 0
        self.heard = Heard(now, {})
        self.waiting: dict[bytes, int] = {}
        self.ports: dict[int, None] = {}
        self.routes: list[bytes] = []

    @property
    def due(self) -> int | None:
        """When something is to be said of it, ns."""
        times = (self.wants.due, self.chunks.due, self.beacon_at)
        return min((time for time in times if time is not None), default=None)
