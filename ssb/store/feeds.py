"""The interface of a store: the feeds that a peer holds, and single messages out of order.

A store holds each feed from its first message to its tip, without gaps. It verifies all messages except those
that it signs itself in `publish`, so all messages read from it are valid.

The store numbers all messages of feeds in the order of their acceptance. That number is a message's
*position*. An application reads the log of all feeds by position, and stores the last one as its cursor.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ssb.canonical import parse, stringify
from ssb.ending import End
from ssb.export import entry_json
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message, message_id

MAX_OUT_OF_ORDER = 10_000
"""Most messages out of order in a store; a further one replaces the oldest."""

_PAGE = 1000


class StoreError(OSError):
    """The store cannot be opened, read or written; the message has the reason, and the remedy."""


class Tip(NamedTuple):
    """The last message of a feed: its sequence number and its id."""

    sequence: int
    id: str


NO_TIP: Final = Tip(0, "")
"""Before the first message of any feed."""


class Stored(NamedTuple):
    """A message of a feed in the store.

    Attributes:
        position: its number in the log of all feeds, from 1.
        sequence: its number in its feed, from 1.
        received: time of receipt, ms since 1970.
        text: canonical text, UTF-8.
    """

    position: int
    sequence: int
    received: float
    text: bytes

    @property
    def id(self) -> str:
        """The message's reference, computed on each access."""
        return message_id(self.text)

    @property
    def message(self) -> Message:
        """The message, parsed on each access."""
        return Message.from_text(self.text)

    @property
    def compact(self) -> bytes:
        """The output of `JSON.stringify(message)`, UTF-8: the form sent between peers."""
        return stringify(parse(self.text.decode()), indent=0).encode()

    @property
    def entry(self) -> bytes:
        """The message with its id and its time of receipt, as one line of an export without its end."""
        return entry_json(self.id, self.text.decode(), self.received)


class Appended(NamedTuple):
    """Result of `append`.

    Attributes:
        stored: number of new messages.
        held: number of duplicates.
        refused: for each feed with an invalid message, the first refusal. Its later messages were skipped.
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
        Nothing is valid behind the end of a feed (`ssb.ending`).
        Duplicates are skipped. A message that contradicts a held one, or that continues another message than
        the tip, is a fork: the store keeps both as proof, and accepts no more messages of that feed from
        there on. The proof of an earlier place replaces it (`ignored_from`).
        `received` is in ms since 1970.
        """

    def publish(
        self,
        identity: Identity,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
    ) -> Message:
        """Sign content as the next message of the identity's feed, and store it.

        `on_signed` is called with the message before it is stored; if that raises, it is not stored.

        When it returns, the message is durable: a message that others may have seen is never signed a second
        time with other content, which would fork the feed. The feed must be whole: before an identity is used
        with an empty store, its feed must be fetched from others.

        Raises InvalidMessage if the format does not allow such content, or the feed has ended, and
        ForkedFeed if the feed is forked already.
        """

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """The messages of a feed after a sequence number, in order, at most `limit`."""

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of a feed or out of order."""

    def add_out_of_order(self, message: Message, received: float) -> None:
        """Verify and store a single message that was fetched by its id; no effect if it is held.

        It does not count as held when its feed arrives. Raises InvalidMessage, and ForkedFeed if it
        proves a fork, which `forks` then has.
        """

    def log(self, after: int, limit: int, types: Collection[str | None] | None = None) -> list[Stored]:
        """The messages of all feeds after a position, in order of receipt, at most `limit`.

        With `types`, only those whose content has one of these types; that of ciphertexts is None.
        """

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """For each forked feed the two messages that prove it (`ssb.message.proves_fork`).

        A damaged proof is lost when it is read, and its feed with it: read each by `get`.
        """

    def fork_of(self, feed: str) -> int | None:
        """The number of a forked feed's first ignored message (`ignored_from`); None if it is not forked."""

    def is_ignored(self, feed: str, sequence: int) -> bool:
        """Whether a message of a feed comes from the fork of the feed on."""

    def is_frozen(self, feed: str) -> bool:
        """Whether a feed is forked, and all before the fork is here: nothing more is accepted."""

    def ends(self) -> Mapping[str, End]:
        """The end of each feed that has ended."""

    def is_complete(self, feed: str) -> bool:
        """Whether a feed has ended, and all of it is here: nothing more will come."""

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may be received again later; return their number.

        The proof that it is forked stays. Raises ValueError for a feed that `publish` has written to,
        because to begin it again would fork it.
        """

    def close(self) -> None:
        """Release files and lock."""


def ignored_from(proof: tuple[Message, Message]) -> int:
    """Return the number of a forked feed's first ignored message, given the proof of the fork.

    Both branches have other messages there, or one follows another message than the one there (Tarr et al.,
    ACM ICN 2019, section 2). A store keeps the proof with the least such number that it has seen. So stores
    that were given all of both branches, in any order, hold the same messages before it.
    """
    return proof[0].sequence


def read_log(store: FeedStore, after: int, types: Collection[str | None] | None = None) -> Iterator[Stored]:
    """Yield the messages of all feeds after a position, to the end of the log, a page at a time."""
    while page := store.log(after, _PAGE, types):
        yield from page
        after = page[-1].position


def read_feed(store: FeedStore, feed: str) -> Iterator[Stored]:
    """Yield the messages of a feed, a page at a time, but none behind a damaged one."""
    after = 0
    while page := store.after(feed, after, _PAGE):
        yield from page
        after = page[-1].sequence
