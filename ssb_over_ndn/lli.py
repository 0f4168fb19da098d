"""Layering `lli`: SSB feeds by controlled push (Tarr et al. 2019, section 4.5)."""

from random import Random

from forwarder.lli.consumer import Consumer
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import DATA, parse_data
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.events import Event


class LliSubscriber:
    """Follows one feed with long-lived Interests.

    Args:
        feed: the feed's name.
        start, stop: when to subscribe and to cancel, ns.
        credit: items that may be under way.
        lifetime_ms: InterestLifetime of the LLIs.
    """

    def __init__(
        self, feed: bytes, *, start: int, stop: int, rng: Random, credit: int = 64, lifetime_ms: int = 60_000
    ) -> None:
        self._consumer = Consumer(feed, rng=rng, credit=credit, lifetime_ms=lifetime_ms)
        self._due = [stop, start]
        self._events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Take in a Data packet; anything else is ignored."""
        try:
            header = parse_lp(packet)
            if header.nack_reason is not None or header.fragment[:1] != bytes((DATA,)):
                return
            data = parse_data(header.fragment)
        except MalformedPacket:
            return
        self._consumer.receive(data, header, now)
        for item in self._consumer.take_items():
            self._events.append(Event(now, "delivered", item.seq, len(item.message)))

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return self._consumer.take_outputs()

    def take_events(self) -> list[Event]:
        """Return what was delivered since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        own = self._due[-1] if self._due else None
        consumer = self._consumer.next_deadline()
        return min((d for d in (own, consumer) if d is not None), default=None)

    def wake(self, now: int) -> None:
        """Subscribe, cancel, or let the consumer act."""
        while self._due and self._due[-1] <= now:
            self._due.pop()
            if self._due:
                self._consumer.start(now)
            else:
                self._consumer.cancel(now)
        consumer = self._consumer.next_deadline()
        if consumer is not None and consumer <= now:
            self._consumer.wake(now)
