"""Backlinks: which messages link to a message, a feed or a blob; and the call `links`.

The index is an incremental view of the store's messages. It pairs the first 8 bytes that a reference names
with the position of a message that has such a link. Its file has two arrays of 64-bit integers, sorted by the
first. As with the other views (`ssb.daemon.views`), a *cursor* is the last message in it, and a query first
reads the messages after it. What the index finds is read from the store and checked for the link. If the file
is lost, damaged, or of another store, the index is made anew. Only a query opens it.

The call has the form that ssb-server's has (npm's ssb-db, `indexes/links.js`): `source`, `dest` and `rel`
choose links; `meta`, `keys` and `values` say what is told of each; `reverse` turns the order around.
"""

import json
import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from ssb.applications.links import Link, links_of
from ssb.branches.store import MergedFeeds
from ssb.canonical import Value, object_in, parse
from ssb.keys import InvalidRef, parse_blob, parse_feed, parse_message
from ssb.message import Message
from ssb.store import sound
from ssb.store.database import read_summed, write_summed
from ssb.store.feeds import Stored, StoreError, read_log
from ssb.store.sqlite import SqliteFeeds
from ssb.uri import plain

BACKLINKS: Final = "backlinks"
"""Name of the file."""

_VERSION = 1
_MOST_BEHIND = 2_000  # links that the next opening has to find again
_KINDS: Final = {"@": parse_feed, "%": parse_message, "&": parse_blob}
_WORDS: Final = {"feed": "@", "msg": "%", "blob": "&"}
_REFERENCE = re.compile(rb'"[@%&][A-Za-z0-9+/]{43}=\.(?:sha256|ed25519)"')


class Backlink(NamedTuple):
    """A link, and the message that has it."""

    message: Message
    link: Link


