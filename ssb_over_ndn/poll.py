"""Layering `poll`: SSB over plain NDN by per-item polling (Tarr et al. 2019, section 4.3).

The subscriber keeps Interests for the next `window` items pending, whether these exist yet or not, and
repeats each when its lifetime ends. An item that is published while its Interest waits travels at once; a
lost packet costs one lifetime.
"""

from random import Random

from forwarder.feedcache.cache import Chain
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.wire.feed import item_name, split_item
from forwarder.wire.lp import open_data
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from ssb_over_ndn.events import Event

MS = 1_000_000


class PollSubscriber:
    """Follows one feed with classic Interests.

    Args:
        feed: the feed's name.
        start, stop: when to begin and to end polling, ns.
        window: items polled for at a time.
        lifetime_ms: InterestLifetime, and so the polling period.

    Raises ValueError for a window below 1.
    """

    def __init__(
        self, feed: bytes, *, start: int, stop: int, rng: Random, window: int, lifetime_ms: int
    ) -> None:
        if window < 1:
            raise ValueError(f"window {window}: polling needs a window of at least 1")
        self._feed = feed
        self._rng = rng
        self._start: int | None = start
        self._stop = stop
        self._window = window
        self._lifetime_ms = lifetime_ms
        self._chain = Chain()
        self._pending: dict[int, int] = {}  # item -> when its Interest ends
        self._early: dict[int, Item] = {}  # items that came before their turn
        self._asked = 0  # highest item asked for
        self._events: list[Event] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Take in a Data packet; anything else is ignored."""
        opened = open_data(packet)
        if opened is None:
            return
        data, _ = opened
        parts = split_item(data.name)
        if parts is None or parts[0] != self._feed or parts[1] not in self._pending:
            return
        seq = parts[1]
        try:
            self._early[seq] = open_item(self._feed, seq, data)
        except RejectedItem:
            return
        del self._pending[seq]
        self._deliver(now)
        self._ask(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def take_events(self) -> list[Event]:
        """Return what was delivered since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._start is not None:
            return self._start
        return min(self._pending.values(), default=None)

    def wake(self, now: int) -> None:
        """Begin, or poll again for what has not come."""
        if self._start is not None and self._start <= now:
            self._start = None
        ended = [seq for seq, expiry in self._pending.items() if expiry <= now]
        for seq in ended:
            del self._pending[seq]
        if now >= self._stop:
            return
        for seq in ended:
            self._poll(seq, now)
        self._ask(now)

    def _deliver(self, now: int) -> None:
        while item := self._early.pop(self._chain.tip + 1, None):
            try:
                self._chain.extend(item)
            except RejectedItem:
                # Not at once: a content store would answer at once with the same.
                self._pending[item.seq] = now + self._lifetime_ms * MS
                return
            self._events.append(Event(now, "delivered", item.seq, len(item.message)))

    def _ask(self, now: int) -> None:
        if self._start is None and now < self._stop:
            while self._asked < self._chain.tip + self._window:
                self._asked += 1
                self._poll(self._asked, now)

    def _poll(self, seq: int, now: int) -> None:
        self._pending[seq] = now + self._lifetime_ms * MS
        self._outputs.append(
            make_interest(
                item_name(self._feed, seq),
                nonce=self._rng.getrandbits(32),
                lifetime_ms=self._lifetime_ms,
                hop_limit=SENT_HOP_LIMIT,
            )
        )
