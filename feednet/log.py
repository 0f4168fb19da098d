"""A local feed on disk: its key, its mark, and its items in order.

A feed that is restarted from nothing, truncated, or written by two programs at once, forks: two items have
one number, and every follower drops it for good. So a log belongs to one process at a time. An item is on
disk before it is disclosed, and so is its number, in the mark beside the key (`ssb.store.mark`): the items
that the mark counts must be there, whole, and in the original place.
"""

import fcntl
import os
from io import FileIO
from pathlib import Path

from base.files import write_whole
from forwarder.feedcache.items import Item, RejectedItem, parse_item, verify_run
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import ED25519, LARGEST_PACKET, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, read_header
from ssb.keys import KEY_BYTES, Identity
from ssb.store.mark import Mark, Seen

_NO_BACKLINK = b""


_REMEDY = (
    "put the newest whole copy back, or, if nobody has seen more than is here, open it with is_newest=True"
)


class BadLog(ValueError):
    """A log cannot be used; the message has the reason."""


class Log:
    """An append-only log of native items, in memory and in three files: PATH, the key in PATH.key, PATH.mark.

    Args:
        path: of the items, one Data packet after the other. The files are created if missing.
        prefix: the feed's name is this and the key.
        is_newest: nobody has seen an item that is not in this log, though it is a copy or truncated.

    Raises BadLog: in use by another process, damaged, of another prefix, the key or items are missing, or it
    is a copy: later items may have been seen since it was made. A half-written item after a crash is
    truncated: nobody has seen it.

    Attributes:
        name: the feed's name.
    """

    def __init__(self, path: str | os.PathLike[str], prefix: str, *, is_newest: bool = False) -> None:
        self.path = Path(path)
        self._key_path = self.path.with_name(f"{self.path.name}.key")
        self._mark = Mark(self.path.with_name(f"{self.path.name}.mark"), self._key_path)
        self._file: FileIO = FileIO(self.path, "a+")
        self._size = 0
        self._seen = Seen("")
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadLog(f"{self.path}: another program has this log open") from None
            self._file.seek(0)
            raw = self._file.readall()
            self._identity = self._open_key(raw, self._mark.read())
            seen = self._mark.read()
            self.name = feed_name(from_uri(prefix), self._identity.public_key)
            self._items = self._read(raw, self._sure(raw, seen, is_newest=is_newest))
            self._keep(seen)
        except BaseException:
            self._file.close()
            raise

    @property
    def uri(self) -> str:
        """The feed's name as a URI, for subscribe()."""
        return to_uri(self.name)

    @property
    def tip(self) -> int:
        """Number of the newest item, 0 if there is none."""
        return len(self._items)

    def get(self, seq: int) -> Item | None:
        """Return an item, None if there is none with that number."""
        return self._items[seq - 1] if 0 < seq <= len(self._items) else None

    def sign(self, text: bytes) -> bytes:
        """Sign with the feed's key: 64 bytes."""
        return self._identity.sign(text)

    def append(self, message: bytes) -> Item:
        """Sign and store a message.

        Raises ValueError if its packet would be too large, or OSError if it cannot be written, or in a forked
        process; the log then is as it was, or, if it cannot be restored, closed.
        """
        self._mark.check_process()
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
        item = parse_item(self.name, seq, parse_data(wire))
        self._write(wire)
        self._items.append(item)
        return item

    def _write(self, wire: bytes) -> None:
        """Write an item to disk and to the mark, or undo both."""
        try:
            left = memoryview(wire)
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
            self._mark.write(self._seen._replace(number=self.tip + 1, size=self._size + len(wire)))
        except BaseException:
            try:
                self._file.truncate(self._size)
                os.fsync(self._file.fileno())
                if self._mark.read() != self._seen:
                    self._mark.write(self._seen)
            except BaseException:
                self._file.close()
                raise
            raise
        self._size += len(wire)
        self._seen = self._seen._replace(number=self.tip + 1, size=self._size)

    def close(self) -> None:
        """Close the file; the items can still be read."""
        self._file.close()

    def _open_key(self, raw: bytes, seen: Seen | None) -> Identity:
        path = self._key_path
        try:
            seed = bytes.fromhex(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            if raw or (seen is not None and seen.number):
                raise BadLog(f"{path}: the key of {self.path} is missing; put it back") from None
            seed = os.urandom(KEY_BYTES)
            # The mark comes first: a key without one is that of a lost log.
            self._mark.write(Seen(_reference(seed)))
            write_whole(path, f"{seed.hex()}\n", mode=0o600, is_durable=True, is_sole=True)
            return Identity.from_seed(seed)
        except ValueError as error:
            raise BadLog(f"{path}: not a key in hexadecimal: {error}") from None
        if len(seed) != KEY_BYTES:
            raise BadLog(f"{path}: a key has {KEY_BYTES} bytes, not {len(seed)}")
        if seen is not None and seen.feed != _reference(seed):
            raise BadLog(f"{path}: is not the key that {self.path} was written with; put that one back")
        return Identity.from_seed(seed)

    def _sure(self, raw: bytes, seen: Seen | None, *, is_newest: bool) -> int:
        """Return how many bytes must be whole, as others may have seen them; raise BadLog."""
        if is_newest:
            return 0
        if seen is None:
            others = "" if raw else f"; or begin another feed by removing {self._key_path}"
            raise BadLog(f"{self.path}: no mark tells how many items were written: {_REMEDY}{others}")
        if len(raw) < seen.size:
            raise BadLog(
                f"{self.path}: {seen.number} items of {seen.size} bytes were written, "
                f"and {len(raw)} bytes are here: {_REMEDY}"
            )
        if self._mark.is_copy:
            raise BadLog(f"{self.path}: is a copy, and later items may have been written since: {_REMEDY}")
        return seen.size

    def _read(self, raw: bytes, sure: int) -> list[Item]:
        """Return the items; an incomplete one behind the `sure` bytes is left out."""
        items: list[Item] = []
        at = 0
        while at < len(raw):
            try:
                _, _, end = read_header(raw, at, len(raw))
                item = self._read_item(raw[at:end], items)
                if end > sure:
                    verify_run(self.name, [item])
            except (MalformedPacket, RejectedItem) as error:
                if at < sure or len(raw) - at >= LARGEST_PACKET:
                    raise BadLog(f"{self.path}: damaged at byte {at}: {error}; {_REMEDY}") from None
                break
            items.append(item)
            at = end
        self._size = at
        if items:
            try:
                verify_run(self.name, items)
            except RejectedItem as error:
                raise BadLog(f"{self.path}: {error}; {_REMEDY}") from None
        return items

    def _read_item(self, wire: bytes, before: list[Item]) -> Item:
        """Return the item that follows others; raise MalformedPacket and RejectedItem."""
        data = parse_data(wire)
        item = parse_item(self.name, len(before) + 1, data)
        if data.name != item_name(self.name, item.seq):
            raise RejectedItem("name", f"item {item.seq} has the name {to_uri(data.name)}")
        if item.previous != (before[-1].id if before else None):
            raise RejectedItem("backlink", f"item {item.seq} does not follow the one before it")
        return item

    def _keep(self, seen: Seen | None) -> None:
        """Truncate an incomplete item, and update the mark to all items."""
        if os.fstat(self._file.fileno()).st_size != self._size:
            self._file.truncate(self._size)
            os.fsync(self._file.fileno())
        self._seen = Seen(self._identity.ref, self.tip, self._size)
        if self._mark.is_copy or self._seen != seen or not seen.number:
            self._mark.write(self._seen)


def _reference(seed: bytes) -> str:
    return Identity.from_seed(seed).ref
