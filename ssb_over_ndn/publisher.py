"""The publishing end: a feed that grows on schedule and answers for itself, the same for every layering.

What a layering needs besides (telling subscribers that there is something new) is its Announcer.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from forwarder.lli.producer import Producer
from forwarder.wire.lp import open_data, open_interest
from forwarder.wire.packet import Data, Interest, parse_data
from ssb.application import Event
from ssb.message import Message
from ssb_over_ndn.naming import (
    hash_name,
    hash_packet,
    log_name,
    message_packet,
    metadata_name,
    metadata_packet,
)


class Announcer(Protocol):
    """How a publisher lets its subscribers know; one feed."""

    def published(self, seq: int, item: Data, now: int) -> None:
        """Note that item `seq` has come into being."""
        ...

    def on_interest(self, interest: Interest, now: int) -> None:
        """Take in an Interest that is not for an item."""
        ...

    def on_data(self, data: Data, now: int) -> None:
        """Take in a Data packet."""
        ...

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        ...


class Publisher:
    """Publishes the messages of one feed, each at its time, and serves them by number and by hash.

    It also tells what the newest item is (see naming.metadata_packet).

    Args:
        messages: the feed from its first message.
        times: when each comes into being, ns, ascending.
        retain: serve only so many of the newest items; None for all.
        announcer: what tells the subscribers of new items; None if they find out by themselves.
        stop: when to end announcing, ns; None for never.

    Raises ValueError if there are no messages, not a time for each, or none to be retained.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        times: Sequence[int],
        *,
        retain: int | None = None,
        announcer: Announcer | None = None,
        stop: int | None = None,
    ) -> None:
        if not messages or len(messages) != len(times):
            raise ValueError(f"{len(messages)} messages and {len(times)} times: one each is needed")
        if retain is not None and retain < 1:
            raise ValueError(f"a publisher that retains {retain} items has nothing to serve")
        self.feed = log_name(messages[0].author)
        self._messages = messages
        self._times = times
        self._announcer = announcer
        self._stop = stop
        self._tip = 0
        self._held: deque[Data] = deque(maxlen=retain)  # the newest items, up to the tip
        self._by_hash: dict[bytes, Message] = {}
        self._producer = Producer(self.feed, self._get, lambda: self._tip, oldest=lambda: self._oldest)
        self._events: list[Event] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest, or pass on to the announcer what is not for an item."""
        interest = open_interest(packet)
        if interest is None:
            if self._announcer is not None and (opened := open_data(packet)):
                self._announcer.on_data(opened[0], now)
        elif message := self._by_hash.get(interest.name):
            self._outputs.append(hash_packet(message))
        elif interest.name == metadata_name(self.feed):
            self._outputs.append(metadata_packet(self.feed, self._tip))
        else:
            self._producer.receive(interest, now)
            if self._announcer is not None:
                self._announcer.on_interest(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs = self._outputs + self._producer.take_outputs()
        self._outputs = []
        if self._announcer is not None:
            outputs += self._announcer.take_outputs()
        return outputs

    def take_events(self) -> list[Event]:
        """Return what was published since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        """Return when something is due: a message, an announcement, or an end, ns."""
        due = [self._producer.next_deadline(), self._next_time()]
        if self._announcer is not None:
            due += [self._announcer.next_deadline(), self._stop]
        return min((time for time in due if time is not None), default=None)

    def wake(self, now: int) -> None:
        """Publish what is due, and forget what is over."""
        self._producer.wake(now)
        while (due := self._next_time()) is not None and due <= now:
            self._publish(self._messages[self._tip], now)
        if self._stop is not None and self._stop <= now:
            self._announcer = None
        if self._announcer is not None:
            self._announcer.wake(now)

    def _next_time(self) -> int | None:
        return self._times[self._tip] if self._tip < len(self._times) else None

    def _publish(self, message: Message, now: int) -> None:
        if len(self._held) == self._held.maxlen:
            del self._by_hash[hash_name(self._messages[self._oldest - 1].id)]
        item = parse_data(message_packet(message))
        self._tip = message.sequence
        self._held.append(item)
        self._by_hash[hash_name(message.id)] = message
        self._events.append(Event(now, "published", message.author, message.sequence, len(message.encoded)))
        self._producer.appended(message.sequence, now)
        if self._announcer is not None:
            self._announcer.published(message.sequence, item, now)

    @property
    def _oldest(self) -> int:
        return self._tip - len(self._held) + 1

    def _get(self, seq: int) -> Data | None:
        return self._held[seq - self._oldest] if self._oldest <= seq <= self._tip else None
