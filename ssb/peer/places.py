"""Which of those who call get a place, and which have to wait.

Until its handshake is done, nobody knows who calls: handshakes have places of their own, and a host that
takes many of them loses its own first. Then a peer is one that the door knows, or a stranger. Strangers have
half of the places at most, and one of them gives up its place for a peer that is known. A peer that was
closed for a fault has to wait; a host is never held to account, as many peers may be behind its address.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from base.units import SECOND
from ssb.peer.connection import Connection
from ssb.peer.door import Door

_FIRST_PAUSE: Final = SECOND
_LONGEST_PAUSE: Final = 60 * SECOND
_FORGIVEN: Final = 600 * SECOND
_OFFENDERS: Final = 1_000  # whose faults are remembered at once


class _Fault(NamedTuple):
    """A peer that was closed for a fault: until when it may not call, and how long that is, ns."""

    until: int
    pause: int


_NO_FAULT: Final = _Fault(0, 0)


class Places:
    """The places of a peer's connections with those who have called it.

    Args:
        door: says who is known.
        most: connections with peers that have proved who they are.
        handshakes: those at once with peers that have not.
    """

    def __init__(self, door: Door, most: int, handshakes: int) -> None:
        self._door = door
        self._most = most
        self._handshakes = handshakes
        self._faults: dict[str, _Fault] = {}

    def blame(self, remote: str, now: int) -> None:
        """Do not let a peer call again for a while, which doubles with each fault until it has kept quiet."""
        before = self._faults.pop(remote, _NO_FAULT)
        again = now < before.until + _FORGIVEN
        pause = min(before.pause * 2, _LONGEST_PAUSE) if again and before.pause else _FIRST_PAUSE
        self._faults[remote] = _Fault(now + pause, pause)
        if len(self._faults) > _OFFENDERS:
            del self._faults[next(iter(self._faults))]

    def surplus(self, host: str, connections: Collection[Connection]) -> Connection | None:
        """Return whose handshake is given up for one more call from a host: the busiest host's oldest."""
        waiting = [each for each in connections if not each.remote and each.called is None]
        if len(waiting) < self._handshakes:
            return None
        hosts = Counter(each.host for each in waiting)
        hosts[host] += 1
        return max(waiting, key=lambda each: hosts[each.host])  # the first of these

    def refuses(self, remote: str, now: int) -> str:
        """Return why a peer may not call yet; "" if it may."""
        waits = now < self._faults.get(remote, _NO_FAULT).until
        return "called again too soon after a fault" if waits else ""

    def has_room(self, remote: str, connections: Collection[Connection]) -> tuple[bool, Connection | None]:
        """Tell whether there is a place for a peer that has called, and which connection gives up its own."""
        others = [each for each in connections if each.remote not in ("", remote)]
        knows = self._door.knows
        strangers = [each for each in others if each.called is None and not knows(each.remote)]
        if not knows(remote):
            return len(others) < self._most and 2 * len(strangers) < self._most, None
        if len(others) < self._most:
            return True, None
        least = min(strangers, key=lambda each: each.useful, default=None)
        return least is not None, least
