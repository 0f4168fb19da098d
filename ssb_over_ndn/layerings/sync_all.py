"""Layering `sync-all`: State Vector Sync as its specification means it, one group for all feeds.

All nodes that publish or follow are the group `/ssb/32=sync`. Each is one member, with one vector of the
newest numbers of all feeds, whether it follows them or not. The rest is as in ssb_over_ndn.layerings.sync.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Data, Interest
from ssb.application import Event
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.layerings.sync import LARGEST_VECTOR, Member, Vector, bootstrap_of
from ssb_over_ndn.naming import SYNC_ALL, log_name, read_log_name
from ssb_over_ndn.serving.server import Announcer

_MOST_ENTRIES = 65_536


class AllMember(Member):
    """A member of the group of all feeds.

    Args: see Member.

    Attributes:
        newest: feed's name -> its newest known item.
        changed: the feeds with newer items than at the last look.
    """

    def __init__(
        self, *, rng: Random, periodic_ms: int, suppression_ms: int, vector_bytes: int = LARGEST_VECTOR
    ) -> None:
        super().__init__(
            SYNC_ALL,
            rng=rng,
            periodic_ms=periodic_ms,
            suppression_ms=suppression_ms,
            vector_bytes=vector_bytes,
        )
        self.newest: dict[bytes, int] = {}
        self.changed: dict[bytes, None] = {}

    def accepts(self, vector: Vector) -> bool:
        """See Member: names are those of feeds."""
        new = vector.keys() - self.vector.keys()
        return len(self.vector) + len(new) <= _MOST_ENTRIES and all(_is_log(name) for name, _ in new)

    def on_interest(self, interest: Interest, now: int) -> None:
        """See Member."""
        super().on_interest(interest, now)
        for (name, _), seq in self.vector.items():
            if seq > self.newest.get(name, 0):
                self.newest[name] = seq
                self.changed[name] = None


class Group:
    """A node's end of the group: the application that receives its Sync Interests.

    The node is a member while it follows a feed or may publish.

    Args:
        rng: source of nonces and of the timers' randomness.
        parameters: see Member, and Follower for those of `fetch`.

    Attributes:
        refresh: called with a feed and the time when the feed may have newer items.
    """

    def __init__(self, rng: Random, *, buffer: int, lifetime_ms: int, **parameters: int) -> None:
        self._rng = rng
        self._fetch = {"buffer": buffer, "lifetime_ms": lifetime_ms}
        self.member = AllMember(rng=rng, **parameters)
        self.refresh: Callable[[bytes, int], None] = lambda feed, now: None
        self._ends = 0

    def subscription(self, feed: bytes, **more: Any) -> Follower:
        """Return a subscription of a feed; see Follower."""
        return Follower(feed, AllScout(feed, self), rng=self._rng, **self._fetch)

    def announcer(self, feed: bytes) -> Announcer:
        """Return the announcer of a local feed."""
        self._ends += 1
        return AllAnnouncer(feed, self)

    def joined(self, now: int) -> None:
        """Count a feed that is followed; the first asks for the group's state."""
        self._ends += 1
        if self.next_deadline() is None:
            self.member.send(now)

    def left(self) -> None:
        """Count a feed that is no longer followed or published."""
        self._ends -= 1
        if not self._ends:
            self.member.stop()

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""
        interest = open_interest(packet)
        if interest is None or not self._ends:
            return
        self.member.on_interest(interest, now)
        changed, self.member.changed = self.member.changed, {}
        for feed in changed:
            self.refresh(feed, now)

    def take_outputs(self) -> list[bytes]:
        """See Application."""
        return self.member.take_outputs()

    def take_events(self) -> list[Event]:
        """Return no events: subscribers and publishers report theirs."""
        return []

    def ends(self) -> tuple[int, int]:
        """See Subscriber: the names of the vector, and its bytes."""
        return len(self.member.vector), self.member.size()

    def next_deadline(self) -> int | None:
        """See Application."""
        return self.member.next_deadline()

    def wake(self, now: int) -> None:
        """See Application."""
        self.member.wake(now)


class AllAnnouncer(Announcer):
    """Announces a feed's new items by the node's member."""

    def __init__(self, feed: bytes, group: Group) -> None:
        super().__init__()
        self._feed = feed
        self._group = group
        self._bootstrap = 0

    def published(self, seq: int, item: Data, now: int) -> None:
        """See Announcer."""
        if seq == 1:
            self._bootstrap = bootstrap_of(self._feed, item)
        self._group.member.update(self._feed, self._bootstrap, seq, now)

    def stop(self) -> None:
        """See Announcer."""
        self._group.left()


class AllScout(Scout):
    """Looks a feed's newest item up in the vector of the node's member."""

    def __init__(self, feed: bytes, group: Group) -> None:
        super().__init__()
        self._feed = feed
        self._group = group

    def start(self, now: int) -> None:
        """See Scout."""
        self._group.joined(now)
        self.wake(now)

    def stop(self, now: int) -> None:
        """See Scout."""
        self._group.left()

    def wake(self, now: int) -> None:
        """See Scout."""
        self.tip = max(self.tip, self._group.member.newest.get(self._feed, 0))


def _is_log(name: bytes) -> bool:
    author = read_log_name(name)
    return author is not None and log_name(author) == name
