"""A feed of one's own on disk: its key, and its items in the order in which they were appended.

A feed that is restarted from nothing, or written by two programs at once, forks: two items claim one number,
and every follower drops it for good. So a log belongs to one process at a time, and an item is on
disk before anybody can have seen it.
"""

import fcntl
import os
from io import FileIO
from pathlib import Path

from forwarder.feedcache.items import Item, RejectedItem, parse_item, verify_run
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import ED25519, LARGEST_PACKET, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, read_header
from ssb.keys import KEY_BYTES, Identity

_NO_BACKLINK = b""


class BadLog(ValueError):
    """A log cannot be used; the message says which and why."""


class Log:
    """An append-only log of native items, in memory and in two files: PATH, and the key in PATH.key.

    Args:
        path: where the items are, one Data packet after the other. Both files are made if there are none.
        prefix: the feed's name is this and the key.

    Raises BadLog: in use by another process, damaged, of another prefix, or the key is missing. What a crash
    has left half written at the end is cut off: nobody has seen it.

    Attributes:
        name: the feed's name.
    """

    def __init__(self, path: str | os.PathLike[str], prefix: str) -> None:
        self.path = Path(path)
        self._file: FileIO = FileIO(self.path, "a+")
        self._size = 0
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadLog(f"{self.path}: another program has this log open") from None
            self._file.seek(0)
            raw = self._file.readall()
            self._identity = self._open_key(is_new=not raw)
            self.name = feed_name(from_uri(prefix), self._identity.public_key)
            self._items = self._read(raw)
            self._size = os.fstat(self._file.fileno()).st_size
        except BaseException:
            self._file.close()
            raise

    @property
    def uri(self) -> str:
        """The feed's name for people, and for subscribe()."""
        return to_uri(self.name)

    @property
    def tip(self) -> int:
        """Number of the newest item, 0 if there is none."""
        return len(self._items)

    def get(self, seq: int) -> Item | None:
        """Return an item, None if there is none of that number."""
        return self._items[seq - 1] if 0 < seq <= len(self._items) else None

    def sign(self, text: bytes) -> bytes:
        """Sign by the feed's key: 64 bytes."""
        return self._identity.sign(text)

    def append(self, message: bytes) -> Item:
        """Sign and keep a message.

        Raises ValueError if its packet would be too large, or OSError if it cannot be written; the log then
        is as it was, or, if that cannot be had either, closed.
        """
        seq = self.tip + 1
        backlink = self._items[-1].id if self._items else _NO_BACKLINK
        wire = make_data(
            item_name(self.name, seq),
            native_content(backlink, message),
            signature_type=ED25519,
            sign=self._identity.sign,
        )
        if len(wire) > LARGEST_PACKET:
            raise ValueError(
                f"a message of {len(message)} bytes makes a packet of more than {LARGEST_PACKET}"
            )
        self._write(wire)
        item = parse_item(self.name, seq, parse_data(wire))
        self._items.append(item)
        return item

    def _write(self, wire: bytes) -> None:
        """Put an item on disk, or leave nothing of it."""
        try:
            left = memoryview(wire)
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except BaseException:
            try:
                self._file.truncate(self._size)
                os.fsync(self._file.fileno())
            except BaseException:
                self._file.close()
                raise
            raise
        self._size += len(wire)

    def close(self) -> None:
        """Let go of the file; the items can still be read."""
        self._file.close()

    def _open_key(self, *, is_new: bool) -> Identity:
        path = self.path.with_name(self.path.name + ".key")
        try:
            seed = bytes.fromhex(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            if not is_new:
                raise BadLog(f"{path}: the key of {self.path} is missing") from None
            seed = os.urandom(KEY_BYTES)
            self._write_key(path, seed)
        except ValueError as error:
            raise BadLog(f"{path}: not a key in hexadecimal: {error}") from None
        if len(seed) != KEY_BYTES:
            raise BadLog(f"{path}: a key has {KEY_BYTES} bytes, not {len(seed)}")
        return Identity.from_seed(seed)

    @staticmethod
    def _write_key(path: Path, seed: bytes) -> None:
        """Make the key's file, whole or not at all."""
        made = path.with_name(path.name + ".new")
        made.unlink(missing_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{seed.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        made.rename(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _read(self, raw: bytes) -> list[Item]:
        items: list[Item] = []
        at = 0
        while at < len(raw):
            if not any(raw[at : at + LARGEST_PACKET]) and len(raw) - at < LARGEST_PACKET:
                self._file.truncate(at)  # the file had grown, and nothing had been written to it
                break
            try:
                _, _, end = read_header(raw, at, len(raw))
            except MalformedPacket as error:
                if len(raw) - at >= LARGEST_PACKET:
                    raise BadLog(f"{self.path}: byte {at}: {error}") from None
                self._file.truncate(at)
                break
            try:
                data = parse_data(raw[at:end])
                item = parse_item(self.name, len(items) + 1, data)
                if data.name != item_name(self.name, item.seq):
                    raise RejectedItem("name", f"item {item.seq} has the name {to_uri(data.name)}")
                if item.previous != (items[-1].id if items else None):
                    raise RejectedItem("backlink", f"item {item.seq} does not follow the one before it")
            except (MalformedPacket, RejectedItem) as error:
                raise BadLog(f"{self.path}: byte {at}: {error}") from None
            items.append(item)
            at = end
        if items:
            try:
                verify_run(self.name, items)
            except RejectedItem as error:
                raise BadLog(f"{self.path}: {error}") from None
        return items
