"""The directory: names, images and descriptions that feeds give to themselves and to each other.

A message of type `about` assigns values to attributes of the feed or message in its member `about` (Tarr et
al., "Secure Scuttlebutt", ACM ICN 2019, section 3.1). Of each author's assignments to an attribute the last
in the author's log is valid; those of different authors coexist. Which of them is shown depends on the
reader.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard, TypeVar

from ssb.keys import is_blob, is_feed, is_message
from ssb.message import Message

NAME, IMAGE, DESCRIPTION = "name", "image", "description"
"""The attributes that most user interfaces support."""

_NO_ATTRIBUTES = {"type", "about"}


class Assignment(NamedTuple):
    """An author's value of an attribute, and the sequence number of the message."""

    sequence: int
    value: Any


_Statement = TypeVar("_Statement", bound=tuple[Any, Any])


class Directory:
    """State of the directory, computed from messages in any order of arrival.

    Adding a message again changes nothing.
    """

    def __init__(self) -> None:
        # Subject -> attribute -> author -> the author's last assignment.
        self._entries: defaultdict[str, dict[str, dict[str, Assignment]]] = defaultdict(dict)

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is not of type `about`."""
        if isinstance(message.content, dict):
            self.add_content(message.author, message.sequence, message.content)

    def add_content(self, author: str, sequence: int, content: Mapping[str, Any]) -> None:
        """Add the content of an author's message."""
        about = content.get("about")
        if content.get("type") != "about" or not is_reference(about):
            return
        attributes = self._entries[about]
        for attribute, value in content.items():
            if attribute not in _NO_ATTRIBUTES:
                given = attributes.setdefault(attribute, {})
                keep_latest(given, author, Assignment(sequence, value))

    def retract(self, author: str, before: int) -> None:
        """Drop the assignments of an author with numbers below `before`."""
        for attributes in self._entries.values():
            for given in attributes.values():
                if author in given and given[author].sequence < before:
                    del given[author]

    def assignments(self, attribute: str) -> Iterator[tuple[str, str, Assignment]]:
        """Yield the last assignments to an attribute: subject, author, assignment."""
        for about, attributes in self._entries.items():
            for author, assigned in attributes.get(attribute, {}).items():
                yield about, author, assigned

    def given(self, about: str, attribute: str) -> dict[str, Any]:
        """The values of an attribute, by author; without those revoked (null)."""
        assigned = self._entries.get(about, {}).get(attribute, {})
        return {author: last.value for author, last in assigned.items() if last.value is not None}

    def chosen(self, about: str, attribute: str, reader: str, hops: Mapping[str, int]) -> Any:
        """The value to show to a reader, None if there is none.

        The reader's own choice has priority, then that of the feed itself, then those of others: the
        nearest by hops (`ssb.graph.Graph.hops`), and among equally near authors the most frequent value.
        Authors that are not in `hops` are ignored, except about themselves.
        """
        given = self.given(about, attribute)
        for author in (reader, about):
            if author in given:
                return given[author]
        by_hops: defaultdict[int, list[Any]] = defaultdict(list)
        for author, value in given.items():
            if author in hops:
                by_hops[hops[author]].append(value)
        if not by_hops:
            return None
        values = by_hops[min(by_hops)]
        votes = Counter(map(repr, values))
        return min(values, key=lambda value: (-votes[repr(value)], repr(value)))

    def name(self, feed: str, reader: str, hops: Mapping[str, int]) -> str | None:
        """The name to show for a feed; None if there is none."""
        name = self.chosen(feed, NAME, reader, hops)
        return name if isinstance(name, str) else None

    def image(self, feed: str, reader: str, hops: Mapping[str, int]) -> str | None:
        """The reference of the blob to show for a feed, None if there is none."""
        return linked_blob(self.chosen(feed, IMAGE, reader, hops))

    def description(self, feed: str, reader: str, hops: Mapping[str, int]) -> str | None:
        """The text that describes a feed, None if there is none."""
        text = self.chosen(feed, DESCRIPTION, reader, hops)
        return text if isinstance(text, str) else None


def keep_latest(stated: dict[str, _Statement], key: str, new: _Statement) -> None:
    """Keep the later of two statements under a key; each begins with its place in time."""
    before = stated.get(key)
    if before is None or before[0] < new[0]:
        stated[key] = new


def linked_blob(value: Any) -> str | None:
    """The blob of an image: given as its reference, or as an object with that in its member `link`."""
    link = value.get("link") if isinstance(value, dict) else value
    return link if is_blob(link) else None


def is_reference(value: object) -> TypeGuard[str]:
    """Whether a value is the reference of a feed, a message or a blob."""
    return is_feed(value) or is_message(value) or is_blob(value)
