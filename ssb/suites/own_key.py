"""The second key of an account, which countersigns the messages that are written here, and no others.

**The invariant.** The log hash that a countersignature covers is never taken from the store: a store also
takes messages of its own feed from other peers, and once the classic suite is broken, anybody can write them.
It is computed from each message as that is signed here, and kept in a file beside the key:

    secret.ed448        the key: written once, like the identity (`ssb.key_file`), and never again
    secret.ed448.log    which key, number of the last message that was written here, last three log hashes

A message from elsewhere counts only if this very key has countersigned it, or a later one. That happens when
a backup was restored, and when this file was lost. Behind any other message nothing is published until the
user says that all messages here are theirs.

The file is durable before its message is stored. If the process ends between the two, the file is one
message ahead: nobody has seen that message, and the log hash before it counts. If it was seen and the store
has lost it, the mark of the feed says so (`ssb.store.own_feed`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

from base.files import write_whole
from ssb.detached import DETACHED
from ssb.key_file import KeyFileError
from ssb.keys import InvalidRef
from ssb.message import Message
from ssb.store.feeds import StoreError, read_feed, read_log
from ssb.store.sqlite import SqliteFeeds
from ssb.suites.countersignature import DECLARATION, EMPTY, Reader, countersign, declared_by, log_hash
from ssb.suites.suite import SECOND, PrivateKey, PublicKey, hash_text, parse_hash

_HASHES: Final = 3


class Written(NamedTuple):
    """How far a log is written here.

    Attributes:
        sequence: number of the last message; 0 for none.
        logs: the log hashes after the messages up to it, the last three at most; the first is EMPTY.
    """

    sequence: int = 0
    logs: tuple[bytes, ...] = (EMPTY,)

    def then(self, text: bytes) -> "Written":
        """Return it with one more message, by its canonical text in UTF-8."""
        more = log_hash(SECOND, self.logs[-1], text)
        return Written(self.sequence + 1, (*self.logs, more)[-_HASHES:])

    def up_to(self, sequence: int, text: bytes) -> "Written | None":
        """Return it up to this message or the one before, if that is `sequence` with this text."""
        logs = self.logs[: len(self.logs) - (self.sequence - sequence)]
        if self.sequence - sequence not in (0, 1) or not logs:
            return None
        if sequence and (len(logs) < 2 or log_hash(SECOND, logs[-2], text) != logs[-1]):
            return None
        return Written(sequence, logs)

    def encode(self) -> bytes:
        """Return the state as the file has it, behind the key."""
        return " ".join([str(self.sequence), *(hash_text(SECOND, log) for log in self.logs)]).encode() + b"\n"

    @classmethod
    def decode(cls, raw: bytes) -> "Written":
        """Read what encode() wrote; raise InvalidRef."""
        try:
            number, *logs = raw.decode("ascii").split()
            found = cls(int(number), tuple(parse_hash(SECOND, log) for log in logs))
        except ValueError as error:
            raise InvalidRef(f"not the state of a second key: {error}") from None
        if found.sequence < 0 or len(logs) != min(found.sequence + 1, _HASHES) or found.encode() != raw:
            raise InvalidRef("not the state of a second key")
        return found


def read_key(path: Path) -> PrivateKey | None:
    """Return the key in a file, None if there is no such file; raise KeyFileError, with one line."""
    try:
        return PrivateKey.from_secret(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except (InvalidRef, UnicodeDecodeError) as error:
        raise KeyFileError(
            f"{path}: not a key of a suite: {error}; put back a copy of it, or move it away and run "
            f"`{_command(path)} suite --anew`"
        ) from None
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None


def _command(path: Path) -> str:
    """Return the command for the account of a key's file."""
    return f"feednet ssb --path {quote(str(path.parent))}"


