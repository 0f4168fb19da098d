"""The feeds of a node, their secrets and the node's agreements, in tables of a file or in memory.

A store holds each feed from some entry on to its last one, the *tip*, without gaps. An entry is *whole* when
its side chain is complete; the store reads out whole entries only, and in order. Entries that nobody needs
are *pruned* from the front; the tip's number and id stay, so that the feed can continue. A feed is local if
the store has its secret. `drop` deletes a feed including its secret.

Related changes share one transaction: `with store.transaction()`. Its changes are durable when it has ended,
and survive a power cut: an entry that others may have seen is never signed again with other content. An
exception in a transaction rolls it back.

Records are values by names, for the programs above: the state of a contract, for example.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ssb.bipf import MalformedBipf, decode
from ssb.ending import END as END_OF_FEED
from ssb.ending import end_of
from ssb.keys import Identity, feed_ref
from ssb.store.feeds import StoreError
from ssb.tiny import entry as entries
from ssb.tiny.entry import CHUNK, END, PACKET, Entry, InvalidEntry, first_previous
from ssb.tiny.feed import BROKEN, ENDED, FINE, FORKED, Feed, ForkedFeed, Waiting, Whole
from ssb.tiny.records import Records

MOST_AHEAD: Final = 64
"""Most entries of a feed past the last whole one."""


class TinyStore(Records):
    """Feeds and records in one file, created if missing; it has secrets, and only its owner can read it.

    Args:
        place: the file; or tables in memory, for simulations, by default new ones.

    Attributes:
        feeds: all feeds by their keys; replaced when a transaction is rolled back.
        lacking: keys of the feeds with entries that lack chunks; read-only.

    Raises StoreError, as all methods do if the disk fails.
    """

    feeds: Mapping[bytes, Feed]

    # Feeds

    def find(self, demultiplexer: bytes) -> tuple[bytes, int, bytes] | None:
        """Return feed, number and packet of a held entry, by its demultiplexer."""
        return self._tables.find(demultiplexer)

    def fork(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the two packets that prove that a feed is forked; None if it is not."""
        return self._tables.proof(self._feeds[key])

    def previous(self, key: bytes, sequence: int) -> bytes | None:
        """Return the id of the preceding entry, or its placeholder; None if that entry is pruned."""
        if sequence == 1:
            return first_previous(key)
        entry = self._tables.entry(self._feeds[key], sequence - 1)
        return entry.id if entry else None

    def packet(self, key: bytes, sequence: int) -> bytes | None:
        """Return an entry's packet; None if it is not held."""
        entry = self._tables.entry(self._feeds[key], sequence)
        return entry.packet if entry else None

    def chunk(self, key: bytes, sequence: int, number: int) -> bytes | None:
        """Return a chunk by its entry and its number from 0; None if it is not held."""
        return self._tables.chunk(self._feeds[key], sequence, number)

    def chunks(self, key: bytes, sequence: int) -> list[bytes]:
        """Return the held chunks of an entry, in order."""
        return self._tables.chunks(self._feeds[key], sequence)

    def packets(self, key: bytes, sequence: int) -> list[bytes]:
        """Return the held packets of an entry: its own, and its chunks in order."""
        packet = self.packet(key, sequence)
        return ([packet] if packet else []) + self.chunks(key, sequence)

    def size(self, keys: Collection[bytes] | None = None) -> int:
        """Bytes of packets in feeds; of all feeds by default."""
        if keys is None:
            return PACKET * self._tables.count()
        return PACKET * sum(self._tables.count(self._feeds[key]) for key in keys if key in self._feeds)

    def add(self, key: bytes) -> Feed:
        """Add a feed of another author, if missing."""
        return self._feeds.get(key) or self._add(key, None)

    def add_own(self, identity: Identity) -> Feed:
        """Add a local feed with its secret, if missing."""
        return self._feeds.get(identity.public_key) or self._add(identity.public_key, identity)

    def publish(self, key: bytes, content: bytes, *, is_plain: bool = False) -> Entry:
        """Sign content as the next entry of a local feed, and store it.

        Raises ValueError for content that is too long and for a feed that has ended, and ForkedFeed if the
        feed was signed elsewhere, too.
        """
        feed = self._feeds[key]
        if feed.identity is None:
            raise ValueError("the feed is not written here")
        if feed.condition == ENDED:
            raise ValueError(f"the feed has ended with entry {feed.sequence}")
        if feed.condition == FORKED:
            raise ForkedFeed(key, self.fork(key) or (b"", b""))
        entry, chunks = entries.sign(feed.identity, feed.sequence + 1, feed.tip, content, is_plain=is_plain)
        with self.transaction():
            self._insert_whole(feed, entry, chunks)
        return entry

    def append(self, key: bytes, packet: bytes) -> Entry:
        """Verify a packet as the next entry of a feed, and store it.

        Raises InvalidEntry, also if the feed takes no more or too many of its entries are not whole.
        """
        feed = self._feeds[key]
        if feed.condition != FINE:
            raise InvalidEntry("the feed takes no more entries", "frozen")
        if feed.sequence - feed.whole >= MOST_AHEAD:
            raise InvalidEntry("too many entries wait for side chains", "ahead")
        if feed.whole < feed.sequence:
            before = self._tables.entry(feed, feed.sequence)
            if before is not None and _may_end(before.packet):
                raise InvalidEntry("the entry before may be the end, which shows when it is whole", "ahead")
        entry = entries.parse(packet, key, feed.sequence + 1, feed.tip)
        with self.transaction():
            self._tables.insert(feed, entry)
            feed.extend(entry.sequence, entry.id)
            if entry.chain == END:
                feed.condition = BROKEN
            elif entry.chain is not None:
                self._wait(feed, Waiting(entry, 0, entry.chain))
            self._advance(feed, packet)
            self._tables.update(feed)
        return entry

    def append_whole(
        self, key: bytes, packet: bytes, chunks: list[bytes], largest: int = entries.MAX_CONTENT
    ) -> Entry:
        """Verify a packet as the next entry of a feed, with its side chain, and store both.

        Raises InvalidEntry, also for more than `largest` bytes of content.
        """
        feed = self._feeds[key]
        if feed.condition != FINE:
            raise InvalidEntry("the feed takes no more entries", "frozen")
        entry = entries.parse(packet, key, feed.sequence + 1, feed.tip)
        entries.check_chain(entry, chunks)
        if entry.length > largest:
            raise InvalidEntry("more content than agreed", "beyond")
        with self.transaction():
            self._insert_whole(feed, entry, chunks)
        return entry

    def awaits(self, pointer: bytes) -> bool:
        """Whether an entry lacks the chunk with this pointer."""
        return pointer in self._pointers

    def add_chunk(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Store a chunk for all entries that lack it; return their feeds and numbers, possibly none."""
        pointer = entries.pointer_to(chunk)
        places = self._pointers.pop(pointer, [])
        if not places:
            return []
        following = chunk[CHUNK:]
        with self.transaction():
            for key, sequence in places:
                feed = self._feeds[key]
                waiting = feed.waiting[sequence]
                self._tables.insert_chunk(feed, sequence, waiting.held, chunk)
                waiting.held += 1
                if waiting.held < waiting.entry.chunks and following != END:
                    waiting.pointer = following
                    self._wait(feed, waiting)
                    continue
                del feed.waiting[sequence]
                if not feed.waiting:
                    self.lacking.discard(key)
                if waiting.held == waiting.entry.chunks:
                    self._advance(feed)
                else:
                    feed.condition = BROKEN  # its author has announced more than there is
                self._tables.update(feed)
        return places

    def add_fork(self, demultiplexer: bytes, packet: bytes) -> None:
        """Record a fork if another packet for a held entry is signed.

        Raises ForkedFeed then; InvalidEntry if it is not.
        """
        held = self.find(demultiplexer)
        if held is None:
            raise InvalidEntry("there is no entry at this place")
        key, sequence, first = held
        feed = self._feeds[key]
        previous = self.previous(key, sequence)
        if previous is None:
            raise InvalidEntry("the entry before is pruned")
        entries.parse(packet, key, sequence, previous)
        with self.transaction():
            feed.condition = FORKED
            self._tables.update(feed)
            self._tables.add_proof(feed, first, packet)
        raise ForkedFeed(key, (first, packet))

    def read(self, key: bytes, after: int, limit: int) -> list[Whole]:
        """Return the whole entries of a feed after a number, in order, at most `limit`."""
        feed = self._feeds[key]
        if after >= feed.whole:
            return []  # programs poll often: spares a query
        found, after = [], max(after, feed.base)
        for sequence, id_, packet in self._tables.entries(feed, after, min(after + limit, feed.whole)):
            entry = entries.read(packet, key, sequence, id_)
            chunks = self.chunks(key, sequence) if entry.chain is not None else []
            found.append(Whole(sequence, id_, entry.content(chunks)))
        return found

    def set_mark(self, key: bytes, mark: int) -> None:
        """Store the last number that the program above has processed."""
        feed = self._feeds[key]
        with self.transaction():
            feed.mark = mark
            self._tables.update(feed)

    def prune(self, key: bytes, sequence: int) -> None:
        """Delete the whole entries of a feed up to a number; the feed can continue."""
        feed = self._feeds[key]
        sequence = min(sequence, feed.whole)
        if sequence <= feed.base:
            return
        with self.transaction():
            self._tables.prune(feed, sequence)
            feed.base = sequence
            self._tables.update(feed)

    def drop(self, key: bytes) -> None:
        """Delete a feed with its entries, secret and proof."""
        feed = self._feeds.pop(key, None)
        if feed is None:
            return
        for sequence, waiting in feed.waiting.items():
            self._forget(key, sequence, waiting.pointer)
        self.lacking.discard(key)
        with self.transaction():
            self._tables.drop(feed)

    def check(self) -> None:
        """Check the file, every signature and every chain. Raises StoreError at the first fault."""
        self._tables.check()
        for key, feed in self._feeds.items():
            try:
                self._check_feed(feed)
            except InvalidEntry as error:
                raise StoreError(f"{self.path}: damaged: feed {key.hex()}: {error}") from None

    def _check_feed(self, feed: Feed) -> None:
        previous: bytes | None = first_previous(feed.key) if feed.base == 0 else None
        if self._tables.numbers(feed) != list(range(feed.base + 1, feed.sequence + 1)):
            raise InvalidEntry("entries are missing, or too many")
        rows = self._tables.entries(feed, feed.base, feed.sequence)
        for sequence, id_, packet in rows:
            if previous is None:
                entry = entries.read(packet, feed.key, sequence, id_)
            else:
                entry = entries.parse(packet, feed.key, sequence, previous)
            if entry.id != id_:
                raise InvalidEntry(f"entry {sequence} has another id")
            if sequence <= feed.whole:
                entries.check_chain(entry, self.chunks(feed.key, sequence))
            previous = id_
        if rows and rows[-1][1] != feed.tip:
            raise InvalidEntry("does not end with its tip")

    # Inside

    def _load(self) -> None:
        """Load the state of all feeds from the tables."""
        self._feeds: dict[bytes, Feed] = {}
        self.feeds = self._feeds
        self.lacking: set[bytes] = set()
        self._pointers: dict[bytes, list[tuple[bytes, int]]] = {}
        for row, key, sequence, tip, whole, base, mark, secret, condition in self._tables.feeds():
            identity = Identity.from_secret(secret) if secret else None
            feed = Feed(row, key, sequence, tip, whole, base, mark, identity, condition)
            self._feeds[key] = feed
            if whole < sequence:
                self._load_waiting(feed)

    def _load_waiting(self, feed: Feed) -> None:
        for sequence, id_, packet in self._tables.entries(feed, feed.whole, feed.sequence):
            entry = entries.read(packet, feed.key, sequence, id_)
            chunks = self.chunks(feed.key, sequence) if entry.chain is not None else []
            pointer = chunks[-1][CHUNK:] if chunks else entry.chain
            if len(chunks) < entry.chunks and pointer is not None and pointer != END:
                self._wait(feed, Waiting(entry, len(chunks), pointer))

    def _add(self, key: bytes, identity: Identity | None) -> Feed:
        tip = first_previous(key)
        with self.transaction():
            row = self._tables.add_feed(key, tip, identity.secret() if identity else None)
        feed = Feed(row, key, 0, tip, 0, 0, 0, identity)
        self._feeds[key] = feed
        return feed

    def _insert_whole(self, feed: Feed, entry: Entry, chunks: list[bytes]) -> None:
        self._tables.insert(feed, entry)
        for number, chunk in enumerate(chunks):
            self._tables.insert_chunk(feed, entry.sequence, number, chunk)
        feed.extend(entry.sequence, entry.id)
        self._advance(feed, entry.packet)
        self._tables.update(feed)

    def _wait(self, feed: Feed, waiting: Waiting) -> None:
        feed.waiting[waiting.entry.sequence] = waiting
        self.lacking.add(feed.key)
        self._pointers.setdefault(waiting.pointer, []).append((feed.key, waiting.entry.sequence))

    def _forget(self, key: bytes, sequence: int, pointer: bytes) -> None:
        places = self._pointers.get(pointer, [])
        if (key, sequence) in places:
            places.remove((key, sequence))
        if not places:
            self._pointers.pop(pointer, None)

    def _advance(self, feed: Feed, last: bytes | None = None) -> None:
        """Advance `whole` to the last number up to which all entries are whole; notice the end of the feed.

        `last` is the packet of its last entry, if that is at hand.
        """
        if feed.condition == BROKEN:
            return
        feed.whole = min(feed.waiting, default=feed.sequence + 1) - 1
        if feed.condition != FINE or feed.whole < feed.sequence:
            return
        if last is None:
            row = self._tables.entry(feed, feed.sequence)
            last = b"" if row is None else row.packet
        if _may_end(last) and _is_end(feed, self.read(feed.key, feed.sequence - 1, 1)[0].content):
            feed.condition = ENDED


def _may_end(packet: bytes) -> bool:
    """Whether an entry may be the end of its feed, as far as its own packet tells: its content begins so."""
    return END_OF_FEED.encode() in packet


def _is_end(feed: Feed, content: bytes) -> bool:
    """Whether the content of a feed's last entry ends it."""
    try:
        value = decode(content)
    except MalformedBipf:
        return False
    return isinstance(value, dict) and end_of(feed_ref(feed.key), feed.sequence, value) is not None
