"""State of a set that a node replicates."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from base.timers import earliest
from base.token_bucket import TokenBucket
from ssb.tiny.entry import MAX_CONTENT
from ssb.tiny.goset import GrowOnlySet
from ssb.tiny.requests import OutstandingChunks, RequestTimer, Timing
from ssb.tiny.vectors import CREDIT


class Heard(NamedTuple):
    """Contents of the latest want vectors from others; unsigned.

    Attributes:
        time: when the last one was received, ns.
        wanted: feed -> next entry number in the vectors.
    """

    time: int
    wanted: dict[bytes, int]


class Limit(NamedTuple):
    """Limits on the feeds of a set: entries per feed, and bytes of content per entry."""

    entries: int
    content: int = MAX_CONTENT


_REPEATS = 32
"""Burst of retransmissions."""
_MOST_NOTED = 128
"""Entries per feed whose sent packets are remembered; older ones count as sent."""


class Repeats:
    """Rate limit of retransmissions, for a set of two nodes: vectors are not signed.

    For each new packet, one earlier packet may be sent again, as it may have been lost. In addition, packets
    are sent again at twice the rate at which a node repeats unanswered requests.

    Args:
        timing: intervals of requests.
        now: ns.
    """

    def __init__(self, timing: Timing, now: int) -> None:
        self._again = TokenBucket(max(timing.round // (2 * CREDIT), 1), _REPEATS, now)
        self._sent: dict[bytes, dict[int, int]] = {}  # feed -> entry -> the last of its packets
        self._older: dict[bytes, int] = {}  # feed -> last entry no longer remembered

    def take(self, feed: bytes, sequence: int, number: int, now: int) -> bool:
        """Record a packet as sent and return True; False if it was sent before and may not be sent again.

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
    """State of a replicated set.

    Attributes:
        number: among the sets of the node.
        keys: its keys.
        priority: of its packets, lowest first.
        limit: on its feeds.
        repeats: limits retransmissions; None for a set of many nodes, where one may request for others.
        wants, chunks: timers of requests for entries and for chunks.
        requested: requested chunks.
        beacon_at: next beacon of an open set, ns; None for a fixed one.
        offset: of the next want vector: position of its first feed.
        heard: want vectors of others.
        waiting: local feed -> unwritten entries that others have requested.
        ports: where its packets were received from others.
        routes: demultiplexers of its packets.
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
        self.requested = OutstandingChunks(timing)
        self.beacon_at: int | None = None if keys.is_fixed else now
        self.offset = 0
        self.heard = Heard(now, {})
        self.waiting: dict[bytes, int] = {}
        self.ports: dict[int, None] = {}
        self.routes: list[bytes] = []

    @property
    def due(self) -> int | None:
        """Next deadline of the set, ns."""
        return earliest(self.wants.due, self.chunks.due, self.beacon_at)
