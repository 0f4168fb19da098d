"""A feed that is relayed: what a forwarder knows of one feed that downstreams have credit for."""

from typing import Final

from forwarder.feedcache.cache import FeedCache
from forwarder.feedcache.items import Item
from forwarder.lli.backfill import Backfill
from forwarder.lli.estimates import Rtt
from forwarder.lli.ranges import Range, Ranges
from forwarder.lli.reissues import Reissues
from forwarder.lli.upstream import NEVER, Upstream
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import SENT_HOP_LIMIT, Data

_REMEMBERED_NONCES: Final = 16


def is_among(nonces: tuple[tuple[int, int | None], ...], nonce: int | None, face: int) -> bool:
    """Tell whether a nonce has been sent, and not because of an LLI from `face`."""
    return any(sent == nonce and origin != face for sent, origin in nonces)


class FeedEntry:
    """A feed that downstreams of this node have credit for.

    Attributes:
        feed: its name.
        ranges: what each downstream may still be sent.
        cache: its verified items.
        face: the upstream face, None while there is no way to go.
        upstream: what was asked there.
        upstream_first: the oldest item that the upstream can push, 0 if it has not said.
        first_until: until when that is believed, ns.
        tried: faces that have failed since an item last came.
        reissues: the LLIs that are passed on up to the source.
        rest_until: no way is looked for before, ns.
        nonces: of the newest LLIs sent, the newest last, each with the face whose LLI caused it, if one did.
        hop_limit: for the LLIs sent.
        backfill: the past that is being fetched for late joiners, None if there is nothing to fetch.
        latest: the item that has come last, which the cache need not have kept.
        run: items that follow each other and wait to be verified together, with the headers they came with.
        refused: a next hop has refused since an item last came, one that was no downstream itself.
        retried: the hops that needed this node have been tried again since an item last came.
        displaced: the upstream face was that of a downstream, which has been refused for it.
        proof_sent: when a fork's proof last went to a face, ns.
        deadline: when the entry wants to be woken, ns.
    """

    __slots__ = (
        "backfill",
        "cache",
        "deadline",
        "displaced",
        "face",
        "feed",
        "first_until",
        "hop_limit",
        "latest",
        "nonces",
        "proof_sent",
        "ranges",
        "refused",
        "reissues",
        "rest_until",
        "retried",
        "run",
        "tried",
        "upstream",
        "upstream_first",
    )

    def __init__(self, feed: bytes, cache: FeedCache, first: int) -> None:
        self.feed = feed
        self.ranges = Ranges()
        self.cache = cache
        self.face: int | None = None
        self.upstream = Upstream(first, Rtt())
        self.upstream_first = 0
        self.first_until = 0
        self.tried: set[int] = set()
        self.reissues = Reissues()
        self.nonces: tuple[tuple[int, int | None], ...] = ()
        self.hop_limit = SENT_HOP_LIMIT
        self.backfill: Backfill | None = None
        self.rest_until = 0
        self.latest: Item | None = None
        self.run: list[tuple[Item, LpPacket | None]] = []
        self.refused = False
        self.displaced = False
        self.retried = False
        self.proof_sent: dict[int, int] = {}
        self.deadline = NEVER

    @property
    def tip(self) -> int:
        """The newest item that can be pushed: beyond a gap there is nothing to promise."""
        if self.upstream.next < self.upstream.head:
            return min(self.cache.tip, self.upstream.next - 1)
        return self.cache.tip

    def leave_upstream(self) -> None:
        """Have no upstream; who has been it counts as tried."""
        if self.face is not None:
            self.tried.add(self.face)
        self.face = None

    def has_sent(self, nonce: int | None) -> bool:
        """Tell whether a recent LLI of this node had a nonce."""
        return any(sent == nonce for sent, _ in self.nonces)

    def has_gone_round(self, nonce: int | None, face: int) -> bool:
        """Tell whether an LLI from a face is one that this node has sent, for another's sake or its own."""
        return is_among((*self.cache.nonces, *self.nonces), nonce, face)

    def sends(self, nonce: int, origin: int | None) -> None:
        """Remember an LLI that is sent, and the face whose LLI caused it."""
        self.nonces = (*self.nonces[1 - _REMEMBERED_NONCES :], (nonce, origin))

    def leave_nonces(self) -> None:
        """Leave to the cache what has been sent: an LLI may come round when the entry has ended."""
        self.cache.nonces = (*self.cache.nonces, *self.nonces)[-_REMEMBERED_NONCES:]

    def is_past(self, seq: int) -> bool:
        """Tell whether an item is known to exist, so that it makes sense to look for it."""
        return seq <= self.cache.tip or seq < self.upstream_first

    def can_progress(self, granted: Range) -> bool:
        """Tell whether a downstream can be served from the past, though no upstream is left."""
        is_lost = self.backfill is not None and self.backfill.is_lost
        return granted.wanted < self.upstream.next and self.is_past(granted.wanted) and not is_lost

    def item(self, seq: int) -> Data | None:
        """Return an item to be pushed."""
        if self.latest is not None and self.latest.seq == seq:
            return self.latest.data
        data = self.cache.get(seq)
        return self.backfill.held.get(seq) if data is None and self.backfill is not None else data
