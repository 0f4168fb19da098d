"""Votes: who likes which messages.

A message of type `vote` has, in its member `vote`, a `link` to what it is about, and a `value` above 0 for a
like. Of each author's votes on a message the last in the author's log is valid. So likes are counted as they
come, in any order, and nothing is computed again (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019,
section 3.3).
"""

from collections import defaultdict

from ssb.applications.about import Assignment, keep_latest
from ssb.keys import is_message
from ssb.message import Message


def voted(message: Message) -> str | None:
    """Return the message that a vote is about; None if it is no vote on a message."""
    match message.content:
        case {"type": "vote", "vote": {"link": link, "value": int() | float() as value}} if is_message(
            link
        ) and not isinstance(value, bool):
            return link
    return None


class Votes:
    """State of all votes. Adding a message again changes nothing."""

    def __init__(self) -> None:
        self._votes: defaultdict[str, dict[str, Assignment]] = defaultdict(dict)

    def add(self, message: Message) -> None:
        """Add a message; no effect if it is no vote on a message."""
        if (link := voted(message)) is not None:
            assert isinstance(message.content, dict)
            value = message.content["vote"]["value"]
            keep_latest(self._votes[link], message.author, Assignment(message.sequence, value))

    def likes(self, message: str) -> frozenset[str]:
        """Return the feeds that like a message."""
        votes = self._votes.get(message, {})
        return frozenset(author for author, last in votes.items() if last.value > 0)

    def liked(self) -> list[tuple[str, int]]:
        """Return the messages with likes and their numbers, the most liked first, then by id."""
        counts = [(id_, len(self.likes(id_))) for id_ in self._votes]
        return sorted(((id_, count) for id_, count in counts if count), key=lambda each: (-each[1], each[0]))
