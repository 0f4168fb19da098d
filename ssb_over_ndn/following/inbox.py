"""Received items of a feed, waiting for earlier ones or for the application."""

from collections import Counter

from base.passive import Outputs
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.feedcache.resequencer import Resequencer
from forwarder.wire.feed import item_name
from forwarder.wire.packet import Data


class Inbox:
    """A bounded buffer of a feed's verified items; the application takes them in order, each once.

    Args:
        feed: the feed's name.
        capacity: most items in the buffer, at least 1.
        after: the last item that the application has.

    Attributes:
        rejected: packets refused, by reason.
    """

    def __init__(self, feed: bytes, capacity: int, after: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"a subscription with room for {capacity} items; it needs room for at least 1")
        self.feed = feed
        self.capacity = capacity
        self.rejected: Counter[str] = Counter()
        self._items = Resequencer(after)

    @property
    def arrived(self) -> int:
        """The last item that has arrived with all before it."""
        return self._items.arrived

    @property
    def taken(self) -> int:
        """The last item that the application has taken."""
        return self._items.taken

    @property
    def forked_at(self) -> int | None:
        """The lowest number of two different items, once known; the inbox is closed then."""
        return self._items.fork.seq if self._items.fork is not None else None

    @property
    def limit(self) -> int:
        """The last item with room in the buffer."""
        return self.taken + self.capacity

    def name(self, seq: int) -> bytes:
        """Return an item's name."""
        return item_name(self.feed, seq)

    def lacks(self, seq: int) -> bool:
        """Return whether an item is lacking, and has room."""
        return seq <= self.limit and self._items.lacks(seq) and self._items.fork is None

    def open(self, seq: int, data: Data) -> Item | None:
        """Return the item in a Data packet with its name; None if it is not the author's."""
        try:
            return open_item(self.feed, seq, data)
        except RejectedItem as error:
            self.rejected[error.reason] += 1
            return None

    def put(self, item: Item) -> None:
        """Add an item; drop it if it is not lacking, or has no room."""
        if self.lacks(item.seq):
            self._items.put(item)

    def take(self, limit: int | None = None) -> list[Item]:
        """Remove and return the next items, at most `limit`."""
        return self._items.take(limit)


class Buffered(Outputs):
    """The part of a Subscription around an Inbox."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox
        self._is_open = False
        self._is_refused = False  # and no Data since
        self._errors: list[str] = []

    @property
    def forked_at(self) -> int | None:
        return self._inbox.forked_at

    def take_items(self, limit: int | None = None) -> list[Item]:
        return self._inbox.take(limit)

    def size(self) -> int:
        """See Subscription: pending Interests count in the PIT."""
        return 0

    def take_errors(self) -> list[str]:
        errors, self._errors = self._errors, []
        return errors
