"""Stores that keep all branches of forked feeds: their interface, and one in memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ssb.branches.tree import FeedTree
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.store.admission import Changes
from ssb.store.feeds import Appended, FeedStore
from ssb.store.memory import MemoryFeeds
from ssb.work import WORK


class Branches(Protocol):
    """Feeds with all their branches."""

    @property
    def served(self) -> FeedStore:
        """The store of the one branch of each feed that peers without branches are served."""

    def tree(self, feed: str) -> FeedTree:
        """The branches of a feed, none if no message is here."""

    def last(self, feed: str) -> Message | None:
        """The last message of a feed that was written here; None without any."""

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        """Verify messages, each behind its previous one, and store the valid ones of all branches.

        Messages of an overgrown feed that prove no earlier fork count as held.
        """


def append_each(messages: Iterable[Message], take: Callable[[Message], bool]) -> Appended:
    """Take messages one by one; pass over those behind one of the same author that is refused.

    `take` returns whether a message is stored, else it is held already, and raises InvalidMessage.
    """
    refused: dict[str, InvalidMessage | ForkedFeed] = {}
    stored = held = 0
    for message in messages:
        if message.author in refused:
            continue
        try:
            is_new = take(message)
        except InvalidMessage as error:
            refused[message.author] = error
            continue
        stored += is_new
        held += not is_new
    return Appended(stored, held, refused)


class BranchedFeeds(MemoryFeeds):
    """Feeds in memory, each with all its Branches (`ssb.branches.tree`).

    As a FeedStore it has one branch of each feed: at each fork the one whose message came first. This one is
    served to peers that know no branches, such as all stock peers. No feed counts as forked here (`forks`),
    and the end of a feed (`ssb.ending`) ends nothing.

    Args:
        hmac_key: the network's 32-byte key, if it has one.
    """

    def __init__(self, hmac_key: bytes | None = None) -> None:
        super().__init__(hmac_key)
        self._trees: dict[str, FeedTree] = {}
        self._last: dict[str, Message] = {}

    @property
    def served(self) -> FeedStore:
        return self

    def tree(self, feed: str) -> FeedTree:
        if feed not in self._trees:
            self._trees[feed] = FeedTree(feed, self._hmac_key)
        return self._trees[feed]

    def last(self, feed: str) -> Message | None:
        return self._last.get(feed)

    def resume(self, message: Message) -> None:
        """Take a message that is here as the last one that was written here, also before a restart."""
        self._last[message.author] = message

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        def take(message: Message) -> bool:
            is_new = self.tree(message.author).add(message)
            if is_new:
                WORK.hash += 1
                WORK.store += 1
                self._extend(message, received)
            return is_new

        return append_each(messages, take)

    def publish(
        self,
        identity: Identity,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
    ) -> Message:
        """Sign content as this device's next message: see FeedTree.write().

        `on_signed` is called with it; if that raises, it is not stored. Raises InvalidMessage.
        """
        tree, last = self.tree(identity.ref), self._last.get(identity.ref)
        message = tree.write(identity, last, content, now_ms)
        if on_signed is not None:
            on_signed(message)
        tree.add(message)
        self._last[identity.ref] = message
        self._own.add(identity.ref)
        self._extend(message, now_ms)
        return message

    def get(self, id: str) -> Message | None:  # noqa: A002 - the field's own name
        """The message with this id, of any branch or out of order."""
        found = super().get(id)
        return found or next((each for tree in self._trees.values() if (each := tree.get(id))), None)

    def drop(self, feed: str) -> int:
        """Delete the messages of a feed, which may be received again later; return their number."""
        super().drop(feed)
        tree = self._trees.pop(feed, None)
        return 0 if tree is None else len(tree)

    def bytes(self, feed: str) -> int:
        """Bytes of the messages of all branches, as canonical text."""
        return self.tree(feed).size

    def _extend(self, message: Message, received: float) -> None:
        """Put a message into the feed that stock peers are served, if it is the next one there."""
        tip = self.tip(message.author)
        if message.previous == (None if tip is None else tip.id):
            self._commit(Changes(received, [message]))
