"""When to mark congestion: a queue that has been too long for too long (NFD developer guide, section 3.3).

As in CoDel, what counts is not that a queue is long but that it stays so for an interval; then one packet is
marked, and while the queue stays long, more of them at intervals that shrink with the square root of their
number.
"""

from math import isqrt

_SCALE = 1 << 16


class Marking:
    """One incident of congestion on a link: from when its queue was found too long to when it is not.

    Args:
        interval: how long a queue may be too long before a packet is marked, ns.
        now: when it was found too long, ns.

    Attributes:
        marked: packets marked so far.
    """

    def __init__(self, interval: int, now: int) -> None:
        self._interval = interval
        self._next = now + interval
        self.marked = 0

    def take(self, now: int) -> bool:
        """Return whether the packet that is sent now is to be marked; then it counts as marked."""
        if now < self._next:
            return False
        self.marked += 1
        self._next += self._interval * _SCALE // isqrt((self.marked + 1) * _SCALE * _SCALE)
        return True
