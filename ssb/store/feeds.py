"""The contract of a store: the feeds that a peer holds, and single messages out of order.

A store holds each feed from its first message to its tip, without gaps. It verifies every message but
those that it signs itself in `publish`, so whatever it hands out is valid.

The store numbers all messages of feeds in the order in which it took them. That number is a message's
*position*. An application reads the log of all feeds by position, and keeps the last one as its cursor.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ssb.canonical import parse, stringify
from ssb.export import entry_json
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message, message_id

MAX_OUT_OF_ORDER = 10_000
"""Messages out of order that a store keeps; a further one takes the place of the oldest."""

_PAGE = 1000


class StoreError(OSError):
    """The store cannot be opened, read or written; the message says which, why, and how to mend it."""


class Tip(NamedTuple):
    """The last message of a feed: its sequence number and its id."""

    sequence: int
    id: str


NO_TIP: Final = Tip(0, "")
"""Before the first message of any feed."""


class Stored(NamedTuple):
    """A message of a feed, as the store holds it.

    Attributes:
        position: its number in the log of all feeds, from 1.
        sequence: its number in its feed, from 1.
        received: when the store took it, ms since 1970.
        text: canonical text, UTF-8.
    """

    position: int
    sequence: int
    received: float
    text: bytes

    @property
    def id(self) -> str:
        """The message's reference, computed anew."""
        return message_id(self.text)

    @property
    def message(self) -> Message:
        """The message, parsed anew."""
        return Message.from_text(self.text)

    @property
    def compact(self) -> bytes:
        """The message as `JSON.stringify(message)` gives it, UTF-8: the form in which peers send it."""
        return stringify(parse(self.text.decode()), indent=0).encode()

    @property
    def entry(self) -> bytes:
        """The message with its id and its time of receipt, as one line of an export without its end."""
        return entry_json(self.id, self.text.decode(), self.received)


class Appended(NamedTuple):
    """Result of `append`.

    Attributes:
        stored: how many are new in the store.
        held: how many it held already.
        refused: for each feed with an invalid message, the first refusal. The feed's messages after that
            one were not looked at.
    """

    stored: int
    held: int
    refused: Mapping[str, InvalidMessage | ForkedFeed]


class FeedStore(Protocol):
    """Feeds by their references, `@...=.ed25519`. Every method raises StoreError if the disk fails."""

    def tips(self) -> Mapping[str, int]:
        """The last sequence number of each feed: a live view, not a copy."""

    def tip(self, feed: str) -> Tip | None:
        """The last message of a feed; None if the store holds none."""

    @property
    def end(self) -> int:
        """The last position in the log; 0 if nothing was ever stored."""

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        """Verify messages of one or several feeds, each feed's in order, and store the valid ones.

        Of each feed the messages before the first invalid one are stored, all feeds in one transaction.
        A message that is held already is skipped. A message that contradicts one that is held, or that
        continues another message than the tip, is a fork: the store keeps both as proof, and takes no
        more messages of that feed. `received` is in ms since 1970.
        """

    def publish(self, identity: Identity, content: Mapping[str, Any] | str, now_ms: float) -> Message:
        """Sign content as the next message of the identity's feed, and store it.

        When it returns, the message is on disk for good. A message that may have been seen by others is
        therefore never signed a second time with other content, which would fork the feed. The feed must
        be whole: whoever moves an identity to an empty store must first fetch its feed from others.

        Raises InvalidMessage if the format does not allow such content, and ForkedFeed if the feed is
        forked already.
        """

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """The messages of a feed after a sequence number, in order, at most `limit`."""

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of a feed or out of order."""

    def add_out_of_order(self, message: Message, received: float) -> None:
        """Verify and keep a single message that was fetched by its id; does nothing if it is held.

        It does not count as held when its feed arrives. Raises InvalidMessage, and ForkedFeed if it
        proves a fork, which `forks` then has.
        """

    def log(self, after: int, limit: int, types: Collection[str] | None = None) -> list[Stored]:
        """The messages of all feeds after a position, in order of receipt, at most `limit`.

        With `types`, only those whose content has one of these types; ciphertexts have none.
        """

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """For each forked feed the two messages that prove it (`ssb.message.proves_fork`)."""

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may come again later; return how many there were.

        The proof that it is forked stays. Raises ValueError for a feed that `publish` has written to,
        because to begin it again would fork it.
        """

    def close(self) -> None:
        """Let go of files and lock."""


def read_log(store: FeedStore, after: int, types: Collection[str] | None = None) -> Iterator[Stored]:
    """Yield the messages of all feeds after a position, to the end of the log, a page at a time."""
    while page := store.log(after, _PAGE, types):
        yield from page
        after = page[-1].position
