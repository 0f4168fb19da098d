"""Tables of a store of tinySSB, without its rules: feeds, entries, chunks, proofs of forks, records.

A feed's row is a number that the tables give it. Changes are made in a transaction; those of one that raises
are undone.
"""

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from base.passive import Closing
from ssb.store.database import Database
from ssb.tiny.entry import DEMUX, Entry
from ssb.tiny.feed import FINE, Feed


class FeedRow(NamedTuple):
    """A feed, without its entries: see Feed; `secret` is None if it is not local."""

    row: int
    key: bytes
    sequence: int
    tip: bytes
    whole: int
    base: int
    mark: int
    secret: str | None
    condition: int


class EntryRow(NamedTuple):
    """An entry of a feed: its number, its id and its packet."""

    sequence: int
    id: bytes
    packet: bytes


class Tables(Protocol):
    """The tables, in a file or in memory. All raise StoreError if the disk fails."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes or none; transactions are not nested."""

    @property
    def changes(self) -> int:
        """Number of changes so far, also of those that were undone."""

    def close(self) -> None:
        """Release the file."""

    def check(self) -> None:
        """Raise StoreError if the file is damaged."""

    def feeds(self) -> list[FeedRow]:
        """Return all feeds, in the order in which they were added."""

    def add_feed(self, key: bytes, tip: bytes, secret: str | None) -> int:
        """Add a feed without entries; return its row."""

    def update(self, feed: Feed) -> None:
        """Write the state of a feed."""

    def drop(self, feed: Feed) -> None:
        """Delete a feed, its entries, chunks and proof."""

    def prune(self, feed: Feed, sequence: int) -> None:
        """Delete the entries of a feed up to a number, and their chunks."""

    def insert(self, feed: Feed, entry: Entry) -> None:
        """Add the feed's next entry; raise StoreError if it is already stored."""

    def insert_chunk(self, feed: Feed, sequence: int, number: int, chunk: bytes) -> None:
        """Add the next chunk of an entry, numbered from 0; raise StoreError if it is already stored."""

    def find(self, demultiplexer: bytes) -> tuple[bytes, int, bytes] | None:
        """Return feed, number and packet of an entry, by its demultiplexer; None if there is none."""

    def entry(self, feed: Feed, sequence: int) -> EntryRow | None:
        """Return an entry; None if there is none."""

    def entries(self, feed: Feed, after: int, last: int) -> list[EntryRow]:
        """Return the entries of a feed after one number, up to another, in order."""

    def numbers(self, feed: Feed) -> list[int]:
        """Return the numbers of all entries of a feed, in order."""

    def chunk(self, feed: Feed, sequence: int, number: int) -> bytes | None:
        """Return a chunk of an entry; None if there is none."""

    def chunks(self, feed: Feed, sequence: int) -> list[bytes]:
        """Return the chunks of an entry, in order."""

    def count(self, feed: Feed | None = None) -> int:
        """Return the number of entries and chunks, of a feed or of all."""

    def proof(self, feed: Feed) -> tuple[bytes, bytes] | None:
        """Return the two packets that prove that a feed is forked; None if there are none."""

    def add_proof(self, feed: Feed, first: bytes, second: bytes) -> None:
        """Store the two packets that prove a fork, unless the feed has a proof."""

    def get(self, name: str) -> bytes | None:
        """Return a record; None if there is none."""

    def put(self, name: str, value: bytes | None) -> None:
        """Write a record; None deletes it."""

    def records(self, prefix: str) -> dict[str, bytes]:
        """Return the records whose names begin with a prefix, sorted."""


