"""Layerings `poll` and `long-lived`: an Interest for each of the next items, existing or not.

An item that is published while its Interest is pending is delivered at once. The two differ in lifetimes:

- `poll` (Tarr et al. 2019, section 4.3): Interests have a short lifetime and are repeated at its end.
  State is short-lived; an idle feed costs a window of Interests a lifetime.
- `long-lived`: Interests stay pending until the item exists. An idle feed costs next to nothing; but the loss
  of the last Interest, or of the last item, goes undetected. So the first pending Interest is repeated after
  a silence, at first as short as twice the time between items, then doubling.

Both repeat an Interest soon when a later item shows that its item exists.
"""

from collections.abc import Sequence
from random import Random

from base.timers import Timers
from base.units import MS
from forwarder.feedcache.items import read_data
from forwarder.lli.estimates import Window
from forwarder.wire.feed import item_name, split_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import DATA, SENT_HOP_LIMIT, Data, make_interest, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.inbox import Buffered, Inbox
from ssb_over_ndn.following.silence import Silence
from ssb_over_ndn.following.timeout import Timeout


class _Request:
    """A pending Interest.

    Attributes:
        sent: when it was sent, ns; None before the item is known to exist.
        is_again: whether it was repeated since then.
    """

    __slots__ = ("is_again", "sent")

    def __init__(self) -> None:
        self.sent: int | None = None
        self.is_again = False


class Lookahead(Buffered):
    """A Subscription that keeps Interests for the next items pending.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        window: items requested ahead of those taken by the application, at least 1.
        lifetime_ms: InterestLifetime.
        is_patient: whether Interests outlive silences, after which the first is repeated.
        after: the last item that the application has.
        hint: the Interests' forwarding hint.

    Raises ValueError for a window below 1.
    """

    def __init__(
        self,
        feed: bytes,
        *,
        rng: Random,
        window: int,
        lifetime_ms: int,
        is_patient: bool,
        after: int = 0,
        hint: Sequence[bytes] = (),
    ) -> None:
        super().__init__(Inbox(feed, window, after))
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._is_patient = is_patient
        self._hint = hint
        self._window = Window()
        self._timeout = Timeout()
        self._silence: Silence | None = None
        self._newest = 0  # the last item known to exist
        self._asked = after
        self._pending: dict[int, _Request] = {}  # in ascending order
        self._timers: Timers[int] = Timers()  # of their repetitions
        self._unsound: set[int] = set()  # items for which other Data arrived

    def start(self, now: int) -> None:
        self._is_open = True
        self._silence = Silence(now) if self._is_patient else None
        self._request_next(now)

    def stop(self, now: int) -> None:
        """See Subscription: NDN cannot cancel Interests, which stay pending until they expire."""
        self._is_open = False
        for seq in self._pending:
            self._timers.set(seq, None)
        self._pending.clear()
        self._asked = self._inbox.arrived

    def receive(self, header: LpPacket, now: int) -> None:
        if not self._is_open:
            return
        try:
            if header.nack_reason is not None:
                self._on_nack(parse_interest(header.fragment).name, now)
            elif header.fragment[:1] == bytes((DATA,)):
                self._on_data(read_data(header.fragment), header.congestion_mark, now)
        except MalformedPacket:
            return

    def next_deadline(self) -> int | None:
        deadline = self._timers.next_deadline()
        return deadline if deadline is None or self._silence is None else min(deadline, self._silence.due)

    def wake(self, now: int) -> None:
        if not self._is_open:
            return
        for seq in sorted(self._timers.expire(now)):
            if self._pending[seq].sent is not None:
                self._timeout.missed(now)
            self._express(seq, now)
        if self._silence is not None and self._silence.due <= now:
            self._silence.back_off(now)
            if self._pending:
                self._express(next(iter(self._pending)), now)
        self._request_next(now)

    def _on_data(self, data: Data, mark: int, now: int) -> None:
        parts = split_item(data.name)
        if parts is None or parts[0] != self._inbox.feed or parts[1] not in self._pending:
            return
        seq = parts[1]
        request = self._pending[seq]
        item = self._inbox.open(seq, data)
        if item is None:
            # Not at once: a content store would return the same.
            self._unsound.add(seq)
            self._timeout.missed(now)
            self._timers.set(seq, now + self._timeout.length)
            return
        self._inbox.put(item)
        del self._pending[seq]
        self._timers.set(seq, None)
        self._unsound.discard(seq)
        self._is_refused = False
        once = None if request.is_again else request.sent
        self._timeout.answered(None if once is None else now - once)
        if self._silence is not None:
            self._silence.restart(now, self._timeout.length)
        if self._inbox.forked_at is not None:
            self._errors.append("fork")
            self.stop(now)
            return
        if mark:
            self._window.congested(seq, self._inbox.capacity, self._asked)
        self._window.arrived(len(data.wire), self._inbox.capacity)
        self._note_newest(seq, now)
        self._request_next(now)

    def _note_newest(self, seq: int, now: int) -> None:
        """Shorten the time-outs of Interests for items before `seq`, as these exist."""
        if seq > self._newest:
            soon = now + self._timeout.rtt.reorder_delay()
            for earlier in range(max(self._newest, self._inbox.arrived) + 1, seq):
                due = self._timers.get(earlier)
                if due is not None and soon < due:
                    self._timers.set(earlier, soon)
            self._newest = seq

    def _on_nack(self, name: bytes, now: int) -> None:
        parts = split_item(name)
        if parts is not None and parts[1] in self._pending:
            self._timeout.missed(now)
            self._timers.set(parts[1], now + self._timeout.length)
            if not self._is_refused:
                self._is_refused = True
                self._errors.append("no-route")

    def _request_next(self, now: int) -> None:
        room = self._inbox.limit
        if self._window.size is not None:
            room = min(room, self._inbox.arrived + self._window.size)
        while self._is_open and self._asked < room:
            self._asked += 1
            self._pending[self._asked] = _Request()
            self._express(self._asked, now)

    def _express(self, seq: int, now: int) -> None:
        request = self._pending[seq]
        due = now + self._lifetime_ms * MS
        if seq < self._newest:
            request.is_again = request.sent is not None
            request.sent = now
            due = min(due, now + self._timeout.length)
        self._timers.set(seq, due)
        interest = make_interest(
            item_name(self._inbox.feed, seq),
            nonce=self._rng.getrandbits(32),
            # A cache with other Data may evict them sooner than the item.
            must_be_fresh=seq in self._unsound,
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
            forwarding_hint=self._hint,
        )
        self.outputs.append(interest)
