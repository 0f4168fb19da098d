"""Content Store: Data by name, least recently used out first (NFD developer guide, section 3.3)."""

from collections import OrderedDict

from sortedcontainers import SortedSet

from forwarder.wire.name import DIGEST_COMPONENT_BYTES, ends_with_digest
from forwarder.wire.packet import Data, Interest


class ContentStore:
    """A bounded cache of Data packets.

    Exact names are one hash probe. CanBePrefix needs names in order; that index is brought up to date
    only when such an Interest asks for it, so traffic that never does pays nothing.

    Args:
        capacity: packets held at most; 0 switches the store off.
    """

    __slots__ = ("_index", "_packets", "_unindexed", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._packets: OrderedDict[bytes, tuple[Data, int]] = OrderedDict()  # with the time of arrival
        self._index: SortedSet[bytes] = SortedSet()
        self._unindexed: set[bytes] = set()

    def insert(self, data: Data, now: int, *, is_unsolicited: bool = False) -> None:
        """Keep a Data packet that arrived at `now` (ns)."""
        if not self.capacity:
            return
        name = data.name
        packets = self._packets
        if name in packets:
            packets.move_to_end(name)
        else:
            self._unindexed.add(name)
        packets[name] = (data, now)
        if len(packets) > self.capacity:
            oldest, _ = packets.popitem(last=False)
            if oldest in self._unindexed:
                self._unindexed.remove(oldest)
            else:
                self._index.remove(oldest)

    def find(self, interest: Interest, now: int) -> Data | None:
        """Return a packet that satisfies an Interest (of well-formed name) at `now` (ns), marking it used."""
        data = self._get(interest.name, interest, now)
        if data is None and ends_with_digest(interest.name):
            data = self._get(interest.name[:-DIGEST_COMPONENT_BYTES], interest, now)
            if data is not None and data.digest() != interest.name[-32:]:
                data = None
        if data is None and interest.can_be_prefix:
            data = self._find_under(interest, now)
        if data is not None:
            self._packets.move_to_end(data.name)
        return data

    def _find_under(self, interest: Interest, now: int) -> Data | None:
        self._index.update(self._unindexed)
        self._unindexed.clear()
        for name in self._index.irange(minimum=interest.name):
            if not name.startswith(interest.name):
                break
            if data := self._get(name, interest, now):
                return data
        return None

    def _get(self, name: bytes, interest: Interest, now: int) -> Data | None:
        """Return the packet of that very name if it is as fresh as the Interest wants it."""
        found = self._packets.get(name)
        if found is None:
            return None
        data, arrived = found
        if interest.must_be_fresh and arrived + data.freshness_ms * 1_000_000 <= now:
            return None
        return data

    def __len__(self) -> int:
        return len(self._packets)
