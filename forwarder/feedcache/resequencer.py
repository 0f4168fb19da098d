"""A feed's verified items on their way to an application: in order, each once."""

from collections import deque

from forwarder.feedcache.fork import Fork, dispute
from forwarder.feedcache.items import Item


class Resequencer:
    """Holds items until those before them have come, and then until the application takes them.

    The item after `after` is taken as it is, for an anchor; each later one must name the one before it.

    Attributes:
        arrived: the last item that has come, and all before it.
        taken: the last item that the application has taken.
        fork: two items in a row that do not fit; None if none have come. Nothing comes after that.
    """

    __slots__ = ("_early", "_newest", "_ready", "arrived", "fork", "taken")

    def __init__(self, after: int = 0) -> None:
        self.arrived = after
        self.taken = after
        self.fork: Fork | None = None
        self._newest: Item | None = None
        self._early: dict[int, Item] = {}
        self._ready: deque[Item] = deque()

    def lacks(self, seq: int) -> bool:
        """Return whether an item has not arrived yet."""
        return seq > self.arrived and seq not in self._early

    def put(self, item: Item) -> None:
        """Add an item that is lacking."""
        self._early[item.seq] = item
        while self.fork is None and (after := self._early.pop(self.arrived + 1, None)):
            if self._newest is not None and (seq := dispute(self._newest, after)) is not None:
                self.fork = Fork(seq, self._newest, after)
                self._early.clear()
                return
            self._newest = after
            self.arrived = after.seq
            self._ready.append(after)

    def take(self, limit: int | None = None) -> list[Item]:
        """Return the items that are next, at most `limit`."""
        count = len(self._ready) if limit is None else min(limit, len(self._ready))
        items = [self._ready.popleft() for _ in range(count)]
        if items:
            self.taken = items[-1].seq
        if not self._ready:
            self.taken = self.arrived  # beyond a gap, perhaps
        return items

    def skip(self, first: int) -> None:
        """Do without what lies before an item, which is taken for a new anchor.

        What was signed is what it says, number and all; nothing vouches for what lies in between.
        """
        self.arrived = max(self.arrived, first - 1)
        self._newest = None
        if not self._ready:
            self.taken = self.arrived

    def forget_early(self) -> None:
        """Drop the items that arrived out of order."""
        self._early.clear()

    def forget_from(self, seq: int) -> None:
        """Drop the items from a number on that have not been taken."""
        self._ready = deque(item for item in self._ready if item.seq < seq)
