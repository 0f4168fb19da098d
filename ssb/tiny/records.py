"""Agreements of a node as records in its store, and transactions over the whole store."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from base.passive import Closing
from ssb.bipf import Value, decode, encode
from ssb.tiny.memory import MemoryTables
from ssb.tiny.tables import FileTables, Tables

_NESTED: Final = nullcontext()


class Records(Closing):
    """Values by names; the base of a store.

    Args:
        place: the file; or tables in memory, for simulations, by default new ones.
    """

    def __init__(self, place: str | Path | MemoryTables | None = None) -> None:
        self._is_open = False
        if place is None or isinstance(place, MemoryTables):
            self.path = Path(":memory:")
            self._tables: Tables = place or MemoryTables()
        else:
            self.path = Path(place)
            self._tables = FileTables(place)
        self._load()

    def close(self) -> None:
        """Release the file."""
        self._tables.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Apply all changes or none; nested transactions are parts of the outer one."""
        return _NESTED if self._is_open else self._outermost()

    @contextmanager
    def _outermost(self) -> Iterator[None]:
        self._is_open = True
        changes = self._tables.changes
        try:
            with self._tables.transaction():
                yield
        except BaseException as error:
            # Malformed input is refused before anything changes: a flood must cost little.
            if not isinstance(error, ValueError) or self._tables.changes != changes:
                self._load()
            raise
        finally:
            self._is_open = False

    def get(self, name: str) -> Value:
        """Return a record; None if there is none."""
        value = self._tables.get(name)
        return None if value is None else decode(value)

    def put(self, name: str, value: Value) -> None:
        """Write a record; None deletes it."""
        with self.transaction():
            self._tables.put(name, None if value is None else encode(value))

    def records(self, prefix: str) -> dict[str, Value]:
        """Return all records whose names begin with a prefix, sorted."""
        return {name: decode(value) for name, value in self._tables.records(prefix).items()}

    def names(self) -> set[str]:
        """Return the names of all records."""
        return set(self._tables.records(""))

    def _load(self) -> None:
        """Load the state of all feeds from the tables."""
