"""Layering `lli`: SSB feeds by controlled push (Tarr et al. 2019, section 4.5)."""

from random import Random

from forwarder.lli.consumer import Consumer
from forwarder.wire.lp import open_data
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
        self, feed: bytes, *, start: int, stop: int, rng: Random, credit: int, lifetime_ms: int
    ) -> None:
        self._consumer = Consumer(feed, rng=rng, credit=credit, lifetime_ms=lifetime_ms)
        self._start: int | None = start
        self._stop: int | None = stop
        self._events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Take in a Data packet; anything else is ignored."""
        opened = open_data(packet)
        if opened is None:
            return
        self._consumer.receive(*opened, now)
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
        due = (self._start, self._stop, self._consumer.next_deadline())
        return min((d for d in due if d is not None), default=None)

    def wake(self, now: int) -> None:
        """Subscribe, cancel, or let the consumer act."""
        if self._start is not None and self._start <= now:
            self._start = None
            self._consumer.start(now)
        if self._stop is not None and self._stop <= now:
            self._stop = None
            self._consumer.cancel(now)
        self._consumer.wake(now)
