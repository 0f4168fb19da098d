"""Layering `lli`: SSB feeds by controlled push (Tarr et al. 2019, section 4.5)."""

from random import Random

from forwarder.feedcache.items import Item
from forwarder.lli.consumer import Consumer
from forwarder.lli.credit import AdaptiveCredit
from forwarder.lli.upstream import Recovery
from forwarder.wire.evidence import Evidence
from forwarder.wire.lp import LpPacket


class LliSubscription:
    """The Subscription to one feed by long-lived Interests.

    Args:
        feed: the feed's name.
        rng: source of nonces.
        credit: items in flight; 0 to adapt to the path and the application.
        lifetime_ms: InterestLifetime of the LLIs.
        recovery: how the consumer requests missing items.
        after: the last item that the application has.
        is_relay: whether it passes the feed on, as an archive does.
    """

    def __init__(
        self,
        feed: bytes,
        *,
        rng: Random,
        credit: int,
        lifetime_ms: int,
        recovery: Recovery = Recovery.IN_NETWORK,
        after: int = 0,
        is_relay: bool = False,
    ) -> None:
        self._consumer = Consumer(
            feed,
            rng=rng,
            after=after,
            credit=credit or AdaptiveCredit(),
            lifetime_ms=lifetime_ms,
            recovery=recovery,
            is_relay=is_relay,
        )

    @property
    def evidence(self) -> Evidence | None:
        """The current evidence of a source."""
        return self._consumer.evidence if self._consumer.is_fed else None

    @property
    def forked_at(self) -> int | None:
        return self._consumer.fork.seq if self._consumer.fork is not None else None

    def start(self, now: int) -> None:
        self._consumer.start(now)

    def stop(self, now: int) -> None:
        self._consumer.cancel(now)

    def receive(self, header: LpPacket, now: int) -> None:
        self._consumer.receive(header, now)

    def take_items(self, limit: int | None = None) -> list[Item]:
        return self._consumer.take_items(limit)

    def take_errors(self) -> list[str]:
        return self._consumer.take_errors()

    def take_outputs(self) -> list[bytes]:
        return self._consumer.take_outputs()

    def next_deadline(self) -> int | None:
        return self._consumer.next_deadline()

    def wake(self, now: int) -> None:
        self._consumer.wake(now)

    def size(self) -> int:
        return self._consumer.size()
