"""Packets that wait to be sent: each once, for its time, and the urgent ones first."""

from collections import Counter
from typing import Final, NamedTuple

MOST_QUEUED: Final = 256
"""Packets that may wait; more answers are not given."""


class _Queued(NamedTuple):
    due: int
    priority: int
    order: int


class Outbox:
    """The packets of a node that are to be sent.

    Attributes:
        sent: how many were queued, by kind.
    """

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self._queue: dict[bytes, _Queued] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, packet: bytes, kind: str, priority: int, due: int) -> bool:
        """Let a packet be sent at a time, ns, unless it waits already; return False if there is no room."""
        if packet in self._queue:
            return True
        if len(self._queue) >= MOST_QUEUED:
            return False
        self._order += 1
        self.sent[kind] += 1
        self._queue[packet] = _Queued(due, priority, self._order)
        return True

    def discard(self, packet: bytes) -> None:
        """Do not send a packet: another has sent it."""
        self._queue.pop(packet, None)

    def take(self, now: int) -> list[bytes]:
        """Return the packets whose time has come, those of the lowest priority value first."""
        due = sorted(
            (queued.priority, queued.order, packet)
            for packet, queued in self._queue.items()
            if queued.due <= now
        )
        packets = [packet for _, _, packet in due]
        for packet in packets:
            del self._queue[packet]
        return packets

    def next_deadline(self) -> int | None:
        """Return when the next packet is due, ns."""
        return min((queued.due for queued in self._queue.values()), default=None)
