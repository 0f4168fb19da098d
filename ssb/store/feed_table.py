"""The file of a store of feeds, and its damaged messages.

Every text is checked when it is read (`ssb.store.sound`), and one that has changed counts as missing. Its
place is recorded in the table `damaged`, and until the message is restored, the feed ends before it for
others. So it is requested, and accepted, as any next message; the messages behind it have stayed, and the
feed is whole at once. The feed's row still has the true end, where its author continues.

When a file is opened, the last message of each feed is compared with the feed's row. If a row or the file
itself is damaged, nothing is read or written: `ssb.store.mend` rebuilds the file.
"""

import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from ssb.keys import KEY_BYTES, is_feed
from ssb.message import message_digest
from ssb.store import sound
from ssb.store.database import Database
from ssb.store.feeds import Stored, StoreError

APPLICATION_ID: Final = 0x53534246
"""Identifies the file type (SQLite's `application_id`): "SSBF"."""
VERSION: Final = 1
"""Of the schema below (SQLite's `user_version`)."""
MEND: Final = "`feednet ssb check` writes it anew with all that is whole"
"""Advice on a damaged store."""

_LAST: Final = 2**63 - 1

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
_DAMAGED = """
CREATE TABLE IF NOT EXISTS damaged (
    feed INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (feed, sequence)
) WITHOUT ROWID
"""  # not in the schema: older stores of version 1 lack it
INSERT_AT: Final = """
INSERT OR IGNORE INTO messages (position, feed, sequence, id_start, type, received, text)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
STORED: Final = "SELECT position, feed, sequence, received, text, id_start FROM messages"


class DamagedStore(StoreError):
    """The file is damaged, beyond single messages; `ssb.store.mend` rebuilds it."""


class Row(NamedTuple):
    """A row of the table of feeds: the feed's number, and its last message, damaged or not."""

    number: int
    sequence: int
    tip: bytes
    own: bool


