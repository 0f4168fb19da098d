"""Import from other programs: a stock peer's directory, or lines of `ssb-server log`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from ssb.canonical import Value
from ssb.daemon.account import IMPORTED, Account
from ssb.daemon.stock import addresses, read_log, stock_logs
from ssb.export import read_entries
from ssb.keys import InvalidRef, parse_feed
from ssb.message import InvalidMessage, Message
from ssb.store.blobs import RefusedBlob

_BATCH: Final = 1000


class Imported(NamedTuple):
    """Result of an import.

    Attributes:
        messages: number of new ones.
        own: number of the last message of the own feed held here.
        blobs: number of new ones.
        refused: feed -> the reason why its messages end there.
        skipped: counts of other refusals, by reason.
    """

    messages: int
    own: int
    blobs: int
    refused: Mapping[str, str]
    skipped: Mapping[str, int]


def import_lines(account: Account, source: Path, now_ms: float) -> Imported:
    """Import an export. Raises OSError, and InvalidExport for invalid lines: those before stay."""
    reading = _Reading()
    own = account.own.tip
    try:
        with source.open("rb") as file:
            entries = ((entry.place, {"value": entry.value}) for entry in read_entries(file, str(source)))
            messages = reading.import_to(account, entries, now_ms)
    finally:
        if reading.tips[account.own.feed] > own:
            account.own.question(IMPORTED, reading.tips[account.own.feed])
    return Imported(messages, account.own.tip, 0, reading.refused, reading.skipped)


def import_directory(account: Account, source: Path, now_ms: float) -> Imported:
    """Import a stock peer's directory: messages of all feeds, blobs, addresses of peers.

    The account has the directory's identity. Its feed is in doubt from the start: messages that never reached
    this directory may be elsewhere. Raises OSError.
    """
    account.own.question(IMPORTED)
    reading = _Reading()
    messages = sum(reading.import_to(account, read_log(log), now_ms) for log in stock_logs(source))
    account.own.question(IMPORTED, reading.tips[account.own.feed])
    for address in addresses(source):
        if address.peer != account.own.feed:
            account.remember(address)
    blobs = _import_blobs(account, source / "blobs" / "sha256", reading.skipped)
    return Imported(messages, account.own.tip, blobs, reading.refused, reading.skipped)


class _Reading:
    """Reads entries, and counts the refused ones: see Imported for `refused` and `skipped`."""

    def __init__(self) -> None:
        self.tips: Counter[str] = Counter()  # the highest number read of each feed, valid or not
        self.refused: dict[str, str] = {}
        self.skipped: Counter[str] = Counter()

    def import_to(self, account: Account, entries: Iterable[tuple[str, Value]], now_ms: float) -> int:
        """Store the messages of entries, each with its place; return the number of new ones.

        A feed with an invalid message ends before it, and the others continue.
        """
        before = account.feeds.end
        messages = self._messages(entries)
        while batch := list(islice(messages, _BATCH)):
            for feed, error in account.feeds.append(batch, now_ms).refused.items():
                self.refused.setdefault(feed, str(error))
        return account.feeds.end - before

    def _messages(self, entries: Iterable[tuple[str, Value]]) -> Iterator[Message]:
        """Yield messages of classic feeds, of each up to the first invalid one; signatures are unchecked."""
        for place, entry in entries:
            value = entry.get("value") if isinstance(entry, dict) else None
            if not isinstance(entry, dict) or not isinstance(value, dict):
                self.skipped[f"{place}: {entry if isinstance(entry, str) else 'no message'}"] += 1
            elif not _is_classic(value):
                self.skipped["messages of other formats than classic ones"] += 1
            else:
                feed, sequence = value["author"], value.get("sequence")
                if isinstance(sequence, int):
                    self.tips[feed] = max(self.tips[feed], sequence)
                if entry.get("ooo"):
                    self.skipped["messages that were fetched without their feeds"] += 1
                elif feed not in self.refused:
                    yield from self._message(feed, value)

    def _message(self, feed: str, value: dict[str, Value]) -> Iterator[Message]:
        try:
            yield Message.from_value(value)
        except (InvalidMessage, TypeError) as error:
            self.refused[feed] = f"message {value.get('sequence')}: {error}"


def _is_classic(value: dict[str, Value]) -> bool:
    author = value.get("author")
    try:
        return isinstance(author, str) and bool(parse_feed(author))
    except InvalidRef:
        return False


def _import_blobs(account: Account, directory: Path, skipped: Counter[str]) -> int:
    """Copy blobs, and return the number of new ones."""
    new = []
    for path in sorted(directory.glob("??/*")):
        used = account.blobs.used
        try:
            blob = account.blobs.add(path.read_bytes())
        except RefusedBlob:
            skipped["blobs that are too large"] += 1
            continue
        if account.blobs.used > used:
            new.append(blob)
    account.own_blobs.on_imported(new, account.backlinks.is_named)
    return len(new)
