"""The subscribing end of a feed: every item once, in order, verified."""

from random import Random

from forwarder.feedcache.cache import Chain
from forwarder.feedcache.items import Item, RejectedItem, open_item
from forwarder.lli.upstream import NEVER, Lli, Upstream
from forwarder.wire.feed import item_name, split_item
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import SENT_HOP_LIMIT, Data, make_interest


class Consumer:
    """Subscribes to one feed with a fixed send credit.

    Args:
        feed: the feed's name.
        after: the last item already held; the first to be delivered is the one after it.
        credit: items that the network may have under way to us at any time.
        lifetime_ms: InterestLifetime of each LLI.
        rng: source of nonces.

    Attributes:
        rejected: items refused, by reason.
    """

    def __init__(
        self, feed: bytes, *, rng: Random, after: int = 0, credit: int = 64, lifetime_ms: int = 60_000
    ) -> None:
        if credit < 1:
            raise ValueError(f"credit {credit}: a subscription needs a credit of at least 1")
        self.feed = feed
        self.credit = credit
        self.lifetime_ms = lifetime_ms
        self.rejected: dict[str, int] = {}
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
            self._send(Lli(self._upstream.next, 0, self.lifetime_ms))

    def receive(self, data: Data, header: LpPacket, now: int) -> None:
        """Take in a Data packet of the feed, with the NDNLPv2 header that it came with."""
        parts = split_item(data.name)
        if not self._open or parts is None or parts[0] != self.feed:
            return
        seq = parts[1]
        up = self._upstream
        if seq < up.next or seq > up.limit:
            return self._reject("duplicate" if seq < up.next else "unasked")
        try:
            item = open_item(self.feed, seq, data)
            if seq > up.next:
                return self._send(up.missed(seq, now))
            self._chain.extend(item)
        except RejectedItem as error:
            return self._reject(error.reason)
        if header.tip is not None:
            up.heard(header.tip)
        up.arrived(now)
        self._items.append(item)
        return self._renew(now)

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
        return self._upstream.deadline if self._open else None

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        if self._open:
            self._send(self._upstream.wake(now))

    def _renew(self, now: int) -> None:
        up = self._upstream
        self._send(up.want(up.next - 1 + self.credit, NEVER, now))

    def _send(self, lli: Lli | None) -> None:
        if lli is not None:
            self._outputs.append(
                make_interest(
                    item_name(self.feed, lli.first),
                    nonce=self._rng.getrandbits(32),
                    lifetime_ms=lli.lifetime_ms,
                    hop_limit=SENT_HOP_LIMIT,
                    send_credit=lli.credit,
                )
            )

    def _reject(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1
