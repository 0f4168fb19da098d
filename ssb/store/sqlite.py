"""A store on disk: one SQLite file in WAL mode.

**What is acknowledged.** When `append` returns, its messages survive the death of the process at any
instant; a power cut may lose the last transactions (`ssb.store.database`). The authors still have such
messages, so they come again. When `publish` returns, its message and all before survive a power cut, too: if
it were lost after others had seen it, the next message would fork the feed.

**What is kept.** The canonical text, because it is what is signed. The compact form, which peers send,
is made of it when it is asked for. Ids are indexed by their first 8 bytes, and compared in full when a
message is read: the index is the costly part of an append, and half as large this way.

**What is in memory.** The tip of each feed and SQLite's cache of pages, but no messages.
"""

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ssb.keys import InvalidRef, message_ref, parse_message
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.store.admission import Admission, Changes, content_type
from ssb.store.database import Database
from ssb.store.feeds import MAX_OUT_OF_ORDER, Stored, Tip

APPLICATION_ID: Final = 0x53534246
"""Marks the file as ours (SQLite's `application_id`): "SSBF"."""
VERSION: Final = 1
"""Of the schema below (SQLite's `user_version`)."""

_SCHEMA = """
CREATE TABLE network (hmac_key_hash BLOB);
CREATE TABLE feeds (
    feed INTEGER PRIMARY KEY,
    author TEXT NOT NULL UNIQUE,
    sequence INTEGER NOT NULL,
    tip BLOB NOT NULL,
    own INTEGER NOT NULL
);
CREATE TABLE messages (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    feed INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    id_start INTEGER NOT NULL,
    type TEXT,
    received REAL NOT NULL,
    text BLOB NOT NULL
);
CREATE UNIQUE INDEX by_sequence ON messages (feed, sequence);
CREATE INDEX by_id ON messages (id_start);
CREATE INDEX by_type ON messages (type, position);
CREATE TABLE out_of_order (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    author TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    id BLOB NOT NULL UNIQUE,
    received REAL NOT NULL,
    text BLOB NOT NULL
);
CREATE INDEX out_of_order_by_sequence ON out_of_order (author, sequence);
CREATE TABLE forks (author TEXT PRIMARY KEY, first BLOB NOT NULL, second BLOB NOT NULL);
"""

_INSERT = "INSERT INTO messages (feed, sequence, id_start, type, received, text) VALUES (?, ?, ?, ?, ?, ?)"
_STORED = "SELECT position, sequence, received, text FROM messages"


