"""The line between two sides of a contract: NDN packets in transient feeds, one chain of feeds each way.

Seed 000, section 9.5: Interests "could be delivered through log replication of transient SSB IDs". A feed
can only grow, and has to be kept as long as its end is needed. So a side writes a fixed number of
messages to a feed, continues in the next one, and deletes the first once the other side acknowledges
all of it. Seed 004 calls this feed hopping.

Packets make a stream of bytes, which is split into messages of type `ndn-packets`:

| field | content |
|---|---|
| packets | bytes of the stream, base64; may be missing |
| next | the feed after this one: in the first message of each feed, so that the reader requests it in time |
| read | how many feeds the writer has read completely, if that has changed |

Packets are queued while the connection is busy, and then written in as few messages as possible:
under load, a message has many.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from forwarder.links.framing import LARGEST_FRAME, cut
from forwarder.wire.tlv import MalformedPacket
from ndn_over_ssb.contract import Terms
from ssb.keys import Identity, InvalidRef, decode_base64, encode_base64, parse_feed
from ssb.message import Message
from ssb.peer.peer import Peer
from ssb.store.feeds import FeedStore

PACKETS: Final = "ndn-packets"
"""The type of messages."""
ROOM: Final = 5_600
"""Most bytes of packets in a message: in base64, with the other fields, fewer than 8,192 letters."""
QUEUE: Final = 256 * 1024
"""Most bytes queued for the other side, without those in feeds."""

_MOST_NS = 1e18  # between two peers' clocks
_BURST = 1_000  # packets parsed at once; a message has fewer


class Passage(NamedTuple):
    """A packet written to a line, or read from it.

    Attributes:
        time: ns.
        is_read: whether it was read, not written.
        packet: bare, or an LpPacket.
        message: the one with its end.
        duration: from put() to the writing, or from there to the reading, ns.
    """

    time: int
    is_read: bool
    packet: bytes
    message: Message
    duration: int


class LineError(ValueError):
    """The other side has violated the protocol of lines; the message has the reason."""


class Line:
    """One side of a contract's line.

    Args:
        peer, feeds: of this side.
        partner: the other side.
        terms: the contract's.
        identities: number -> the identity of this side's transient feed of that number, from 0; the first
            one is shared with the partner already.
        incoming: the other side's first feed.
        now: the time, ns.
        watch: called with each packet written or read.

    Attributes:
        terms: the contract's.
        dropped: packets dropped at a full queue.
        written: messages, and
        carried: bytes of packets in them.
    """

    def __init__(
        self,
        peer: Peer,
        feeds: FeedStore,
        partner: str,
        terms: Terms,
        identities: Callable[[int], Identity],
        incoming: str,
        now: int,
        watch: Callable[[Passage], None] = lambda passage: None,
    ) -> None:
        self._peer = peer
        self._watch = watch
        self._feeds = feeds
        self._partner = partner
        self.terms = terms
        self._identities = identities
        self._own: deque[str] = deque()  # feeds not completely acknowledged; the last one is open
        self._next = identities(0)
        self._number = -1
        self._tip: Message | None = None
        self._acknowledged = 0
        self._queue: deque[tuple[bytes, int]] = deque()  # packets, with the time of put()
        self._begun = 0  # written bytes of the first packet
        self._queued = 0
        self._incoming = incoming
        self._expected = ""  # the feed after that one
        self._rest = b""
        self._position = 0  # messages read of the incoming feed
        self._read = 0
        self._owes_read = False
        self.dropped = 0
        self.written = 0
        self.carried = 0
        peer.share(incoming, partner, now, receives=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """The other side's feeds read by the line."""
        return tuple(feed for feed in (self._incoming, self._expected) if feed)

    @property
    def stored(self) -> int:
        """Stored messages of the line."""
        tips = self._feeds.tips()
        return sum(tips.get(feed, 0) for feed in (*self._own, *self.reads))

    @property
    def waiting(self) -> int:
        """Bytes to be written."""
        return self._queued

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to be written, now or later."""
        return self._owes_read or self._queued > 0

    def put(self, packet: bytes, now: int) -> bool:
        """Queue a packet for the other side; return False if the queue is full."""
        if self._queued + len(packet) > QUEUE:
            self.dropped += 1
            return False
        self._queue.append((packet, now))
        self._queued += len(packet)
        return True

    def flush(self, now: int, now_ms: float) -> None:
        """Write due messages, if the other side is connected and all earlier ones are sent."""
        if not self._is_due() or self._peer.replication.backlog(self._open(), self._partner) != 0:
            return
        messages = []
        while self._is_due() and self._peer.replication.backlog(self._open(), self._partner) is not None:
            messages.append(self._write(now, now_ms))
        if messages:
            self._peer.append(messages, now)

    def receive(self, message: Message, now: int, now_ms: float) -> list[bytes]:
        """Read a new message of the other side's feeds; return the completed packets.

        Raises LineError.
        """
        if message.author != self._incoming or message.sequence <= self._position:
            return []  # read after the end of the feed before, or read already
        packets = self._process(message, now, now_ms)
        while self._position == self.terms.entries:
            self._advance()
            for stored in self._feeds.after(self._incoming, 0, self.terms.entries):
                packets += self._process(stored.message, now, now_ms)
        return packets

    def hold_back(self, now: int) -> None:
        """Receive nothing more until release()."""
        for feed in self.reads:
            self._peer.replication.sources.hold_back(feed, now)

    def release(self, now: int) -> None:
        """Receive again."""
        for feed in self.reads:
            self._peer.replication.sources.release(feed, now)

    def close(self) -> None:
        """Delete the line's feeds and queue."""
        for feed in (*self._own, self._next.ref, *self.reads):
            self._remove(feed)
        self._own.clear()
        self._queue.clear()
        self._queued = 0
        self._incoming = self._expected = ""

    # Writing

    def _open(self) -> str:
        """Return the feed of the next message."""
        if self._tip is None or self._tip.sequence == self.terms.entries:
            return self._next.ref
        return self._tip.author

    def _has_room(self) -> bool:
        """Whether packets may be written: not while the other side has too many unread feeds."""
        return self._unread() <= self.terms.unread

    def _is_due(self) -> bool:
        """Whether a message is due.

        One more feed is reserved for acknowledgements, to avoid a deadlock with both sides waiting for
        the other's.
        """
        if self._owes_read:
            return self._unread() <= self.terms.unread + 1
        return self._queued > 0 and self._has_room()

    def _unread(self) -> int:
        """Return the number of complete feeds that are not acknowledged."""
        return len(self._own) - (self._open() != self._next.ref)

    def _write(self, now: int, now_ms: float) -> Message:
        content: dict[str, object] = {"type": PACKETS}
        if self._open() == self._next.ref:
            self._number += 1
            self._identity, self._tip = self._next, None
            self._own.append(self._identity.ref)
            self._next = self._identities(self._number + 1)
            self._peer.share(self._next.ref, self._partner, now, receives=False)
            content["next"] = self._next.ref
        if self._owes_read:
            content["read"] = self._read
            self._owes_read = False
        data, whole = self._cut_off() if self._has_room() else (b"", [])
        if data:
            content["packets"] = encode_base64(data)
        self.written += 1
        self.carried += len(data)
        self._tip = message = Message.create(self._identity, self._tip, content, now_ms)
        for packet, since in whole:
            self._watch(Passage(now, False, packet, message, now - since))
        return message

    def _cut_off(self) -> tuple[bytes, list[tuple[bytes, int]]]:
        """Remove a message's worth of bytes from the queue; return them, and the packets that end there."""
        parts, whole, room = [], [], ROOM
        while room and self._queue:
            packet = self._queue[0][0]
            part = packet[self._begun : self._begun + room]
            parts.append(part)
            room -= len(part)
            self._begun += len(part)
            if self._begun == len(packet):
                whole.append(self._queue.popleft())
                self._begun = 0
        self._queued -= ROOM - room
        return b"".join(parts), whole

    # Reading

    def _process(self, message: Message, now: int, now_ms: float) -> list[bytes]:
        content = message.content
        if not isinstance(content, dict) or content.get("type") != PACKETS:
            raise LineError("a message that carries no packets")
        if message.sequence > self.terms.entries:
            raise LineError("a feed that is longer than agreed")
        duration = (now_ms - message.timestamp) * 1e6
        if not abs(duration) < _MOST_NS:
            raise LineError("a message of a time that is none")
        if message.sequence == 1:
            self._expected = self._check_next(content.get("next"))
            self._peer.share(self._expected, self._partner, now, receives=True)
        self._acknowledge(content.get("read", self._acknowledged))
        self._position = message.sequence
        packets = self._packets(content.get("packets", ""))
        for packet in packets:
            self._watch(Passage(now, True, packet, message, int(duration)))
        return packets

    def _check_next(self, feed: object) -> str:
        try:
            parse_feed(feed if isinstance(feed, str) else "")
        except InvalidRef as error:
            raise LineError(f"next: {error}") from None
        assert isinstance(feed, str)
        if feed in self._peer.replication.wanted or feed in self._feeds.tips():
            raise LineError("next is a feed that is there already")
        return feed

    def _advance(self) -> None:
        """Continue with the other side's next feed."""
        self._remove(self._incoming)
        self._incoming, self._expected = self._expected, ""
        self._position = 0
        self._read += 1
        self._owes_read = True

    def _acknowledge(self, read: object) -> None:
        whole = self._acknowledged + self._unread()
        if not isinstance(read, int) or not self._acknowledged <= read <= whole:
            raise LineError("read is no number of feeds that have their ends")
        for _ in range(read - self._acknowledged):
            self._remove(self._own.popleft())
        self._acknowledged = read

    def _packets(self, text: object) -> list[bytes]:
        try:
            self._rest += decode_base64(text) if isinstance(text, str) else b"\x00\x00"
            packets, end = cut(self._rest, _BURST)
        except (InvalidRef, MalformedPacket) as error:
            raise LineError(f"packets: {error}") from None
        self._rest = self._rest[end:]
        if len(self._rest) > LARGEST_FRAME:
            raise LineError("more packets in a message than have room there")
        return packets

    def _remove(self, feed: str) -> None:
        self._peer.replication.forget(feed)
        self._feeds.drop(feed)
