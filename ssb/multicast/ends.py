"""The ends of a channel: a source with its log, and a reader."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from base.units import MS, SECOND
from ssb.multicast.gaps import Gaps, Patience
from ssb.multicast.packets import (
    FIRST,
    LAST,
    MOST_BEFORE,
    Channel,
    Heartbeat,
    Item,
    Join,
    Packet,
    Prune,
    Request,
    Segment,
    requests,
)

MOST_REPAIRED: Final = 256
"""Segments that one request gets."""


class Beats(NamedTuple):
    """Pauses before heartbeats, ns: the first one after an item; each further one is twice as long, up to the
    last.
    """

    first: int = 100 * MS
    last: int = 30 * SECOND


def segments(item: bytes, size: int) -> Iterator[Segment]:
    """Yield the segments of an item, each of `size` bytes at most."""
    for at in range(0, len(item), size):
        place = (FIRST if at == 0 else 0) | (LAST if at + size >= len(item) else 0)
        yield Segment(place, item[at : at + size])


class Source:
    """The source of a channel. It sends while the first router has readers.

    Args:
        channel: its.
        size: bytes of a segment, at most; the same whenever the source starts.
        log: items from before a restart.
        retain: newest items that it keeps; None for all.
        beats: see Beats.

    Attributes:
        outputs: packets for the router.
    """

    def __init__(
        self,
        channel: Channel,
        size: int,
        log: Sequence[bytes] = (),
        retain: int | None = None,
        beats: Beats = Beats(),  # noqa: B008 - a tuple
    ) -> None:
        self.outputs: list[Packet] = []
        self._channel = channel
        self._size = size
        self._retain = retain
        self._beats = beats
        self._kept: dict[int, Segment] = {}
        self._begins: list[int] = []  # the first segment of each kept item
        self._oldest, self._newest = 1, 0
        self._is_joined = False
        self._beat_at: int | None = None
        self._pause = beats.first
        for item in log:
            self._append(item)

    def publish(self, item: bytes, now: int) -> None:
        """Send an item, if there are readers; keep it in any case."""
        for number in self._append(item):
            if self._is_joined:
                self.outputs.append(Item(self._channel, number, MOST_BEFORE, self._kept[number]))
        self._pause = self._beats.first
        self._set_beat(now)

    def receive(self, packet: Packet, now: int) -> None:
        """Process a packet of the router: joins, prunes and requests."""
        if isinstance(packet, Join):
            self._is_joined = True
            self.outputs.append(self._heartbeat())
            if self._beat_at is None:
                self._set_beat(now)
        elif isinstance(packet, Prune):
            self._is_joined = False
            self._beat_at = None
        elif isinstance(packet, Request):
            self._repair(packet)

    def next_deadline(self) -> int | None:
        """Return when the next heartbeat is due, ns."""
        return self._beat_at

    def wake(self, now: int) -> None:
        """Send a heartbeat, if it is due."""
        if self._beat_at is not None and now >= self._beat_at:
            self.outputs.append(self._heartbeat())
            self._pause = min(2 * self._pause, self._beats.last)
            self._set_beat(now)

    def _append(self, item: bytes) -> range:
        begin = self._newest + 1
        for segment in segments(item, self._size):
            self._newest += 1
            self._kept[self._newest] = segment
        self._begins.append(begin)
        if self._retain is not None and len(self._begins) > self._retain:
            del self._begins[0]
            for number in range(self._oldest, self._begins[0]):
                del self._kept[number]
            self._oldest = self._begins[0]
        return range(begin, self._newest + 1)

    def _set_beat(self, now: int) -> None:
        self._beat_at = now + self._pause if self._is_joined else None

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(self._channel, self._oldest, self._newest)

    def _repair(self, request: Request) -> None:
        for number in asked(request, self._newest):
            if number < self._oldest:
                self.outputs.append(self._heartbeat())
                return
            self.outputs.append(Item(self._channel, number, MOST_BEFORE, self._kept[number], is_repair=True))


def asked(request: Request, newest: int) -> Iterator[int]:
    """Yield the segments of a request that can exist, MOST_REPAIRED at most."""
    left = MOST_REPAIRED
    for first, count in request.ranges:
        for number in range(first, min(first + count, newest + 1, first + left)):
            left -= 1
            yield number


class Gone(NamedTuple):
    """Segments that nobody has any longer: the first and the last."""

    first: int
    last: int


class Reader:
    """A reader of a channel: all items from one on, in order.

    Args:
        channel: its.
        floor: the segments up to it are here; 0 for none.
        patience: see Patience.

    Attributes:
        outputs: packets for the router.
        items: what has come, in order: items, and in place of some that they are gone.
    """

    def __init__(self, channel: Channel, floor: int, patience: Patience) -> None:
        self.outputs: list[Packet] = [Join((channel,))]
        self.items: list[bytes | Gone] = []
        self.gaps = Gaps(floor, patience)
        self._channel = channel
        self._next = floor + 1
        self._early: dict[int, Segment] = {}
        self._parts: list[bytes] = []

    def receive(self, packet: Packet, now: int) -> None:
        """Process a packet of the router: items and heartbeats."""
        if isinstance(packet, Item):
            if self.gaps.take(packet.number, packet.before, now):
                self._early[packet.number] = packet.segment
                self._deliver()
        elif isinstance(packet, Heartbeat):
            if packet.oldest > self._next:
                self._give_up(packet.oldest)
            self.gaps.learn(packet.newest, packet.before, now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self.gaps.next_deadline()

    def wake(self, now: int) -> None:
        """Ask for what lacks."""
        self.outputs += requests(self._channel, self.gaps.ask(now))

    def _deliver(self) -> None:
        while (segment := self._early.pop(self._next, None)) is not None:
            self._next += 1
            if segment.place & FIRST:
                self._parts.clear()
            elif not self._parts:
                continue  # its item's first segment is gone
            self._parts.append(segment.content)
            if segment.place & LAST:
                self.items.append(b"".join(self._parts))
                self._parts.clear()

    def _give_up(self, oldest: int) -> None:
        """Say what is gone; deliver what is here of it."""
        self.gaps.forget(oldest)
        while self._next < oldest:
            ahead = min((each for each in self._early if each < oldest), default=oldest)
            if self._next < ahead:
                self._parts.clear()
                self.items.append(Gone(self._next, ahead - 1))
                self._next = ahead
            self._deliver()
        self._deliver()
