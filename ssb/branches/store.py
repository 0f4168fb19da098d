"""A store on disk of the branches of forked feeds.

A peer's feeds stay as they are (`ssb.store.sqlite`): each has one branch, the one that came first, and is
frozen from its fork on for peers that know no branches. This store adds a file with the messages of all other
branches, and only of feeds that the user merges. It is a file of its own, so that nothing in it can harm the
feeds. All in it was written by others, or on another device, and comes again from these if it is lost.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from ssb.branches.feeds import append_each
from ssb.branches.tree import FeedTree
from ssb.ending import end_of
from ssb.keys import Identity, InvalidRef, is_feed, parse_message
from ssb.message import InvalidMessage, Message
from ssb.store import sound
from ssb.store.database import Database
from ssb.store.feeds import Appended, Stored, StoreError
from ssb.store.sqlite import SqliteFeeds

BRANCHES_FILE: Final = "branches.sqlite"

_SCHEMA = """
CREATE TABLE branches (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    author TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    id BLOB NOT NULL UNIQUE,
    position INTEGER NOT NULL,
    received REAL NOT NULL,
    text BLOB NOT NULL
);
CREATE INDEX branches_by_author ON branches (author);
CREATE TABLE merged (author TEXT PRIMARY KEY);
"""
_STORED = "SELECT id, author, sequence, position, received, text FROM branches"


class BranchTable(Database):
    """The feeds that are merged, and the messages of their other branches.

    Each message has the position in the log of all feeds that it came behind.

    Args:
        path: of the file.
        hmac_key: the network's 32-byte key, if it has one.

    Raises StoreError.
    """

    APPLICATION_ID = 0x53534252  # "SSBR"
    VERSION = 1
    SCHEMA = _SCHEMA
    KIND = "store of branches"

    def __init__(self, path: Path, hmac_key: bytes | None) -> None:
        self._hmac_key = hmac_key
        super().__init__(path)

    def merged(self) -> list[str]:
        """Return the feeds that are merged."""
        rows = self._query("SELECT author FROM merged ORDER BY author")
        return [author for (author,) in rows if is_feed(author)]

    def merge(self, feed: str) -> None:
        """Record that a feed is merged."""
        with self._transaction(is_final=True):
            self._database.execute("INSERT OR IGNORE INTO merged VALUES (?)", (feed,))

    def split(self, feed: str) -> None:
        """Record that a feed is merged no more, and delete its messages."""
        with self._transaction(is_final=True):
            self._database.execute("DELETE FROM merged WHERE author = ?", (feed,))
            self._database.execute("DELETE FROM branches WHERE author = ?", (feed,))

    def add(self, message: Message, position: int, received: float) -> None:
        """Store a verified message; no effect if it is here."""
        row = (message.author, message.sequence, parse_message(message.id), position, received)
        columns = "(author, sequence, id, position, received, text)"
        with self._transaction():
            self._database.execute(
                f"INSERT OR IGNORE INTO branches {columns} VALUES (?, ?, ?, ?, ?, ?)", (*row, message.encoded)
            )

    def authors(self) -> list[str]:
        """Return the feeds that have messages here."""
        return [author for (author,) in self._query("SELECT DISTINCT author FROM branches")]

    def of(self, feed: str) -> list[Stored]:
        """Return the messages of a feed, in order of receipt; damaged ones are deleted, and come again."""
        return self._sound(f"{_STORED} WHERE author = ? ORDER BY place", feed)

    def naming(self, reference: str) -> list[Stored]:
        """Return the messages whose texts have a reference, in order of receipt."""
        return self._sound(f"{_STORED} WHERE instr(text, ?) ORDER BY place", reference.encode())

    def get(self, id_: str) -> Message | None:
        """Return the message with an id."""
        with suppress(InvalidRef):
            for stored in self._sound(f"{_STORED} WHERE id = ?", parse_message(id_)):
                return stored.message
        return None

    def remove(self, messages: Iterable[Message]) -> None:
        """Delete messages."""
        ids = [(parse_message(message.id),) for message in messages]
        with self._transaction():
            self._database.executemany("DELETE FROM branches WHERE id = ?", ids)

    def check(self) -> int:
        """Read all messages, and delete those that are damaged; return their number."""
        ((before,),) = self._query("SELECT count(*) FROM branches")
        whole = sum(len(self.of(author)) for author in self.authors())
        return int(before) - whole

    def _sound(self, query: str, value: str | bytes) -> list[Stored]:
        found = []
        for digest, author, sequence, position, received, text in self._query(query, (value,)):
            is_id = isinstance(digest, bytes) and isinstance(position, int)
            if is_id and sound.is_sound(text, sound.start_of(digest), author, sequence, self._hmac_key):
                found.append(Stored(position, sequence, sound.time_of(received), text))
            else:
                with self._transaction():
                    self._database.execute("DELETE FROM branches WHERE id IS ?", (digest,))
        return found

    def _explain(self, error: sqlite3.Error) -> str:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return f"damaged ({error}); delete the file and merge the feeds again: others send the branches"
        return super()._explain(error)


class MergedFeeds:
    """The feeds whose branches are merged (`ssb.branches.feeds.Branches`).

    All messages of such a feed are in memory once it is known to be forked, or is exchanged.

    Args:
        served: the store of feeds.
        path: of the file, which is created for the first feed that is merged.
        hmac_key: the network's 32-byte key, if it has one.

    Raises StoreError.
    """

    def __init__(self, served: SqliteFeeds, path: Path, hmac_key: bytes | None = None) -> None:
        self.served = served
        self._path = path
        self._hmac_key = hmac_key
        self._trees: dict[str, FeedTree] = {}
        self._read: dict[str, int] = {}  # feed -> number of the last served message in its tree
        self._gaps: dict[str, set[int]] = {}  # feed -> served messages that were damaged when it was read
        self._table = BranchTable(path, hmac_key) if path.exists() else None
        self._merged = dict.fromkeys([] if self._table is None else self._table.merged())
        for feed in [] if self._table is None else self._table.authors():
            if feed in self._merged and served.fork_of(feed) is None:
                self.tree(feed)

    def __contains__(self, feed: object) -> bool:
        return feed in self._merged

    @property
    def feeds(self) -> list[str]:
        """The feeds that are merged, forked or not."""
        return [*self._merged]

    def merge(self, feed: str) -> None:
        """Merge the branches of a feed from now on."""
        if self._table is None:
            self._table = BranchTable(self._path, self._hmac_key)
        self._table.merge(feed)
        self._merged[feed] = None

    def split(self, feed: str) -> None:
        """Merge the branches of a feed no more: all but the branch that is served are deleted."""
        if feed in self._merged:
            self._branches.split(feed)
            del self._merged[feed]
            self._trees.pop(feed, None)

    def is_forked(self, feed: str) -> bool:
        """Whether a feed is merged, and known to be forked."""
        return feed in self._merged and feed in self.served.forks()

    def fork_of(self, feed: str) -> int | None:
        """Return the number of a feed's first message that is ignored here; None if none is.

        Of a merged feed messages are ignored only if it is overgrown.
        """
        if not self.is_forked(feed):
            return self.served.fork_of(feed)
        tree = self.tree(feed)
        return tree.fork if tree.is_overgrown else None

    def is_ignored(self, feed: str, sequence: int) -> bool:
        """Whether messages of a feed with this number are ignored here."""
        first = self.fork_of(feed)
        return first is not None and sequence >= first

    def tree(self, feed: str) -> FeedTree:
        """See Branches; of a feed that is not merged there is none."""
        if feed not in self._merged:
            return FeedTree(feed, self._hmac_key)
        last, damaged = self.served.last(feed), self.served.damaged()
        tree = self._trees.get(feed)
        if tree is None or last < self._read[feed] or not self._gaps[feed].issubset(damaged.get(feed, ())):
            tree = FeedTree(feed, self._hmac_key)
            served, others = self.served.newest(last, feed), self._branches.of(feed)
            self._gaps[feed] = {*self.served.damaged().get(feed, ())}
            ids = {stored.id for stored in others}
            twice = [stored for stored in served if stored.id in ids]
        elif last > self._read[feed]:
            served, others = self.served.newest(last - self._read[feed], feed), []
            twice = served
        else:
            return tree
        for stored in sorted([*served, *others], key=attrgetter("sequence")):
            tree.restore(stored.message)
        if twice:  # one of the files was lost, or a resumption was cut short
            self._branches.remove(stored.message for stored in twice)
        if tree.proof is not None and feed not in self.served.forks():
            self.served.prove(tree.proof)
        self._trees[feed], self._read[feed] = tree, last
        return tree

    def last(self, feed: str) -> Message | None:
        """See Branches; for a feed that is written here."""
        last = self.served.newest(1, feed)
        return last[0].message if last else None

    def append(self, messages: Iterable[Message], received: float) -> Appended:
        """See Branches; nothing follows the end of a feed (`ssb.ending`) on its branch."""

        def take(message: Message) -> bool:
            tree = self.tree(message.author)
            _check_open(tree, message)
            if not tree.add(message):
                return False
            try:
                # If it contradicts the branch that is served, that is recorded there: so the feed is forked.
                if not self.served.append([message], received).stored:
                    self._branches.add(message, self.served.end, received)
            except StoreError:
                del self._trees[message.author]  # which has it, though it may be in no file
                raise
            return True

        return append_each(messages, take)

    def publish(
        self,
        identity: Identity,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
    ) -> Message:
        """Sign content behind the last message of the branch that is served, and store it there.

        It names the tips of the other branches that no message here names (`FeedTree.joined`). A feed that is
        not merged, or not forked, is written as ever. Raises as FeedStore.publish(), and InvalidMessage if
        the feed is overgrown.
        """
        feed = identity.ref
        if not self.is_forked(feed):
            return self.served.publish(identity, content, now_ms, on_signed)
        joined = self.tree(feed).joined(self.resume(feed, now_ms), content)
        if joined is not None:
            with suppress(InvalidMessage):  # too long
                return self.served.go_on(identity, joined, now_ms, on_signed)
        return self.served.go_on(identity, content, now_ms, on_signed)

    def resume(self, feed: str, now_ms: float) -> Message | None:
        """Return the message behind which a feed is written here; None for the first one.

        The served branch goes on with the longest one behind its last message, if there is one. So a device
        that has lost messages goes on behind them, and writes no further branch. Raises InvalidMessage if
        the feed is overgrown.
        """
        last = self.last(feed)
        if not self.is_forked(feed):
            return last
        tree = self.tree(feed)
        tree.check_room()
        ends = (tree.behind([tip], {last.id} if last is not None else set()) for tip in tree.tips.values())
        onward = [found for found in ends if found and found[0].previous == (last and last.id)]
        if onward:
            found = max(onward, key=lambda messages: (len(messages), messages[-1].id))
            self.served.adopt(found, now_ms)
            self._branches.remove(found)
        return self.last(feed)

    # What is here beside the served branches

    def get(self, id_: str) -> Message | None:
        """Return the message with an id, of another branch; None if there is none."""
        return None if self._table is None else self._table.get(id_)

    def others(self, feeds: Iterable[str] | None = None) -> list[Stored]:
        """Return the messages of other branches that are not ignored, of some feeds or of all, in order of
        receipt.
        """
        chosen = self._merged if feeds is None else sorted(self._merged.keys() & {*feeds})
        firsts = {feed: self.fork_of(feed) for feed in chosen if self.is_forked(feed)}
        shown = [
            stored
            for feed, first in firsts.items()
            for stored in self._branches.of(feed)
            if first is None or stored.sequence < first
        ]
        return sorted(shown, key=attrgetter("position"))

    def naming(self, reference: str) -> list[Message]:
        """Return the messages of other branches that have a reference, in order of receipt."""
        return [] if self._table is None else [each.message for each in self._table.naming(reference)]

    def close(self) -> None:
        """Release the file."""
        if self._table is not None:
            self._table.close()

    @property
    def _branches(self) -> BranchTable:
        if self._table is None:
            raise StoreError(f"{self._path}: no feed is merged")
        return self._table


def _check_open(tree: FeedTree, message: Message) -> None:
    """Raise InvalidMessage if the message before ends the feed."""
    before = tree.get(message.previous or "")
    if before is not None and end_of(before.author, before.sequence, before.content) is not None:
        raise InvalidMessage(f"message {before.sequence} has ended this branch")
