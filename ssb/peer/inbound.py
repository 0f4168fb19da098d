"""Limits on inbound connections.

A peer is anonymous until its handshake is complete. So handshakes have a limit of their own, and the host
with the most handshakes loses its oldest one first. After the handshake, a peer is known to the access policy
or a stranger. Strangers have at most half of the connections, and one of them is closed to make room for a
known peer. A peer whose connection was closed for a fault has to wait before it connects again. Hosts never
have to: many peers may share an address. A peer waits on the way of the fault alone, a room or none: what
comes through a room may be the room's fault.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from base.units import SECOND
from ssb.peer.access import AccessPolicy
from ssb.peer.connection import Connection

_FIRST_PAUSE: Final = SECOND
_LONGEST_PAUSE: Final = 60 * SECOND
_FORGIVEN: Final = 600 * SECOND
_OFFENDERS: Final = 1_000  # peers whose faults are kept


class _Fault(NamedTuple):
    """The latest fault of a peer: when it may connect again, and the pause before that, ns."""

    until: int
    pause: int


_NO_FAULT: Final = _Fault(0, 0)


class InboundLimits:
    """Limits on connections that other peers have opened.

    Args:
        access: identifies known peers.
        most: maximum number of authenticated connections.
        handshakes: maximum number of concurrent handshakes.
    """

    def __init__(self, access: AccessPolicy, most: int, handshakes: int) -> None:
        self._access = access
        self._most = most
        self._handshakes = handshakes
        self._faults: dict[tuple[str, str], _Fault] = {}  # by room and peer

    def blame(self, connection: Connection, now: int) -> None:
        """Refuse a peer on a way for a pause, which doubles with each fault until a time without faults."""
        way = connection.room, connection.remote
        before = self._faults.pop(way, _NO_FAULT)
        again = now < before.until + _FORGIVEN
        pause = min(before.pause * 2, _LONGEST_PAUSE) if again and before.pause else _FIRST_PAUSE
        self._faults[way] = _Fault(now + pause, pause)
        if len(self._faults) > _OFFENDERS:
            del self._faults[next(iter(self._faults))]

    def surplus(self, host: str, connections: Collection[Connection]) -> Connection | None:
        """Return the handshake to abort for one more call from a host: the oldest of the busiest host."""
        waiting = [each for each in connections if not each.remote and each.called is None]
        if len(waiting) < self._handshakes:
            return None
        hosts = Counter(each.host for each in waiting)
        hosts[host] += 1
        return max(waiting, key=lambda each: hosts[each.host])  # the first of these

    def refuses(self, connection: Connection, now: int) -> str:
        """Return why a peer may not connect yet on this way; "" if it may."""
        waits = now < self._faults.get((connection.room, connection.remote), _NO_FAULT).until
        return "called again too soon after a fault" if waits else ""

    def has_room(self, remote: str, connections: Collection[Connection]) -> tuple[bool, Connection | None]:
        """Return whether a new peer has room, and which connection to close for it."""
        others = [each for each in connections if each.remote not in ("", remote)]
        knows = self._access.knows
        strangers = [each for each in others if each.called is None and not knows(each.remote)]
        if not knows(remote):
            return len(others) < self._most and 2 * len(strangers) < self._most, None
        if len(others) < self._most:
            return True, None
        least = min(strangers, key=lambda each: each.useful, default=None)
        return least is not None, least
