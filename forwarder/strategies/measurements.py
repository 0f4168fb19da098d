"""The Measurements table: knowledge of strategies by name and face (NFD developer guide, section 3.6).

Each strategy has a table of its own. Entries expire when unused, and the least recently used one is evicted
when the table is full, so that Interests for many names cannot exhaust memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from base.round_trip import RoundTrip
from base.units import MINUTE, MS, SECOND
from forwarder.tables.prefix_lengths import Lengths

T = TypeVar("T")


class Measurements(Generic[T]):
    """Values by name prefix, with expiry.

    Args:
        lifetime: of unused entries, ns.
        most: prefixes kept at most.
    """

    def __init__(self, lifetime: int, most: int = 4096) -> None:
        self._lifetime = lifetime
        self._most = most
        self._by_prefix: OrderedDict[bytes, tuple[T, int]] = OrderedDict()  # the first to expire comes first
        self._lengths = Lengths()

    def get(self, prefix: bytes, now: int) -> T | None:
        """Return the value of a prefix, and renew its lifetime."""
        found = self._by_prefix.get(prefix)
        if found is None or found[1] <= now:
            return None
        self.set(prefix, found[0], now)
        return found[0]

    def get_or_make(self, prefix: bytes, make: Callable[[], T], now: int) -> T:
        """Return the value of a prefix, by default make(), and renew its lifetime."""
        found = self.get(prefix, now)
        if found is None:
            found = make()
            self.set(prefix, found, now)
        return found

    def find(self, name: bytes, ends: Sequence[int], now: int) -> T | None:
        """Return the value of the longest prefix of a name, whose prefix_ends() are `ends`."""
        for end in reversed(self._lengths.among(ends)):
            found = self._by_prefix.get(name[:end])
            if found is not None and found[1] > now:
                return found[0]
        return None

    def set(self, prefix: bytes, known: T, now: int) -> None:
        """Learn something of a prefix."""
        table = self._by_prefix
        if prefix not in table:
            self._lengths.add(prefix)
        table[prefix] = (known, now + self._lifetime)
        table.move_to_end(prefix)
        while len(table) > self._most or next(iter(table.values()))[1] <= now:
            oldest, _ = table.popitem(last=False)
            self._lengths.remove(oldest)

    def __len__(self) -> int:
        return len(self._by_prefix)


def round_trip() -> RoundTrip:
    """Return a round-trip time with the bounds that NFD has for strategies."""
    return RoundTrip(initial=1 * SECOND, least=200 * MS, most=MINUTE)
