"""The rules by which a store accepts messages, independent of the storage."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from base.passive import Closing
from ssb.ending import End, end_of
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message, contradicts
from ssb.store.feeds import NO_TIP, Appended, FeedStore, Tip, ignored_from
from ssb.work import WORK


@dataclass
class Changes:
    """Contents of one transaction.

    Attributes:
        messages: messages of feeds, each the next one of its feed.
        forks: for each feed found forked, the proof.
        out_of_order: a single message.
        received: time of receipt, ms since 1970.
        own: the local feed, if `messages` has a message published here.
        ends: for each feed that ends with one of the messages, its end.
    """

    received: float
    messages: list[Message] = field(default_factory=list)
    forks: dict[str, tuple[Message, Message]] = field(default_factory=dict)
    out_of_order: Message | None = None
    own: str | None = None
    ends: dict[str, End] = field(default_factory=dict)


class Admission(FeedStore, Closing, ABC):
    """The deciding part of a store; subclasses store the accepted messages.

    Args:
        hmac_key: the network's 32-byte key, if it has one.
    """

    def __init__(self, hmac_key: bytes | None) -> None:
        self._hmac_key = hmac_key
        self._ends: dict[str, End] = {}

    @abstractmethod
    def _held(self, feed: str, sequence: int) -> Message | None:
        """The message with a number in a feed, also behind a damaged one; None if it is damaged itself."""

    def _is_damaged(self, feed: str) -> bool:
        """Whether messages of a feed were found damaged, and are not restored yet."""
        return False

    @abstractmethod
    def _newest(self, feed: str) -> Message | None:
        """The last message that the store has accepted of a feed. Raises StoreError if it is damaged."""

    def _tip_with(self, message: Message) -> Tip:
        """The tip of a feed once its next message is stored."""
        return Tip(message.sequence, message.id)

    @abstractmethod
    def _out_of_order(self, feed: str, sequence: int) -> list[Message]:
        """Messages out of order with this number in a feed or the next one."""

    @abstractmethod
    def _commit(self, changes: Changes) -> None:
        """Write everything or nothing."""

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        """Verify messages of one or several feeds, each feed's in order, and store the valid ones."""
        changes = Changes(received)
        tips: dict[str, Tip] = {}
        refused: dict[str, InvalidMessage | ForkedFeed] = {}
        held = 0
        for message in messages:
            feed = message.author
            if feed in refused:
                continue
            try:
                if self._is_next(message, tips.get(feed), changes):
                    changes.messages.append(message)
                    _note_end(message, changes)
                    WORK.hash += 1
                    WORK.store += 1
                    tips[feed] = max(tips.get(feed, NO_TIP), self._tip_with(message))
                else:
                    held += 1
            except InvalidMessage as error:
                refused[feed] = error
            except ForkedFeed as error:
                refused[feed] = error
                changes.forks.setdefault(feed, error.proof)
        for feed in changes.forks.keys() & self.forks().keys():
            if ignored_from(changes.forks[feed]) >= ignored_from(self.forks()[feed]):
                del changes.forks[feed]
        if changes.messages or changes.forks:
            self._commit(changes)
            self._ends |= changes.ends
        return Appended(len(changes.messages), held, refused)

    def publish(
        self,
        identity: Identity,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
    ) -> Message:
        """Sign content as the next message of the identity's feed, and store it."""
        self._check_unforked(identity.ref)
        return self.go_on(identity, content, now_ms, on_signed)

    def go_on(
        self,
        identity: Identity,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
    ) -> Message:
        """Publish, even if the feed is forked: its branches are merged (`ssb.branches`)."""
        _check_open(self._ends.get(identity.ref))
        previous = self._newest(identity.ref)
        message = Message.create(identity, previous, content, now_ms, self._hmac_key)
        changes = Changes(now_ms, [message], own=identity.ref)
        _note_end(message, changes)
        if on_signed is not None:
            on_signed(message)
        self._commit(changes)
        self._ends |= changes.ends
        return message

    def adopt(self, messages: Sequence[Message], received: float) -> None:
        """Store the next messages of a forked feed whose branches are merged; they are verified already."""
        self._commit(Changes(received, [*messages]))

    def fork_of(self, feed: str) -> int | None:
        """The number of a forked feed's first ignored message (`ignored_from`); None if it is not forked."""
        proof = self.forks().get(feed)
        return None if proof is None else ignored_from(proof)

    def is_ignored(self, feed: str, sequence: int) -> bool:
        """Whether a message of a feed comes from the fork of the feed on."""
        first = self.fork_of(feed)
        return first is not None and sequence >= first

    def is_frozen(self, feed: str) -> bool:
        """Whether a feed is forked, and all before the fork is here: nothing more is accepted."""
        first = self.fork_of(feed)
        return first is not None and self.tips().get(feed, 0) >= first - 1

    def ends(self) -> Mapping[str, End]:
        """The end of each feed that has ended."""
        return MappingProxyType(self._ends)

    def is_complete(self, feed: str) -> bool:
        """Whether a feed has ended, and all of it is here: nothing more will come."""
        end = self._ends.get(feed)
        return end is not None and self.tips().get(feed, 0) >= end.sequence

    def add_out_of_order(self, message: Message, received: float) -> None:
        """Verify and store a single message that was fetched by its id; no effect if it is held."""
        feed, sequence = message.author, message.sequence
        if self.get(message.id) == message:
            return
        message.verify(self._hmac_key)
        around = [self._held(feed, place) for place in (sequence, sequence - 1, sequence + 1)]
        beside = [*self._out_of_order(feed, sequence - 1), *self._out_of_order(feed, sequence + 1)]
        for other in [*around, *beside]:
            if other is not None:
                first, second = (other, message) if other.sequence <= sequence else (message, other)
                if contradicts(first, second):
                    proof = self.forks().get(feed)
                    if proof is None or first.sequence < ignored_from(proof):
                        self._commit(Changes(received, forks={feed: (first, second)}))
                    raise _fork(first, second)
        _check_open(self._ends.get(feed), sequence)
        self._commit(Changes(received, out_of_order=message))

    def _is_next(self, message: Message, newest: Tip | None, changes: Changes) -> bool:
        """Whether a message is the next one of its feed, rather than held already.

        `newest` is the feed's tip after the changes so far, if they have messages of the feed. A message
        replaces a damaged one by the same rules, and must not contradict the one behind. Raises
        InvalidMessage and ForkedFeed.
        """
        feed, sequence, batch = message.author, message.sequence, changes.messages
        held = self._held(feed, sequence)
        if held is None and newest is not None and sequence <= newest.sequence:
            held = _find(batch, feed, sequence)
        if held == message:
            return False
        self._check_unforked(feed, message)
        tip = self.tip(feed) if newest is None else newest
        last = 0 if tip is None else tip.sequence
        if held is not None:
            message.verify(self._hmac_key)
            raise _fork(held, message)
        if sequence > last + 1:
            if self._is_damaged(feed):  # the missing ones come first
                return False
            if tip is None:
                message.follow(None)
            raise InvalidMessage(f"sequence {sequence} does not come after {last}")
        message.verify(self._hmac_key)
        if sequence > 1 and (tip is None or sequence <= last or message.previous != tip.id):
            before = self._held(feed, sequence - 1) or _find(batch, feed, sequence - 1)
            if before is None:  # it is damaged here, too, and comes first
                return False
            if contradicts(before, message):
                raise _fork(before, message)
        behind = self._held(feed, sequence + 1)
        # A fork that was proved before its feed came may lie one message further back.
        proof = self.forks().get(feed) or ()
        for other in [*self._out_of_order(feed, sequence), *([] if behind is None else [behind]), *proof]:
            first, second = (other, message) if other.sequence == sequence else (message, other)
            if contradicts(first, second):
                raise _fork(first, second)
        _check_open(changes.ends.get(feed) or self._ends.get(feed), sequence)
        return True

    def _check_unforked(self, feed: str, message: Message | None = None) -> None:
        """Raise ForkedFeed for a forked feed, unless the message comes before the fork."""
        proof = self.forks().get(feed)
        if proof is not None and (message is None or message.sequence >= ignored_from(proof)):
            raise _fork(*proof)


