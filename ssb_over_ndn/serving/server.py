"""Serving one feed: items by number, the newest item's number, and announcements of new items."""

from collections.abc import Callable

from base.passive import Outputs
from base.timers import earliest
from forwarder.lli.producer import Producer
from forwarder.wire.packet import Data, Interest
from ssb_over_ndn.naming import metadata_name, metadata_packet


class Announcer(Outputs):
    """Announces one feed's new items to subscribers; the default methods announce nothing."""

    def published(self, seq: int, item: Data, now: int) -> None:
        """Announce item `seq`; the first call is for the feed's first item."""

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive an Interest that is not for an item."""

    def on_data(self, data: Data, now: int) -> None:
        """Receive a Data packet."""

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return None

    def wake(self, now: int) -> None:
        """Process a deadline."""

    def stop(self) -> None:
        """End."""

    def size(self) -> int:
        """Return the bytes that this end of the feed's protocol holds: docs/architecture.md, State."""
        return 0


class FeedServer:
    """Serves a feed, the same for every layering.

    Args:
        feed: the feed's name.
        get: returns an item's packet by sequence number, None if it is not here.
        tip: returns the newest item's sequence number, 0 if there is none.
        oldest: returns the oldest item's sequence number that is here.
        announcer: announces new items to subscribers; None without.
    """

    def __init__(
        self,
        feed: bytes,
        get: Callable[[int], Data | None],
        tip: Callable[[], int],
        *,
        oldest: Callable[[], int] = lambda: 1,
        announcer: Announcer | None = None,
    ) -> None:
        self.feed = feed
        self._tip = tip
        self._producer = Producer(feed, get, tip, oldest=oldest)
        self._announcer = announcer
        self._expiry: int | None = None  # of what waits at the producer, ns
        self._outputs: list[bytes] = []
        self._items: list[bytes] = []  # the producer's packets

    def appended(self, seq: int, item: Data, now: int) -> None:
        """Push or announce a new item."""
        self._producer.appended(seq, now)
        self._follow_up()
        if self._announcer is not None:
            self._announcer.published(seq, item, now)

    def end_announcing(self) -> None:
        """Stop announcing."""
        if self._announcer is not None:
            self._announcer.stop()
        self._announcer = None

    def on_interest(self, interest: Interest, now: int) -> None:
        """Answer an Interest under the feed's name, or pass it to the announcer."""
        if interest.name == metadata_name(self.feed):
            self._outputs.append(metadata_packet(self.feed, self._tip()))
        else:
            self._producer.receive(interest, now)
            self._follow_up()
            if self._announcer is not None:
                self._announcer.on_interest(interest, now)

    def on_data(self, data: Data, now: int) -> None:
        """Pass a Data packet to the announcer."""
        if self._announcer is not None:
            self._announcer.on_data(data, now)

    def size(self) -> int:
        """Return the bytes of state of the announcer, and of ranges: see Announcer."""
        return self._producer.size() + (0 if self._announcer is None else self._announcer.size())

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs = self._outputs + self._items
        if outputs:
            self._outputs, self._items = [], []
        if self._announcer is not None:
            outputs += self._announcer.take_outputs()
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if self._announcer is None:
            return self._expiry
        return earliest(self._expiry, self._announcer.next_deadline())

    def wake(self, now: int) -> None:
        """Remove expired Interests, and send due announcements."""
        self._producer.wake(now)
        self._follow_up()
        if self._announcer is not None:
            self._announcer.wake(now)

    def _follow_up(self) -> None:
        """Collect the producer's packets and deadline after any call that may have changed them."""
        self._items += self._producer.take_outputs()
        self._expiry = self._producer.next_deadline()
