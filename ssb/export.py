"""A feed in a file, as `ssb-server log` and `ssb-server createUserStream` print it.

An export is a sequence of *entries*, objects `{"key": id, "value": message, "timestamp": ms}`, where
`timestamp` is the time at which the printing peer received the message. An entry is one line of
compact JSON, or JSON printed with indentation, as the command line does: then `{` and `}` alone at
the beginning of a line are its ends, and blank lines separate it from the next.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssb.canonical import InvalidJson, parse, stringify
from ssb.message import ForkedFeed, InvalidMessage, Message

_FEEDS_NAMED = 5
_EXPECTED = "expected an entry as `ssb-server log` prints it"


class InvalidExport(ValueError):
    """The file is not the export of one feed; the message names file, line and mend."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an export, its message not yet checked."""

    place: str
    """File and line where it begins, for error messages."""
    key: str
    """The message's id, as the printing peer computed it."""
    value: dict[str, Any]
    """The message, parsed."""

    @property
    def author(self) -> str:
        """The author that the message claims."""
        author = self.value.get("author")
        return author if isinstance(author, str) else "no author"

    def parse(self) -> Message:
        """The message, of valid form and with the id `key`; its signature is not checked.

        Raises InvalidExport, which names the place.
        """
        message = self._parse()
        self._check_key(message)
        return message

    def check(self, tip: Message | None, hmac_key: bytes | None = None) -> Message:
        """The message, checked to be valid, signed, with the id `key`, and next after `tip`.

        Raises InvalidExport, which names the place.
        """
        message = self._parse()
        try:
            message.verify(hmac_key)
        except InvalidMessage as error:
            raise InvalidExport(
                f"{self.place}: {error}; export the feed again, or give its network's HMAC key if it has one"
            ) from None
        self._check_key(message)
        try:
            message.follow(tip)
        except InvalidMessage as error:
            raise InvalidExport(
                f"{self.place}: {error}; export the whole feed, from its first message on and in order"
            ) from None
        except ForkedFeed as error:
            raise InvalidExport(
                f"{self.place}: {error}; keep the entries of one branch, up to where they fork"
            ) from None
        return message

    def _parse(self) -> Message:
        try:
            return Message.from_value(self.value)
        except InvalidMessage as error:
            raise InvalidExport(f"{self.place}: {error}; export the feed again") from None

    def _check_key(self, message: Message) -> None:
        if message.id != self.key:
            raise InvalidExport(
                f"{self.place}: key is {self.key}, but the message is {message.id}; export the feed again"
            )


def read_export(
    path: str | os.PathLike[str], author: str | None = None, hmac_key: bytes | None = None
) -> list[Message]:
    """The whole feed in an export, checked from its first message to its last.

    An export of several feeds is read with `author`, the reference of one: the entries of the others
    are then skipped unchecked. `hmac_key` is the network's 32-byte key, if it has one.

    Raises InvalidExport, and OSError if the file cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        entries = list(read_entries(file, str(path)))
    feeds = Counter(entry.author for entry in entries)
    if not feeds:
        raise InvalidExport(f"{path}: holds no messages; export a feed that has some")
    if author is None and len(feeds) > 1:
        raise InvalidExport(f"{path}: holds {len(feeds)} feeds, choose one as author: {_names(feeds)}")
    if author is not None and author not in feeds:
        raise InvalidExport(f"{path}: holds no message of {author}, only of {_names(feeds)}")
    messages: list[Message] = []
    for entry in entries:
        if author is None or entry.author == author:
            messages.append(entry.check(messages[-1] if messages else None, hmac_key))
    return messages


def read_entries(lines: Iterable[bytes], name: str) -> Iterator[Entry]:
    """The entries in the lines of an export; `name` is the file's name in errors.

    Raises InvalidExport at the first line that does not belong to an entry.
    """
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        place = f"{name}:{number}"
        text = line.rstrip()
        if not text:
            continue
        if text == b"{":
            text += b"".join(_rest_of_entry(numbered, place))
        try:
            value = parse(text.decode())
        except InvalidJson as error:
            raise InvalidExport(f"{place}: {error}; {_EXPECTED}") from None
        except UnicodeDecodeError:
            raise InvalidExport(f"{place}: not UTF-8; save the export as UTF-8") from None
        match value:
            case {"key": str(key), "value": dict(message)}:
                yield Entry(place, key, message)
            case _:
                raise InvalidExport(f"{place}: no key and value; {_EXPECTED}")


def _rest_of_entry(numbered: Iterator[tuple[int, bytes]], place: str) -> Iterator[bytes]:
    for _, line in numbered:
        yield line
        if line.rstrip() == b"}":
            return
    raise InvalidExport(f"{place}: entry has no end; the file was cut short, export it again")


def entry_line(message: Message, received: float) -> bytes:
    """The entry of a message received at `received`, in ms since 1970, as one line with its end."""
    return entry_json(message.id, message.text, received) + b"\n"


def entry_json(id: str, text: str, received: float) -> bytes:  # noqa: A002 - the field's own name
    """The entry of the message with this id and canonical text, as compact JSON."""
    return stringify({"key": id, "value": parse(text), "timestamp": received}, indent=0).encode()


def _names(feeds: Counter[str]) -> str:
    names = [f"{feed} (messages: {count})" for feed, count in feeds.most_common(_FEEDS_NAMED)]
    if len(feeds) > _FEEDS_NAMED:
        names.append(f"and {len(feeds) - _FEEDS_NAMED} more")
    return ", ".join(names)
