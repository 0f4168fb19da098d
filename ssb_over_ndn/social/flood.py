"""ssb-aware: Interests for items of logs follow the social graph, without routes.

Theory of operation. A node carries the feeds on its users' graphs; its keeper maintains the set. An
Interest for a stored item is answered from the replicas. An Interest for another item of a carried feed is
sent to all neighbours with a keeper, except those known not to carry the feed, and stays pending, as the log
may grow. The keepers of these neighbours request the same item themselves, so they do not forward the
Interest while their own is pending. An Interest for a feed that is not carried is refused; the
neighbour records the refusal until this node's set of feeds changes.

Three bounds limit floods: Interests far beyond a log's newest item are refused, since a log grows item by
item; an Interest is sent to a neighbour once in its lifetime, also if it is repeated, unless by this node's
own keeper; and each face has a quota of floods a second. HopLimit and nonces have their usual effect
(forwarder.forwarder).

Every item is verified before it is forwarded. A neighbour that sends a forgery gets no Interests for a
while, since a keeper forwards none.

Long-lived Interests take the same paths, to one neighbour at a time: see feed_hops().
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from base.token_bucket import TokenBucket
from base.units import SECOND
from forwarder.feedcache.items import RejectedItem, open_item
from forwarder.strategies.measurements import Measurements
from forwarder.strategies.strategy import Node, Strategy
from forwarder.strategies.suppression import PARAMETERS, Suppression
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.feed import split_item
from forwarder.wire.lp import NO_ROUTE
from forwarder.wire.packet import Data
from ssb_over_ndn.naming import log_key
from ssb_over_ndn.social.hello import HELLO

AHEAD: Final = 64
"""How far beyond the newest local item Interests may request."""

QUOTA: Final = 500
"""Flooded Interests a second from one face; also the burst."""

_REMEMBERED: Final = 16 * SECOND  # refusals and forgeries of neighbours


class Carrier(Protocol):
    """What the strategy needs of its Keeper (ssb_over_ndn.social.keeper)."""

    def is_home(self, feed: bytes) -> bool: ...

    def carries(self, feed: bytes) -> bool: ...

    def tip(self, feed: bytes) -> int: ...

    def holds(self, feed: bytes, seq: int) -> bool: ...

    def generation(self, face: int) -> int | None: ...

    def place(self, user: str) -> int | None: ...

    def reaches(self, user: str, feed: str) -> bool: ...

    def holders(self, user: str, feed: str) -> list[str]: ...


class Notes:
    """State of a pending Interest: the downstream faces, and suppression intervals, ns, by upstream face."""

    __slots__ = ("asked", "intervals")

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.intervals: dict[int, int] = {}


class SocialFlood(Strategy):
    """Floods along the social graph of the node's users.

    Args:
        node: the forwarder.
        keeper: see Carrier.
        face: the keeper's face.
        quota: see QUOTA.
        pushes: whether long-lived Interests push items; other Interests are held back then, as flooding them
            would deliver everything twice.

    Attributes:
        counters: `flooded` and `waiting` Interests for carried feeds; `refused` ones for others, `ahead` of
            the log, and beyond the `quota`; `forged` items.
    """

    NAME = "ssb-aware"
    VERSION = 1
    IS_STRICT = True

    def __init__(
        self, node: Node, keeper: Carrier, face: int, quota: int = QUOTA, *, pushes: bool = False
    ) -> None:
        super().__init__(node, {})
        self.counters: Counter[str] = Counter()
        self._keeper = keeper
        self._face = face
        self._per_s = quota
        self._pushes = pushes
        self._quotas: dict[int, TokenBucket] = {}
        self._suppression = Suppression(PARAMETERS)
        self._shunned: dict[int, int] = {}  # face of a forgery -> until when, ns
        self._refused: Measurements[tuple[int, int]] = Measurements(_REMEMBERED, most=65536)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        if entry.name.startswith(HELLO):
            return self.node.neighbours(entry, face) if face == self._face else [self._face]
        parts = split_item(entry.name)
        if parts is None:
            return None
        feed, seq = parts
        if face != self._face and (self._keeper.is_home(feed) or self._is_here(feed, seq)):
            return [self._face]
        if not self._is_admitted(entry, face, feed, seq):
            return None
        is_to_come = self._pushes and seq > self._keeper.tip(feed)
        faces = [] if is_to_come else self._faces(entry, face, feed, now)
        if faces and not self._has_quota(face, now):
            self.counters["quota"] += 1
            return None
        self.counters["flooded" if faces else "waiting"] += 1
        return faces

    def accepts(self, entry: PitEntry, face: int, data: Data, now: int) -> bool:
        """See Strategy: items must be genuine, and of carried feeds."""
        parts = split_item(data.name)
        if parts is None:
            return True
        if not self._keeper.carries(parts[0]):
            return False
        try:
            open_item(*parts, data)
        except RejectedItem:
            self.counters["forged"] += 1
            self._shunned[face] = now + _REMEMBERED
            return False
        return True

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy: a refusing neighbour does not carry the feed. Downstreams stay pending: the log
        may grow.
        """
        parts = split_item(entry.name)
        generation = self._keeper.generation(face)
        if reason == NO_ROUTE and parts is not None and generation is not None:
            self._refused.set(_key(face, parts[0]), (generation, now + _REMEMBERED), now)
        return self._after_refusal(entry)

    def _after_refusal(self, entry: PitEntry) -> Sequence[int] | None:
        """Refuse this node's keeper unless others wait; it repeats its Interest after changes."""
        return () if all(record.face == self._face for record in entry.in_records) else None

    def feed_hops(self, feed: bytes, hops: Sequence[NextHop], *, past: bool) -> Sequence[NextHop] | None:
        """See Strategy: the neighbour where the author is attached comes first, then the others.

        Past items are in the replicas.
        """
        if self._keeper.is_home(feed):
            return (NextHop(self._face, 0),)
        if not self._keeper.carries(feed):
            return None
        home = self._keeper.place(log_key(feed))
        faces = [
            face.number
            for face in self.node.faces.values()
            if face.is_up and not face.is_local and self._keeper.generation(face.number) is not None
        ]
        found = [NextHop(face, 1 if face == home else 2) for face in faces]
        found.sort(key=lambda hop: hop.cost)
        return [NextHop(self._face, 0), *found] if past else found

    def _is_here(self, feed: bytes, seq: int) -> bool:
        return self._keeper.carries(feed) and self._keeper.holds(feed, seq)

    def _is_admitted(self, entry: PitEntry, face: int, feed: bytes, seq: int) -> bool:
        if not self._keeper.carries(feed):
            self.counters["refused"] += 1
            return False
        if seq > self._keeper.tip(feed) + AHEAD:
            self.counters["ahead"] += 1
            return False
        return True

    def _has_quota(self, face: int, now: int) -> bool:
        if face == self._face:
            return True
        if face not in self._quotas:
            self._quotas[face] = TokenBucket(SECOND // self._per_s, self._per_s, now)
        return self._quotas[face].take(now)

    def _faces(self, entry: PitEntry, face: int, feed: bytes, now: int) -> list[int]:
        """Return the neighbours to send an Interest to now."""
        if entry.notes is None:
            entry.notes = Notes()
        notes: Notes = entry.notes
        is_own_again = face == self._face and face in notes.asked
        notes.asked.add(face)
        faces = []
        for out in self._targets(entry, face, feed, now):
            record = entry.out_record(out)
            is_waiting = record is not None and record.nacked is None and record.expiry > now
            if not is_waiting or (
                is_own_again and self._suppression.allows(entry, out, notes.intervals, now)
            ):
                faces.append(out)
        return faces

    def _targets(self, entry: PitEntry, face: int, feed: bytes, now: int) -> list[int]:
        """Return the neighbours with a keeper, without those that do not carry a feed."""
        found = []
        for out in self.node.neighbours(entry, face):
            generation = self._keeper.generation(out)
            refused, until = self._refused.get(_key(out, feed), now) or (None, 0)
            is_shunned = now < self._shunned.get(out, 0)
            if generation is not None and not is_shunned and (generation != refused or now >= until):
                found.append(out)
        return found


def _key(face: int, feed: bytes) -> bytes:
    return face.to_bytes(8) + feed
