"""The tables of a store of tinySSB in memory, for simulations: the disk of a node that may start again."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from typing import Any

from ssb.store.feeds import StoreError
from ssb.tiny.entry import DEMUX, Entry
from ssb.tiny.feed import FINE, Feed
from ssb.tiny.tables import EntryRow, FeedRow


class MemoryTables:
    """See ssb.tiny.tables.Tables. What a change replaces is noted until its transaction ends."""

    def __init__(self) -> None:
        self._feeds: dict[int, FeedRow] = {}
        self._entries: dict[tuple[int, int], EntryRow] = {}
        self._chunks: dict[tuple[int, int, int], bytes] = {}
        self._places: dict[bytes, tuple[int, int]] = {}
        self._packets: dict[int, int] = {}
        self._proofs: dict[int, tuple[bytes, bytes]] = {}
        self._records: dict[str, bytes] = {}
        self._last_row = 0
        self._replaced: list[tuple[dict[Any, Any], Any, Any]] = []
        self._is_open = False
        self.changes = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._is_open = True
        try:
            yield
        except BaseException:
            for table, key, value in reversed(self._replaced):
                _write(table, key, value)
            raise
        finally:
            self._is_open = False
            self._replaced.clear()

    def _set(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Write a row of a table; None deletes it."""
        assert self._is_open, "a change outside of a transaction"
        before = table.get(key)
        if before is None and value is None:
            return
        self.changes += 1
        self._replaced.append((table, key, before))
        _write(table, key, value)

    def _add(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        if key in table:
            raise StoreError(f"in memory: {key} is already stored")
        self._set(table, key, value)

    def close(self) -> None:
        """See Tables."""

    def check(self) -> None:
        """See Tables."""

    def feeds(self) -> list[FeedRow]:
        return [self._feeds[row] for row in sorted(self._feeds)]

    def add_feed(self, key: bytes, tip: bytes, secret: str | None) -> int:
        self._last_row = row = self._last_row + 1
        self._set(self._feeds, row, FeedRow(row, key, 0, tip, 0, 0, 0, secret, FINE))
        return row

    def update(self, feed: Feed) -> None:
        state = feed.sequence, feed.tip, feed.whole, feed.base, feed.mark
        secret = self._feeds[feed.row].secret
        self._set(self._feeds, feed.row, FeedRow(feed.row, feed.key, *state, secret, feed.condition))

    def drop(self, feed: Feed) -> None:
        self.prune(feed, feed.sequence)
        for table in (self._feeds, self._proofs, self._packets):
            self._set(table, feed.row, None)

    def prune(self, feed: Feed, sequence: int) -> None:
        row, gone = feed.row, 0
        for number in range(self._feeds[row].base + 1, sequence + 1):
            entry = self._entries.get((row, number))
            if entry is None:
                continue
            chunks = self._chunk_keys(feed, number)
            for key in chunks:
                self._set(self._chunks, key, None)
            self._set(self._entries, (row, number), None)
            self._set(self._places, entry.packet[:DEMUX], None)
            gone += 1 + len(chunks)
        self._set(self._packets, row, self._packets.get(row, 0) - gone)

    def insert(self, feed: Feed, entry: Entry) -> None:
        place = feed.row, entry.sequence
        self._add(self._entries, place, EntryRow(entry.sequence, entry.id, entry.packet))
        self._set(self._places, entry.packet[:DEMUX], place)
        self._set(self._packets, feed.row, self._packets.get(feed.row, 0) + 1)

    def insert_chunk(self, feed: Feed, sequence: int, number: int, chunk: bytes) -> None:
        self._add(self._chunks, (feed.row, sequence, number), chunk)
        self._set(self._packets, feed.row, self._packets.get(feed.row, 0) + 1)

    def find(self, demultiplexer: bytes) -> tuple[bytes, int, bytes] | None:
        place = self._places.get(demultiplexer)
        if place is None:
            return None
        return self._feeds[place[0]].key, place[1], self._entries[place].packet

    def entry(self, feed: Feed, sequence: int) -> EntryRow | None:
        return self._entries.get((feed.row, sequence))

    def entries(self, feed: Feed, after: int, last: int) -> list[EntryRow]:
        numbers = range(max(after, self._feeds[feed.row].base) + 1, last + 1)
        found = (self._entries.get((feed.row, number)) for number in numbers)
        return [entry for entry in found if entry is not None]

    def numbers(self, feed: Feed) -> list[int]:
        return sorted(sequence for row, sequence in self._entries if row == feed.row)

    def chunk(self, feed: Feed, sequence: int, number: int) -> bytes | None:
        return self._chunks.get((feed.row, sequence, number))

    def chunks(self, feed: Feed, sequence: int) -> list[bytes]:
        return [self._chunks[key] for key in self._chunk_keys(feed, sequence)]

    def _chunk_keys(self, feed: Feed, sequence: int) -> list[tuple[int, int, int]]:
        keys = ((feed.row, sequence, number) for number in count())
        return list(takewhile(self._chunks.__contains__, keys))

    def count(self, feed: Feed | None = None) -> int:
        if feed is None:
            return len(self._entries) + len(self._chunks)
        return self._packets.get(feed.row, 0)

    def proof(self, feed: Feed) -> tuple[bytes, bytes] | None:
        return self._proofs.get(feed.row)

    def add_proof(self, feed: Feed, first: bytes, second: bytes) -> None:
        if feed.row not in self._proofs:
            self._set(self._proofs, feed.row, (first, second))

    def get(self, name: str) -> bytes | None:
        return self._records.get(name)

    def put(self, name: str, value: bytes | None) -> None:
        self._set(self._records, name, value)

    def records(self, prefix: str) -> dict[str, bytes]:
        return {name: self._records[name] for name in sorted(self._records) if name.startswith(prefix)}


def _write(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
