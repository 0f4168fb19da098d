"""State Vector Sync as its specification means it: one group, `/ssb/32=sync`, for all feeds (`sync-all`).

All nodes that publish or follow are members, each with one vector of the newest numbers of all feeds,
followed or not. The rest is as in ssb_over_ndn.sync.state_vector.
"""

from typing import Any

from forwarder.wire.packet import Data, Interest
from ssb_over_ndn.naming import SYNC_ALL, is_log_name
from ssb_over_ndn.sync.state_vector import Member, Vector, bootstrap_of

_MOST_ENTRIES = 65_536


class AllMember(Member):
    """A member of the group of all feeds; see Member.

    Attributes:
        newest: feed's name -> its newest known item.
        changed: the feeds with newer items than at the last look.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(SYNC_ALL, **more)
        self.newest: dict[bytes, int] = {}
        self.changed: dict[bytes, None] = {}
        self._bootstraps: dict[bytes, int] = {}  # of local feeds

    def accepts(self, vector: Vector) -> bool:
        """See Member: names are those of feeds."""
        new = vector.keys() - self.vector.keys()
        return len(self.vector) + len(new) <= _MOST_ENTRIES and all(is_log_name(name) for name, _ in new)

    def on_interest(self, interest: Interest, now: int) -> None:
        super().on_interest(interest, now)
        for (name, _), seq in self.vector.items():
            if seq > self.newest.get(name, 0):
                self.newest[name] = seq
                self.changed[name] = None

    def publish(self, feed: bytes, seq: int, item: Data, now: int) -> None:
        """See GroupMember."""
        if seq == 1:
            self._bootstraps[feed] = bootstrap_of(feed, item)
        self.update(feed, self._bootstraps.get(feed, 0), seq, now)

    def on_nack(self, interest: Interest, now: int) -> None:
        """See GroupMember: nothing waits for an answer."""

    def ends(self) -> tuple[int, int]:
        """See GroupMember: the names of the vector, and its bytes."""
        return len(self.vector), self.size()
