"""What has come of a feed and waits: for the items before it, or for the application."""

from collections import Counter, deque

from forwarder.feedcache.fork import dispute
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.wire.packet import Data


class Inbox:
    """A feed's items on their way to the application: verified, in order, each once, and never too many.

    Args:
        feed: the feed's name.
        capacity: items that wait here at most; at least 1.

    Attributes:
        arrived: the last item that has come, and all before it.
        taken: the last item that the application has taken.
        forked_at: the lowest number that the author has given to two items, once that shows; the inbox is
            closed then.
        rejected: packets refused, by reason.
    """

    def __init__(self, feed: bytes, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a subscription with room for {capacity} items; it needs room for at least 1")
        self.feed = feed
        self.capacity = capacity
        self.arrived = 0
        self.taken = 0
        self.forked_at: int | None = None
        self.rejected: Counter[str] = Counter()
        self._newest: Item | None = None
        self._early: dict[int, Item] = {}
        self._ready: deque[Item] = deque()

    @property
    def limit(self) -> int:
        """The last item that there is room for."""
        return self.taken + self.capacity

    def lacks(self, seq: int) -> bool:
        """Tell whether there is room for an item, and need of it."""
        return self.arrived < seq <= self.limit and seq not in self._early and self.forked_at is None

    def open(self, seq: int, data: Data) -> Item | None:
        """Return the item in a Data packet under its name; None if it is not the author's."""
        try:
            return open_item(self.feed, seq, data)
        except RejectedItem as error:
            self.rejected[error.reason] += 1
            return None

    def put(self, item: Item) -> None:
        """Take in an item; one that is not lacking, or has no room, is dropped."""
        if not self.lacks(item.seq):
            return
        self._early[item.seq] = item
        while after := self._early.pop(self.arrived + 1, None):
            if self._newest is not None and (number := dispute(self._newest, after)) is not None:
                self.forked_at = number
                self._early.clear()
                break
            self._newest = after
            self.arrived = after.seq
            self._ready.append(after)

    def take(self, limit: int | None = None) -> list[Item]:
        """Return the items that are next, at most `limit`."""
        count = len(self._ready) if limit is None else min(limit, len(self._ready))
        items = [self._ready.popleft() for _ in range(count)]
        if items:
            self.taken = items[-1].seq
        return items
