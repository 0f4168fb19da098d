"""A limit on the storage of blobs: those that were wanted least recently are dropped.

npm's ssb-blobs-purge has such a `storageLimit`, too. It spares the blobs that its user has named first, and
chooses others by age and size.
"""

from collections.abc import Callable, Container, Iterable
from pathlib import Path

from ssb.store.blobs import BlobStore
from ssb.store.database import add_words, words_of

_LIMITED = "limited"  # a word in the file of own blobs, once a limit has held


class StorageLimit:
    """Drops blobs of a store, so that all together stay within a limit.

    Blobs that come may exceed it for a while, and those that are kept for good.

    Args:
        store: the store.
        limit: bytes of all blobs.
        is_kept: whether a blob is kept for good.
        on_drop: called with each dropped blob, and its size in bytes.

    Attributes:
        limit: see above.
    """

    def __init__(
        self,
        store: BlobStore,
        limit: int,
        is_kept: Callable[[str], bool],
        on_drop: Callable[[str, int], None],
    ) -> None:
        self.limit = limit
        self._store = store
        self._is_kept = is_kept
        self._on_drop = on_drop
        self._order = dict.fromkeys(store.by_last_want())

    def on_want(self, blob: str) -> None:
        """Record that somebody wants a blob, which is here."""
        self._store.touch(blob)
        self._order.pop(blob, None)
        self._order[blob] = None

    def make_room(self, size: int = 0) -> bool:
        """Drop blobs until there is room for so many bytes; return whether there is."""
        for blob in [*self._order] if self._store.used + size > self.limit else ():
            del self._order[blob]
            held = self._store.size(blob)
            if held is None or self._is_kept(blob):
                continue
            self._store.remove(blob)
            self._on_drop(blob, held)
            if self._store.used + size <= self.limit:
                break
        return self._store.used + size <= self.limit


class OwnBlobs(Container[str]):
    """The blobs that a limit does not drop: those that the user has added or named, and those that may be.

    Args:
        path: of the file with those that the user has added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()

    def __contains__(self, blob: object) -> bool:
        return blob in self._known

    def add(self, blob: str) -> None:
        """Record that the user has added a blob. Raises StoreError."""
        add_words(self._path, blob)
        self._known.add(blob)

    def name(self, blobs: Iterable[str]) -> None:
        """Keep blobs that a message of the user's names, until a restart."""
        self._known.update(blobs)

    def begin(self, here: Iterable[str], is_named: Callable[[str], bool]) -> None:
        """Read what is known before a limit holds. Raises StoreError.

        Nothing tells which blobs the user has added before the first time. So all that are `here` then, and
        that no message here names, count as added.
        """
        if _LIMITED not in (words := words_of(self._path)):
            words += [blob for blob in here if not is_named(blob)]
            add_words(self._path, *words, _LIMITED)
        self._known.update(words)

    def on_imported(self, blobs: Iterable[str], is_named: Callable[[str], bool]) -> None:
        """Record that blobs came from another program of the user's, after the messages that it has kept."""
        if _LIMITED in words_of(self._path):
            add_words(self._path, *(blob for blob in blobs if not is_named(blob)))
