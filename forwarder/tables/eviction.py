"""Eviction policies of the content store (NFD developer guide, section 3.3.2).

The store notifies its policy of every packet that it inserts, uses and erases; the policy names the victim.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import ClassVar, Protocol

from base.units import MS
from forwarder.wire.packet import Data

Entry = tuple[Data, int]
"""A packet and when it arrived, ns."""


class Policy(Protocol):
    """An order in which packets are evicted. They are known by name.

    Attributes:
        NAME: in configuration files.
        arrived: called with (data, arrival in ns, whether it is unsolicited) for a packet that is inserted or
            replaced; None if the policy ignores it.
        used: called with a name when that packet answers an Interest.
        evict: removes a packet from the store's, which are not empty; returns its entry.
    """

    NAME: ClassVar[str]
    arrived: Callable[[Data, int, bool], None] | None
    used: Callable[[bytes], None]
    evict: Callable[[], tuple[bytes, Entry]]

    def erased(self, name: bytes) -> None:
        """Handle that a packet has been erased."""
        ...


class Lru:
    """The Policy "least recently used". Use is arrival, or an answer to an Interest.

    The store's own order is that of arrival, and is made that of use.
    """

    NAME: ClassVar[str] = "lru"

    def __init__(self, packets: OrderedDict[bytes, Entry]) -> None:
        self.arrived: Callable[[Data, int, bool], None] | None = None
        self.used: Callable[[bytes], None] = packets.move_to_end
        self.evict: Callable[[], tuple[bytes, Entry]] = partial(packets.popitem, False)

    def erased(self, name: bytes) -> None:
        """See Policy."""


class PriorityFifo:
    """The Policy of NFD: unsolicited packets first; then stale ones, as they became stale; then by arrival.

    NFD moves packets to the stale ones by timers. Here a heap has them by the time at which they become
    stale, and is read on eviction. Time is that of the latest arrival.
    """

    NAME: ClassVar[str] = "priority_fifo"

    def __init__(self, packets: OrderedDict[bytes, Entry]) -> None:
        self._packets = packets
        self._unsolicited: OrderedDict[bytes, None] = OrderedDict()
        self._fifo: OrderedDict[bytes, int] = OrderedDict()  # with the number of its arrival
        self._stale: list[tuple[int, int, bytes]] = []  # (when, number, name) also of some that are gone
        self._number = 0
        self._now = 0
        self.arrived: Callable[[Data, int, bool], None] | None = self._arrived
        self.used: Callable[[bytes], None] = _ignore
        self.evict: Callable[[], tuple[bytes, Entry]] = self._evict

    def _arrived(self, data: Data, now: int, is_unsolicited: bool) -> None:
        self._now = now
        name = data.name
        if is_unsolicited and name not in self._fifo:  # such a copy does not make the other one unwanted
            self._unsolicited[name] = None
            self._unsolicited.move_to_end(name)
            return
        if self._unsolicited:
            self._unsolicited.pop(name, None)
        self._number += 1
        self._fifo[name] = self._number
        self._fifo.move_to_end(name)
        heappush(self._stale, (now + data.freshness_ms * MS, self._number, name))
        if len(self._stale) > 2 * len(self._fifo) + 64:
            self._stale = [item for item in self._stale if self._fifo.get(item[2]) == item[1]]
            heapify(self._stale)

    def erased(self, name: bytes) -> None:
        self._unsolicited.pop(name, None)
        self._fifo.pop(name, None)

    def _evict(self) -> tuple[bytes, Entry]:
        name = self._victim()
        return name, self._packets.pop(name)

    def _victim(self) -> bytes:
        """Remove and return the next victim."""
        if self._unsolicited:
            return self._unsolicited.popitem(last=False)[0]
        while self._stale and self._stale[0][0] <= self._now:
            _, number, name = heappop(self._stale)
            if self._fifo.get(name) == number:
                del self._fifo[name]
                return name
        return self._fifo.popitem(last=False)[0]


def _ignore(name: bytes) -> None:
    """Do nothing about a packet."""


POLICIES: dict[str, Callable[[OrderedDict[bytes, Entry]], Policy]] = {
    policy.NAME: policy for policy in (Lru, PriorityFifo)
}
"""All policies by name."""