def log_file(path: Path) -> Path:
    """Return the path of the state of the key in a file."""
    return path.with_name(f"{path.name}.log")


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

    def __init__(self, path: Path, feeds: SqliteFeeds, author: str) -> None:
        self._path = path
        self._feeds = feeds
        self._author = author
        self._written: Written | None = None
        self._refused = (-1, "")  # number of the feed's last message, and why nothing is written behind it
        self._is_lost = False
        self.key = read_key(path)

    def begin(self, *, is_anew: bool = False) -> PrivateKey:
        """Return the key; make one if there was none. A new one counts all messages here as written here.

        Args:
            is_anew: the user says that all messages of the feed here are theirs, and that a lost key will
                not come back.

        Raises StoreError.
        """
        # If there is a key, and nothing else, the process ended while it made the key.
        is_new = self.key is None or (self._read() is None and not self.is_declared())
        if self.key is None:
            if not is_anew:
                self._check_lost()
            key = PrivateKey.new(SECOND)
            try:
                write_whole(
                    self._path, f"{key.secret()}\n", mode=0o600, is_durable=True, is_sole=True, is_new=True
                )
            except OSError as error:
                raise StoreError(f"{self._path}: {error.strerror or 'there is a file already'}") from None
            self.key = key
        if is_new or is_anew:
            self._adopt()
        return self.key

    def is_declared(self, key: PublicKey | None = None) -> bool:
        """Whether the author's log declares this key, or any."""
        declarations = read_log(self._feeds, 0, {DECLARATION})
        own = (one.message for one in declarations if one.message.author == self._author)
        return any(declared_by(message, key) is not None for message in own)

    def why(self) -> str:
        """Return why nothing is published, with the remedies; "" if messages are."""
        try:
            self._check_lost()
            if self.key is not None:
                self._end()
        except StoreError as error:
            return str(error)
        return ""

    def countersigned(self, content: Mapping[str, Any] | str, now_ms: float) -> Mapping[str, Any] | str:
        """Return the content of the author's next message: countersigned, if there is a key and room for it.

        Ciphertexts and detached messages have no room. Raises InvalidMessage as countersign() does, and
        StoreError if the key is lost, or a message before the next one was not written here.
        """
        self._check_lost()
        if self.key is None:
            return content
        written = self._written = self._end()
        if isinstance(content, str) or content.get("type") == DETACHED:
            return content
        return countersign(self.key, self._author, written.sequence + 1, now_ms, content, written.logs[-1])

    def record(self, message: Message) -> None:
        """Record the message that countersigned() was called for, once it is signed, before it is stored.

        Raises StoreError.
        """
        if self._written is not None:
            self._write(self._written.then(message.encoded))

    def _end(self) -> Written:
        """Return how far the log is written here: up to its last message. Raises StoreError if it is not."""
        last, text = self._last()
        if self._refused[0] == last:
            raise StoreError(self._refused[1])
        known = self._written or self._read()
        if known is None and last == 0:
            return Written()
        found = None if known is None else known.up_to(last, text)
        if found is None:
            try:
                found = self._proved(known or Written(), last)
            except StoreError as error:
                self._refused = last, str(error)
                raise
            self._write(found)
        return found

    def _last(self) -> tuple[int, bytes]:
        """Return number and text of the feed's last message; raise StoreError if it is damaged."""
        last = self._feeds.last(self._author)
        newest = self._feeds.newest(1, self._author)
        if last and (not newest or newest[0].sequence != last):
            raise StoreError(self._damaged(last))
        return (last, newest[0].text) if last else (0, b"")

    def _proved(self, known: Written, last: int) -> Written:
        """Return how far this key's countersignatures prove the log: all of it, or StoreError is raised."""
        assert self.key is not None
        reader, written, first = Reader(self.key.public), Written(), 0
        for stored in self._log():
            reader.add(stored)
            written = written.then(stored.encoded)
            back = known.sequence - written.sequence
            if 0 <= back < len(known.logs) and written.logs[-1] == known.logs[-1 - back]:
                first = written.sequence  # all up to here was written here
        first = max(first, reader.proved) + 1
        if written.sequence == last and first > last >= known.sequence:
            return written
        if written.sequence < last:
            raise StoreError(self._damaged(written.sequence + 1))
        if first > last:
            said = (
                f"messages {last + 1} to {known.sequence} of your feed, which were written here, are missing"
            )
        elif first > known.sequence:
            said = f"message {first} of your feed was not written here"
        else:
            said = f"message {first} of your feed is not the one that was written here"
        raise StoreError(
            f"{self._path.parent}: {said}, so nothing is published: the second key vouches only for messages "
            "that were written here. If all messages here are yours, say so once: "
            f"`{_command(self._path)} suite --anew`; if not, somebody else has your key (the file `secret`): "
            "go on with another feed"
        )

    def _adopt(self) -> None:
        """Count all messages of the feed here as written here."""
        written = Written()
        for message in self._log():
            written = written.then(message.encoded)
        if written.sequence != self._feeds.last(self._author):
            raise StoreError(self._damaged(written.sequence + 1))
        self._write(written)

    def _log(self) -> Iterator[Message]:
        return (stored.message for stored in read_feed(self._feeds, self._author))

    def _check_lost(self) -> None:
        """Raise StoreError if the feed has a second key, and its file is lost."""
        if self.key is not None:
            return
        self._is_lost = self._is_lost or self._read() is not None or self.is_declared()
        if self._is_lost:
            raise StoreError(
                f"{self._path}: lost: this key countersigns your feed, so nothing is published without it; "
                "put back a copy and start again, or make another key, which readers have to learn: "
                f"`{_command(self._path)} suite --anew`"
            )

    def _damaged(self, number: int) -> str:
        return (
            f"message {number} of the own feed is damaged, so nothing can be countersigned; "
            "run the peer, so that others send it again"
        )

    def _read(self) -> Written | None:
        """Return the state in the file; None if it is missing, damaged or another key's."""
        try:
            key, _, state = log_file(self._path).read_bytes().partition(b" ")
            if self.key is not None and key != self.key.public.text.encode():
                return None
            return Written.decode(state)
        except (FileNotFoundError, InvalidRef):
            return None
        except OSError as error:
            raise StoreError(f"{log_file(self._path)}: {error.strerror}") from None

    def _write(self, written: Written) -> None:
        assert self.key is not None
        state = self.key.public.text.encode() + b" " + written.encode()
        try:
            write_whole(log_file(self._path), state, mode=0o600, is_durable=True, is_sole=True)
        except OSError as error:
            raise StoreError(f"{log_file(self._path)}: {error.strerror or error}") from None
        self._written, self._refused = written, (-1, "")
