"""Blobs by their hashes: in a directory in the layout of ssb-blobs (npm's multiblob), or in memory.

The directory has `sha256/<first 2 digits>/<other 62 digits>` of a blob's hash in hexadecimal, and `tmp/`
for incomplete blobs. The empty blob is always held, and has no file.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from base.files import sync
from base.passive import Closing
from ssb.keys import InvalidRef, blob_ref, parse_blob
from ssb.store.feeds import StoreError
from ssb.store.lock import WriteLock

MAX_SIZE: Final = 5 << 20
"""Bytes of the largest blob that peers of the main network accept."""
EMPTY: Final = blob_ref(sha256(b"").digest())
"""The empty blob."""

_HEX: Final = frozenset("0123456789abcdef")


class RefusedBlob(ValueError):
    """A blob that is too large, or has another hash."""


class BlobStore(Protocol):
    """Blobs by their references, `&...=.sha256`. Every method raises StoreError if the disk fails.

    Attributes:
        used: bytes of all blobs, incomplete ones included.
    """

    used: int

    def size(self, blob: str) -> int | None:
        """A blob's size in bytes; None if it is not held."""

    def read(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        """Up to `size` bytes of a blob from `start` on, to its end by default. Raises KeyError."""

    def blobs(self) -> Iterator[str]:
        """The blobs that are held, in the order of their hashes."""

    def add(self, data: bytes) -> str:
        """Store a blob and return its reference. Raises RefusedBlob."""

    def receive(self, blob: str, max_size: int | None = None) -> "Incoming":
        """Begin to receive a blob by pieces; `max_size` is a limit below the store's. Raises InvalidRef."""

    def remove(self, blob: str) -> bool:
        """Delete a blob; return whether it was held."""

    def touch(self, blob: str) -> None:
        """Record that a blob is wanted now; no effect if it is not held."""

    def by_last_want(self) -> list[str]:
        """The blobs that are held, in the order in which they were added, or last wanted."""

    def close(self) -> None:
        """Release files and lock."""


class Incoming:
    """An incomplete blob, invisible before `finish`.

    Args:
        store: its store.
        digest: the required SHA-256; None for any.
        max_size: most bytes.
    """

    def __init__(self, store: "_Blobs", digest: bytes | None, max_size: int) -> None:
        self._store = store
        self._digest = digest
        self._max_size = max_size
        self._hash = sha256()
        self._place = store._begin()
        self._is_open = True
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append the next piece.

        Raises RefusedBlob if the blob gets too large; it is then dropped.
        """
        if not self._is_open:
            raise ValueError("the blob is finished or dropped")
        if self.size + len(data) > self._max_size:
            self.abort()
            raise RefusedBlob(f"blob is larger than {self._max_size} bytes")
        try:
            self._store._write(self._place, data)
        except BaseException:
            self.abort()
            raise
        self._hash.update(data)
        self.size += len(data)
        self._store.used += len(data)

    def finish(self) -> str:
        """Store the blob and return its reference. Raises RefusedBlob if it has another hash."""
        if not self._is_open:
            raise ValueError("the blob is finished or dropped")
        digest = self._hash.digest()
        if self._digest is not None and digest != self._digest:
            self.abort()
            raise RefusedBlob(f"blob is {blob_ref(digest)}, not {blob_ref(self._digest)}")
        blob = blob_ref(digest)
        if blob == EMPTY or self._store.size(blob) is not None:
            self.abort()
            return blob
        try:
            self._store._keep(self._place, digest)
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        return blob

    def abort(self) -> None:
        """Drop the blob; no effect after `finish`."""
        if self._is_open:
            self._is_open = False
            self._store.used -= self.size
            self._store._discard(self._place)


class _Blobs(BlobStore, Closing, ABC):
    """Common base of both stores.

    Args:
        max_size: bytes of the largest blob.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.used = 0

    @abstractmethod
    def _begin(self) -> int:
        """Create a place for an incomplete blob."""

    @abstractmethod
    def _write(self, place: int, data: bytes) -> None:
        """Append to a place."""

    @abstractmethod
    def _keep(self, place: int, digest: bytes) -> None:
        """Turn the contents of a place into a blob."""

    @abstractmethod
    def _discard(self, place: int) -> None:
        """Empty a place; never fails, as it is called at the end of connections."""

    def add(self, data: bytes) -> str:
        """Store a blob and return its reference. Raises RefusedBlob."""
        incoming = Incoming(self, None, self.max_size)
        incoming.write(data)
        return incoming.finish()

    def receive(self, blob: str, max_size: int | None = None) -> Incoming:
        """Begin to receive a blob by pieces; `max_size` is a limit below the store's. Raises InvalidRef."""
        limit = self.max_size if max_size is None else min(max_size, self.max_size)
        return Incoming(self, parse_blob(blob), limit)


class MemoryBlobs(_Blobs):
    """Blobs in memory (`BlobStore`), for simulations.

    Args:
        max_size: bytes of the largest blob.
    """

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        super().__init__(max_size)
        self._blobs: dict[str, bytes] = {}
        self._places: dict[int, bytearray] = {}
        self._next = 0

    def size(self, blob: str) -> int | None:
        """A blob's size in bytes; None if it is not held."""
        if blob == EMPTY:
            return 0
        return len(self._blobs[blob]) if blob in self._blobs else None

    def read(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        """Up to `size` bytes of a blob from `start` on, to its end by default. Raises KeyError."""
        data = b"" if blob == EMPTY else self._blobs[blob]
        return data[start:] if size is None else data[start : start + size]

    def blobs(self) -> Iterator[str]:
        """The blobs that are held, in the order of their hashes."""
        return iter(sorted(self._blobs, key=parse_blob))

    def remove(self, blob: str) -> bool:
        """Delete a blob; return whether it was held."""
        data = self._blobs.pop(blob, None)
        self.used -= len(data or b"")
        return data is not None

    def touch(self, blob: str) -> None:
        """Record that a blob is wanted now; no effect if it is not held."""
        if blob in self._blobs:
            self._blobs[blob] = self._blobs.pop(blob)

    def by_last_want(self) -> list[str]:
        """The blobs that are held, in the order in which they were added, or last wanted."""
        return [*self._blobs]

    def close(self) -> None:
        """No effect."""

    def _begin(self) -> int:
        self._next += 1
        self._places[self._next] = bytearray()
        return self._next

    def _write(self, place: int, data: bytes) -> None:
        self._places[place] += data

    def _keep(self, place: int, digest: bytes) -> None:
        self._blobs[blob_ref(digest)] = bytes(self._places.pop(place))

    def _discard(self, place: int) -> None:
        del self._places[place]


class DirectoryBlobs(_Blobs):
    """Blobs in a directory (`BlobStore`), created if missing.

    When `add` or `finish` returns, the blob survives a power cut. One process writes at a time: opening the
    directory empties `tmp/`.

    Args:
        directory: its path; that of stock peers is `~/.ssb/blobs`.
        max_size: bytes of the largest blob.

    Raises StoreError: in use by another process, or the disk fails.
    """

    def __init__(self, directory: str | os.PathLike[str], max_size: int = MAX_SIZE) -> None:
        super().__init__(max_size)
        self.directory = Path(directory)
        self._files: dict[int, int] = {}
        self._next = 0
        try:
            self._temporary.mkdir(parents=True, exist_ok=True)
            self._lock = WriteLock(self.directory / "lock", self.directory)
            for left in self._temporary.iterdir():
                left.unlink()
            self.used = sum(self._path(blob).stat().st_size for blob in self.blobs())
        except StoreError:
            raise
        except OSError as error:
            raise self._error(error) from error

    @property
    def _temporary(self) -> Path:
        return self.directory / "tmp"

    def size(self, blob: str) -> int | None:
        """A blob's size in bytes; None if it is not held."""
        if blob == EMPTY:
            return 0
        try:
            return self._path(blob).stat().st_size
        except (InvalidRef, FileNotFoundError):
            return None
        except OSError as error:
            raise self._error(error) from error

    def read(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        """Up to `size` bytes of a blob from `start` on, to its end by default. Raises KeyError."""
        if blob == EMPTY:
            return b""
        try:
            with self._path(blob).open("rb") as file:
                file.seek(start)
                return file.read() if size is None else file.read(size)
        except (InvalidRef, FileNotFoundError):
            raise KeyError(blob) from None
        except OSError as error:
            raise self._error(error) from error

    def blobs(self) -> Iterator[str]:
        """The blobs that are held, in the order of their hashes."""
        place = self.directory / "sha256"
        for start in sorted(_names(place, 2)):
            for rest in sorted(_names(place / start, 62)):
                yield blob_ref(bytes.fromhex(start + rest))

    def remove(self, blob: str) -> bool:
        """Delete a blob; return whether it was held."""
        size = self.size(blob)
        if size is None or blob == EMPTY:
            return False
        try:
            self._path(blob).unlink()
        except OSError as error:
            raise self._error(error) from error
        self.used -= size
        return True

    def touch(self, blob: str) -> None:
        """Record that a blob is wanted now, as its file's time; no effect if it is not held."""
        with suppress(InvalidRef, OSError):
            os.utime(self._path(blob))

    def by_last_want(self) -> list[str]:
        """The blobs that are held, in the order in which they were added, or last wanted."""
        try:
            times = {blob: self._path(blob).stat().st_mtime_ns for blob in self.blobs()}
        except OSError as error:
            raise self._error(error) from error
        return sorted(times, key=times.__getitem__)

    def damaged(self) -> Iterator[str]:
        """Read all blobs, and yield those that do not match their hashes."""
        for blob in self.blobs():
            digest = sha256()
            try:
                with self._path(blob).open("rb") as file:
                    while data := file.read(1 << 20):
                        digest.update(data)
            except OSError as error:
                raise self._error(error) from error
            if digest.digest() != parse_blob(blob):
                yield blob

    def close(self) -> None:
        """Drop incomplete blobs, and release the lock."""
        for place in list(self._files):
            self._discard(place)
        self._lock.close()

    def _path(self, blob: str) -> Path:
        digits = parse_blob(blob).hex()
        return self.directory / "sha256" / digits[:2] / digits[2:]

    def _begin(self) -> int:
        self._next += 1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._files[self._next] = os.open(self._temporary / str(self._next), flags, 0o644)
        except OSError as error:
            raise self._error(error) from error
        return self._next

    def _write(self, place: int, data: bytes) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._files[place], left) :]
        except OSError as error:
            raise self._error(error) from error

    def _keep(self, place: int, digest: bytes) -> None:
        path = self._path(blob_ref(digest))
        try:
            os.fsync(self._files[place])
            is_new = not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            (self._temporary / str(place)).rename(path)
            for directory in (path.parent, *([path.parents[1], self.directory] if is_new else [])):
                sync(directory)
        except OSError as error:
            raise self._error(error) from error
        os.close(self._files.pop(place))

    def _discard(self, place: int) -> None:
        if place in self._files:
            file = self._files.pop(place)
            with suppress(OSError):
                os.close(file)
            with suppress(OSError):  # the next opening deletes it
                (self._temporary / str(place)).unlink()

    def _error(self, error: OSError) -> StoreError:
        return StoreError(f"{self.directory}: {error.strerror}")


def _names(directory: Path, digits: int) -> Iterator[str]:
    """The entries whose names are `digits` hexadecimal digits."""
    try:
        entries = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (name for name in entries if len(name) == digits and _HEX.issuperset(name))
