"""Verified items of feeds, the most recent of each, bounded per feed and in all."""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator

from forwarder.feedcache.fork import Fork, assertions, dispute
from forwarder.feedcache.items import Item, RejectedItem, check_signature
from forwarder.wire.packet import Data


class FeedCache:
    """The most recent verified items of one feed, its tip and its fork.

    An item that comes before its turn is kept like any other; what it asserts is held against its
    neighbours when these come. The tip and a fork outlive the items.

    Args:
        feed: the feed's name.
        max_items, max_bytes: bounds of what is retained.

    Attributes:
        tip: the highest number of a verified item, 0 if none.
        fork: the lowest fork found.
        bytes: size of the retained packets.
        past_hop: the face that items came from last that are not retained; None if none has.
    """

    __slots__ = (
        "_items",
        "_known",
        "_order",
        "bytes",
        "feed",
        "fork",
        "max_bytes",
        "max_items",
        "past_hop",
        "tip",
    )

    def __init__(self, feed: bytes, max_items: int, max_bytes: int) -> None:
        self.feed = feed
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.tip = 0
        self.fork: Fork | None = None
        self.bytes = 0
        self.past_hop: int | None = None
        self._items: dict[int, Item] = {}
        self._order: list[int] = []
        self._known: dict[int, tuple[bytes, Item]] = {}  # number -> the id first asserted for it, and by whom

    def get(self, seq: int) -> Data | None:
        """Return a retained item."""
        item = self._items.get(seq)
        return item.data if item else None

    def id_of(self, seq: int) -> bytes | None:
        """Return the id that a verified item has asserted for a number."""
        known = self._known.get(seq)
        return known[0] if known else None

    def accept(self, item: Item) -> None:
        """Add an item whose signature is verified, or that a verified item vouches for.

        Raises RejectedItem ("fork") if it lies beyond a fork, be it one that it proves itself.
        """
        is_recent = item.seq + self.max_items > self.tip
        self._compare(item, is_recent)
        if self.fork is not None and item.seq >= self.fork.seq:
            raise RejectedItem("fork", f"item {item.seq} of a feed that is forked at {self.fork.seq}")
        self.tip = max(self.tip, item.seq)
        if is_recent and item.seq not in self._items:
            self._items[item.seq] = item
            insort(self._order, item.seq)
            self.bytes += len(item.data.wire)
            while len(self._order) > self.max_items or (self.bytes > self.max_bytes and len(self._order) > 1):
                self.drop_oldest()

    def stop(self, fork: Fork) -> bool:
        """Record a verified fork; return whether it is new: the first, or lower than the last."""
        before = self.fork
        if before is None or fork.seq < before.seq:
            self.fork = fork
            self.tip = min(self.tip, fork.seq - 1)
            while self._order and self._order[-1] >= fork.seq:
                self.bytes -= len(self._items.pop(self._order.pop()).data.wire)
        for item in (fork.first, fork.second):
            self._compare(item, True)  # with what is known, they may prove a lower one
        return self.fork is not before

    def drop_oldest(self) -> None:
        """Evict the oldest item."""
        seq = self._order.pop(0)
        self.bytes -= len(self._items.pop(seq).data.wire)
        if len(self._known) > 2 * len(self._order) + 8:
            self._known = {number: known for number, known in self._known.items() if number >= seq}

    def _compare(self, item: Item, is_recent: bool) -> None:
        """Compare an item's assertions with earlier ones, and record them if the item is recent."""
        for seq, id_ in assertions(item):
            if self.fork is not None and seq >= self.fork.seq:
                break
            known = self._known.get(seq)
            if known is None:
                if is_recent:
                    self._known[seq] = (id_, item)
            elif known[0] != id_:
                check_signature(self.feed, item)  # each half of a proof must stand by itself
                try:
                    check_signature(self.feed, known[1])
                except RejectedItem:
                    # It was vouched for, and is nothing to show to others. What is signed takes its place.
                    self._known[seq] = (id_, item)
                    continue
                # The two may disagree about the number before, too, of which nothing is known any more.
                self.stop(Fork(dispute(known[1], item) or seq, known[1], item))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)


class FeedStore:
    """The caches of all feeds. Those that are in use stay; of the others, the least recently used go first.

    Args:
        max_feeds: feeds remembered at most.
        max_items, max_bytes: bounds of each feed's cache.
        max_total_bytes: bound of all packets retained.
    """

    def __init__(
        self,
        max_feeds: int = 1024,
        max_items: int = 256,
        max_bytes: int = 1 << 20,
        max_total_bytes: int = 64 << 20,
    ) -> None:
        self.max_feeds = max_feeds
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.max_total_bytes = max_total_bytes
        self.bytes = 0
        self._caches: OrderedDict[bytes, FeedCache] = OrderedDict()
        self._in_use: set[bytes] = set()

    def open(self, feed: bytes) -> FeedCache | None:
        """Return a feed's cache, a new one if there is none, to be in use until close().

        None if there are too many in use already.
        """
        cache = self._caches.get(feed)
        if cache is None:
            if len(self._caches) >= self.max_feeds and not self._forget_one():
                return None
            cache = self._caches[feed] = FeedCache(feed, self.max_items, self.max_bytes)
        self._in_use.add(feed)
        self._caches.move_to_end(feed)
        return cache

    def close(self, feed: bytes) -> None:
        """Mark a feed as not in use; its items stay while there is room."""
        self._in_use.discard(feed)

    def accept(self, cache: FeedCache, item: Item) -> None:
        """Add an item to one of the caches; see FeedCache.accept()."""
        before = cache.bytes
        try:
            cache.accept(item)
        finally:
            self.bytes += cache.bytes - before
        self._caches.move_to_end(cache.feed)
        if self.bytes > self.max_total_bytes:
            self._make_room()

    def stop(self, cache: FeedCache, fork: Fork) -> bool:
        """Record a verified fork in one of the caches; see FeedCache.stop()."""
        before = cache.bytes
        is_news = cache.stop(fork)
        self.bytes += cache.bytes - before
        return is_news

    def forget(self, feed: bytes) -> None:
        """Evict the cache of a feed that is not in use."""
        if feed not in self._in_use and (cache := self._caches.pop(feed, None)) is not None:
            self.bytes -= cache.bytes

    def find(self, feed: bytes) -> FeedCache | None:
        """Return the cache of a feed that is remembered."""
        return self._caches.get(feed)

    def get(self, feed: bytes, seq: int) -> Data | None:
        """Return a retained item of a feed."""
        cache = self._caches.get(feed)
        if cache is None:
            return None
        self._caches.move_to_end(feed)
        return cache.get(seq)

    def _forget_one(self) -> bool:
        for feed in self._caches:
            if feed not in self._in_use:
                self.bytes -= self._caches.pop(feed).bytes
                return True
        return False

    def _make_room(self) -> None:
        """Evict old items, of the least recently used feed first; tips stay."""
        for cache in self._caches.values():
            while len(cache) > 1 and self.bytes > self.max_total_bytes:
                before = cache.bytes
                cache.drop_oldest()
                self.bytes += cache.bytes - before

    def __len__(self) -> int:
        return len(self._caches)
