"""The feeds of a node, their secrets and the node's agreements: one SQLite file, or the same in memory.

A store holds each feed from some entry on to its last one, the *tip*, without gaps. An entry is *whole* when
its side chain is complete; the store reads out whole entries only, and in order. Entries that nobody needs
are *pruned* from the front; the tip's number and id stay, so that the feed can continue. A feed is local if
the store has its secret. `drop` deletes a feed including its secret.

Related changes share one transaction: `with store.transaction()`. Its changes are durable when it has ended,
and survive a power cut: an entry that others may have seen is never signed again with other content. An
exception in a transaction rolls it back.

Records are values by names, for the programs above: the state of a contract, for example.
"""

from pathlib import Path
from typing import Final

from ssb.keys import Identity
from ssb.tiny import entry as entries
from ssb.tiny.entry import CHUNK, END, Entry, InvalidEntry, first_previous
from ssb.tiny.feed import BROKEN, FINE, FORKED, Feed, ForkedFeed, Waiting, Whole
from ssb.tiny.tables import FeedTables

MOST_AHEAD: Final = 64
"""Most entries of a feed past the last whole one."""


class TinyStore(FeedTables):
    """Feeds and records in one file, created if missing; it has secrets, and only its owner can read it.

    Args:
        path: the file; None for a store in memory, for simulations.
        image: initial contents of a store in memory, from `image()` of another one.

    Raises StoreError, as all methods do if the disk fails.
    """

    APPLICATION_ID = 0x53534254  # "SSBT"
    VERSION = 1
    KIND = "store of tinySSB feeds"

    def __init__(self, path: str | Path | None = None, image: bytes = b"") -> None:
        self._image = image
        super().__init__(path)

    # Feeds

    def add(self, key: bytes) -> Feed:
        """Add a feed of another author, if missing."""
        return self._feeds.get(key) or self._add(key, None)

    def add_own(self, identity: Identity) -> Feed:
        """Add a local feed with its secret, if missing."""
        return self._feeds.get(identity.public_key) or self._add(identity.public_key, identity)

    def publish(self, key: bytes, content: bytes, *, is_plain: bool = False) -> Entry:
        """Sign content as the next entry of a local feed, and store it.

        Raises ValueError for content that is too long, and ForkedFeed if the feed was signed elsewhere, too.
        """
        feed = self._feeds[key]
        if feed.identity is None:
            raise ValueError("the feed is not written here")
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
        entry = entries.parse(packet, key, feed.sequence + 1, feed.tip)
        with self.transaction():
            self._insert(feed, entry)
            feed.sequence, feed.tip = entry.sequence, entry.id
            if entry.chain == END:
                feed.condition = BROKEN
            elif entry.chain is not None:
                self._wait(feed, Waiting(entry, 0, entry.chain))
            self._advance(feed)
            self._update(feed)
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
                self._insert_chunk(feed, sequence, waiting.held, chunk)
                waiting.held += 1
                if waiting.held == waiting.entry.chunks:
                    del feed.waiting[sequence]
                    self._advance(feed)
                elif following == END:
                    feed.condition = BROKEN  # its author has announced more than there is
                    del feed.waiting[sequence]
                else:
                    waiting.pointer = following
                    self._wait(feed, waiting)
                self._update(feed)
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
            self._update(feed)
            proof = (feed.row, first, packet)
            self._database.execute("INSERT OR IGNORE INTO forks VALUES (?, ?, ?)", proof)
        raise ForkedFeed(key, (first, packet))

    def read(self, key: bytes, after: int, limit: int) -> list[Whole]:
        """Return the whole entries of a feed after a number, in order, at most `limit`."""
        feed = self._feeds[key]
        if after >= feed.whole:
            return []  # programs poll often: spares a query
        place = (feed.row, after, feed.whole, limit)
        chosen = (
            "SELECT sequence, id, packet FROM entries WHERE feed = ? AND sequence > ? AND sequence <= ?"
            " ORDER BY sequence LIMIT ?"
        )
        found = []
        for sequence, id_, packet in self._query(chosen, place):
            entry = entries.read(packet, key, sequence, id_)
            chunks = self.chunks(key, sequence) if entry.chain is not None else []
            found.append(Whole(sequence, id_, entry.content(chunks)))
        return found

    def set_mark(self, key: bytes, mark: int) -> None:
        """Store the last number that the program above has processed."""
        feed = self._feeds[key]
        with self.transaction():
            feed.mark = mark
            self._update(feed)

    def prune(self, key: bytes, sequence: int) -> None:
        """Delete the whole entries of a feed up to a number; the feed can continue."""
        feed = self._feeds[key]
        sequence = min(sequence, feed.whole)
        if sequence <= feed.base:
            return
        with self.transaction():
            for table in ("entries", "chunks"):
                self._database.execute(
                    f"DELETE FROM {table} WHERE feed = ? AND sequence <= ?", (feed.row, sequence)
                )
            feed.base = sequence
            self._update(feed)

    def drop(self, key: bytes) -> None:
        """Delete a feed with its entries, secret and proof."""
        feed = self._feeds.pop(key, None)
        if feed is None:
            return
        for sequence, waiting in feed.waiting.items():
            self._forget(key, sequence, waiting.pointer)
        with self.transaction():
            for table in ("entries", "chunks", "forks", "feeds"):
                self._database.execute(f"DELETE FROM {table} WHERE feed = ?", (feed.row,))

    def check(self) -> None:
        """Check the file, every signature and every chain. Raises StoreError at the first fault."""
        for (said,) in self._query("PRAGMA integrity_check"):
            if said != "ok":
                raise self._error(f"damaged: {said}")
        for key, feed in self._feeds.items():
            try:
                self._check_feed(feed)
            except InvalidEntry as error:
                raise self._error(f"damaged: feed {key.hex()}: {error}") from None

    def _check_feed(self, feed: Feed) -> None:
        previous: bytes | None = first_previous(feed.key) if feed.base == 0 else None
        chosen = "SELECT sequence, id, packet FROM entries WHERE feed = ? ORDER BY sequence"
        rows = self._query(chosen, (feed.row,))
        if [row[0] for row in rows] != list(range(feed.base + 1, feed.sequence + 1)):
            raise InvalidEntry("entries are missing")
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

    def image(self) -> bytes:
        """Return the store as the bytes of a file."""
        return self._database.serialize()

    def _open(self) -> None:
        if self._image:
            self._database.deserialize(self._image)
        super()._open()
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA secure_delete = ON")  # dropped data are overwritten
        self._load()

    def _load(self) -> None:
        """Load the state in memory."""
        self._feeds: dict[bytes, Feed] = {}
        self._pointers: dict[bytes, list[tuple[bytes, int]]] = {}
        chosen = (
            "SELECT feed, key, sequence, tip, whole, base, mark, secret, condition FROM feeds ORDER BY feed"
        )
        for row, key, sequence, tip, whole, base, mark, secret, condition in self._query(chosen):
            identity = Identity.from_secret(secret) if secret else None
            feed = Feed(row, key, sequence, tip, whole, base, mark, identity, condition)
            self._feeds[key] = feed
            if whole < sequence:
                self._load_waiting(feed)

    def _load_waiting(self, feed: Feed) -> None:
        place = (feed.row, feed.whole)
        chosen = "SELECT sequence, id, packet FROM entries WHERE feed = ? AND sequence > ? ORDER BY sequence"
        for sequence, id_, packet in self._query(chosen, place):
            entry = entries.read(packet, feed.key, sequence, id_)
            chunks = self.chunks(feed.key, sequence) if entry.chain is not None else []
            pointer = chunks[-1][CHUNK:] if chunks else entry.chain
            if len(chunks) < entry.chunks and pointer is not None and pointer != END:
                self._wait(feed, Waiting(entry, len(chunks), pointer))

    def _add(self, key: bytes, identity: Identity | None) -> Feed:
        tip = first_previous(key)
        with self.transaction():
            row = self._database.execute(
                "INSERT INTO feeds (key, sequence, tip, whole, base, mark, secret, condition)"
                " VALUES (?, 0, ?, 0, 0, 0, ?, ?)",
                (key, tip, identity.secret() if identity else None, FINE),
            ).lastrowid
        assert row is not None
        feed = Feed(row, key, 0, tip, 0, 0, 0, identity)
        self._feeds[key] = feed
        return feed

    def _insert_whole(self, feed: Feed, entry: Entry, chunks: list[bytes]) -> None:
        self._insert(feed, entry)
        for number, chunk in enumerate(chunks):
            self._insert_chunk(feed, entry.sequence, number, chunk)
        feed.sequence, feed.tip, feed.whole = entry.sequence, entry.id, entry.sequence
        self._update(feed)

    def _wait(self, feed: Feed, waiting: Waiting) -> None:
        feed.waiting[waiting.entry.sequence] = waiting
        self._pointers.setdefault(waiting.pointer, []).append((feed.key, waiting.entry.sequence))

    def _forget(self, key: bytes, sequence: int, pointer: bytes) -> None:
        places = self._pointers.get(pointer, [])
        if (key, sequence) in places:
            places.remove((key, sequence))
        if not places:
            self._pointers.pop(pointer, None)

    def _advance(self, feed: Feed) -> None:
        """Advance `whole` to the last number up to which all entries are whole."""
        if feed.condition != BROKEN:
            feed.whole = min(feed.waiting, default=feed.sequence + 1) - 1
