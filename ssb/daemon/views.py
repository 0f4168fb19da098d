"""Views computed from messages: the graph, identities of several devices, names, and addresses of pubs.

Reading all messages again takes seconds in a large store. So the views are stored in a file beside it, with a
*cursor*: the last message in them. Opening them reads the messages after it. The file begins with the hash of
the rest, and is replaced atomically. If it is damaged or of another form, or its cursor is not a message of
the store, as when the store comes from a backup, or if other feeds are merged now, the views are computed
from the first message on. So the file may be wrong or missing; messages are the only truth. Messages about
devices are few, and always read.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ssb.applications.about import NAME, Directory
from ssb.applications.fusion import FUSION, Fusions
from ssb.applications.pubs import PUB, Pubs
from ssb.branches.store import MergedFeeds
from ssb.canonical import parse
from ssb.ending import END, end_of
from ssb.graph import CONTACT, Graph, Relation
from ssb.message import Message
from ssb.store.database import read_summed, write_summed
from ssb.store.feeds import Stored, StoreError, read_log
from ssb.store.sqlite import SqliteFeeds
from ssb.tiny.daemon.texts import printable

ABOUT: Final = "about"
FILE: Final = "views"

LONGEST_NAME: Final = 100
"""Characters of a name that are stored."""

_LONGEST_SHOWN = 30
_VERSION = 5
TYPES: Final = frozenset({CONTACT, ABOUT, END, PUB, FUSION})
"""Types of the messages that views are computed from."""
_MOST_BEHIND = 2_000  # messages that the next opening has to read
_RESTATED = 1 << 53  # above all numbers of messages


def shown(name: str | None) -> str:
    """Return the suffix of a feed for its name, which others may have chosen: nothing, or " (name)"."""
    text = "" if name is None else printable(name).strip()
    return f" ({text[:_LONGEST_SHOWN]})" if text else ""


class Views:
    """The views of a store.

    Args:
        path: of the file.
        feeds: the store.
        origin: reference of the user's feed.
        hops: see Graph.
        merged: returns the feeds whose branches are merged.

    Attributes:
        graph: of follows and blocks.
        directory: names of feeds.
        fusions: identities of several devices.
        pubs: their addresses.
    """

    def __init__(
        self,
        path: Path,
        feeds: SqliteFeeds,
        origin: str,
        hops: int,
        merged: Callable[[], list[str]] = list,
    ) -> None:
        self._path = path
        self._merged = merged
        self._feeds = feeds
        self._origin = origin
        self._hops = hops
        self._behind = 0  # messages that the file lacks
        self._is_void = False
        if not self._load():
            self._begin()
        self._catch_up()
        self.graph.take_changes()
        self.graph.take_restated()
        if self._behind > _MOST_BEHIND // 10:
            self.save()

    def add(self, message: Message) -> None:
        """Add a message that the store has received."""
        if isinstance(message.content, dict) and self._add_content(
            message.author, message.sequence, message.content
        ):
            self._fuse(message)
            self._behind += 1
            if self._behind >= _MOST_BEHIND:
                self.save()

    def restate(self, author: str, messages: Iterable[Message]) -> None:
        """Let the statements of these messages of an author hold, in their order, and none of others.

        For a feed whose branches are merged (`ssb.branches`): two of its messages may have one number.
        """
        self._restated += 1
        first = _RESTATED + (self._restated << 32)
        for number, message in enumerate(messages, first):
            if isinstance(message.content, dict):
                self._add_content(author, number, message.content)
        for view in (self.graph, self.directory, self.pubs):
            view.retract(author, first)

    def discard(self) -> None:
        """Delete the file, and save none, so that the next opening computes the views anew: messages were
        deleted.
        """
        self._is_void = True
        with suppress(OSError):
            self._path.unlink()

    def namer(self) -> Callable[[str], str | None]:
        """Return a function from feeds to their current names; None for feeds without a name.

        All devices of an identity have one name: that of the first of them that has one.
        """
        hops, directory, origin = self.graph.hops(), self.directory, self._origin

        def name(feed: str) -> str | None:
            found = (directory.name(each, origin, hops) for each in self.fusions.devices(feed))
            return next((each for each in found if each), None)

        return name

    def save(self) -> None:
        """Write the file; failures are ignored, as the views can be computed again."""
        self._catch_up()
        if self._is_void:
            return
        feeds: dict[str, int] = {}
        stated = [
            (feeds.setdefault(author, len(feeds)), feeds.setdefault(about, len(feeds)), relation, sequence)
            for author, about, relation, sequence in self.graph.statements()
        ]
        named = self.directory.assignments(NAME)
        content = {
            "version": _VERSION,
            "cursor": self._cursor,
            "restated": self._restated,
            "merged": sorted(self._merged()),
            "feeds": [*feeds],
            "stated": [*chain.from_iterable(stated)],
            "ended": [*self.graph.ends()],
            "named": [[about, author, *assigned] for about, author, assigned in named],
            "pubs": [[author, sequence, str(pub)] for author, sequence, pub in self.pubs.statements()],
        }
        data = json.dumps(content, separators=(",", ":")).encode()
        with suppress(StoreError):
            write_summed(self._path, data)
            self._behind = 0

    def close(self) -> None:
        """Save the views if it would take long to read the messages again."""
        if self._behind > _MOST_BEHIND // 10:
            self.save()

    def _begin(self) -> None:
        self.graph = Graph(self._origin, self._hops)
        self.directory = Directory()
        self.fusions = Fusions()
        self.pubs = Pubs()
        self._cursor: tuple[int, str] = (0, "")
        self._restated = 0  # how often restate() was called

    def _load(self) -> bool:
        """Read the file; return False if it is missing, damaged, or another store's."""
        data = read_summed(self._path)
        try:
            return data is not None and self._restore(json.loads(data))
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError):  # of another form
            return False

    def _restore(self, content: dict[str, Any]) -> bool:
        if content["version"] != _VERSION or content["merged"] != sorted(self._merged()):
            return False
        position, id_ = content["cursor"]
        if position and [stored.id for stored in self._feeds.log(position - 1, 1)] != [id_]:
            return False
        self._begin()
        self._cursor = position, id_
        self._restated = int(content["restated"])
        feeds, numbers = content["feeds"], iter(content["stated"])
        relations = {int(relation): relation for relation in Relation}
        stated = (
            (feeds[author], feeds[about], relations[relation], sequence)
            for author, about, relation, sequence in zip(numbers, numbers, numbers, numbers, strict=True)
        )
        for stored in read_log(self._feeds, 0, {FUSION}):
            if stored.position <= position:
                self.fusions.add(stored.message)
        ends = ((feed, successor) for feed, successor in content["ended"])
        self.graph.restore(stated, ends, self.fusions.identities())
        for about, author, sequence, name in content["named"]:
            self.directory.add_content(author, sequence, {"type": ABOUT, "about": about, NAME: name})
        for author, sequence, pub in content["pubs"]:
            self.pubs.add_content(author, sequence, {"type": PUB, "address": pub})
        return True

    def _catch_up(self) -> None:
        """Read the store's messages beyond the cursor."""
        last: Stored | None = None
        for last in self._after(self._cursor[0]):
            value = parse(last.text.decode())
            assert isinstance(value, dict)
            if isinstance(value["content"], dict):
                self._add_content(value["author"], value["sequence"], value["content"])
                if value["content"].get("type") == FUSION:
                    self._fuse(last.message)
            self._behind += 1
        if last is not None:
            self._cursor = last.position, last.id

    def _after(self, position: int) -> Iterable[Stored]:
        return read_log(self._feeds, position, TYPES)

    def _fuse(self, message: Message) -> None:
        changed = self.fusions.add(message)
        if changed:
            self.graph.unite(changed)

    def _add_content(self, author: str, sequence: int, content: dict[str, Any]) -> bool:
        """Add a content; return whether it is of a type in the views."""
        kind = content.get("type")
        if kind == CONTACT:
            self.graph.add_content(author, sequence, content)
        elif kind == END:
            end = end_of(author, sequence, content)
            if end is not None and end.successor is not None:
                self.graph.succeed(author, end.successor)
        elif kind == ABOUT and NAME in content:
            name = content[NAME]
            kept = name[:LONGEST_NAME] if isinstance(name, str) else None
            self.directory.add_content(
                author, sequence, {"type": ABOUT, "about": content.get("about"), NAME: kept}
            )
        elif kind == PUB:
            self.pubs.add_content(author, sequence, content)
        return kind in TYPES


def dispute_ends(graph: Graph, merged: MergedFeeds) -> bool:
    """Let follows pass to no successor that an ignored message names; return whether that changes.

    An end is ignored from the fork of its feed on, unless the branches are merged: then each end counts.
    """
    ends, forks, disputed = merged.served.ends(), merged.served.forks(), set[str]()
    for feed in ends.keys() & forks.keys():
        first = merged.fork_of(feed)
        if first is not None and ends[feed].sequence >= first:
            disputed.add(feed)
            for message in forks.get(feed) or ():  # a damaged proof is lost when it is read
                end = end_of(feed, message.sequence, message.content)
                if end is not None and end.successor is not None:
                    graph.succeed(feed, end.successor)  # so a block holds for it, too
    return graph.dispute(disputed)