class Backlinks:
    """The index.

    Args:
        path: of its file.
        feeds: the store.
        merged: the feeds whose branches are merged.
    """

    def __init__(self, path: Path, feeds: SqliteFeeds, merged: MergedFeeds) -> None:
        self._path = path
        self._feeds = feeds
        self._branched = merged
        self._recent: defaultdict[int, list[int]] = defaultdict(list)  # that the file lacks
        self._behind = 0  # messages and links that the file lacks
        if not self._load():
            self._cursor: tuple[int, str] = (0, "")
            self._starts, self._positions = array("q"), array("q")

    def to(self, dest: str) -> list[Backlink]:
        """Return the links to a message, feed or blob: of all logs, in order of receipt, and then of messages
        out of order, and of other branches of merged feeds. Of a forked feed that is not merged the messages
        from the fork on are left out. Raises InvalidRef.
        """
        start = sound.start_of(digest_of(dest))
        self._catch_up()
        logged = (stored.message for stored in self._feeds.at(self._find(start)))
        messages = [*logged, *self._feeds.out_of_order_with(dest), *self._branched.naming(dest)]
        return [
            Backlink(each, link)
            for each in {message.id: message for message in messages}.values()
            if not self._branched.is_ignored(each.author, each.sequence)
            for link in links_of(each.content)
            if link.dest == dest
        ]

    def of(self, source: str) -> list[Backlink]:
        """Return the links of the messages of a feed."""
        feed = self._feeds.after(source, 0, self._feeds.tips().get(source, 0))
        return [
            Backlink(stored.message, link)
            for stored in [*feed, *self._branched.others([source])]
            if not self._branched.is_ignored(source, stored.sequence)
            for link in links_of(stored.message.content)
        ]

    def authors(self, dest: str, after: int, limit: int) -> list[tuple[int, str]]:
        """Return the position and the author of each message of the logs that links to a message, feed or
        blob, the first `limit` after a position, in order of receipt. No message is read, so that one may be
        named that has no such link. Raises InvalidRef.
        """
        start = sound.start_of(digest_of(dest))
        self._catch_up()
        return self._feeds.authors_at(islice(self._find(start, after), limit))

    def is_named(self, dest: str) -> bool:
        """Whether a message of the logs names a message, feed or blob; also if it only may."""
        return bool(self.authors(dest, 0, 1))

    def save(self) -> None:
        """Write the file; failures are ignored, as the index can be made again."""
        starts, positions = self._merged()
        head = {"version": _VERSION, "order": sys.byteorder, "cursor": self._cursor, "links": len(starts)}
        data = json.dumps(head).encode() + b"\n" + starts.tobytes() + positions.tobytes()
        with suppress(StoreError):
            write_summed(self._path, data)
            self._recent.clear()
            self._starts, self._positions, self._behind = starts, positions, 0

    def close(self) -> None:
        """Save the index if it would take long to find its links again."""
        if self._behind > _MOST_BEHIND // 10:
            self.save()

    def _load(self) -> bool:
        """Read the file; return False if it is missing, damaged, or another store's."""
        head, _, rest = (read_summed(self._path) or b"").partition(b"\n")
        known = object_in(head) or {}
        match known:
            case {"version": 1, "order": sys.byteorder, "cursor": [int(at), str(id_)], "links": int(count)}:
                pass
            case _:
                return False
        if at and [stored.id for stored in self._feeds.log(at - 1, 1)] != [id_]:
            return False
        numbers = array("q")
        numbers.frombytes(rest)
        self._cursor = at, id_
        self._starts, self._positions = numbers[:count], numbers[count:]
        return True

    def _catch_up(self) -> None:
        """Read the store's messages beyond the cursor."""
        last: Stored | None = None
        for last in read_log(self._feeds, self._cursor[0]):
            self._behind += 1
            # The first message of a feed names its author, the others the message before, too.
            if len(_REFERENCE.findall(last.text)) > min(last.sequence, 2):
                value = parse(last.text.decode())
                assert isinstance(value, dict)
                for start in {sound.start_of(digest_of(link.dest)) for link in links_of(value["content"])}:
                    self._recent[start].append(last.position)
        if last is not None:
            self._cursor = last.position, last.id
        if self._behind >= max(_MOST_BEHIND, len(self._starts) // 20):
            self.save()

    def _find(self, start: int, after: int = 0) -> Iterator[int]:
        """Yield the positions, after one, of messages that may link to a reference."""
        at, end = bisect_left(self._starts, start), bisect_right(self._starts, start)
        at = bisect_right(self._positions, after, at, end)
        while at < end:
            yield self._positions[at]
            at += 1
        recent = self._recent.get(start, [])
        yield from islice(recent, bisect_right(recent, after), None)

    def _merged(self) -> "tuple[array[int], array[int]]":
        """Return the columns of the file with the recent links in their places."""
        starts, positions = array("q"), array("q")
        at = 0
        for start in sorted(self._recent):
            to = bisect_left(self._starts, start + 1, at)
            starts += self._starts[at:to]
            positions += self._positions[at:to]
            starts.extend([start] * len(self._recent[start]))
            positions.extend(self._recent[start])
            at = to
        return starts + self._starts[at:], positions + self._positions[at:]


def digest_of(reference: str) -> bytes:
    """Return the 32 bytes that a reference of a message, feed or blob names; raise InvalidRef."""
    if reference[:1] not in _KINDS:
        raise InvalidRef(f"{reference!r} is no reference of a message, feed or blob")
    return _KINDS[reference[0]](reference)


def answers(backlinks: Backlinks, options: Mapping[str, Value]) -> Iterator[Value]:
    """Yield the answers to the call `links`, in ssb-server's order: by the end that is given, rel, the other
    end, number and id. Raises InvalidRef, and ValueError for options that choose nothing.
    """
    source, dest = (_end(options.get(name)) for name in ("source", "dest"))
    rel = options.get("rel")
    if not isinstance(rel, str | None) or options.get("live"):
        raise ValueError("links takes source, dest, rel, meta, keys, values and reverse")
    meta, keys = (options.get(name) is not False for name in ("meta", "keys"))
    values = options.get("values") is True
    if not (meta or keys or values):
        raise ValueError("links: one of meta, keys and values has to be true")
    if len(dest) > 1:
        found = backlinks.to(dest)
    elif len(source) > 1:
        found = backlinks.of(source)
    else:
        raise ValueError("links: source or dest has to be a reference")
    chosen = [
        each
        for each in found
        if each.link.dest.startswith(dest)
        and each.message.author.startswith(source)
        and rel in (None, each.link.rel)
    ]
    is_back = bool(dest) and not source
    chosen.sort(key=lambda each: _place(each, is_back), reverse=options.get("reverse") is True)
    for message, link in chosen:
        told: dict[str, Value] = {"source": message.author, "rel": link.rel, "dest": link.dest}
        told = told if meta else {}
        if keys:
            told["key"] = message.id
        if values:
            told["value"] = parse(message.text)
        yield told if meta or (keys and values) else next(iter(told.values()))


def _place(found: Backlink, is_back: bool) -> tuple[Any, ...]:
    message, (rel, dest) = found
    ends = (dest, rel, message.author) if is_back else (message.author, rel, dest)
    return *ends, message.sequence, message.id


def _end(value: Value) -> str:
    """Return an end of links: a reference, the sigil of a kind, or "" for any; raise InvalidRef."""
    if not isinstance(value, str | None):
        raise ValueError("links: source and dest are references")
    text = plain(value or "")
    text = _WORDS.get(text, text)
    if len(text) > 1:
        digest_of(text)
    return text
