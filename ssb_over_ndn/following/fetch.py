"""Fetching existing, numbered packets (items or segments) by Interests under a congestion window.

The window is that of ndncatchunks' AIMD pipeline: slow start, then additive increase and multiplicative
decrease (RFC 5681), one decrease a round trip, for a loss as for a congestion mark (RFC 3168). An Interest
counts as lost when its retransmission time-out (RFC 6298) expires; retransmissions precede new Interests.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from typing import Protocol, TypeVar

from base.passive import Outputs
from base.timers import Timers
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, make_interest
from ssb_over_ndn.following.timeout import Timeout


class CongestionWindow:
    """Congestion window: Interests that may be in flight.

    Attributes:
        size: Interests; rounded down.
    """

    INITIAL = 2.0

    def __init__(self) -> None:
        self.size = self.INITIAL
        self._threshold = float("inf")
        self._until = 0

    def arrived(self, in_flight: int) -> None:
        """Grow after an answer, if the window was the limit; `in_flight` includes the answered Interest."""
        if in_flight >= int(self.size):
            self.size += 1 if self.size < self._threshold else 1 / self.size

    def congested(self, now: int, rtt: int) -> None:
        """Halve, at most once a round trip (ns)."""
        if now >= self._until:
            self.size = self._threshold = max(self.size / 2, self.INITIAL)
            self._until = now + rtt


class _Request:
    """An Interest in flight: when it was sent, ns, and whether it is a retransmission."""

    __slots__ = ("is_again", "is_refused", "sent")

    def __init__(self, sent: int, is_again: bool) -> None:
        self.sent = sent
        self.is_again = is_again
        self.is_refused = False  # by a Nack or by other Data: no loss


_Opened = TypeVar("_Opened")


class Box(Protocol[_Opened]):
    """Receiver of packets numbered from 1; "item" stands for any such packet."""

    @property
    def arrived(self) -> int:
        """The last item that has arrived with all before it."""
        ...

    @property
    def limit(self) -> int:
        """The last item with room in the buffer."""
        ...

    def name(self, seq: int) -> bytes:
        """Return an item's name."""
        ...

    def lacks(self, seq: int) -> bool:
        """Return whether an item is lacking, and has room."""
        ...

    def open(self, seq: int, data: Data) -> _Opened | None:
        """Return the item in a Data packet with its name; None if the packet has other content."""
        ...

    def put(self, item: _Opened) -> None:
        """Add an item; drop it if it is not lacking, or has no room."""
        ...


class Fetcher(Outputs):
    """Fetches items up to the newest known one, within the buffer's room.

    Args:
        inbox: the receiver.
        rng: source of nonces.
        lifetime_ms: InterestLifetime.
        hint: the Interests' forwarding hint.
        must_be_fresh: whether caches may answer with fresh packets only.

    Attributes:
        tip: the newest item known to exist.
    """

    def __init__(
        self,
        inbox: Box[_Opened],
        *,
        rng: Random,
        lifetime_ms: int,
        hint: Sequence[bytes] = (),
        must_be_fresh: bool = False,
    ) -> None:
        super().__init__()
        self.tip = 0
        self.window = CongestionWindow()
        self._timeout = Timeout()
        self._inbox = inbox
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._hint = hint
        self._must_be_fresh = must_be_fresh
        self._asked = 0  # all up to here have been requested, or have arrived
        self._flying: dict[int, _Request] = {}
        self._timers: Timers[int] = Timers()  # of items in flight
        self._lost: list[int] = []  # items, a heap
        self._unsound: set[int] = set()  # items for which other Data arrived

    def on_item(self, seq: int, data: Data, mark: int, now: int) -> bool:
        """Receive Data with an item's name, and their CongestionMark; return whether they are the item."""
        item = self._inbox.open(seq, data)
        request = self._flying.get(seq)
        if item is None:
            if request is not None:
                self._unsound.add(seq)
                request.is_refused = True
            return False
        self._inbox.put(item)
        self._unsound.discard(seq)
        if request is not None:
            self._timeout.answered(None if request.is_again else now - request.sent)
            self.window.arrived(len(self._flying))
            self._end(seq)
        if mark:
            self.window.congested(now, self._timeout.round_trip)
        return True

    def on_nack(self, seq: int) -> None:
        """Record a Nack of an item's Interest, which is repeated after its time-out."""
        if seq in self._flying:
            self._flying[seq].is_refused = True

    def request(self, now: int) -> None:
        """Request known items as far as room and window allow."""
        last = min(self.tip, self._inbox.limit)
        self._asked = max(self._asked, self._inbox.arrived)
        while len(self._flying) < int(self.window.size):
            is_again = bool(self._lost)
            if is_again:
                seq = heappop(self._lost)
            elif self._asked < last:
                seq = self._asked = self._asked + 1
            else:
                break
            if seq <= last and self._inbox.lacks(seq):
                self._send(seq, is_again, now)

    def stop(self) -> None:
        """Drop the requests."""
        self._asked = self._inbox.arrived
        for seq in list(self._flying):
            self._end(seq)
        self._lost.clear()

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> None:
        """Time out unanswered requests; request() repeats them."""
        for seq in self._timers.expire(now):
            request = self._flying.pop(seq)
            heappush(self._lost, seq)
            self._timeout.missed(now)
            if not request.is_refused:
                self.window.congested(now, self._timeout.round_trip)

    def _end(self, seq: int) -> None:
        del self._flying[seq]
        self._timers.set(seq, None)

    def _patience(self) -> int:
        """Return how long to wait for an answer, ns: at least an eighth more than a round trip, so that a
        packet in several fragments, or behind others of the window, is not taken for lost.
        """
        return max(self._timeout.length, 9 * (self._timeout.rtt.smoothed or 0) // 8)

    def _send(self, seq: int, is_again: bool, now: int) -> None:
        self._flying[seq] = _Request(now, is_again)
        self._timers.set(seq, now + self._patience())
        interest = make_interest(
            self._inbox.name(seq),
            nonce=self._rng.getrandbits(32),
            # A cache with other Data may evict them sooner than the item.
            must_be_fresh=self._must_be_fresh or seq in self._unsound,
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
            forwarding_hint=self._hint,
        )
        self.outputs.append(interest)
