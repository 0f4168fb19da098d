"""A user's directory: who the user is, and one store of everything.

The key is that of a feed in the store; the record "root" says which. One program at a time uses a directory.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ssb.keys import Identity
from ssb.store.feeds import StoreError
from ssb.tiny.isp.terms import Terms
from ssb.tiny.store import TinyStore

_ROOT, _TERMS = "root", "terms"


class Account:
    """A directory, made if there is none.

    Attributes:
        path: of the directory.
        store: see TinyStore.
        identity: of the root feed.

    Raises StoreError: another program uses it, it is no such directory, or the disk fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        self.store = TinyStore(path / "store.sqlite")
        try:
            self.identity = self._identity()
        except BaseException:
            self.store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    def terms(self, size: int | None, unread: int | None) -> Terms:
        """Return the terms of contracts: what is given, else what was given last, else the usual ones.

        Raises ValueError for terms that cannot be, or that differ while there are contracts.
        """
        kept = self.store.get(_TERMS)
        before = Terms(**kept) if isinstance(kept, dict) else Terms()
        terms = before._replace(
            size=before.size if size is None else size, unread=before.unread if unread is None else unread
        )
        terms.check()
        if terms != before and self.store.records("contract "):
            raise ValueError("terms stay as they are while there are contracts")
        self.store.put(_TERMS, {"size": terms.size, "unread": terms.unread})
        return terms

    def _identity(self) -> Identity:
        key = self.store.get(_ROOT)
        if isinstance(key, bytes) and key in self.store.feeds:
            found = self.store.feeds[key].identity
            if found is not None:
                return found
        made = Identity.from_seed(os.urandom(32))
        with self.store.transaction():
            self.store.add_own(made)
            self.store.put(_ROOT, made.public_key)
        return made