class FileTables(Database, Closing):
    """Tables in one SQLite file, created if missing; only its owner can read it."""

    APPLICATION_ID = 0x53534254  # "SSBT"
    VERSION = 1
    KIND = "store of tinySSB feeds"
    SCHEMA = """
CREATE TABLE records (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE feeds (
    feed INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    sequence INTEGER NOT NULL,
    tip BLOB NOT NULL,
    whole INTEGER NOT NULL,
    base INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    secret TEXT,
    condition INTEGER NOT NULL
);
CREATE TABLE entries (
    feed INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    demux BLOB NOT NULL,
    id BLOB NOT NULL,
    packet BLOB NOT NULL,
    PRIMARY KEY (feed, sequence)
) WITHOUT ROWID;
CREATE INDEX by_demux ON entries (demux);
CREATE TABLE chunks (
    feed INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    packet BLOB NOT NULL,
    PRIMARY KEY (feed, sequence, number)
) WITHOUT ROWID;
CREATE TABLE forks (feed INTEGER PRIMARY KEY, first BLOB NOT NULL, second BLOB NOT NULL);
"""

    def _open(self) -> None:
        super()._open()
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA secure_delete = ON")  # dropped data are overwritten

    def transaction(self) -> AbstractContextManager[None]:
        return self._transaction()

    @property
    def changes(self) -> int:
        return self._database.total_changes

    def check(self) -> None:
        for (said,) in self._query("PRAGMA integrity_check"):
            if said != "ok":
                raise self._error(f"damaged: {said}")

    def feeds(self) -> list[FeedRow]:
        columns = "feed, key, sequence, tip, whole, base, mark, secret, condition"
        return [FeedRow(*row) for row in self._query(f"SELECT {columns} FROM feeds ORDER BY feed")]

    def add_feed(self, key: bytes, tip: bytes, secret: str | None) -> int:
        row = self._database.execute(
            "INSERT INTO feeds (key, sequence, tip, whole, base, mark, secret, condition)"
            " VALUES (?, 0, ?, 0, 0, 0, ?, ?)",
            (key, tip, secret, FINE),
        ).lastrowid
        assert row is not None
        return row

    def update(self, feed: Feed) -> None:
        self._database.execute(
            "UPDATE feeds SET sequence = ?, tip = ?, whole = ?, base = ?, mark = ?, condition = ?"
            " WHERE feed = ?",
            (feed.sequence, feed.tip, feed.whole, feed.base, feed.mark, feed.condition, feed.row),
        )

    def drop(self, feed: Feed) -> None:
        for table in ("entries", "chunks", "forks", "feeds"):
            self._database.execute(f"DELETE FROM {table} WHERE feed = ?", (feed.row,))

    def prune(self, feed: Feed, sequence: int) -> None:
        for table in ("entries", "chunks"):
            deleted = f"DELETE FROM {table} WHERE feed = ? AND sequence <= ?"
            self._database.execute(deleted, (feed.row, sequence))

    def insert(self, feed: Feed, entry: Entry) -> None:
        values = (feed.row, entry.sequence, entry.packet[:DEMUX], entry.id, entry.packet)
        with self._errors():
            self._database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", values)

    def insert_chunk(self, feed: Feed, sequence: int, number: int, chunk: bytes) -> None:
        values = (feed.row, sequence, number, chunk)
        with self._errors():
            self._database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?)", values)

    def find(self, demultiplexer: bytes) -> tuple[bytes, int, bytes] | None:
        rows = self._query(
            "SELECT key, entries.sequence, packet FROM entries JOIN feeds USING (feed) WHERE demux = ?",
            (demultiplexer,),
        )
        return rows[0] if rows else None

    def entry(self, feed: Feed, sequence: int) -> EntryRow | None:
        rows = self.entries(feed, sequence - 1, sequence)
        return rows[0] if rows else None

    def entries(self, feed: Feed, after: int, last: int) -> list[EntryRow]:
        chosen = (
            "SELECT sequence, id, packet FROM entries WHERE feed = ? AND sequence > ? AND sequence <= ?"
            " ORDER BY sequence"
        )
        return [EntryRow(*row) for row in self._query(chosen, (feed.row, after, last))]

    def numbers(self, feed: Feed) -> list[int]:
        chosen = "SELECT sequence FROM entries WHERE feed = ? ORDER BY sequence"
        return [sequence for (sequence,) in self._query(chosen, (feed.row,))]

    def chunk(self, feed: Feed, sequence: int, number: int) -> bytes | None:
        chosen = "SELECT packet FROM chunks WHERE feed = ? AND sequence = ? AND number = ?"
        rows = self._query(chosen, (feed.row, sequence, number))
        return bytes(rows[0][0]) if rows else None

    def chunks(self, feed: Feed, sequence: int) -> list[bytes]:
        chosen = "SELECT packet FROM chunks WHERE feed = ? AND sequence = ? ORDER BY number"
        return [packet for (packet,) in self._query(chosen, (feed.row, sequence))]

    def count(self, feed: Feed | None = None) -> int:
        where, values = ("WHERE feed = ?", (feed.row,)) if feed is not None else ("", ())
        counted = (f"SELECT count(*) FROM {table} {where}" for table in ("entries", "chunks"))
        return sum(self._query(each, values)[0][0] for each in counted)

    def proof(self, feed: Feed) -> tuple[bytes, bytes] | None:
        rows = self._query("SELECT first, second FROM forks WHERE feed = ?", (feed.row,))
        return (rows[0][0], rows[0][1]) if rows else None

    def add_proof(self, feed: Feed, first: bytes, second: bytes) -> None:
        self._database.execute("INSERT OR IGNORE INTO forks VALUES (?, ?, ?)", (feed.row, first, second))

    def get(self, name: str) -> bytes | None:
        rows = self._query("SELECT value FROM records WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._database.execute("DELETE FROM records WHERE name = ?", (name,))
        else:
            self._database.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (name, value))

    def records(self, prefix: str) -> dict[str, bytes]:
        chosen = "SELECT name, value FROM records WHERE substr(name, 1, ?) = ? ORDER BY name"
        return dict(self._query(chosen, (len(prefix), prefix)))
