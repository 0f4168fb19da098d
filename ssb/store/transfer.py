"""Feeds to and from exports (`ssb.export`): the form in which stock tools print and read them."""

import os
from collections.abc import Iterator
from pathlib import Path

from ssb.export import InvalidExport, read_entries
from ssb.message import Message
from ssb.store.feeds import FeedStore

_BATCH = 1000


def export_feed(store: FeedStore, feed: str) -> Iterator[bytes]:
    """Yield a feed's entries, a line each, in order, with the times at which the store took them."""
    last = 0
    while page := store.after(feed, last, _BATCH):
        for stored in page:
            yield stored.entry + b"\n"
        last = page[-1].sequence


def import_feeds(store: FeedStore, path: str | os.PathLike[str], received: float) -> int:
    """Store the messages of all feeds in an export, and return how many are new.

    `received` is when that is, in ms since 1970. Raises InvalidExport at the first message that is
    invalid or forks its feed, with its place; messages before it are stored. Also StoreError, and OSError
    if the file cannot be read.
    """
    path = Path(path)
    before = store.end
    places: list[str] = []
    messages: list[Message] = []

    def flush() -> None:
        if store.append(messages, received).refused:
            for place, message in zip(places, messages, strict=True):  # most are held by now
                for refusal in store.append([message], received).refused.values():
                    raise InvalidExport(f"{place}: {refusal}; the messages before it are stored") from None
        places.clear()
        messages.clear()

    with path.open("rb") as file:
        for entry in read_entries(file, str(path)):
            try:
                message = entry.parse()
            except InvalidExport:
                flush()
                raise
            places.append(entry.place)
            messages.append(message)
            if len(messages) == _BATCH:
                flush()
    flush()
    return store.end - before
