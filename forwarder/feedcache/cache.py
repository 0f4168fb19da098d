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

    __slots__ = ("_bytes", "_ids", "_items", "chain", "max_bytes", "max_items")

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.chain = Chain()
        self._items: OrderedDict[int, Data] = OrderedDict()
        self._ids: dict[int, bytes] = {}
        self._bytes = 0

    @property
    def tip(self) -> int:
        """Sequence number of the newest verified item, 0 if none."""
        return self.chain.tip

    def get(self, seq: int) -> Data | None:
        """Return a retained item."""
        return self._items.get(seq)

    def accept(self, item: Item) -> None:
        """Take in a verified item that is next, an anchor, or older than what is retained.

        An older one (fetched again for a late joiner) is vouched for by its own signature and not
        retained. Raises RejectedItem if it contradicts the chain.
        """
        if self.chain.tip == 0 or item.seq == self.chain.tip + 1:
            self.chain.extend(item)
            self._retain(item)
        elif item.seq > self.chain.tip:
            # Everyone who wanted the items between has gone: a new anchor.
            self._items.clear()
            self._ids.clear()
            self._bytes = 0
            self.chain = Chain()
            self.chain.extend(item)
            self._retain(item)
        elif (known := self._ids.get(item.seq)) is not None and known != item.id:
            raise RejectedItem("fork", f"two items have sequence number {item.seq}")

    def _retain(self, item: Item) -> None:
        self._items[item.seq] = item.data
        self._ids[item.seq] = item.id
        self._bytes += len(item.data.wire)
        while len(self._items) > self.max_items or (self._bytes > self.max_bytes and len(self._items) > 1):
            seq, data = self._items.popitem(last=False)
            del self._ids[seq]
            self._bytes -= len(data.wire)

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

    def get(self, feed: bytes, seq: int) -> Data | None:
        """Return a retained item of a feed."""
        cache = self._caches.get(feed)
        return cache.get(seq) if cache else None

    def __len__(self) -> int:
        return len(self._caches)
