"""The publishing end, the same for every layering: a feed that grows on schedule and answers for itself."""

from collections.abc import Sequence

from forwarder.lli.producer import Producer
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Data, parse_data
from ssb.message import Message
from ssb_over_ndn.events import Event
from ssb_over_ndn.naming import hash_name, hash_packet, log_name, message_packet


class Publisher:
    """Publishes the messages of one feed, each at its time.

    Args:
        messages: the feed from its first message.
        times: when each comes into being, ns, ascending.
    """

    def __init__(self, messages: Sequence[Message], times: Sequence[int]) -> None:
        if not messages or len(messages) != len(times):
            raise ValueError(f"{len(messages)} messages and {len(times)} times: one each is needed")
        self.feed = log_name(messages[0].author)
        self._messages = messages
        self._times = times
        self._published: list[Data] = []
        self._by_hash: dict[bytes, Message] = {}
        self._producer = Producer(self.feed, self._get, lambda: len(self._published))
        self._events: list[Event] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest; anything else is ignored."""
        interest = open_interest(packet)
        if interest is None:
            return
        if message := self._by_hash.get(interest.name):
            self._outputs.append(hash_packet(message))
        else:
            self._producer.receive(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs = self._outputs + self._producer.take_outputs()
        self._outputs = []
        return outputs

    def take_events(self) -> list[Event]:
        """Return what was published since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> int | None:
        """Return when the next message is due, ns."""
        done = len(self._published)
        return self._times[done] if done < len(self._times) else None

    def wake(self, now: int) -> None:
        """Publish what is due."""
        while (due := self.next_deadline()) is not None and due <= now:
            message = self._messages[len(self._published)]
            self._published.append(parse_data(message_packet(message)))
            self._by_hash[hash_name(message.id)] = message
            self._events.append(Event(now, "published", message.sequence, len(message.encoded)))
            self._producer.appended(message.sequence, now)

    def _get(self, seq: int) -> Data | None:
        return self._published[seq - 1] if 1 <= seq <= len(self._published) else None
