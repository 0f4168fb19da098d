"""A store on disk: one SQLite file in WAL mode.

**Durability.** When `append` returns, its messages survive the death of the process at any instant; a power
cut may lose the last transactions (`ssb.store.database`). The authors still have such messages, so they are
fetched again. When `publish` returns, its message and all before survive a power cut, too: if it were lost
after others had seen it, the next message would fork the feed.

**Contents.** The canonical text, because it is what is signed. The compact form, which peers send, is
computed on request. Ids are indexed by their first 8 bytes, and compared in full when a message is read: the
index is the costly part of an append, and half as large this way.

**Damaged messages** count as missing, and are fetched again (`ssb.store.feed_table`): for `tips`, `tip` and
`after` a feed ends before its first damaged message; `get` and `log` have those behind it, too.

**Memory.** The tip of each feed and SQLite's cache of pages, but no messages.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from ssb.ending import END, End, end_of
from ssb.keys import InvalidRef, message_ref, parse_message
from ssb.message import Message, contradicts
from ssb.store import sound
from ssb.store.admission import Admission, Changes, content_type
from ssb.store.feed_table import STORED, FeedTable, Row
from ssb.store.feeds import MAX_OUT_OF_ORDER, Stored, StoreError, Tip, ignored_from

_LAST = 2**63 - 1  # a position, or a sequence number

_INSERT = "INSERT INTO messages (feed, sequence, id_start, type, received, text) VALUES (?, ?, ?, ?, ?, ?)"


class SqliteFeeds(Admission, FeedTable):
    """Feeds in one file (`ssb.store.feeds.FeedStore`), created if missing.

    One process writes; others may read meanwhile. Beside the file are SQLite's `-wal` and `-shm`, and
    `.lock`.

    Args:
        path: the file.
        hmac_key: the network's 32-byte key, if it has one. A file belongs to one network.
        read_only: open for reading, next to a process that writes.

    Raises StoreError: in use by another writer, not a store, of another network, of a newer version, or
    the disk fails. When a write fails, for example because the disk is full, the store is unchanged, and
    usable when there is space again.
    """

    def __init__(self, path: str | Path, hmac_key: bytes | None = None, *, read_only: bool = False) -> None:
        Admission.__init__(self, hmac_key)
        FeedTable.__init__(self, path, hmac_key, read_only=read_only)

    def tips(self) -> Mapping[str, int]:
        """The last sequence number of each feed: a live view, not a copy; for a reader, a snapshot."""
        self._refresh()
        return MappingProxyType(self._tips)

    def tip(self, feed: str) -> Tip | None:
        """The last message of a feed; None if the store holds none."""
        self._refresh()
        while (whole := self._tips.get(feed)) is not None:
            if whole == self._rows[feed].sequence:
                return Tip(whole, message_ref(self._rows[feed].tip))
            held = self._held(feed, whole)
            if held is not None:
                return Tip(whole, held.id)
        return None

    def last(self, feed: str) -> int:
        """Number of the last message that the store has accepted of a feed, damaged or not; 0 for none."""
        self._refresh()
        row = self._rows.get(feed)
        return 0 if row is None else row.sequence

    @property
    def end(self) -> int:
        """The last position in the log; 0 if nothing was ever stored."""
        rows = self._query("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
        return int(rows[0][0]) if rows and isinstance(rows[0][0], int) else 0

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """The messages of a feed after a sequence number, in order, at most `limit`."""
        self._refresh()
        first, end = max(sequence, 0) + 1, self._tips.get(feed, 0)
        if first > end:
            return []
        place = (self._rows[feed].number, first, end, limit)
        chosen = f"{STORED} WHERE feed = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?"
        found: list[Stored] = []
        for row in self._query(chosen, place):
            stored = self._sound(row)
            if stored is None or stored.sequence != first + len(found):
                break
            found.append(stored)
        if len(found) < min(limit, end - first + 1):
            self._record_damage(feed, first + len(found))
        return found

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of a feed or out of order."""
        try:
            digest = parse_message(id)
        except InvalidRef:
            return None
        for row in self._query(f"{STORED} WHERE id_start = ?", (sound.start_of(digest),)):
            stored = self._sound(row)
            if stored is not None and stored.id == id:
                return stored.message
        rows = self._query("SELECT text FROM out_of_order WHERE id = ?", (digest,))
        return sound.read(rows[0][0], self._hmac_key, digest) if rows else None

    def log(self, after: int, limit: int, types: Collection[str | None] | None = None) -> list[Stored]:
        """The messages of all feeds after a position, in order of receipt, at most `limit`."""
        self._refresh()
        if types is None:
            return self._page("", (), after, limit)
        found: list[Stored] = []
        for kind in set(types):
            found += self._page("type IS ? AND", (kind,), after, limit)
        return sorted(found)[:limit]

    def newest(self, limit: int, feed: str | None = None, kind: str | None = None) -> list[Stored]:
        """The last messages of all feeds or of one, of all types or of one, in order of receipt."""
        self._refresh()
        if feed is None:
            chosen, by = ("type = ? AND", (kind,)) if kind else ("", ())
            return sorted(self._page(chosen, by, _LAST, limit, "position DESC"))
        row = self._rows.get(feed)
        if row is None:
            return []
        only = " AND +type = ?" if kind else ""  # the plus keeps SQLite from scanning all of the type
        of_feed = (row.number, kind) if kind else (row.number,)
        return sorted(self._page(f"feed = ?{only} AND", of_feed, _LAST, limit, "sequence DESC"))

    def at(self, positions: Iterable[int]) -> list[Stored]:
        """The messages of feeds at some positions, in order; damaged and dropped ones are left out."""
        self._refresh()
        rows = (row for place in positions for row in self._query(f"{STORED} WHERE position = ?", (place,)))
        return [stored for stored in map(self._sound, rows) if stored is not None]

    def authors_at(self, positions: Iterable[int]) -> list[tuple[int, str]]:
        """Positions and authors of the messages of feeds at some positions; no message is read."""
        self._refresh()
        chosen = "SELECT position, feed FROM messages WHERE position = ?"
        rows = (row for place in positions for row in self._query(chosen, (place,)))
        return [(place, self._authors[feed]) for place, feed in rows if feed in self._authors]

    def out_of_order_with(self, reference: str) -> list[Message]:
        """The messages out of order whose texts have a reference, in order of receipt."""
        chosen = "SELECT text, id FROM out_of_order WHERE instr(text, ?) ORDER BY place"
        rows = self._query(chosen, (reference.encode(),)) if self._loose else []
        found = (sound.read(text, self._hmac_key, digest) for text, digest in rows)
        return [message for message in found if message is not None]

    def check_message(self, feed: str, sequence: int) -> None:
        """Check a message that another process has found damaged, and record the result here."""
        self._held(feed, sequence)

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """For each forked feed the two messages that prove it."""
        self._refresh()
        return self._forks

    def fork_of(self, feed: str) -> int | None:
        """The number of a forked feed's first ignored message; its proof is read once."""
        self._refresh()
        return self._forks.first(feed)

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may be received again later; return their number."""
        row = self._rows.get(feed)
        if row is None:
            return 0
        if row.own:
            raise ValueError(f"{feed} is written here: if it began again, it would be forked")
        with self._transaction():
            dropped = self._database.execute("DELETE FROM messages WHERE feed = ?", (row.number,)).rowcount
            self._database.execute("DELETE FROM feeds WHERE feed = ?", (row.number,))
            self._database.execute("DELETE FROM damaged WHERE feed = ?", (row.number,))
        del self._rows[feed], self._authors[row.number]
        self._damaged.pop(feed, None)
        self._tips.pop(feed, None)
        self._ends.pop(feed, None)
        return dropped

    def close(self) -> None:
        """Release the file and the lock."""
        FeedTable.close(self)

    def _load(self) -> None:
        super()._load()
        self._forks = _Forks(self)
        self._loose = self._count_out_of_order()
        self._ends = self._read_ends()

    def _read_ends(self) -> dict[str, End]:
        """Read the ends of feeds. No message is stored after one, so each is the last of its feed."""
        last = "(SELECT f.sequence FROM feeds AS f WHERE f.feed = messages.feed)"
        rows = self._query(f"{STORED} WHERE type = ? AND sequence = {last}", (END,))
        read = (stored.message for row in rows if (stored := self._sound(row)) is not None)
        ends = ((m.author, end_of(m.author, m.sequence, m.content)) for m in read)
        return {author: end for author, end in ends if end is not None}

    def ends(self) -> Mapping[str, End]:
        """The end of each feed that has ended."""
        self._refresh()
        return super().ends()

    def _count_out_of_order(self) -> int:
        return int(self._query("SELECT count(*) FROM out_of_order")[0][0])

    def _held(self, feed: str, sequence: int) -> Message | None:
        row = self._rows.get(feed)
        if row is None or not 1 <= sequence <= row.sequence or sequence in self._damaged.get(feed, ()):
            return None
        rows = self._query(f"{STORED} WHERE feed = ? AND sequence = ?", (row.number, sequence))
        stored = self._sound(rows[0]) if rows else None
        if stored is None or stored.sequence != sequence:
            self._record_damage(feed, sequence)
            return None
        return stored.message

    def _is_damaged(self, feed: str) -> bool:
        return feed in self._damaged

    def _newest(self, feed: str) -> Message | None:
        row = self._rows.get(feed)
        if row is None:
            return None
        newest = self._held(feed, row.sequence)
        if newest is None:
            raise StoreError(
                f"{self.path}: message {row.sequence} of {feed}, its last one, is damaged here: a new one "
                "could fork the feed; run the peer until others have sent it again"
            )
        return newest

    def _tip_with(self, message: Message) -> Tip:
        feed, sequence = message.author, message.sequence
        row = self._rows.get(feed)
        while row is not None and sequence < row.sequence:
            behind = [number for number in self._damaged.get(feed, ()) if number > sequence]
            end = min(behind, default=row.sequence + 1) - 1
            if end == sequence:
                break
            held = self._held(feed, end)
            if held is not None:
                return Tip(end, held.id)
        return super()._tip_with(message)

    def _out_of_order(self, feed: str, sequence: int) -> list[Message]:
        if not self._loose:
            return []
        chosen = "SELECT text, id FROM out_of_order WHERE author = ? AND sequence IN (?, ?)"
        rows = self._query(chosen, (feed, sequence, sequence + 1))
        found = (sound.read(text, self._hmac_key, digest) for text, digest in rows)
        return [message for message in found if message is not None and message.author == feed]

    def _commit(self, changes: Changes) -> None:
        tips = {message.author: message for message in changes.messages}
        again = [m for m in changes.messages if m.sequence in self._damaged.get(m.author, ())]
        rows: dict[str, Row] = {}
        loose = self._loose
        with self._transaction(is_final=changes.own is not None):
            for feed, tip in tips.items():
                rows[feed] = self._move_tip(feed, tip, is_own=feed == changes.own)
            for message in again:
                self._clear(rows[message.author].number, message.sequence)
            self._database.executemany(
                _INSERT,
                (
                    (
                        rows[m.author].number,
                        m.sequence,
                        sound.start_of(parse_message(m.id)),
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
                self._database.execute("INSERT OR REPLACE INTO forks VALUES (?, ?, ?)", proof)
            if changes.out_of_order is not None:
                loose += self._keep_out_of_order(changes.out_of_order, changes.received, loose)
        self._rows |= rows
        for message in again:
            self._unmark(message.author, message.sequence)
        for feed, row in rows.items():
            self._authors[row.number] = feed
            self._update_tip(feed)
        self._forks.add(changes.forks)
        self._loose = loose

    def _clear(self, number: int, sequence: int) -> None:
        """Delete a damaged message, to be replaced."""
        database, place = self._database, (number, sequence)
        chosen = "SELECT position FROM messages WHERE feed = ? AND sequence = ?"
        for position in database.execute(chosen, place).fetchall():
            try:
                database.execute("DELETE FROM messages WHERE position = ?", position)
            except sqlite3.DatabaseError:  # an index has the row's old values
                database.execute("REINDEX messages")
                database.execute("DELETE FROM messages WHERE position = ?", position)
        database.execute("DELETE FROM damaged WHERE feed = ? AND sequence = ?", place)

    def _move_tip(self, feed: str, tip: Message, *, is_own: bool) -> Row:
        before = self._rows.get(feed)
        digest = parse_message(tip.id)
        if before is None:
            added = self._database.execute(
                "INSERT INTO feeds (author, sequence, tip, own) VALUES (?, ?, ?, ?)",
                (feed, tip.sequence, digest, is_own),
            )
            assert added.lastrowid is not None
            return Row(added.lastrowid, tip.sequence, digest, is_own)
        if tip.sequence < before.sequence:  # it replaces a damaged one
            return before
        row = Row(before.number, tip.sequence, digest, before.own or is_own)
        changed = "UPDATE feeds SET sequence = ?, tip = ?, own = ? WHERE feed = ?"
        self._database.execute(changed, (row.sequence, row.tip, row.own, row.number))
        return row

    def _keep_out_of_order(self, message: Message, received: float, count: int) -> int:
        """Return the increase of their number."""
        added = self._database.execute(
            "INSERT INTO out_of_order (author, sequence, id, received, text) VALUES (?, ?, ?, ?, ?)",
            (message.author, message.sequence, parse_message(message.id), received, message.encoded),
        ).rowcount
        if count < MAX_OUT_OF_ORDER:
            return added
        oldest = "DELETE FROM out_of_order WHERE place = (SELECT min(place) FROM out_of_order)"
        return added - self._database.execute(oldest).rowcount


class _Forks(Mapping[str, tuple[Message, Message]]):
    """The forked feeds; their proofs are read from disk on access."""

    def __init__(self, feeds: SqliteFeeds) -> None:
        self._feeds = feeds
        authors = (author for (author,) in feeds._query("SELECT author FROM forks"))
        # feed -> number of its first ignored message; None until its proof is read
        self._authors: dict[str, int | None] = dict.fromkeys(authors)

    def __contains__(self, feed: object) -> bool:
        return feed in self._authors

    def __iter__(self) -> Iterator[str]:
        return iter(self._authors)

    def __len__(self) -> int:
        return len(self._authors)

    def __getitem__(self, feed: str) -> tuple[Message, Message]:
        if feed not in self._authors:
            raise KeyError(feed)
        rows = self._feeds._query("SELECT first, second FROM forks WHERE author = ?", (feed,))
        first, second = (
            sound.read(text, self._feeds._hmac_key) for text in (rows[0] if rows else (b"", b""))
        )
        if first is None or second is None or first.author != feed or not contradicts(first, second):
            del self._authors[feed]  # the proof is lost; a peer with both branches proves it again
            raise KeyError(feed)
        self._authors[feed] = ignored_from((first, second))
        return first, second

    def first(self, feed: str) -> int | None:
        """The number of a feed's first ignored message; None if no proof of its fork is here."""
        known = self._authors.get(feed)
        if known is None and feed in self._authors:
            proof = self.get(feed)
            known = None if proof is None else ignored_from(proof)
        return known

    def add(self, forks: Mapping[str, tuple[Message, Message]]) -> None:
        """Add feeds whose proofs were written."""
        self._authors |= {feed: ignored_from(proof) for feed, proof in forks.items()}
