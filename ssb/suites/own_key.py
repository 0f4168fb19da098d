"""The second key of an account: a file of one line, which countersigns the account's own messages.

It is written once like the file of the identity (`ssb.key_file`) and never again; only its owner may read it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.files import write_whole
from ssb.detached import DETACHED
from ssb.key_file import KeyFileError
from ssb.keys import InvalidRef
from ssb.store.feeds import FeedStore, StoreError, read_feed
from ssb.suites.countersignature import EMPTY, countersign, log_hash
from ssb.suites.suite import SECOND, PrivateKey


def read_key(path: Path) -> PrivateKey | None:
    """Return the key in a file, None if there is no such file; raise KeyFileError, with one line."""
    try:
        return PrivateKey.from_secret(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except (InvalidRef, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: not a key of a suite: {error}; put back a copy of it") from None
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None


class OwnKey:
    """The second key of an account, if it has one.

    Args:
        path: of the file.
        feeds: the account's store.
        author: its feed.

    Raises KeyFileError if there is a file without a key.

    Attributes:
        key: None for none.
    """

    def __init__(self, path: Path, feeds: FeedStore, author: str) -> None:
        self._path = path
        self._feeds = feeds
        self._author = author
        self._log = (0, EMPTY)  # the number of the last message that was hashed, and the log hash
        self.key = read_key(path)

    def begin(self) -> PrivateKey:
        """Return the key; a new one if there was none. Raises KeyFileError."""
        if self.key is None:
            key = PrivateKey.new(SECOND)
            try:
                write_whole(self._path, f"{key.secret()}\n", mode=0o600, is_durable=True, is_new=True)
            except OSError as error:
                raise KeyFileError(f"{self._path}: {error.strerror or 'there is a file already'}") from None
            self.key = key
        return self.key

    def countersigned(self, content: Mapping[str, Any] | str, now_ms: float) -> Mapping[str, Any] | str:
        """Return the content of the author's next message: countersigned, if there is a key and room for it.

        Ciphertexts and detached messages have no room. Raises InvalidMessage as countersign() does, and
        StoreError if messages of the log are damaged.
        """
        if self.key is None or isinstance(content, str) or content.get("type") == DETACHED:
            return content
        number, log = self._log
        for stored in read_feed(self._feeds, self._author, number):
            number, log = stored.sequence, log_hash(self.key.public.suite, log, stored.text)
        if number != self._feeds.tips().get(self._author, 0):
            raise StoreError(
                f"message {number + 1} of the own feed is damaged, so nothing can be countersigned; "
                "run the peer, so that others send it again"
            )
        self._log = number, log
        return countersign(self.key, self._author, number + 1, now_ms, content, log)
