"""Checking a whole store, and rebuilding a damaged one.

Single damaged messages are fetched again from other peers (`ssb.store.feed_table`): here all are found. If
the file is damaged beyond that, SQLite may be unable to read or change parts of it. Then all readable
messages with valid signatures are copied to a new file, at their old positions. It replaces the damaged one,
which is kept beside it. Missing messages count as damaged, and are fetched again.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ssb.message import ForkedFeed, InvalidMessage, Message, contradicts, message_digest
from ssb.store import sound
from ssb.store.admission import content_type
from ssb.store.feed_table import INSERT_AT, STORED, DamagedStore, is_tip
from ssb.store.feeds import Stored, StoreError
from ssb.store.lock import WriteLock
from ssb.store.sqlite import SqliteFeeds

KEPT: Final = ".damaged"
"""Suffix of the name of a damaged file."""

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter for names in the file
_PAGE = 1000
_GAP = 1_000_000  # unreadable positions after which the end is assumed


class Checked(NamedTuple):
    """Result of a check.

    Attributes:
        messages: number of intact ones.
        damaged: feed -> the numbers of its damaged messages, to be fetched again.
        kept: path of the damaged file, if a new one was written.
    """

    messages: int
    damaged: dict[str, list[int]]
    kept: Path | None = None


def check_file(path: Path, hmac_key: bytes | None = None, *, read_only: bool = False) -> Checked:
    """Check a whole store; rebuild the file if needed.

    A store beside a process that writes to it is opened `read_only`, and then not rebuilt. Raises StoreError.
    """
    kept = None
    try:
        with SqliteFeeds(path, hmac_key, read_only=read_only) as store:
            check_structure(store)
    except DamagedStore:
        if read_only:
            raise
        kept = rebuild(path, hmac_key)
    with SqliteFeeds(path, hmac_key, read_only=read_only) as store:
        messages = sum(1 for _ in examined(store))
        return Checked(messages, store.damaged(), kept)


def check_structure(store: SqliteFeeds) -> None:
    """Check the whole file by SQLite; raise StoreError at a fault."""
    for (said,) in store._query("PRAGMA integrity_check(1)"):
        if said != "ok":
            raise store._damage(said.replace("\n", " "))
    counted = dict(store._query("SELECT feed, count(*) FROM messages GROUP BY feed"))
    if not counted.keys() <= store._authors.keys():
        raise store._damage("messages of a feed that is not in the table of feeds")
    for feed, row in store._rows.items():
        missing = row.sequence - counted.get(row.number, 0)
        if not 0 <= missing <= len(store.damaged().get(feed, ())):
            raise store._damage(f"{feed} has not as many messages as its row says")


def check_chains(store: SqliteFeeds) -> None:
    """Verify each message and each feed's chain: a minute for a million. Raises StoreError at a fault."""
    check_structure(store)
    last: Message | None = None
    for stored in examined(store):
        message = stored.message
        try:
            message.verify(store._hmac_key)
            if message.sequence - 1 not in store.damaged().get(message.author, ()):
                message.follow(None if last is None or last.author != message.author else last)
            if store.get(message.id) != message:
                raise InvalidMessage(f"{message.id} is not found by its id")
        except (InvalidMessage, ForkedFeed) as error:
            raise store._damage(f"{message.author}: {error}") from None
        last = message
    for feed, numbers in store.damaged().items():
        raise store._damage(f"message {numbers[0]} of {feed}")


def examined(store: SqliteFeeds) -> Iterator[Stored]:
    """Yield the sound messages of all feeds, each feed's in order; the others are then in `damaged`.

    A message that was found damaged before and is intact now counts again: memory was at fault, not the disk.
    """
    chosen = f"{STORED} WHERE feed = ? AND sequence BETWEEN ? AND ? ORDER BY sequence"
    for feed, row in list(store._rows.items()):
        for first in range(1, row.sequence + 1, _PAGE):
            last = min(first + _PAGE - 1, row.sequence)
            found = map(store._sound, store._query(chosen, (row.number, first, last)))
            whole = {stored.sequence: stored for stored in found if stored is not None}
            for sequence in range(first, last + 1):
                if sequence not in whole:
                    store._record_damage(feed, sequence)
                elif sequence in store.damaged().get(feed, ()) and not store._read_only:
                    store._restore(feed, sequence)
            yield from whole.values()


def rebuild(path: Path, hmac_key: bytes | None) -> Path:
    """Rebuild a store from all that can be read; return the path of the damaged file. Raises StoreError."""
    lock = WriteLock(path.with_name(f"{path.name}.lock"), path)
    partial = path.with_name(f"{path.name}.new")
    try:
        _remove(partial)
        old = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        old.text_factory = bytes
        with closing(old), SqliteFeeds(partial, hmac_key) as new:
            old.execute("SELECT position, received, text, id_start FROM messages LIMIT 0")  # so it is a store
            _copy(old, new)
            if not new.end:
                raise sqlite3.DatabaseError("no message can be read")
        return _replace(path, partial)
    except _UNREADABLE as error:
        raise StoreError(
            f"{path}: damaged beyond mending ({error}); move it away: the feeds come again from other peers"
        ) from None
    except OSError as error:
        raise error if isinstance(error, StoreError) else StoreError(f"{path}: {error.strerror}") from None
    finally:
        _remove(partial)
        lock.close()


