"""Verified items of feeds, the most recent of each, bounded per feed and in all."""

from collections import OrderedDict
from collections.abc import Iterator

from forwarder.feedcache.items import Item, RejectedItem
from forwarder.wire.packet import Data


class Chain:
    """The verified end of a feed: accepts the item that extends it.

    A node that joins mid-feed takes the first valid item as its anchor and chains from there.

    Attributes:
        tip: the newest item's sequence number, 0 before the first.
    """

    __slots__ = ("_tip_id", "tip")

    def __init__(self, tip: int = 0, tip_id: bytes | None = None) -> None:
        self.tip = tip
        self._tip_id = tip_id

    def extend(self, item: Item) -> None:
        """Accept the next item; raise RejectedItem if its backlink is not the tip."""
        if self._tip_id is not None and item.previous != self._tip_id:
            raise RejectedItem("backlink", f"item {item.seq} does not name item {self.tip} as its previous")
        self.tip = item.seq
        self._tip_id = item.id


class FeedCache:
    """The retained run of one feed's items, ending at its verified tip.

    Args:
        max_items, max_bytes: bounds of the run; the tip's number outlives the items.
    """

    __slots__ = ("_bytes", "_items", "chain", "max_bytes", "max_items")

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.chain = Chain()
        self._items: dict[int, Item] = {}  # oldest first
        self._bytes = 0

    @property
    def tip(self) -> int:
        """Sequence number of the newest verified item, 0 if none."""
        return self.chain.tip

    def get(self, seq: int) -> Data | None:
        """Return a retained item."""
        item = self._items.get(seq)
        return item.data if item else None

    def accept(self, item: Item) -> None:
        """Take in a verified item.

        The next one must name the tip as its previous. One further on is a new anchor: everyone who wanted
        the items between has gone. An older one (fetched again for a late joiner) is vouched for by
        its own signature and not retained. Raises RejectedItem if it contradicts the chain.
        """
        if item.seq <= self.tip:
            known = self._items.get(item.seq)
            if known is not None and known.id != item.id:
                raise RejectedItem("fork", f"two items have sequence number {item.seq}")
            return
        if item.seq != self.tip + 1:
            self._items.clear()
            self._bytes = 0
            self.chain = Chain()
        self.chain.extend(item)
        self._items[item.seq] = item
        self._bytes += len(item.data.wire)
        while len(self._items) > self.max_items or (self._bytes > self.max_bytes and len(self._items) > 1):
            oldest = self._items.pop(next(iter(self._items)))
            self._bytes -= len(oldest.data.wire)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)


class FeedStore:
    """The caches of all feeds, the least recently used feed out first.

    Args:
        max_feeds: feeds remembered at most.
        max_items, max_bytes: bounds of each feed's cache.
    """

    def __init__(self, max_feeds: int = 1024, max_items: int = 256, max_bytes: int = 1 << 20) -> None:
        self.max_feeds = max_feeds
        self.max_items = max_items
        self.max_bytes = max_bytes
        self._caches: OrderedDict[bytes, FeedCache] = OrderedDict()

    def open(self, feed: bytes) -> FeedCache:
        """Return a feed's cache, a new one if there is none."""
        cache = self._caches.get(feed)
        if cache is None:
            cache = self._caches[feed] = FeedCache(self.max_items, self.max_bytes)
            if len(self._caches) > self.max_feeds:
                self._caches.popitem(last=False)
        self._caches.move_to_end(feed)
        return cache

    def touch(self, feed: bytes) -> None:
        """Note that a feed is in use."""
        if feed in self._caches:
            self._caches.move_to_end(feed)

    def get(self, feed: bytes, seq: int) -> Data | None:
        """Return a retained item of a feed."""
        cache = self._caches.get(feed)
        if cache is None:
            return None
        self._caches.move_to_end(feed)
        return cache.get(seq)

    def __len__(self) -> int:
        return len(self._caches)
