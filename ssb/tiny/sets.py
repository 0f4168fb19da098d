"""The sets that a node replicates, and which of them a packet or a feed belongs to.

Every packet begins with a demultiplexer. That of claims and vectors follows from the state of a set, that of
an entry from its position in its feed: a node knows in advance the next ones.
"""

from collections.abc import Iterator
from typing import Final

from base.timers import Timers
from ssb.tiny import vectors
from ssb.tiny.replica import Replica
from ssb.tiny.store import TinyStore

CLAIM: Final = "claim"
WANT: Final = "want"
CHUNK_VECTOR: Final = "chunk vector"
"""Kinds of packets of a set."""


class Sets:
    """The sets of a node.

    Args:
        store: of the feeds.
    """

    def __init__(self, store: TinyStore) -> None:
        self._store = store
        self._by_name: dict[str, Replica] = {}
        self._by_number: dict[int, Replica] = {}
        self._of_feed: dict[bytes, list[Replica]] = {}
        self._routes: dict[bytes, tuple[str, Replica]] = {}  # by demultiplexer
        self._expected: dict[bytes, bytes] = {}  # demultiplexer of the next entry -> feed
        self._armed: dict[bytes, bytes] = {}  # the inverse
        self._timers = Timers[int]()  # by the numbers of sets
        self._changed: dict[Replica, None] = {}  # sets whose deadlines may have changed

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all sets."""
        return iter(self._by_name)

    def __getitem__(self, name: str) -> Replica:
        """Return a set. Raises KeyError if there is none of that name."""
        return self._by_name[name]

    def get(self, name: str | None) -> Replica | None:
        """Return a set; None if there is none of that name."""
        return self._by_name.get(name) if name is not None else None

    def of(self, feed: bytes) -> list[Replica]:
        """Return the sets that a feed is in."""
        return self._of_feed.get(feed, [])

    def insert(self, new: Replica) -> None:
        """Add a set, and expect its packets. Feeds that the store lacks are added to it."""
        self._by_name[new.keys.name] = self._by_number[new.number] = new
        self.mark_changed(new)
        for key in new.keys.keys:
            self.add(key, new)
        self.route(new)

    def remove(self, name: str) -> None:
        """Remove a set, if there is one of that name; its feeds stay in the store."""
        left = self._by_name.pop(name, None)
        if left is not None:
            self._unroute(left)
            self._timers.set(left.number, None)
            del self._by_number[left.number]
            for key in left.keys.keys:
                self._of_feed[key].remove(left)
                self.expect(key)

    def add(self, feed: bytes, which: Replica) -> None:
        """Add a feed to a set."""
        self._store.add(feed)
        self._of_feed.setdefault(feed, []).append(which)
        self.expect(feed)

    # Expected packets

    def route(self, which: Replica) -> None:
        """Expect claims and vectors of a set, in its current state."""
        self._unroute(which)
        state = which.keys.state
        for demultiplexer, kind in (
            (which.keys.demultiplexer, CLAIM),
            (vectors.want_demultiplexer(state), WANT),
            (vectors.chunk_demultiplexer(state), CHUNK_VECTOR),
        ):
            self._routes[demultiplexer] = kind, which
            which.routes.append(demultiplexer)

    def expect(self, feed: bytes) -> None:
        """Expect the next entry of a feed, if it is in a set."""
        before = self._armed.pop(feed, None)
        if before is not None:
            self._expected.pop(before, None)
        held = self._store.feeds.get(feed)
        if not self._of_feed.get(feed):
            self._of_feed.pop(feed, None)
        elif held is not None:
            self._armed[feed] = held.expected
            self._expected[held.expected] = feed

    def routed(self, demultiplexer: bytes) -> tuple[str, Replica] | None:
        """Return the kind and the set of packets with a demultiplexer."""
        return self._routes.get(demultiplexer)

    def expected(self, demultiplexer: bytes) -> bytes | None:
        """Return the feed whose next entry has a demultiplexer."""
        return self._expected.get(demultiplexer)

    # Deadlines

    def mark_changed(self, which: Replica) -> None:
        """Mark a set whose deadline may have changed."""
        self._changed[which] = None

    def next_deadline(self) -> int | None:
        """Return the next deadline of a set, ns."""
        self._plan()
        return self._timers.next_deadline()

    def take_due(self, now: int) -> list[Replica]:
        """Return the sets whose deadlines have passed."""
        self._plan()
        due = [self._by_number[number] for number in self._timers.expire(now)]
        for each in due:
            self.mark_changed(each)
        return due

    # Inside

    def _plan(self) -> None:
        for each in self._changed:
            if each.number in self._by_number:
                self._timers.set(each.number, each.due)
        self._changed.clear()

    def _unroute(self, which: Replica) -> None:
        for demultiplexer in which.routes:
            kind_and_set = self._routes.get(demultiplexer)
            if kind_and_set is not None and kind_and_set[1] is which:
                del self._routes[demultiplexer]
        which.routes.clear()