def _copy(old: sqlite3.Connection, new: SqliteFeeds) -> None:
    """Copy all intact messages."""
    key, numbers = new._hmac_key, dict[str, int]()
    ends: dict[str, tuple[int, bytes]] = {}
    with new._transaction():
        for position, received, text, start in _rows(old):
            message = _message(text, start, key)
            if message is None:
                continue
            feed, digest = message.author, message_digest(message.encoded)
            if not ends and sound.read(text, key) is None:
                raise StoreError(f"{new.path}: belongs to a network with another HMAC key")
            number = numbers.setdefault(feed, len(numbers) + 1)
            if message.sequence > ends.get(feed, (0, b""))[0]:
                ends[feed] = message.sequence, digest
            row = (number, message.sequence, sound.start_of(digest), content_type(message))
            new._database.execute(INSERT_AT, (position, *row, sound.time_of(received), message.encoded))
        own = _copy_rows(old, new, numbers, ends)
        for feed, (sequence, tip) in ends.items():
            values = (numbers[feed], feed, sequence, tip, feed in own)
            new._database.execute("INSERT INTO feeds VALUES (?, ?, ?, ?, ?)", values)
            _record_missing(new, numbers[feed], sequence)
        _copy_proofs(old, new)
    for text, received in _try(old, "SELECT text, received FROM out_of_order"):
        single = sound.read(text, key)
        if single is not None:
            try:
                new.add_out_of_order(single, sound.time_of(received))
            except (InvalidMessage, ForkedFeed):
                continue


def _message(text: Any, start: Any, key: bytes | None) -> Message | None:
    """The message of a row with damage, perhaps outside of its text."""
    named = sound.named(text) if isinstance(text, bytes) else None
    if named is not None and sound.is_sound(text, start, *named, key):
        return Message.from_text(text)
    return sound.read(text, key)


def _rows(old: sqlite3.Connection) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield position, time, text and start of the id of all readable rows, by ascending positions."""
    chosen = "SELECT position, received, text, id_start FROM messages NOT INDEXED WHERE position"
    last, failed = 0, 0
    while failed < _GAP:
        try:
            if failed % _PAGE:  # behind an unreadable row, one by one
                page = old.execute(f"{chosen} = ?", (last + 1,)).fetchall()
            else:
                page = old.execute(f"{chosen} > ? ORDER BY position LIMIT {_PAGE}", (last,)).fetchall()
                if not page:
                    return
        except _UNREADABLE:
            page = []
        good = [row for row in page if row[0] > last]
        yield from good
        if good:
            last, failed = good[-1][0], 0
        else:
            last, failed = last + (failed % _PAGE > 0), failed + 1


def _copy_rows(
    old: sqlite3.Connection, new: SqliteFeeds, numbers: dict[str, int], ends: dict[str, tuple[int, bytes]]
) -> set[str]:
    """Copy from the old rows the ends of feeds whose last messages are lost; return the local feeds.

    An end is trusted if SQLite's index of the messages has it, too.
    """
    own: set[str] = set()
    for number, author, sequence, tip, is_own in _try(old, "SELECT * FROM feeds"):
        feed = author.decode(errors="replace") if isinstance(author, bytes) else ""
        if feed not in ends:
            continue
        if is_own:
            own.add(feed)
        indexed = "SELECT max(sequence) FROM messages INDEXED BY by_sequence WHERE feed = ?"
        is_last = is_tip(sequence, tip) and _try(old, indexed, number) == [(sequence,)]
        if is_last and sequence > ends[feed][0]:
            ends[feed] = sequence, tip
    return own


def _copy_proofs(old: sqlite3.Connection, new: SqliteFeeds) -> None:
    for first, second in _try(old, "SELECT first, second FROM forks"):
        one, other = (sound.read(text, new._hmac_key) for text in (first, second))
        if one is not None and other is not None and contradicts(one, other):
            values = (one.author, one.encoded, other.encoded)
            new._database.execute("INSERT OR IGNORE INTO forks VALUES (?, ?, ?)", values)


def _record_missing(new: SqliteFeeds, number: int, end: int) -> None:
    found = new._database.execute("SELECT sequence FROM messages WHERE feed = ?", (number,))
    missing = set(range(1, end + 1)).difference(sequence for (sequence,) in found)
    places = ((number, sequence) for sequence in missing)
    new._database.executemany("INSERT INTO damaged VALUES (?, ?)", places)


def _try(old: sqlite3.Connection, query: str, *values: Any) -> list[Any]:
    """The rows of a query before SQLite meets damage."""
    found = []
    try:
        for row in old.execute(query, values):
            found.append(row)
    except _UNREADABLE:
        pass
    return found


def _replace(path: Path, new: Path) -> Path:
    """Replace a damaged file by a new one, and keep it. A process killed here leaves one of the two."""
    kept = path.with_name(f"{path.name}{KEPT}")
    while kept.exists():
        kept = kept.with_name(f"{kept.name}{KEPT}")
    os.link(path, kept)
    log, kept_log = path.with_name(f"{path.name}-wal"), kept.with_name(f"{kept.name}-wal")
    if log.exists() and log.stat().st_size:
        log.replace(kept_log)
    for suffix in ("-wal", "-shm"):  # before the new file exists, to which they do not belong
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    new.replace(path)
    return kept


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", ".lock"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
