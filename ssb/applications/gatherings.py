"""Gatherings: events that people announce, change and attend.

A message of type `gathering` creates one, and its id names it. All else is in messages of type `about`
for that id: title, description, location, start, image, and attendees (Tarr et al., "Secure Scuttlebutt",
ACM ICN 2019, section 3.2; npm's ssb-gathering-schema). Anyone may change anything: the most recent value is
valid.

Logs of different authors are not ordered, so "most recent" is by the authors' timestamps, then by
author and sequence number. The paper also names the time of receipt, which resists false timestamps; but it
gives each peer a state of its own, even where all have the same messages.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ssb.applications.about import keep_latest, linked_blob
from ssb.keys import is_feed, is_message
from ssb.message import Message

ATTENDEE = "attendee"
PROPERTIES = ("title", "description", "location", "startDateTime", "image")


class Stamp(NamedTuple):
    """When something was stated: the greatest is the most recent.

    Attributes:
        timestamp: by the author's clock, ms since 1970.
        author, sequence: of the message; they break ties.
    """

    timestamp: float
    author: str
    sequence: int


def stamp(message: Message) -> Stamp:
    """Return when a message was written, by its author."""
    return Stamp(message.timestamp, message.author, message.sequence)


def subject_of(message: Message) -> str | None:
    """Return the gathering, or another message, that a message creates or is about; None without one."""
    match message.content:
        case {"type": "gathering"}:
            return message.id
        case {"type": "about", "about": about} if is_message(about):
            return about
    return None


class Stated(NamedTuple):
    """The most recent value, and when it was stated."""

    stamp: Stamp
    value: Any


@dataclass(frozen=True)
class Gathering:
    """One gathering, as shown to users.

    Attributes:
        id: reference of the message that created it.
        host: author of that message.
        title, description, location: texts; None if there are none.
        start: ms since 1970, UTC; None if there is none.
        image: a blob's reference, or None.
        attendees: feeds that attend.
    """

    id: str
    host: str
    title: str | None = None
    description: str | None = None
    location: str | None = None
    start: float | None = None
    image: str | None = None
    attendees: frozenset[str] = field(default_factory=frozenset)


class Gatherings:
    """State of all gatherings, computed from messages in any order of arrival.

    Updates may arrive before their gathering. Adding a message again changes nothing.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        # Subject -> property, or attendee's feed -> the most recent value.
        self._stated: defaultdict[str, dict[str, Stated]] = defaultdict(dict)

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is not about a gathering."""
        content, subject = message.content, subject_of(message)
        if subject is None or not isinstance(content, dict):
            return
        if content["type"] == "gathering":
            self._hosts[message.id] = message.author
            return
        stated = self._stated[subject]
        for name in PROPERTIES:
            if name in content:
                keep_latest(stated, name, Stated(stamp(message), content[name]))
        match content.get(ATTENDEE):
            case {"link": link, **others} if is_feed(link):
                keep_latest(stated, link, Stated(stamp(message), others.get("remove") is not True))

    def gatherings(self) -> list[str]:
        """The gatherings whose creation has arrived, in the order of their ids."""
        return sorted(self._hosts)

    def get(self, gathering: str) -> Gathering | None:
        """A gathering as it is now; None if its creation has not arrived."""
        host = self._hosts.get(gathering)
        if host is None:
            return None
        stated = self._stated.get(gathering, {})
        value = {name: stated[name].value for name in PROPERTIES if name in stated}
        return Gathering(
            id=gathering,
            host=host,
            title=_text(value.get("title")),
            description=_text(value.get("description")),
            location=_text(value.get("location")),
            start=_epoch(value.get("startDateTime")),
            image=linked_blob(value.get("image")),
            attendees=frozenset(
                name for name, last in stated.items() if name not in PROPERTIES and last.value
            ),
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _epoch(value: Any) -> float | None:
    epoch = value.get("epoch") if isinstance(value, dict) else None
    return epoch if isinstance(epoch, int | float) and not isinstance(epoch, bool) else None
