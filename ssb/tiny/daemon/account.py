"""A tinySSB user's directory: one file with the identity, the feeds, and all agreements."""

import os
from pathlib import Path
from typing import Final

from ssb.keys import Identity, feed_ref, parse_feed
from ssb.store.feeds import StoreError
from ssb.tiny.daemon.texts import printable
from ssb.tiny.store import TinyStore

_ROOT: Final = "root"
_PROVIDER: Final = "provider"
LONGEST_NAME: Final = 20
"""Characters of a name that are shown."""


class Account:
    """A directory, opened by one program at a time; it and the identity are created if missing.

    Attributes:
        store: the feeds.
        root: the user's identity, whose feed is the root feed.

    Raises StoreError, with one line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None
        self.store = TinyStore(self.path / "feeds.sqlite")
        self.root = self._root()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def provider(self, named: bytes | None) -> bytes | None:
        """Return this user's provider, or None; stores a provider that is named first.

        Raises ValueError if another is stored, or if the directory is that of a chat without a provider.
        """
        kept = self.store.get(_PROVIDER)
        if isinstance(kept, bytes):
            if named not in (None, kept):
                raise ValueError(f"{self.path} belongs to a client of {shown(kept)}; choose another --path")
            return kept
        if named is not None:
            if self.store.feeds[self.root.public_key].sequence:
                raise ValueError(f"{self.path} belongs to a chat without a provider; choose another --path")
            self.store.put(_PROVIDER, named)
        return named

    def _root(self) -> Identity:
        key = self.store.get(_ROOT)
        if isinstance(key, bytes):
            identity = self.store.feeds[key].identity
            assert identity is not None
            return identity
        identity = Identity.from_seed(os.urandom(32))
        with self.store.transaction():
            self.store.add_own(identity)
            self.store.put(_ROOT, identity.public_key)
        return identity


class Names:
    """Display names; the beginning of the key where none is published."""

    def __init__(self, store: TinyStore) -> None:
        self._store = store

    def of(self, key: bytes) -> str:
        """Return the display name of a key."""
        name = self._store.get(_name(key))
        return f"{name} ({short(key)})" if isinstance(name, str) else short(key)

    def set(self, key: bytes, name: str) -> None:
        """Store the name that somebody has published."""
        self._store.put(_name(key), printable(name)[:LONGEST_NAME])


def _name(key: bytes) -> str:
    return f"name {key.hex()}"


def shown(key: bytes) -> str:
    """Return a feed's key in the notation of Scuttlebutt."""
    return feed_ref(key)


def short(key: bytes) -> str:
    """Return the beginning of a key, enough to distinguish users."""
    return feed_ref(key)[:9]


def parse_key(text: str, known: list[bytes] | None = None) -> bytes:
    """Parse a key as it was typed: complete, or an unambiguous prefix of a known one.

    Raises ValueError, with one line.
    """
    found = [key for key in known or [] if feed_ref(key).startswith(text)] if len(text) > 1 else []
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise ValueError(f"{text}: {len(found)} keys begin so; type more of it")
    try:
        return parse_feed(text)
    except ValueError:
        raise ValueError(f"{text}: not a key, such as {feed_ref(bytes(32))}") from None