def _note_end(message: Message, changes: Changes) -> None:
    """Record that a feed ends with a message, if it does."""
    end = end_of(message.author, message.sequence, message.content)
    if end is not None:
        changes.ends[message.author] = end


def _check_open(end: End | None, sequence: int | None = None) -> None:
    """Raise InvalidMessage if a feed has ended; with a number, if it has ended before that message."""
    if end is not None and (sequence is None or sequence > end.sequence):
        on = "" if end.successor is None else f", and goes on as {end.successor}"
        raise InvalidMessage(f"the feed has ended with message {end.sequence}{on}")


def content_type(message: Message) -> str | None:
    """The type that a message is indexed by; None for a ciphertext, and for a type that is not Unicode."""
    if isinstance(message.content, str):
        return None
    kind = str(message.content["type"])
    try:
        kind.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return kind


def _find(messages: list[Message], feed: str, sequence: int) -> Message | None:
    return next((m for m in messages if m.author == feed and m.sequence == sequence), None)


def _fork(first: Message, second: Message) -> ForkedFeed:
    if first.sequence == second.sequence:
        what = f"message {first.sequence} is {first.id} and {second.id}"
    else:
        what = f"message {second.sequence} continues {second.previous}, but {first.sequence} is {first.id}"
    return ForkedFeed(f"feed {first.author} is forked: {what}", first, second)
