"""The append-only log of one feed, in memory and, if wished, in a file.

The file is an export (see `ssb.export`), one entry a line, only ever appended to. A process that dies
while it writes leaves at most a torn last line. Opening the file again drops that line, with a
warning in Python's `logging`, and checks all others.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ssb.canonical import InvalidJson, parse
from ssb.export import InvalidExport, entry_line, read_entries
from ssb.message import ForkedFeed, InvalidMessage, Message

_logger = logging.getLogger(__name__)


class Log:
    """The messages of one feed from the first to the tip, each verified."""

    def __init__(
        self, author: str, path: str | os.PathLike[str] | None = None, hmac_key: bytes | None = None
    ) -> None:
        """Open the log of the feed `author` (`@...=.ed25519`); kept in the file `path`, if given.

        A file that does not exist is made. `hmac_key` is the network's 32-byte key, if it has one.
        Raises InvalidExport if the file holds anything but this feed, and OSError.
        """
        self.author = author
        self._hmac_key = hmac_key
        self._messages: list[Message] = []
        self._file: BinaryIO | None = None if path is None else self._open(Path(path))

    @property
    def tip(self) -> Message | None:
        """The last message; None while the log is empty."""
        return self._messages[-1] if self._messages else None

    def get(self, sequence: int) -> Message | None:
        """The message with this sequence number, from 1; None if the log does not hold it."""
        return self._messages[sequence - 1] if 1 <= sequence <= len(self._messages) else None

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def append(self, message: Message, received: float | None = None) -> None:
        """Verify the message and append it; it must come next.

        `received` is when it came, in ms since 1970, kept in the file; without it, the file keeps the
        author's timestamp in its place.

        Raises InvalidMessage if the message is not the author's, does not verify or does not come next
        (one that is held already does not), ForkedFeed if it verifies but contradicts a message that
        is held. The log is then as it was. OSError if the file cannot be written.
        """
        if message.author != self.author:
            raise InvalidMessage(f"author {message.author} does not write the feed {self.author}")
        message.verify(self._hmac_key)
        held = self.get(message.sequence)
        if held is not None and held != message:
            raise ForkedFeed(
                f"feed {self.author} is forked: message {message.sequence} is {held.id} and {message.id}",
                held,
                message,
            )
        message.follow(self.tip)
        self._messages.append(message)
        if self._file is not None:
            self._file.write(entry_line(message, message.timestamp if received is None else received))
            self._file.flush()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, path: Path) -> BinaryIO:
        data = path.read_bytes() if path.exists() else b""
        whole = data[: len(data) - len(_torn(data))]
        lines = whole.split(b"\n")
        for entry in read_entries(lines, str(path)):
            if entry.author != self.author:
                raise InvalidExport(
                    f"{entry.place}: a message of {entry.author} in the log of {self.author}; "
                    "give each feed a file of its own"
                )
            self._messages.append(entry.check(self.tip, self._hmac_key))
        if len(whole) < len(data):
            os.truncate(path, len(whole))
            _logger.warning(
                "%s:%d: dropped the last line, %d bytes cut short by a crash",
                path,
                len(lines),
                len(data) - len(whole),
            )
        file = path.open("ab")
        if whole and not whole.endswith(b"\n"):
            file.write(b"\n")
        return file


def _torn(data: bytes) -> bytes:
    """What a crash left of a last line; empty if the last line is whole, be it without its line end."""
    last = data[data.rfind(b"\n") + 1 :]
    try:
        parse(last.decode())
    except (InvalidJson, UnicodeDecodeError):
        return last
    return b""
