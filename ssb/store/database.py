"""A file of SQLite in WAL mode: created atomically, written by one process, in transactions.

When a transaction returns, it survives the death of the process at any instant; a power cut may lose the last
ones, whole ones from the end (`synchronous` NORMAL), but not one that is final (`synchronous` FULL) nor any
before it. A power cut never leaves part of a transaction.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from base.files import write_whole
from ssb.store.feeds import StoreError
from ssb.store.lock import WriteLock

_CACHE_KIB = 32 << 10
_LARGEST_LOG = 16 << 20  # bytes of the -wal file that are kept; a transaction may exceed it for a while
_BUSY_S = 10.0
_DIGEST = 32  # bytes


class Database:
    """A file described by a subclass, created if missing. Beside it are SQLite's `-wal` and `-shm`, and
    `.lock`. Only its owner can read it, regardless of the directory's mode.

    Args:
        path: the file.
        read_only: open for reading, next to a process that writes.

    Raises StoreError: in use by another writer, another program's, of a newer version, or the disk fails.
    """

    APPLICATION_ID: ClassVar[int]
    """Identifies the file type (SQLite's `application_id`)."""
    VERSION: ClassVar[int]
    """Of the schema (SQLite's `user_version`)."""
    SCHEMA: ClassVar[str]
    """Statements that create the tables."""
    KIND: ClassVar[str]
    """Kind of the file, for errors: "store of feeds"."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._lock = None if read_only else WriteLock(self.lock_path, self.path)
        try:
            if not read_only:
                make_private(self.path)
            with self._errors():
                self._database = self._connect()
                try:
                    self._open()
                except BaseException:
                    self._database.close()
                    raise
            if not read_only:
                for suffix in ("", "-wal", "-shm"):
                    keep_private(self.path.with_name(f"{self.path.name}{suffix}"))
        except BaseException:
            if self._lock is not None:
                self._lock.close()
            raise

    @property
    def lock_path(self) -> Path:
        """The lock file, created with the first opening and left empty."""
        return self.path.with_name(f"{self.path.name}.lock")

    def close(self) -> None:
        """Release the file and the lock."""
        with self._errors():
            self._database.close()
        if self._lock is not None:
            self._lock.close()

    def _connect(self) -> sqlite3.Connection:
        if self._read_only and not self.path.exists():
            raise self._error("no such file")
        mode = "ro" if self._read_only else "rwc"
        uri = f"file:{quote(str(self.path))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)

    def _open(self) -> None:
        database = self._database
        if self._is_new():
            if self._read_only:
                raise self._error(f"not a {self.KIND}")
            database.execute("PRAGMA journal_mode = WAL")
            # All in one transaction: a process killed here leaves a file that is still new.
            with self._transaction():
                for statement in self.SCHEMA.split(";\n"):
                    database.execute(statement)
                self._fill()
                database.execute(f"PRAGMA application_id = {self.APPLICATION_ID}")
                database.execute(f"PRAGMA user_version = {self.VERSION}")
        elif self._pragma("application_id") != self.APPLICATION_ID:
            raise self._error(f"not a {self.KIND}; it belongs to another program")
        version = self._pragma("user_version")
        if version != self.VERSION:
            raise self._error(f"has version {version}, but this program knows {self.VERSION} only; update it")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        database.execute(f"PRAGMA journal_size_limit = {_LARGEST_LOG}")

    def _fill(self) -> None:
        """Write the initial contents of a new file."""

    def _is_new(self) -> bool:
        return not self._query("SELECT 1 FROM sqlite_schema LIMIT 1") and not self._pragma("application_id")

    def _pragma(self, name: str) -> int:
        return int(self._query(f"PRAGMA {name}")[0][0])

    def _query(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._errors():
            return self._database.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self, *, is_final: bool = False) -> Iterator[None]:
        """Run a transaction; a final one survives a power cut."""
        with self._errors():
            if is_final:
                self._database.execute("PRAGMA synchronous = FULL")
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._database.execute("COMMIT")
                except BaseException:
                    if self._database.in_transaction:  # SQLite rolls back by itself after some errors
                        self._database.execute("ROLLBACK")
                    raise
            finally:
                if is_final:
                    self._database.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(self._explain(error)) from error
        except UnicodeDecodeError as error:  # SQLite's error has a name from a damaged file
            raise self._error("damaged: a name in it is not UTF-8") from error

    def _error(self, reason: str) -> StoreError:
        return StoreError(f"{self.path}: {reason}")

    def _explain(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorname", "")
        if code == "SQLITE_FULL":
            return "the disk is full; make space and try again"
        if code == "SQLITE_NOTADB":
            return f"not a {self.KIND}"
        if code.startswith("SQLITE_IOERR"):
            return f"the disk fails ({code}); nothing was stored"
        return f"{error} ({code})" if code else str(error)


def make_private(path: str | Path) -> None:
    """Create a file, if missing, that only its owner can read. Raises StoreError."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def write_private(path: Path, data: bytes) -> None:
    """Replace a small file atomically by one that only its owner can read. Raises StoreError."""
    try:
        write_whole(path, data, mode=0o600, is_sole=True)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def write_summed(path: Path, data: bytes) -> None:
    """Replace a private file by a SHA-256 of `data` and `data`, for read_summed(). Raises StoreError."""
    write_private(path, sha256(data).digest() + data)


def read_summed(path: Path) -> bytes | None:
    """Return the data that write_summed() has written; None if the file is missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data[_DIGEST:] if sha256(data[_DIGEST:]).digest() == data[:_DIGEST] else None


def keep_private(path: Path) -> None:
    """Remove the access of others to a file or directory, if it exists and may be changed."""
    with suppress(FileNotFoundError, PermissionError):
        mode = path.stat().st_mode
        if mode & 0o077:
            path.chmod(mode & 0o700)


def words_of(path: Path) -> list[str]:
    """Return the words of a file; none if it is missing. Raises StoreError."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def add_words(path: Path, *words: str) -> None:
    """Append to the words of a private file, one a line. Raises StoreError."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(file, "w", encoding="utf-8") as lines:
            lines.writelines(f"{word}\n" for word in words)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
