"""The logs that a keeper holds: the newest items of each feed, within a limit of bytes."""

from collections import deque
from collections.abc import Iterator

from forwarder.feedcache.items import Item, parse_item
from forwarder.wire.packet import Data
from ssb.work import WORK


class Log:
    """The items of one feed, without gaps up to the newest; the oldest may have been evicted.

    Attributes:
        tip: number of the newest item, 0 if there is none.
        bytes: size of the packets that are held.
    """

    def __init__(self) -> None:
        self._items: deque[Data] = deque()
        self.tip = 0
        self.bytes = 0

    @property
    def oldest(self) -> int:
        """Number of the oldest stored item; tip + 1 if there is none."""
        return self.tip - len(self._items) + 1

    def get(self, seq: int) -> Data | None:
        """Return an item; None if it is not here."""
        return self._items[seq - self.oldest] if self.oldest <= seq <= self.tip else None

    def append(self, data: Data) -> None:
        """Add the next item."""
        self._items.append(data)
        WORK.store += 1
        self.tip += 1
        self.bytes += len(data.wire)

    def drop_oldest(self) -> None:
        """Evict the oldest item."""
        self.bytes -= len(self._items.popleft().wire)

    def __len__(self) -> int:
        return len(self._items)


class Replicas:
    """Logs by their feeds' names.

    Args:
        most_bytes: of all packets together; beyond it, the oldest items of the largest log are evicted.

    Attributes:
        packets: number of all packets,
        bytes: and their size.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._logs: dict[bytes, Log] = {}
        self.packets = self.bytes = 0

    def __getitem__(self, feed: bytes) -> Log:
        return self._logs[feed]

    def __contains__(self, feed: bytes) -> bool:
        return feed in self._logs

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._logs)

    def get(self, feed: bytes, seq: int) -> Data | None:
        """Return an item; None if it is not here."""
        log = self._logs.get(feed)
        return None if log is None else log.get(seq)

    def tip(self, feed: bytes) -> int:
        """Return the number of a feed's newest item, 0 if there is none."""
        log = self._logs.get(feed)
        return 0 if log is None else log.tip

    def open(self, feed: bytes) -> Log:
        """Return the log of a feed; create it if there is none."""
        return self._logs.setdefault(feed, Log())

    def append(self, feed: bytes, data: Data) -> None:
        """Add the next item of a feed."""
        self.open(feed).append(data)
        self.packets += 1
        self.bytes += len(data.wire)
        while self.bytes > self._most_bytes:
            largest = max(self._logs.values(), key=lambda log: log.bytes)
            if not largest.bytes:
                break
            self._drop_oldest(largest)

    def forget_items(self, feed: bytes) -> None:
        """Remove the items of a feed, but not its newest number."""
        log = self._logs[feed]
        while len(log):
            self._drop_oldest(log)

    def drop(self, feed: bytes) -> None:
        """Remove a feed."""
        log = self._logs.pop(feed, None)
        if log is not None:
            self.packets -= len(log)
            self.bytes -= log.bytes

    def _drop_oldest(self, log: Log) -> None:
        before = log.bytes
        log.drop_oldest()
        self.packets -= 1
        self.bytes += log.bytes - before

    def items(self, feed: bytes) -> list[Item]:
        """Return a feed's stored items."""
        log = self.open(feed)
        held = ((seq, log.get(seq)) for seq in range(log.oldest, log.tip + 1))
        return [parse_item(feed, seq, data) for seq, data in held if data is not None]

    def held(self, but: set[bytes]) -> tuple[int, int]:
        """Return the number and bytes of the stored items, without those of some feeds."""
        packets, size = self.packets, self.bytes
        for feed in but:
            log = self._logs.get(feed)
            if log is not None:
                packets -= len(log)
                size -= log.bytes
        return packets, size
