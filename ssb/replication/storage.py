"""A limit on the storage of blobs: those that were wanted least recently are dropped.

npm's ssb-blobs-purge has such a `storageLimit`, too. It spares the blobs that its user has named first, and
chooses others by age and size.
"""

from collections.abc import Callable

from ssb.store.blobs import BlobStore


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
