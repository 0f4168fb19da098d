"""A feed that is relayed: what a forwarder knows of one feed that downstreams have credit for."""

from collections.abc import Iterator
from typing import NamedTuple

from base.units import NEVER
from forwarder.feedcache.cache import FeedCache
from forwarder.feedcache.items import Item
from forwarder.lli.backfill import Backfill
from forwarder.lli.estimates import Rtt
from forwarder.lli.ranges import REMEMBERED_NONCES, Range, Ranges
from forwarder.lli.upstream import Upstream
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import reference
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import SENT_HOP_LIMIT, Data


class Memory(NamedTuple):
    """Findings of an ended entry, kept for a while; see FeedEntry."""

    evidence: Evidence | None
    muted: set[int]
    turn: int | None
    refusals: dict[int, int]
    nonces: tuple[int, ...]
    last_face: int | None
    gone: tuple[int, int] | None
    told_first: dict[int, int]
    untold: set[int]


class FeedEntry:
    """A feed that downstreams of this node have credit for.

    Of its next hops one, the upstream, is granted the credit. While it knows no source, the others are asked
    for one item each, as scouts: the first to find a source becomes the upstream.

    Attributes:
        feed, reference: its name, and how Hellos name it.
        ranges: what each downstream may still be sent.
        cache: its verified items.
        face: the upstream face, None while there is no way to go.
        last_face: that of an entry before, which has ended; None if there was none.
        upstream: what was asked there.
        scouts: what was asked of other next hops, by face.
        evidence: of a source; see forwarder.wire.evidence. It never gets worse.
        is_fed: the upstream's evidence is better than that.
        has_been_fed: it was so before.
        unfed_since: since when it is not, ns; scouts are sent some time later.
        is_waiting: no source has been found, and downstreams are told so.
        has_scouted: all next hops have been asked since.
        scouts_until: when the scouts of a feed that has a source come back, ns.
        reach: items that may be under way; see Upstreams.ask().
        reach_end: the item whose arrival shows whether that was enough.
        demanded: downstreams have evidence with this number and need a newer one; None if none does.
        demand_at, demands: when that is asked for again, ns, and how often it has been.
        muted: faces that keep silent: dead, or forwarders that do not know this protocol.
        turn: the last of these that was waited for.
        refused: faces that have refused, and when they may be asked again, ns.
        refusals: how often a face has refused since there was a source.
        upstream_first: the oldest item that the upstream can push, 0 if it has not said.
        first_until: until when that is believed, ns.
        gone: the first and the last of items that nobody has, None if none are known.
        gone_until: until when they are not looked for again, ns.
        gone_ask_at, gone_asks: when the upstream is to be asked to wait for them, too, ns, NEVER once it has
            heard; and how often it has been.
        told_first: where the feed begins here, as a downstream was told. If it asks for what lies before all
            the same, it waits for that.
        untold: downstreams to tell that once more, if what they wait for turns out to be gone again.
        nonces: of the newest LLIs sent.
        backfill: the past that is being fetched for late joiners, None if there is nothing to fetch.
        latest: the item that has come last, which the cache need not have kept.
        run: items that follow each other and wait to be verified together, with the headers they came with.
        proof_sent: when a fork's proof last went to a face, ns.
        has_moved: next hops have been asked, or are no more, since indexed was made.
        indexed: the faces that its neighbours' indexes have it under, asked and granting.
    """

    def __init__(self, feed: bytes, cache: FeedCache, first: int, now: int) -> None:
        self.feed = feed
        self.reference = reference(feed)
        self.ranges = Ranges()
        self.cache = cache
        self.face: int | None = None
        self.last_face: int | None = None
        self.upstream = Upstream(first, Rtt())
        self.scouts: dict[int, Upstream] = {}
        self.evidence: Evidence | None = None
        self.is_fed = self.has_been_fed = False
        self.unfed_since = now
        self.is_waiting = self.has_scouted = False
        self.scouts_until = NEVER
        self.reach = cache.max_items
        self.reach_end = 0
        self.demanded: int | None = None
        self.demand_at = NEVER
        self.demands = 0
        self.muted: set[int] = set()
        self.turn: int | None = None
        self.refused: dict[int, int] = {}
        self.refusals: dict[int, int] = {}
        self.upstream_first = 0
        self.first_until = 0
        self.gone: tuple[int, int] | None = None
        self.gone_until = 0
        self.gone_ask_at = self.gone_asks = 0
        self.told_first: dict[int, int] = {}
        self.untold: set[int] = set()
        self.nonces: tuple[int, ...] = ()
        self.backfill: Backfill | None = None
        self.latest: Item | None = None
        self.run: list[tuple[Item, LpPacket | None]] = []
        self.proof_sent: dict[int, int] = {}
        self.has_moved = False
        self.indexed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    @property
    def tip(self) -> int:
        """The newest item that can be pushed: beyond a gap there is nothing to promise."""
        if self.upstream.next < self.upstream.head:
            return min(self.cache.tip, self.upstream.next - 1)
        return self.cache.tip

    @property
    def hop_limit(self) -> int:
        """The highest hop limit of the LLIs that are sent; none is sent if it is 0."""
        return SENT_HOP_LIMIT if self.is_fed else self.ranges.hop_limit()

    def hop_limit_to(self, face: int | None) -> int:
        """Return the hop limit of the LLIs that are sent to a face with one neighbour; None: with several.

        Without a source it is none higher than those that came from other faces, less a hop: so a ring of
        nodes that ask only because of each other counts down. Of two, each is asked for news alone, and asks
        nobody because of that. Evidence keeps nodes with a source from asking in a ring.
        """
        return SENT_HOP_LIMIT if self.is_fed else max(self.ranges.hop_limit(face), 1)

    def holders(self) -> Iterator[tuple[int, Upstream]]:
        """Iterate over the holders of this feed, with their faces."""
        if self.face is not None:
            yield self.face, self.upstream
        yield from self.scouts.items()

    def holder(self, face: int) -> Upstream | None:
        """Return the holder towards a face, None if nothing was asked there."""
        return self.upstream if face == self.face else self.scouts.get(face)

    def claim(self, granted: Range) -> Evidence | None:
        """Return the evidence that a downstream is offered, None if there is none.

        It need not beat what the downstream has: a newer one may have been asked for and be on its way.

        For some time after it has lost its source, a node takes back nothing that it has said: it may find
        another soon, and then its downstreams need not look for one themselves.
        """
        if self.is_fed:
            return self.evidence
        return None if self.is_waiting else granted.told

    def needed(self) -> Evidence | None:
        """Return the evidence that an upstream's must beat."""
        if self.demanded is None or self.evidence is None or not self.is_fed:
            return None if self.evidence is None else self.evidence.bare
        return Evidence(max(self.demanded, self.evidence.number), 0, self.evidence.is_signed)

    def is_wanted(self, seq: int) -> bool:
        """Return whether an item was asked for, of any next hop, and has not come.

        So was one that counts as gone: it may come late. One that a downstream waits for is wanted even if
        the LLI that brings it counts as answered: items that were under way may have come in between.
        """
        if self.gone is not None and self.gone[0] <= seq <= self.gone[1]:
            return True
        if self.upstream.is_missing(seq) or (self.backfill is not None and self.backfill.wants(seq)):
            return True
        if any(scout.is_missing(seq) for scout in self.scouts.values()):
            return True
        is_hole = seq < self.upstream.head and self.item(seq) is None
        return is_hole and any(granted.wanted <= seq <= granted.limit for granted in self.ranges)

    def memory(self) -> Memory:
        """Return the findings that a later entry of this feed starts with."""
        return Memory(
            evidence=self.evidence,
            muted=self.muted,
            turn=self.turn,
            refusals=self.refusals,
            nonces=self.nonces,
            last_face=self.last_face,
            gone=self.gone,
            told_first=self.told_first,
            untold=self.untold,
        )

    def remember(self, before: Memory) -> None:
        """Take over the findings of an earlier entry of this feed."""
        self.evidence = before.evidence
        self.muted = before.muted
        self.turn = before.turn
        self.refusals = before.refusals
        self.nonces = before.nonces
        self.last_face = before.last_face
        self.gone = before.gone  # to be looked for again, but shortly
        self.told_first = before.told_first
        self.untold = before.untold

    def forget(self, face: int) -> None:
        """Drop all state about a face that has gone."""
        self.ranges.forget(face)
        self.muted.discard(face)
        self.takes_back(face)
        for known in self.refused, self.refusals, self.proof_sent:
            known.pop(face, None)

    def takes_back(self, face: int) -> None:
        """Note that a downstream wants nothing any more, and so waits for no gone items."""
        self.told_first.pop(face, None)
        self.untold.discard(face)

    def has_sent(self, nonce: int | None) -> bool:
        """Return whether a recent LLI of this node had a nonce."""
        return nonce in self.nonces

    def sends(self, nonce: int) -> None:
        """Remember an LLI that is sent."""
        self.nonces = (*self.nonces[1 - REMEMBERED_NONCES :], nonce)

    def look_again(self) -> None:
        """Let nothing count as gone: a source, a route or a link is new, or an item has come."""
        self.gone_until = 0
        self.untold.update(self.told_first)

    def is_past(self, seq: int) -> bool:
        """Return whether an item is known to exist, so that it makes sense to look for it."""
        return seq <= self.cache.tip or seq < self.upstream_first

    def item(self, seq: int) -> Data | None:
        """Return an item to be pushed."""
        if self.latest is not None and self.latest.seq == seq:
            return self.latest.data
        data = self.cache.get(seq)
        return self.backfill.held.get(seq) if data is None and self.backfill is not None else data