class SqliteFeeds(Admission, Database):
    """Feeds in one file (`ssb.store.feeds.FeedStore`), made if there is none.

    One process writes; others may read meanwhile. Beside the file are SQLite's `-wal` and `-shm`, and
    `.lock`.

    Args:
        path: the file.
        hmac_key: the network's 32-byte key, if it has one. A file belongs to one network.
        read_only: open for reading, next to a process that writes.

    Raises StoreError: in use by another writer, not a store, of another network, of a newer version, or
    the disk fails. When a write fails, for example because the disk is full, the store is as it was before,
    and goes on when there is space again.
    """

    APPLICATION_ID = APPLICATION_ID
    VERSION = VERSION
    SCHEMA = _SCHEMA
    KIND = "store of feeds"

    def __init__(self, path: str | Path, hmac_key: bytes | None = None, *, read_only: bool = False) -> None:
        Admission.__init__(self, hmac_key)
        self._network = b"" if hmac_key is None else sha256(hmac_key).digest()
        Database.__init__(self, path, read_only=read_only)

    def tips(self) -> Mapping[str, int]:
        """The last sequence number of each feed: a live view, not a copy; of a reader, of this instant."""
        self._refresh()
        return MappingProxyType(self._tips)

    def tip(self, feed: str) -> Tip | None:
        """The last message of a feed; None if the store holds none."""
        self._refresh()
        sequence = self._tips.get(feed)
        return None if sequence is None else Tip(sequence, message_ref(self._rows[feed][1]))

    @property
    def end(self) -> int:
        """The last position in the log; 0 if nothing was ever stored."""
        rows = self._query("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        return int(rows[0][0]) if rows else 0

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """The messages of a feed after a sequence number, in order, at most `limit`."""
        self._refresh()
        if feed not in self._tips:
            return []
        place = (self._rows[feed][0], sequence, limit)
        found = self._query(f"{_STORED} WHERE feed = ? AND sequence > ? ORDER BY sequence LIMIT ?", place)
        return [Stored._make(row) for row in found]

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of a feed or out of order."""
        try:
            digest = parse_message(id)
        except InvalidRef:
            return None
        rows = self._query("SELECT text FROM messages WHERE id_start = ?", (_start(digest),))
        rows += self._query("SELECT text FROM out_of_order WHERE id = ?", (digest,))
        messages = (Message.from_text(text) for (text,) in rows)
        return next((message for message in messages if message.id == id), None)

    def log(self, after: int, limit: int, types: Collection[str] | None = None) -> list[Stored]:
        """The messages of all feeds after a position, in order of receipt, at most `limit`."""
        if types is None:
            found = self._query(f"{_STORED} WHERE position > ? ORDER BY position LIMIT ?", (after, limit))
            return [Stored._make(row) for row in found]
        found = []
        for kind in set(types):
            chosen = f"{_STORED} WHERE type = ? AND position > ? ORDER BY position LIMIT ?"
            found += self._query(chosen, (kind, after, limit))
        return [Stored._make(row) for row in sorted(found)[:limit]]

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """For each forked feed the two messages that prove it."""
        self._refresh()
        return self._forks

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may come again later; return how many there were."""
        if feed not in self._tips:
            return 0
        row, _, own = self._rows[feed]
        if own:
            raise ValueError(f"{feed} is written here: if it began again, it would be forked")
        with self._transaction():
            self._database.execute("DELETE FROM messages WHERE feed = ?", (row,))
            self._database.execute("DELETE FROM feeds WHERE feed = ?", (row,))
        del self._rows[feed]
        return self._tips.pop(feed)

    def check(self, *, is_thorough: bool = True) -> None:
        """Let SQLite check the whole file; if thoroughly, verify each message and each feed's chain, too.

        Takes a minute for a million messages. Raises StoreError at the first fault.
        """
        for (said,) in self._query("PRAGMA integrity_check"):
            if said != "ok":
                raise self._error(f"damaged: {said}")
        counted = dict(self._query("SELECT feed, count(*) FROM messages GROUP BY feed"))
        tips = self.tips()
        if counted != {self._rows[feed][0]: sequence for feed, sequence in tips.items()}:
            raise self._error("damaged: there are not as many messages as the tips say")
        for feed in tips if is_thorough else ():
            try:
                self._check_chain(feed)
            except (InvalidMessage, ForkedFeed) as error:
                raise self._error(f"damaged: {feed}: {error}") from None

    def _check_chain(self, feed: str) -> None:
        last: Message | None = None
        place = 0
        while page := self.after(feed, place, 1000):
            for stored in page:
                message = stored.message
                message.verify(self._hmac_key)
                message.follow(last)
                if self.get(message.id) != message:
                    raise InvalidMessage(f"{message.id} is not found by its id")
                last = message
            place = page[-1].sequence
        if last is None or last.author != feed or (last.sequence, last.id) != self.tip(feed):
            raise InvalidMessage("does not end with its tip")

    def close(self) -> None:
        """Let go of the file and the lock."""
        Database.close(self)

    def _open(self) -> None:
        super()._open()
        if self._query("SELECT hmac_key_hash FROM network") != [(self._network,)]:
            raise self._error("belongs to a network with another HMAC key")
        self._seen = -1
        self._refresh(always=True)

    def _fill(self) -> None:
        self._database.execute("INSERT INTO network VALUES (?)", (self._network,))

    def _refresh(self, *, always: bool = False) -> None:
        """Read the tips, if another process may have changed them."""
        if not always:
            if not self._read_only:
                return
            if self._pragma("data_version") == self._seen:
                return
        self._seen = self._pragma("data_version")
        self._rows: dict[str, tuple[int, bytes, bool]] = {}
        self._tips: dict[str, int] = {}
        for row, author, sequence, tip, own in self._query("SELECT * FROM feeds"):
            self._rows[author] = row, tip, bool(own)
            self._tips[author] = sequence
        self._forks = _Forks(self)
        self._loose = self._count_out_of_order()

    def _count_out_of_order(self) -> int:
        return int(self._query("SELECT count(*) FROM out_of_order")[0][0])

    def _held(self, feed: str, sequence: int) -> Message | None:
        if not 1 <= sequence <= self._tips.get(feed, 0):
            return None
        place = (self._rows[feed][0], sequence)
        rows = self._query("SELECT text FROM messages WHERE feed = ? AND sequence = ?", place)
        return Message.from_text(rows[0][0])

    def _out_of_order(self, feed: str, sequence: int) -> list[Message]:
        if not self._loose:
            return []
        chosen = "SELECT text FROM out_of_order WHERE author = ? AND sequence IN (?, ?)"
        rows = self._query(chosen, (feed, sequence, sequence + 1))
        return [Message.from_text(text) for (text,) in rows]

    def _commit(self, changes: Changes) -> None:
        tips = {message.author: message for message in changes.messages}
        rows: dict[str, tuple[int, bytes, bool]] = {}
        loose = self._loose
        with self._transaction(is_final=changes.own is not None):
            for feed, tip in tips.items():
                rows[feed] = self._move_tip(feed, tip, is_own=feed == changes.own)
            self._database.executemany(
                _INSERT,
                (
                    (
                        rows[m.author][0],
                        m.sequence,
                        _start(parse_message(m.id)),
                        content_type(m),
                        changes.received,
                        m.encoded,
                    )
                    for m in changes.messages
                ),
            )
            if loose:
                ids = ((parse_message(message.id),) for message in changes.messages)
                loose -= self._database.executemany("DELETE FROM out_of_order WHERE id = ?", ids).rowcount
            for feed, (first, second) in changes.forks.items():
                proof = (feed, first.encoded, second.encoded)
                self._database.execute("INSERT INTO forks VALUES (?, ?, ?)", proof)
            if changes.out_of_order is not None:
                loose += self._keep_out_of_order(changes.out_of_order, changes.received, loose)
        self._rows |= rows
        for feed, tip in tips.items():
            self._tips[feed] = tip.sequence
        self._forks.add(changes.forks)
        self._loose = loose

    def _move_tip(self, feed: str, tip: Message, *, is_own: bool) -> tuple[int, bytes, bool]:
        row, _, own = self._rows.get(feed, (None, b"", False))
        digest, own = parse_message(tip.id), own or is_own
        if row is None:
            added = self._database.execute(
                "INSERT INTO feeds (author, sequence, tip, own) VALUES (?, ?, ?, ?)",
                (feed, tip.sequence, digest, own),
            )
            row = added.lastrowid
            assert row is not None
        else:
            changed = "UPDATE feeds SET sequence = ?, tip = ?, own = ? WHERE feed = ?"
            self._database.execute(changed, (tip.sequence, digest, own, row))
        return row, digest, own

    def _keep_out_of_order(self, message: Message, received: float, count: int) -> int:
        """Return by how many there are more then."""
        added = self._database.execute(
            "INSERT INTO out_of_order (author, sequence, id, received, text) VALUES (?, ?, ?, ?, ?)",
            (message.author, message.sequence, parse_message(message.id), received, message.encoded),
        ).rowcount
        if count < MAX_OUT_OF_ORDER:
            return added
        oldest = "DELETE FROM out_of_order WHERE place = (SELECT min(place) FROM out_of_order)"
        return added - self._database.execute(oldest).rowcount


class _Forks(Mapping[str, tuple[Message, Message]]):
    """The forked feeds; their proofs stay on disk until they are asked for."""

    def __init__(self, feeds: SqliteFeeds) -> None:
        self._feeds = feeds
        self._authors = dict.fromkeys(author for (author,) in feeds._query("SELECT author FROM forks"))

    def __contains__(self, feed: object) -> bool:
        return feed in self._authors

    def __iter__(self) -> Iterator[str]:
        return iter(self._authors)

    def __len__(self) -> int:
        return len(self._authors)

    def __getitem__(self, feed: str) -> tuple[Message, Message]:
        if feed not in self._authors:
            raise KeyError(feed)
        ((first, second),) = self._feeds._query("SELECT first, second FROM forks WHERE author = ?", (feed,))
        return Message.from_text(first), Message.from_text(second)

    def add(self, forks: Mapping[str, object]) -> None:
        """Take in feeds whose proofs were written."""
        self._authors |= dict.fromkeys(forks)


def _start(digest: bytes) -> int:
    """The first 8 bytes as SQLite's signed integer."""
    return int.from_bytes(digest[:8], signed=True)
