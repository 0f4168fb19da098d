"""The subscribing end of a feed: every item once, in order, verified."""

from collections import Counter
from random import Random

from forwarder.feedcache.cache import Chain
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.lli.upstream import NEVER, Lli, Upstream
from forwarder.wire.feed import split_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import Data


class Consumer:
    """Subscribes to one feed with a fixed send credit.

    Args:
        feed: the feed's name.
        after: the last item already held; the first to be delivered is the one after it.
        credit: items that the network may have under way to us at any time.
        lifetime_ms: InterestLifetime of each LLI.
        rng: source of nonces.

    Raises ValueError for a credit below 1.

    Attributes:
        rejected: items refused, by reason.
    """

    def __init__(self, feed: bytes, *, rng: Random, after: int = 0, credit: int, lifetime_ms: int) -> None:
        if credit < 1:
            raise ValueError(f"credit {credit}: a subscription needs a credit of at least 1")
        self.feed = feed
        self.credit = credit
        self.lifetime_ms = lifetime_ms
        self.rejected: Counter[str] = Counter()
        self._rng = rng
        self._upstream = Upstream(after + 1, lifetime_ms)
        self._chain = Chain(after)
        self._open = False
        self._outputs: list[bytes] = []
        self._items: list[Item] = []

    def start(self, now: int) -> None:
        """Subscribe."""
        self._open = True
        self._renew(now)

    def cancel(self, now: int) -> None:
        """End the subscription, upstream too."""
        if self._open:
            self._open = False
            self._send(self._upstream.cancel(now))

    def receive(self, data: Data, header: LpPacket, now: int) -> None:
        """Take in a Data packet of the feed, with the NDNLPv2 header that it came with."""
        parts = split_item(data.name)
        if not self._open or parts is None or parts[0] != self.feed:
            return
        seq = parts[1]
        up = self._upstream
        if seq < up.next or seq > up.limit:
            self.rejected["duplicate" if seq < up.next else "unasked"] += 1
            return
        try:
            item = open_item(self.feed, seq, data)
            if seq > up.next:
                self._send(up.missed(seq, now))
                return
            self._chain.extend(item)
        except RejectedItem as error:
            self.rejected[error.reason] += 1
            return
        if header.tip is not None:
            up.heard(header.tip)
        up.arrived(now)
        self._items.append(item)
        self._renew(now)

    def take_items(self) -> list[Item]:
        """Return the items that have become deliverable."""
        items, self._items = self._items, []
        return items

    def take_outputs(self) -> list[bytes]:
        """Return the Interests to be sent."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        deadline = self._upstream.deadline
        return deadline if self._open and deadline != NEVER else None

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        if self._open:
            self._send(self._upstream.wake(now))

    def _renew(self, now: int) -> None:
        up = self._upstream
        self._send(up.want(up.next - 1 + self.credit, NEVER, now))

    def _send(self, lli: Lli | None) -> None:
        if lli is not None:
            self._outputs.append(lli.packet(self.feed, self._rng.getrandbits(32)))
