"""The log of all feeds as users see it: merged feeds with all branches, other forked ones up to the fork."""

from collections.abc import Collection, Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter

from ssb.branches.store import MergedFeeds
from ssb.message import Message
from ssb.store import sound
from ssb.store.admission import content_type
from ssb.store.feeds import Stored, read_log


class Log:
    """The messages of a store and of other branches.

    Args:
        merged: the merged feeds, and the store.
    """

    def __init__(self, merged: MergedFeeds) -> None:
        self._merged = merged
        self._feeds = merged.served

    def get(self, id_: str) -> Message | None:
        """Return the message with an id: of a feed, of another branch of it, or out of order."""
        return self._feeds.get(id_) or self._merged.get(id_)

    def messages(
        self, feeds: Collection[str] | None, limit: int | None, kind: str | None
    ) -> Iterator[Stored]:
        """Yield messages in order of receipt: of some feeds or all, of one type or all, the last `limit`.

        Those of a forked feed are left out from the fork on, unless its branches are merged.
        """
        if limit is not None:
            yield from self._newest(feeds, limit, kind)
            return
        logged = read_log(self._feeds, 0, None if kind is None else {kind})
        for stored in merge(logged, self._others(feeds, kind), key=attrgetter("position")):
            is_of = feeds is None or any(
                sound.named(stored.text) == (feed, stored.sequence) for feed in feeds
            )
            if is_of and not self._is_ignored(stored):
                yield stored

    def _newest(self, feeds: Collection[str] | None, limit: int, kind: str | None) -> list[Stored]:
        most = limit
        others = self._others(feeds, kind)
        while True:
            parts = [[*self._feeds.newest(most, feed, kind)] for feed in (feeds or (None,))]
            found = [stored for stored in chain.from_iterable(parts) if not self._is_ignored(stored)]
            if len(found) >= limit or all(len(part) < most for part in parts):
                return sorted([*found, *others], key=attrgetter("position"))[-limit:]
            most *= 4

    def _others(self, feeds: Collection[str] | None, kind: str | None) -> list[Stored]:
        others = self._merged.others(feeds)
        return [each for each in others if kind is None or content_type(each.message) == kind]

    def _is_ignored(self, stored: Stored) -> bool:
        """Return whether a message comes from the fork of its feed on, and is not merged."""
        named = sound.named(stored.text) if self._feeds.forks() else None
        return named is not None and self._merged.is_ignored(*named)
