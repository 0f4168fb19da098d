"""A storage provider: devices upload their logs to it, and it serves them under the logs' own names."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Data, Interest, parse_data
from forwarder.wire.parameters import parameters_of
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.inbox import Inbox
from ssb_over_ndn.mapping.messages import encode_tip, make_answer, read_put_name
from ssb_over_ndn.naming import log_name, read_log_name
from ssb_over_ndn.serving.server import FeedServer
from ssb_over_ndn.serving.servers import Servers

MOST_FEEDS: Final = 100_000
_AHEAD: Final = 64
"""Items accepted beyond a gap."""


class _Log:
    """The stored items of one feed."""

    def __init__(self, feed: bytes) -> None:
        self.items: list[Data] = []
        self.size = 0
        self._inbox = Inbox(feed, _AHEAD)

    def put(self, seq: int, data: Data) -> str:
        """Receive an item's packet, for take(); return why it is refused, "" if accepted."""
        if self._inbox.forked_at is not None:
            return "forked"
        if seq <= len(self.items):
            return "" if self.items[seq - 1].content == data.content else self._refuse_other(seq, data)
        item = self._inbox.open(seq, data)
        if item is None:
            return "forged"
        if seq > self._inbox.limit:
            return "ahead"
        self._inbox.put(item)
        return ""

    def take(self) -> Iterator[tuple[int, Data]]:
        """Store the received items up to the first gap; yield their numbers and packets."""
        for each in self._inbox.take():
            self.items.append(each.data)
            self.size += len(each.message)
            yield each.seq, each.data

    def get(self, seq: int) -> Data | None:
        """Return an item's packet; None if it is not stored."""
        return self.items[seq - 1] if 1 <= seq <= len(self.items) else None

    def _refuse_other(self, seq: int, data: Data) -> str:
        return "forged" if self._inbox.open(seq, data) is None else "forked"


class Storage:
    """An application that stores the logs of devices, and serves them.

    An item proves its author, so uploads are open to all. A stored log is complete from the first item
    on. Of a forked log the first upload stays.

    Args:
        capacity: most feeds.

    Attributes:
        refused: refused uploads, by reason: "format", "forged", "forked", "ahead" of what is
            missing, "full".
    """

    def __init__(self, capacity: int = MOST_FEEDS) -> None:
        self._capacity = capacity
        self._logs: dict[str, _Log] = {}
        self._servers: Servers[str] = Servers()
        self.refused: Counter[str] = Counter()
        self._outputs: list[bytes] = []

    @property
    def messages(self) -> int:
        """Stored items."""
        return sum(len(log.items) for log in self._logs.values())

    @property
    def size(self) -> int:
        """Bytes of the stored messages."""
        return sum(log.size for log in self._logs.values())

    def tip(self, author: str) -> int:
        """Return the number of a feed's last stored item, 0 if there is none."""
        log = self._logs.get(author)
        return 0 if log is None else len(log.items)

    def messages_of(self, author: str) -> list[bytes]:
        """Return the contents of a feed's stored items, from the first."""
        log = self._logs.get(author)
        return [] if log is None else [item.content for item in log.items]

    def receive(self, packet: bytes, now: int) -> None:
        """Receive an upload, or an Interest for a feed."""
        interest = open_interest(packet)
        if interest is None:
            return
        author = read_put_name(interest.name)
        if author is not None:
            self._on_put(author, interest, now)
            return
        author = read_log_name(interest.name)
        if author is not None:
            self._servers.on_interest(author, interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._servers.take_outputs() + self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._servers.next_deadline()

    def wake(self, now: int) -> None:
        """Remove expired requests."""
        self._servers.wake(now)

    def _on_put(self, author: str, interest: Interest, now: int) -> None:
        reason = self._store(author, parameters_of(interest), now)
        if reason:
            self.refused[reason] += 1
        if reason != "forged":  # a forger gets no answer
            self._outputs.append(make_answer(interest, encode_tip(self.tip(author))))

    def _store(self, author: str, packet: bytes | None, now: int) -> str:
        if packet is None:
            return "format"
        if not packet:
            return ""  # a query of the last item
        try:
            data = parse_data(packet)
        except MalformedPacket:
            return "format"
        parts = split_item(data.name)
        if parts is None or parts[0] != log_name(author):
            return "format"
        log = self._logs.get(author)
        if log is None:
            if len(self._logs) >= self._capacity:
                return "full"
            log = _Log(parts[0])
        reason = log.put(parts[1], data)
        if reason:
            return reason
        if author not in self._logs:
            self._logs[author] = log
            items = log.items
            self._servers.add(author, FeedServer(parts[0], log.get, lambda: len(items)))
        for seq, item in log.take():
            self._servers.appended(author, seq, item, now)
        return ""
