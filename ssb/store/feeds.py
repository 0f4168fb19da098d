"""The contract of a store of feeds, which verifies all that it appends."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ssb.message import ForkedFeed, InvalidMessage, Message


class Stored(NamedTuple):
    """A message as it is sent: its place in its feed, and its JSON without spaces, in UTF-8."""

    sequence: int
    compact: bytes


class Appended(NamedTuple):
    """The outcome of an append: the messages that are new, in order, and the first refusal in each feed."""

    stored: Sequence[Message]
    refused: Mapping[str, InvalidMessage | ForkedFeed]


class FeedStore(Protocol):
    """Messages of many feeds; a feed is named by its author's reference."""

    def tips(self) -> Mapping[str, int]:
        """Return the last sequence number of each feed, as a view that follows the store."""
        ...

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        """Verify and append messages, those of one feed in order; `received` is in ms since 1970.

        The valid prefix of each feed is kept. What is held already is passed over.
        """
        ...

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """Return the messages after a sequence number, in order, `limit` at most."""
        ...

    def get(self, reference: str) -> Message | None:
        """Return the message with a reference (`%...=.sha256`)."""
        ...

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """Return the forked feeds, which take no more messages, with their proofs, as a view."""
        ...
