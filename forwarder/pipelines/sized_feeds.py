"""The feeds of a forwarder, with the size of their state."""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from forwarder.feedcache.cache import FeedStore
from forwarder.lli.entry import FeedEntry
from forwarder.lli.table import RANGE_BYTES, FeedTable
from forwarder.lli.upstream import Recovery
from forwarder.tables.face import Face
from forwarder.tables.fib import NextHop

EVIDENCE_BYTES: Final = 9
"""Number and hops of evidence of a source; a proof counts where it is kept."""
NONCE_BYTES: Final = 4


class FeedsSize(NamedTuple):
    """State of some feeds, as docs/architecture.md counts it.

    Attributes:
        feeds: subscribed feeds with a range, or an upstream, on the network,
        feed_bytes: and their bytes: of names, plus RANGE_BYTES a range and a feed's upstream.
        sources: feeds whose sources are known,
        source_bytes: and their bytes: of evidence, and of what outlives a feed's entry.
        ranges: ranges of items that downstreams on the network have granted.
        credit: items that may still be sent in those ranges, repeated requests not counted.
    """

    feeds: int = 0
    feed_bytes: int = 0
    sources: int = 0
    source_bytes: int = 0
    ranges: int = 0
    credit: int = 0


_NOTHING: Final = FeedsSize()


class SizedFeeds(FeedTable):
    """A FeedTable that counts again only the feeds whose state has changed.

    Whatever changes an entry settles it in the end, so the settled ones are those to be counted again.

    Args:
        network: numbers of the faces to the network, as they are at any time.
        others: see FeedTable.
    """

    def __init__(
        self,
        network: Collection[int],
        hops: Callable[[bytes, bool], Sequence[NextHop] | None],
        send: Callable[[int, bytes], None],
        fetch: Callable[[int, bytes, int, int], None],
        is_asked: Callable[[bytes], bool],
        faces: Mapping[int, Face],
        rng: Random,
        store: FeedStore | None = None,
        recovery: Recovery = Recovery.IN_NETWORK,
    ) -> None:
        super().__init__(hops, send, fetch, is_asked, faces, rng, store, recovery)
        self._network = network
        self._size = _NOTHING
        self._counted: dict[bytes, FeedsSize] = {}  # of each entry, as it was counted last
        self._settled: dict[bytes, None] = {}  # feeds to be counted again: of entries, or of counted ones
        self._past = (0, 0)  # number and bytes of ended entries' memories
        self._has_past_changed = False

    def size(self) -> FeedsSize:
        """Return the size of the state of all feeds."""
        if self._settled:
            for feed in self._settled:
                self._count(feed)
            self._settled.clear()
        if self._has_past_changed:
            self._has_past_changed = False
            self._past = self._count_past()
        total, (past, past_bytes) = self._size, self._past
        if past:
            return total._replace(sources=total.sources + past, source_bytes=total.source_bytes + past_bytes)
        return total

    def forget(self, feed: bytes, now: int) -> None:
        super().forget(feed, now)
        self._has_past_changed = True

    def _settle(self, entry: FeedEntry, now: int) -> None:
        super()._settle(entry, now)
        feed = entry.feed
        if feed in self._entries:
            if feed not in self._counted:
                self._has_past_changed = True  # what was remembered has become the entry's own
            self._settled[feed] = None
            return
        self._has_past_changed = True
        if feed in self._counted:
            self._settled[feed] = None
        else:
            self._settled.pop(feed, None)

    def _count(self, feed: bytes) -> None:
        """Count the entry of a feed again, which may have ended."""
        entry = self._entries.get(feed)
        before = self._counted.pop(feed, _NOTHING)
        after = _NOTHING
        if entry is not None:
            after = self._counted[feed] = size_of(entry, self._network)
        if after != before:
            total = self._size
            self._size = FeedsSize(
                total.feeds + after.feeds - before.feeds,
                total.feed_bytes + after.feed_bytes - before.feed_bytes,
                total.sources + after.sources - before.sources,
                total.source_bytes + after.source_bytes - before.source_bytes,
                total.ranges + after.ranges - before.ranges,
                total.credit + after.credit - before.credit,
            )

    def _count_past(self) -> tuple[int, int]:
        entries = size = 0
        for feed, _, memory in self.remembered():
            entries += 1
            size += len(feed) + NONCE_BYTES * len(memory.nonces)
            if memory.evidence is not None:
                size += EVIDENCE_BYTES + len(memory.evidence.proof)
        return entries, size


def size_of(entry: FeedEntry, network: Collection[int]) -> FeedsSize:
    """Return the size of a feed's state towards some faces."""
    ranges = upstreams = evidence = credit = proof = 0
    if entry.evidence is not None:
        evidence, proof = 1, len(entry.evidence.proof)
    for face, granted in entry.ranges.items():
        if face in network:
            ranges += 1
            credit += granted.limit - granted.next + 1
        if granted.known is not None:
            evidence += 1
        if granted.told is not None:
            evidence += 1
    for face, holder in entry.holders():
        if face in network:
            upstreams += 1
        if holder.offered is not None:
            evidence += 1
    records = ranges + upstreams
    return FeedsSize(
        1 if records else 0,
        len(entry.feed) + RANGE_BYTES * records if records else 0,
        1 if evidence else 0,
        EVIDENCE_BYTES * evidence + proof,
        ranges,
        credit,
    )
