"""An epoch of a private group: those who hold one key, and what was written with it.

All of it is computed from sets of messages, so their order does not matter.
"""

from collections import defaultdict
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from ssb.groups.direct import has_key
from ssb.groups.envelope import KEY_BYTES, Key
from ssb.keys import InvalidRef, decode_base64, is_feed, parse_message
from ssb.message import Message

INIT: Final = "group/init"
ADD: Final = "group/add-member"
EXCLUDE: Final = "group/exclude-member"

MAX_ADDED: Final = 15
"""Feeds that one message adds: the first of 16 slots is the group's."""

_MAX_HEADS: Final = 16


class Private(NamedTuple):
    """A message of box2 that was opened.

    Attributes:
        message: as it was published.
        content: the plaintext.
        key: the one that opened it.
    """

    message: Message
    content: dict[str, Any]
    key: Key


class Epoch:
    """An epoch.

    Args:
        id: `%...=.cloaked`, which names it to those outside.
        init: the message that began it.
        key: its key.

    Attributes:
        id, key: see above.
        root: reference of the message that began it.
        author: of that message.
        first: root of the group's first epoch, as its author says.
        previous: roots of the epochs that it goes on from; empty for the first one of a group.
        messages: those sealed with its key, by their references; `init` is one of them.
        authors: of these.
    """

    def __init__(self, id_: str, init: Private, key: Key) -> None:
        self.id = id_
        self.key = key
        self.root = init.message.id
        self.author = init.message.author
        self.first = _root(init.content, "epoch") or self.root
        self.previous = frozenset(_previous(init.content, "epoch"))
        self.messages: dict[str, Private] = {self.root: init}
        self.authors = {self.author}
        self._additions: list[tuple[str, list[str]]] = []
        self._exclusions: list[tuple[str, list[str]]] = []

    def take(self, private: Private) -> None:
        """Add a message sealed with the epoch's key."""
        if private.message.id in self.messages:
            return
        author, content = private.message.author, private.content
        self.messages[private.message.id] = private
        self.authors.add(author)
        if not changes_members(content):
            return
        if content["type"] == ADD:
            self._additions.append((author, added_by(content, self.root)))
        elif _root(content, "members") == self.root:
            self._exclusions.append((author, _feeds(content.get("excludes"))))
        for name in ("added", "excluded", "members"):
            self.__dict__.pop(name, None)

    @cached_property
    def added(self) -> frozenset[str]:
        """Feeds that were ever in it, and can read all of it: its author, and those whom these have added."""
        named: defaultdict[str, list[str]] = defaultdict(list)
        for author, feeds in self._additions:
            named[author] += feeds
        found, ahead = {self.author}, [self.author]
        while ahead:
            new = set(named.get(ahead.pop(), ())) - found
            found |= new
            ahead += new
        return frozenset(found)

    @cached_property
    def excluded(self) -> frozenset[str]:
        """Feeds that a member has excluded: they read on, but are in no later epoch."""
        return frozenset(
            chain.from_iterable(feeds for author, feeds in self._exclusions if author in self.added)
        )

    @cached_property
    def members(self) -> frozenset[str]:
        """Feeds that were added, and not excluded."""
        return self.added - self.excluded

    def adders(self, feed: str) -> frozenset[str]:
        """Return the members who have added a feed."""
        return frozenset(author for author, feeds in self._additions if feed in feeds) & self.added

    def heads(self, tangle: str) -> list[str]:
        """Return what a message written now names as its `previous` in the tangle "group" or "members"."""
        of_tangle = {
            id_: each for id_, each in self.messages.items() if _root(each.content, tangle) == self.root
        }
        named = set(chain.from_iterable(_previous(each.content, tangle) for each in of_tangle.values()))
        heads = [each for id_, each in of_tangle.items() if id_ not in named]
        newest = sorted(heads, key=lambda each: (each.message.timestamp, each.message.id), reverse=True)
        return [each.message.id for each in newest[:_MAX_HEADS]] or [self.root]

    def tangles(self, *names: str) -> dict[str, Any]:
        """Return the places of a message written now in some tangles."""
        return {name: {"root": self.root, "previous": self.heads(name)} for name in names}


def changes_members(content: dict[str, Any]) -> bool:
    """Whether a content may add members to its epoch, or exclude some."""
    return content.get("type") in (ADD, EXCLUDE)


def added_by(content: dict[str, Any], root: str) -> list[str]:
    """Return the feeds that a content adds to the epoch with this root: without those beyond its slots, and
    those for whom nobody can seal a message.
    """
    recipients = content.get("recps")
    if content.get("root") != root or not isinstance(recipients, list):
        return []
    return [each for each in _feeds(recipients[1 : 1 + MAX_ADDED]) if has_key(each)]


def offered_by(content: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return root and key of the epoch that a content adds its readers to; None for another content."""
    root, key = content.get("root"), content.get("groupKey")
    if content.get("type") != ADD or not isinstance(root, str) or not isinstance(key, str):
        return None
    try:
        parse_message(root)
        secret = decode_base64(key)
    except InvalidRef:
        return None
    return (root, secret) if len(secret) == KEY_BYTES else None


def _feeds(value: object) -> list[str]:
    return [each for each in value if is_feed(each)] if isinstance(value, list) else []


def _tangle(content: dict[str, Any], tangle: str) -> dict[str, Any]:
    tangles = content.get("tangles")
    found = tangles.get(tangle) if isinstance(tangles, dict) else None
    return found if isinstance(found, dict) else {}


def _root(content: dict[str, Any], tangle: str) -> object:
    return _tangle(content, tangle).get("root")


def _previous(content: dict[str, Any], tangle: str) -> list[str]:
    named = _tangle(content, tangle).get("previous")
    return [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
