"""Agreements of a node as records in its store, and transactions over the whole store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from base.closing import Closing
from ssb.bipf import Value, decode, encode
from ssb.store.database import Database


class Records(Database, Closing):
    """Values by names in one SQLite file, or in memory; the base of a store.

    Args:
        path: the file; None for a store in memory, for simulations.
    """

    SCHEMA = """
CREATE TABLE records (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

    def __init__(self, path: str | Path | None = None) -> None:
        self._depth = 0
        super().__init__(path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply all changes or none; nested transactions are parts of the outer one."""
        if self._depth:
            yield
            return
        self._depth = 1
        changes = self._database.total_changes
        try:
            with self._transaction():
                yield
        except BaseException as error:
            # Malformed input is refused before anything changes: a flood must cost little.
            if not isinstance(error, ValueError) or self._database.total_changes != changes:
                self._load()
            raise
        finally:
            self._depth = 0

    def get(self, name: str) -> Value:
        """Return a record; None if there is none."""
        rows = self._query("SELECT value FROM records WHERE name = ?", (name,))
        return decode(rows[0][0]) if rows else None

    def put(self, name: str, value: Value) -> None:
        """Write a record; None deletes it."""
        with self.transaction():
            if value is None:
                self._database.execute("DELETE FROM records WHERE name = ?", (name,))
            else:
                self._database.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (name, encode(value)))

    def records(self, prefix: str) -> dict[str, Value]:
        """Return all records whose names begin with a prefix, sorted."""
        rows = self._query(
            "SELECT name, value FROM records WHERE substr(name, 1, ?) = ? ORDER BY name",
            (len(prefix), prefix),
        )
        return {name: decode(value) for name, value in rows}

    def names(self) -> set[str]:
        """Return the names of all records."""
        return {name for (name,) in self._query("SELECT name FROM records")}

    def _load(self) -> None:
        """Reload the state in memory from the file."""
