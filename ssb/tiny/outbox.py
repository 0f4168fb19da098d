"""The send queue of a node: delayed packets, deduplicated, by priority."""

from collections import Counter
from random import Random
from typing import Final, NamedTuple

MOST_QUEUED: Final = 256
"""Most packets in the queue; further answers are dropped."""


class _Queued(NamedTuple):
    due: int
    priority: int
    order: int
    kind: str
    ports: tuple[int, ...]


class Outbox:
    """The send queue of a node.

    Args:
        random: for the pauses between packets.
        gap: least pause between two packets, ns; at random up to twice as long. 0 for no pauses.

    Attributes:
        sent: packets sent, by kind.
    """

    def __init__(self, random: Random, gap: int) -> None:
        self.sent: Counter[str] = Counter()
        self._random = random
        self._gap = gap
        self._queue: dict[bytes, _Queued] = {}
        self._order = 0
        self._free_at = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether it accepts no other packets."""
        return len(self._queue) >= MOST_QUEUED

    def __contains__(self, packet: bytes) -> bool:
        """Whether a packet is queued."""
        return packet in self._queue

    def put(self, packet: bytes, kind: str, priority: int, due: int, ports: tuple[int, ...]) -> bool:
        """Queue a packet for ports, due at a time, ns; return False if the queue is full."""
        queued = self._queue.get(packet)
        if queued is not None:
            self._queue[packet] = queued._replace(ports=tuple({*queued.ports, *ports}))
            return True
        if self.is_full:
            return False
        self._order += 1
        self._queue[packet] = _Queued(due, priority, self._order, kind, ports)
        return True

    def suppress(self, packet: bytes, port: int) -> None:
        """Suppress a packet on a port, where another node has sent it."""
        queued = self._queue.get(packet)
        if queued is not None and port in queued.ports:
            left = tuple(each for each in queued.ports if each != port)
            if left:
                self._queue[packet] = queued._replace(ports=left)
            else:
                del self._queue[packet]

    def take(self, now: int) -> list[tuple[bytes, tuple[int, ...]]]:
        """Return the packets that are due, with their ports, the lowest priority value first."""
        if not self._queue:
            return []
        due = [(queued, packet) for packet, queued in self._queue.items() if queued.due <= now]
        due.sort(key=lambda item: (item[0].priority, item[0].order))
        if self._gap and due:
            due = due[: self._free_at <= now]
            if due:
                self._free_at = now + round(self._gap * (1 + self._random.random()))
        for queued, packet in due:
            del self._queue[packet]
            self.sent[queued.kind] += 1
        return [(packet, queued.ports) for queued, packet in due]

    def next_deadline(self) -> int | None:
        """Return when the next packet can be sent, ns; None if the queue is empty."""
        if not self._queue:
            return None
        first = min(queued.due for queued in self._queue.values())
        return max(first, self._free_at) if self._gap else first
