"""Content Store: Data by name (NFD developer guide, section 3.3)."""

from collections import OrderedDict
from itertools import islice

from sortedcontainers import SortedSet

from base.units import MS
from forwarder.tables.eviction import POLICIES, Policy
from forwarder.wire.name import DIGEST_COMPONENT_BYTES, ends_with_digest
from forwarder.wire.packet import Data, Interest

_LASTING = 4096
"""Packets. In a store this large, Data stay for the seconds in which a looping Interest may come back."""
_MOST_STALE = 512
"""Packets that a look-up by prefix tries: beyond many stale ones, a cache miss costs less."""


class ContentStore:
    """A bounded cache of Data packets, one a name.

    Exact names are one hash probe. CanBePrefix needs names in order; that index is updated only by such an
    Interest, so traffic without them does not pay for it.

    Args:
        capacity: packets held at most; 0 switches the store off.
        policy: eviction policy, one of forwarder.tables.eviction.POLICIES.

    Attributes:
        serves: whether Interests are answered.
    """

    def __init__(self, capacity: int, policy: str = "lru") -> None:
        self._capacity = self._room = capacity  # no room while nothing is admitted
        self._packets: OrderedDict[bytes, tuple[Data, int]] = OrderedDict()  # with the time of arrival
        self._index: SortedSet[bytes] = SortedSet()
        self._unindexed: set[bytes] = set()
        self.serves = True
        self._policy: Policy = POLICIES[policy](self._packets)
        self._arrived = self._policy.arrived
        self._evict = self._policy.evict
        self._used = self._policy.used

    @property
    def policy(self) -> str:
        """The name of its policy."""
        return self._policy.NAME

    @property
    def admits(self) -> bool:
        """Whether packets are taken in."""
        return self._room == self._capacity

    @admits.setter
    def admits(self, admits: bool) -> None:
        self._room = self._capacity if admits else -1

    @property
    def is_lasting(self) -> bool:
        """Whether Data stay for as long as a looping Interest may come back."""
        return self._room >= _LASTING and self.serves

    @property
    def capacity(self) -> int:
        """Packets held at most; lowering it evicts at once."""
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        admits = self.admits
        self._capacity = capacity
        self.admits = admits
        while len(self._packets) > capacity:
            name, _ = self._evict()
            self._unindex(name)

    def insert(self, data: Data, now: int, *, is_unsolicited: bool = False) -> None:
        """Insert a Data packet that arrived at `now` (ns); `is_unsolicited` without a pending Interest."""
        room = self._room
        if room <= 0:
            return
        name = data.name
        packets, unindexed = self._packets, self._unindexed
        if name in packets:
            packets.move_to_end(name)
        else:
            unindexed.add(name)
        packets[name] = (data, now)
        if self._arrived is not None:
            self._arrived(data, now, is_unsolicited)
        if len(packets) > room:
            name, _ = self._evict()
            if name in unindexed:
                unindexed.remove(name)
            else:
                self._index.remove(name)

    def _unindex(self, name: bytes) -> None:
        if name in self._unindexed:
            self._unindexed.remove(name)
        else:
            self._index.remove(name)

    def erase(self, prefix: bytes, limit: int) -> int:
        """Erase packets under a prefix, `limit` at most, in canonical order; return how many."""
        self._update_index()
        names: list[bytes] = []
        for name in self._index.irange(minimum=prefix):
            if len(names) >= limit or not name.startswith(prefix):
                break
            names.append(name)
        for name in names:
            del self._packets[name]
            self._policy.erased(name)
            self._unindex(name)
        return len(names)

    def find(self, interest: Interest, now: int) -> Data | None:
        """Return a packet that satisfies an Interest (of well-formed name) at `now` (ns), marking it used.

        Of several the first in canonical order (NFD: the leftmost).
        """
        name = interest.name
        found = self._packets.get(name)
        if found is None or (interest.must_be_fresh and found[1] + found[0].freshness_ms * MS <= now):
            if not interest.can_be_prefix and not ends_with_digest(name):
                return None
            found = self._find_by_prefix(interest, now)
        if found is None or not self.serves:
            return None
        data = found[0]
        self._used(data.name)
        return data

    def _find_by_prefix(self, interest: Interest, now: int) -> tuple[Data, int] | None:
        """Return a packet by its implicit digest, or under a prefix, with its time of arrival."""
        name = interest.name
        if ends_with_digest(name):
            found = self._get(name[:-DIGEST_COMPONENT_BYTES], interest, now)
            if found is not None and found[0].digest() == name[-32:]:
                return found
        if not interest.can_be_prefix:
            return None
        self._update_index()
        for under in islice(self._index.irange(minimum=name), _MOST_STALE):
            if not under.startswith(name):
                break
            if found := self._get(under, interest, now):
                return found
        return None

    def _update_index(self) -> None:
        self._index.update(self._unindexed)
        self._unindexed.clear()

    def _get(self, name: bytes, interest: Interest, now: int) -> tuple[Data, int] | None:
        """Return the packet of that very name if it is as fresh as the Interest wants it."""
        found = self._packets.get(name)
        if found is None or (interest.must_be_fresh and found[1] + found[0].freshness_ms * MS <= now):
            return None
        return found

    def __len__(self) -> int:
        return len(self._packets)