class FeedTable(Database):
    """Rows of feeds and of messages.

    Args:
        path: the file.
        hmac_key: the network's 32-byte key, if it has one.
        read_only: open for reading, next to a process that writes.
    """

    APPLICATION_ID = APPLICATION_ID
    VERSION = VERSION
    SCHEMA = _SCHEMA
    KIND = "store of feeds"

    def __init__(self, path: str | Path, hmac_key: bytes | None, *, read_only: bool) -> None:
        self._hmac_key = hmac_key
        self._lost: list[tuple[str, int]] = []
        self._network = b"" if hmac_key is None else sha256(hmac_key).digest()
        super().__init__(path, read_only=read_only)

    def damaged(self) -> dict[str, list[int]]:
        """Feed -> the numbers of its damaged messages that are not restored yet."""
        self._refresh()
        return {feed: sorted(numbers) for feed, numbers in self._damaged.items()}

    def take_lost(self) -> list[tuple[str, int]]:
        """Return the messages found damaged since the last call: feed and number."""
        lost, self._lost = self._lost, []
        return lost

    def _open(self) -> None:
        self._database.text_factory = _decode
        super()._open()
        networks = self._query("SELECT hmac_key_hash FROM network")
        if len(networks) != 1 or not isinstance(networks[0][0], bytes):
            raise self._damage("the network is not named")
        if networks[0][0] != self._network:
            raise self._error("belongs to a network with another HMAC key")
        if not self._read_only:
            self._database.execute(_DAMAGED)
        self._load()
        self._check_rows()

    def _fill(self) -> None:
        self._database.execute("INSERT INTO network VALUES (?)", (self._network,))

    def _explain(self, error: sqlite3.Error) -> str:
        # Our own statements give SQLITE_ERROR only if the file's schema has changed.
        damaged = ("SQLITE_CORRUPT", "SQLITE_CONSTRAINT", "SQLITE_ERROR")
        if getattr(error, "sqlite_errorname", "").startswith(damaged):
            return f"damaged ({error}); {MEND}"
        return super()._explain(error)

    def _refresh(self) -> None:
        """Reload the tips, if another process may have changed them."""
        if self._read_only and self._pragma("data_version") != self._seen:
            self._load()

    def _load(self) -> None:
        """Load the state in memory."""
        self._seen = self._pragma("data_version")
        self._rows: dict[str, Row] = {}
        self._authors: dict[int, str] = {}
        self._tips: dict[str, int] = {}
        self._damaged: dict[str, set[int]] = {}
        for number, author, sequence, tip, own in self._query("SELECT * FROM feeds"):
            if not (is_feed(author) and is_tip(sequence, tip)):
                raise self._damage(f"row {number} of the table of feeds")
            self._rows[author] = Row(number, sequence, tip, bool(own))
            self._authors[number] = author
            self._tips[author] = sequence
        if self._query("SELECT 1 FROM sqlite_schema WHERE name = 'damaged'"):
            for number, sequence in self._query("SELECT feed, sequence FROM damaged"):
                if number in self._authors:
                    self._mark(self._authors[number], sequence)

    def _check_rows(self) -> None:
        """Compare each feed's row with its last message, by the hash in the row."""
        joined = """
            SELECT f.author, m.text, m.id_start FROM feeds AS f
            LEFT JOIN messages AS m ON m.feed = f.feed AND m.sequence = f.sequence
        """
        for author, text, start in self._database.execute(joined):
            row = self._rows[author]
            if row.sequence in self._damaged.get(author, ()):
                continue
            is_tip_itself = isinstance(text, bytes) and _digest(text) == row.tip
            is_of_row = is_tip_itself and sound.named(text) == (author, row.sequence)
            if is_tip_itself != is_of_row or (not is_tip_itself and start != sound.start_of(row.tip)):
                raise self._damage(f"the row of {author} does not name its last message")
            if not sound.is_sound(text, start, author, row.sequence, self._hmac_key):
                self._record_damage(author, row.sequence)
        ((last,),) = self._query("SELECT max(feed) FROM messages")
        unknown = range(1, last) if last in self._authors else [last] if last is not None else []
        for number in unknown:
            if number in self._authors:
                continue
            if self._query("SELECT 1 FROM messages WHERE feed = ? LIMIT 1", (number,)):
                raise self._damage("messages of a feed that is not in the table of feeds")

    def _damage(self, what: str) -> StoreError:
        return self._error(f"damaged: {what}; {MEND}")

    def _error(self, reason: str) -> StoreError:
        kind = DamagedStore if reason.startswith("damaged") else StoreError
        return kind(f"{self.path}: {reason}")

    def _page(
        self, chosen: str, values: tuple[Any, ...], after: int, limit: int, order: str = "position"
    ) -> list[Stored]:
        """Read pages until there are `limit` sound messages: after a position, or in a descending order."""
        found: list[Stored] = []
        is_back = order.endswith("DESC")
        column = order.removesuffix(" DESC")
        query = f"{STORED} WHERE {chosen} {column} {'<' if is_back else '>'} ? ORDER BY {order} LIMIT ?"
        while (wanted := limit - len(found)) > 0:
            rows = self._query(query, (*values, after, wanted))
            found += [stored for stored in map(self._sound, rows) if stored is not None]
            if len(rows) < wanted:
                break
            after = rows[-1][2 if column == "sequence" else 0]
        return found

    def _sound(self, row: tuple[Any, ...]) -> Stored | None:
        """The message of a row, or None if it is damaged, which is then recorded."""
        position, number, sequence, received, text, start = row
        author = self._authors.get(number)
        end = 0 if author is None else self._rows[author].sequence
        if author is None or not isinstance(sequence, int) or not 1 <= sequence <= end:
            return None
        if sound.is_sound(text, start, author, sequence, self._hmac_key):
            return Stored(position, sequence, sound.time_of(received), text)
        self._record_damage(author, sequence)
        return None

    def _record_damage(self, feed: str, sequence: int) -> None:
        """Record that a message is damaged."""
        if sequence in self._damaged.get(feed, ()):
            return
        if not self._read_only:
            with self._transaction():
                place = (self._rows[feed].number, sequence)
                self._database.execute("INSERT OR IGNORE INTO damaged VALUES (?, ?)", place)
        self._mark(feed, sequence)
        self._lost.append((feed, sequence))

    def _restore(self, feed: str, sequence: int) -> None:
        """Record that a message is restored."""
        with self._transaction():
            place = (self._rows[feed].number, sequence)
            self._database.execute("DELETE FROM damaged WHERE feed = ? AND sequence = ?", place)
        self._unmark(feed, sequence)

    def _unmark(self, feed: str, sequence: int) -> None:
        self._damaged[feed].discard(sequence)
        if not self._damaged[feed]:
            del self._damaged[feed]
        self._update_tip(feed)

    def _mark(self, feed: str, sequence: int) -> None:
        """End a feed before a damaged message."""
        self._damaged.setdefault(feed, set()).add(sequence)
        self._update_tip(feed)

    def _update_tip(self, feed: str) -> None:
        """Update the end of a feed for others."""
        damaged = self._damaged.get(feed)
        whole = min(damaged) - 1 if damaged else self._rows[feed].sequence
        if whole > 0:
            self._tips[feed] = whole
        else:
            self._tips.pop(feed, None)


def is_tip(sequence: Any, tip: Any) -> bool:
    """Whether two columns can be the number and the digest of a feed's last message."""
    is_number = isinstance(sequence, int) and sequence >= 1
    return is_number and isinstance(tip, bytes) and len(tip) == KEY_BYTES


def _digest(text: bytes) -> bytes | None:
    try:
        return message_digest(text)
    except UnicodeDecodeError:
        return None


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")
