"""Tables of feeds, entries, chunks and proofs of forks in a store of tinySSB, without their rules."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from ssb.tiny.entry import DEMUX, PACKET, Entry, first_previous
from ssb.tiny.feed import Feed
from ssb.tiny.records import Records


class FeedTables(Records):
    """The tables of feeds; the base of a store, which keeps the heads of all feeds in memory."""

    SCHEMA = (
        Records.SCHEMA
        + """
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
    )

    _feeds: dict[bytes, Feed]

    @property
    def feeds(self) -> Mapping[bytes, Feed]:
        """All feeds by their keys: a live view."""
        return MappingProxyType(self._feeds)

    def find(self, demultiplexer: bytes) -> tuple[bytes, int, bytes] | None:
        """Return feed, number and packet of a held entry, by its demultiplexer."""
        rows = self._query(
            "SELECT key, entries.sequence, packet FROM entries JOIN feeds USING (feed) WHERE demux = ?",
            (demultiplexer,),
        )
        return rows[0] if rows else None

    def fork(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the two packets that prove that a feed is forked; None if it is not."""
        rows = self._query("SELECT first, second FROM forks WHERE feed = ?", (self._feeds[key].row,))
        return (rows[0][0], rows[0][1]) if rows else None

    def previous(self, key: bytes, sequence: int) -> bytes | None:
        """Return the id of the preceding entry, or its placeholder; None if that entry is pruned."""
        if sequence == 1:
            return first_previous(key)
        place = (self._feeds[key].row, sequence - 1)
        rows = self._query("SELECT id FROM entries WHERE feed = ? AND sequence = ?", place)
        return bytes(rows[0][0]) if rows else None

    def packet(self, key: bytes, sequence: int) -> bytes | None:
        """Return an entry's packet; None if it is not held."""
        place = (self._feeds[key].row, sequence)
        rows = self._query("SELECT packet FROM entries WHERE feed = ? AND sequence = ?", place)
        return bytes(rows[0][0]) if rows else None

    def chunk(self, key: bytes, sequence: int, number: int) -> bytes | None:
        """Return a chunk by its entry and its number from 0; None if it is not held."""
        place = (self._feeds[key].row, sequence, number)
        rows = self._query("SELECT packet FROM chunks WHERE feed = ? AND sequence = ? AND number = ?", place)
        return bytes(rows[0][0]) if rows else None

    def chunks(self, key: bytes, sequence: int) -> list[bytes]:
        """Return the held chunks of an entry, in order."""
        place = (self._feeds[key].row, sequence)
        chosen = "SELECT packet FROM chunks WHERE feed = ? AND sequence = ? ORDER BY number"
        return [packet for (packet,) in self._query(chosen, place)]

    def packets(self, key: bytes, sequence: int) -> list[bytes]:
        """Return the held packets of an entry: its own, and its chunks in order."""
        packet = self.packet(key, sequence)
        return ([packet] if packet else []) + self.chunks(key, sequence)

    def size(self, keys: Collection[bytes] | None = None) -> int:
        """Bytes of packets in feeds; of all feeds by default."""
        total = 0
        if keys is None:
            counted = "SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM chunks)"
            return PACKET * int(self._query(counted)[0][0])
        for key in keys:
            if key in self._feeds:
                for table in ("entries", "chunks"):
                    counted = f"SELECT count(*) FROM {table} WHERE feed = ?"
                    total += PACKET * self._query(counted, (self._feeds[key].row,))[0][0]
        return total

    def _insert(self, feed: Feed, entry: Entry) -> None:
        values = (feed.row, entry.sequence, entry.packet[:DEMUX], entry.id, entry.packet)
        self._database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", values)

    def _insert_chunk(self, feed: Feed, sequence: int, number: int, chunk: bytes) -> None:
        self._database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?)", (feed.row, sequence, number, chunk))

    def _update(self, feed: Feed) -> None:
        self._database.execute(
            "UPDATE feeds SET sequence = ?, tip = ?, whole = ?, base = ?, mark = ?, condition = ?"
            " WHERE feed = ?",
            (feed.sequence, feed.tip, feed.whole, feed.base, feed.mark, feed.condition, feed.row),
        )
