"""The publishing end: a feed that grows on schedule and is served in the same way by every layering."""

from collections import deque
from collections.abc import Callable, Sequence

from base.timers import earliest
from forwarder.wire.lp import open_data, open_interest
from forwarder.wire.packet import Data, parse_data
from ssb.application import Event
from ssb.message import Message
from ssb.store.blobs import BlobStore
from ssb.work import WORK
from ssb_over_ndn.naming import (
    hash_name,
    hash_packet,
    log_name,
    message_packet,
    segment_packet,
    split_segment,
)
from ssb_over_ndn.serving.server import Announcer, FeedServer


class Publisher:
    """Publishes the messages of one feed, each at its time, and serves them by number and by hash, and blobs.

    It also serves the number of the newest item (see naming.metadata_packet).

    Args:
        messages: the feed from its first message.
        times: when each is published, ns, ascending.
        retain: number of newest items to serve; None for all.
        announcer: announces new items to subscribers, if any.
        stop: when to end announcing, ns; None for never.
        packet: message -> its Data packet.
        blobs: those to serve to Interests that come here by a forwarding hint; None for none.

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
        packet: Callable[[Message], bytes] = message_packet,
        blobs: BlobStore | None = None,
    ) -> None:
        if not messages or len(messages) != len(times):
            raise ValueError(f"{len(messages)} messages and {len(times)} times: one each is needed")
        if retain is not None and retain < 1:
            raise ValueError(f"a publisher that retains {retain} items has nothing to serve")
        self.feed = log_name(messages[0].author)
        self._messages = messages
        self._times = times
        self._packet = packet
        self._blobs = blobs
        self._stop = stop if announcer is not None else None
        self._tip = 0
        self._held: deque[Data] = deque(maxlen=retain)  # the newest items, up to the tip
        self._by_hash: dict[bytes, Message] = {}
        self._server = FeedServer(
            self.feed, self._get, lambda: self._tip, oldest=lambda: self._oldest, announcer=announcer
        )
        self._size: int | None = None  # of the server's state; None: to be counted again
        self._events: list[Event] = []
        self._outputs: list[bytes] = []

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest, or receive an answer to an announcement."""
        self._size = None
        interest = open_interest(packet)
        if interest is None:
            if opened := open_data(packet):
                self._server.on_data(opened[0], now)
        elif message := self._by_hash.get(interest.name):
            self._outputs.append(hash_packet(message))
        elif self._blobs is not None and (segment := split_segment(interest.name)):
            found = segment_packet(self._blobs, *segment)
            self._outputs += [] if found is None else [found]
        else:
            self._server.on_interest(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs = self._server.take_outputs()
        if self._outputs:
            outputs = self._outputs + outputs
            self._outputs = []
        return outputs

    def take_events(self) -> list[Event]:
        """Return the items published since the last call."""
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        """Return the feeds with state at this end, and its bytes: docs/architecture.md, State."""
        if self._size is None:
            self._size = self._server.size()
        return bool(self._size), self._size

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._server.next_deadline(), self._next_time(), self._stop)

    def wake(self, now: int) -> None:
        """Publish due items, and process the server's deadlines."""
        self._size = None
        while (due := self._next_time()) is not None and due <= now:
            self._publish(self._messages[self._tip], now)
        if self._stop is not None and self._stop <= now:
            self._stop = None
            self._server.end_announcing()
        self._server.wake(now)

    def _next_time(self) -> int | None:
        return self._times[self._tip] if self._tip < len(self._times) else None

    def _publish(self, message: Message, now: int) -> None:
        if len(self._held) == self._held.maxlen:
            del self._by_hash[hash_name(self._messages[self._oldest - 1].id)]
        item = parse_data(self._packet(message))
        WORK.sign += 1  # what is published here was signed before the run
        self._tip = message.sequence
        self._held.append(item)
        self._by_hash[hash_name(message.id)] = message
        self._events.append(Event(now, "published", message.author, message.sequence, len(message.encoded)))
        self._server.appended(message.sequence, item, now)

    @property
    def _oldest(self) -> int:
        return self._tip - len(self._held) + 1

    def _get(self, seq: int) -> Data | None:
        return self._held[seq - self._oldest] if self._oldest <= seq <= self._tip else None
