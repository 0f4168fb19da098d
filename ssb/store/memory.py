"""A store in memory, for simulations: the same rules as on disk, without persistence."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType

from ssb.message import Message
from ssb.store.admission import Admission, Changes, content_type
from ssb.store.feeds import MAX_OUT_OF_ORDER, Stored, Tip


class MemoryFeeds(Admission):
    """Feeds in memory (`ssb.store.feeds.FeedStore`).

    Args:
        hmac_key: the network's 32-byte key, if it has one.
    """

    def __init__(self, hmac_key: bytes | None = None) -> None:
        super().__init__(hmac_key)
        self._feeds: defaultdict[str, list[tuple[Stored, Message]]] = defaultdict(list)
        self._log: list[tuple[Stored, Message] | None] = []
        self._by_id: dict[str, Message] = {}
        self._loose: dict[str, Message] = {}
        self._tips: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._forks: dict[str, tuple[Message, Message]] = {}
        self._own: set[str] = set()

    def tips(self) -> Mapping[str, int]:
        """The last sequence number of each feed: a live view, not a copy."""
        return MappingProxyType(self._tips)

    def tip(self, feed: str) -> Tip | None:
        """The last message of a feed; None if the store holds none."""
        if feed not in self._tips:
            return None
        message = self._feeds[feed][-1][1]
        return Tip(message.sequence, message.id)

    @property
    def end(self) -> int:
        """The last position in the log; 0 if nothing was ever stored."""
        return len(self._log)

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """The messages of a feed after a sequence number, in order, at most `limit`."""
        if feed not in self._tips:
            return []
        first = max(sequence, 0)
        return [stored for stored, _ in self._feeds[feed][first : first + limit]]

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of a feed or out of order."""
        return self._by_id.get(id) or self._loose.get(id)

    def log(self, after: int, limit: int, types: Collection[str | None] | None = None) -> list[Stored]:
        """The messages of all feeds after a position, in order of receipt, at most `limit`."""
        found: list[Stored] = []
        for place in range(max(after, 0), len(self._log)):
            if len(found) >= limit:
                break
            entry = self._log[place]
            if entry is not None and (types is None or content_type(entry[1]) in types):
                found.append(entry[0])
        return found

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """For each forked feed the two messages that prove it."""
        return MappingProxyType(self._forks)

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may be received again later; return their number."""
        if feed in self._own:
            raise ValueError(f"{feed} is written here: if it began again, it would be forked")
        if feed not in self._tips:
            return 0
        del self._tips[feed]
        del self._bytes[feed]
        self._ends.pop(feed, None)
        dropped = self._feeds.pop(feed)
        for stored, message in dropped:
            self._log[stored.position - 1] = None
            del self._by_id[message.id]
        return len(dropped)

    def bytes(self, feed: str) -> int:
        """Bytes of a feed's messages, as canonical text."""
        return self._bytes.get(feed, 0)

    @property
    def out_of_order(self) -> list[Message]:
        """The messages out of order, in order of receipt."""
        return [*self._loose.values()]

    def close(self) -> None:
        """No effect."""

    def _held(self, feed: str, sequence: int) -> Message | None:
        return self._feeds[feed][sequence - 1][1] if 1 <= sequence <= self._tips.get(feed, 0) else None

    def _newest(self, feed: str) -> Message | None:
        return self._held(feed, self._tips.get(feed, 0))

    def _out_of_order(self, feed: str, sequence: int) -> list[Message]:
        places = (sequence, sequence + 1)
        return [m for m in self._loose.values() if m.author == feed and m.sequence in places]

    def _commit(self, changes: Changes) -> None:
        for message in changes.messages:
            stored = Stored(len(self._log) + 1, message.sequence, float(changes.received), message.encoded)
            self._log.append((stored, message))
            self._feeds[message.author].append((stored, message))
            self._tips[message.author] = message.sequence
            self._bytes[message.author] = self._bytes.get(message.author, 0) + len(stored.text)
            self._by_id[message.id] = message
            self._loose.pop(message.id, None)
        self._forks |= changes.forks
        if changes.out_of_order is not None:
            if len(self._loose) >= MAX_OUT_OF_ORDER:
                del self._loose[next(iter(self._loose))]
            self._loose[changes.out_of_order.id] = changes.out_of_order
        if changes.own is not None:
            self._own.add(changes.own)
