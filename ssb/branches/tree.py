"""A feed with all its branches: a tree of signed messages, each behind its `previous` one.

Two devices with one key fork their feed (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, draft, section
5.6). Here both branches stay. Each device goes on behind its own last message, and its next message also
names the tips of the other branches that it has read. It does so as messages of private groups do
(`tangles`):

    "tangles": {"feed": {"root": <the feed's first message>, "previous": [<tip>, <tip>, ...]}}

So a device writes one branch for ever, and signs which messages of the others it had read. Readers order the
messages of all branches by their hashes (`ssb.applications.causality`): the same messages give the same
order, whatever order they came in.

An author may sign any number of branches. A tree with more than MOST_BRANCHES is *overgrown*: it shows only
the messages before the first fork, as the paper says of forked feeds (section 2), and takes a further
message only if that proves an earlier fork. The number of branches never falls while messages are added. So
two trees that were given the same messages, each behind its previous one, show the same, in any order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from ssb.applications.causality import CausalOrder
from ssb.keys import Identity, named_messages
from ssb.message import InvalidMessage, Message

MOST_BRANCHES: Final = 16
"""Most branches of a feed that is merged: as many as an identity has devices (`ssb.applications.fusion`)."""
TANGLE: Final = "feed"
"""The name of the tangle that joins branches."""


class FeedTree:
    """The messages of one feed.

    Args:
        author: reference of the feed.
        hmac_key: the network's 32-byte key, if it has one.

    Attributes:
        size: bytes of the messages, as canonical text.
    """

    def __init__(self, author: str, hmac_key: bytes | None = None) -> None:
        self.size = 0
        self._author = author
        self._hmac_key = hmac_key
        self._here: dict[str, Message] = {}
        self._next: Counter[str | None] = Counter()  # messages right behind one
        self._tips: dict[str, Message] = {}
        self._named: set[str] = set()  # by other messages than the next one
        self._first_fork: int | None = None

    def __len__(self) -> int:
        return len(self._here)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._here

    @property
    def tips(self) -> Mapping[str, Message]:
        """The last message of each branch, by its id."""
        return self._tips

    @property
    def fork(self) -> int | None:
        """The number of the first messages with the same previous one; None if the feed is not forked."""
        return self._first_fork

    @property
    def is_overgrown(self) -> bool:
        """Whether the feed has more branches than a tree shows."""
        return len(self._tips) > MOST_BRANCHES

    def names(self, id_: str) -> bool:
        """Return whether a message here names another one, apart from the one that it follows."""
        return id_ in self._named

    def get(self, id_: str) -> Message | None:
        """Return the message with this id."""
        return self._here.get(id_)

    def takes(self, message: Message) -> bool:
        """Return whether there is room for a message: in an overgrown tree only for an earlier fork."""
        return not self.is_overgrown or (self._first_fork or 0) > message.sequence

    def add(self, message: Message) -> bool:
        """Add a message; return False if it is here, or there is no room for it.

        Raises InvalidMessage if it is not valid, or follows a message that is not here.
        """
        if message.id in self._here or not self.takes(message):
            return False
        if message.author != self._author:
            raise InvalidMessage(f"author {message.author} does not write the feed {self._author}")
        before = None if message.previous is None else self._here.get(message.previous)
        if before is None and message.previous is not None:
            raise InvalidMessage(f"message {message.sequence} follows {message.previous}, which is not here")
        message.follow(before)
        message.verify(self._hmac_key)
        self._take(message)
        return True

    def restore(self, message: Message) -> None:
        """Add a message that was verified before a restart; no effect if the one before it is not here."""
        is_behind = message.previous is None or message.previous in self._here
        if is_behind and message.id not in self._here:
            self._take(message)

    def check_room(self) -> None:
        """Raise InvalidMessage if the feed is overgrown, so that nobody writes it any more."""
        if self.is_overgrown:
            raise InvalidMessage(f"feed {self._author} has more than {MOST_BRANCHES} branches")

    def _take(self, message: Message) -> None:
        self._here[message.id] = message
        self.size += len(message.encoded)
        if self._next[message.previous]:
            self._first_fork = min(message.sequence, self._first_fork or message.sequence)
        self._next[message.previous] += 1
        self._tips.pop(message.previous or "", None)
        self._tips[message.id] = message
        self._named.update(each for each in named_messages(message.text) if each != message.previous)

    def view(self) -> list[Message]:
        """Return the messages of all branches in causal order; of an overgrown feed those before the fork."""
        shown = [*self._here.values()]
        if self.is_overgrown:
            shown = [each for each in shown if each.sequence < (self._first_fork or 0)]
        return [self._here[id_] for id_ in CausalOrder(shown).order()]

    def write(
        self, identity: Identity, last: Message | None, content: Mapping[str, Any] | str, now_ms: float
    ) -> Message:
        """Sign content as the next message of a device.

        It follows `last`, the device's last message. A device that has written nothing here (None) goes on
        with the tip of the greatest number. The message names the tips of other branches that no message
        here names. If there is no room for them, or the content is a ciphertext, a later message names them.

        Raises InvalidMessage.
        """
        self.check_room()
        before = last or max(self._tips.values(), key=lambda tip: (tip.sequence, tip.id), default=None)
        joined = self.joined(before, content)
        if joined is not None:
            with suppress(InvalidMessage):
                return Message.create(identity, before, joined, now_ms, self._hmac_key)
        return Message.create(identity, before, content, now_ms, self._hmac_key)

    def joined(self, before: Message | None, content: Mapping[str, Any] | str) -> dict[str, Any] | None:
        """Return a content that also names the tips of other branches than that of the message `before`.

        None if no tip is left to name, or the content is a ciphertext.
        """
        others = self._tips.keys() - self._named - ({before.id} if before is not None else set())
        if before is None or not others or isinstance(content, str):
            return None
        first = next(iter(self._here))
        named = {"root": first, "previous": sorted({before.id, *others})}
        tangles = content.get("tangles")
        own = tangles if isinstance(tangles, dict) else {}
        return {**content, "tangles": {**own, TANGLE: named}}

    # Exchange

    def locator(self) -> list[str]:
        """Return ids by which another peer finds the messages that both have.

        They are each tip, the messages 1, 2, 4, 8, ... before it, and the first message. A part that branches
        share counts once.
        """
        found: dict[str, None] = {}
        seen: set[str] = set()
        for tip in self._tips.values():
            distance, due = 0, 0
            message: Message | None = tip
            while message is not None and message.id not in seen:
                seen.add(message.id)
                if distance == due or message.previous is None:
                    found[message.id] = None
                    due = 2 * due or 1
                distance += 1
                message = self._here.get(message.previous or "")
        return [*found]

    def extend(self, known: set[str], ids: Iterable[str]) -> None:
        """Add ids of messages here to those that a peer has, and all before them: it has these, too."""
        for id_ in ids:
            message = self._here.get(id_)
            while message is not None and message.id not in known:
                known.add(message.id)
                message = self._here.get(message.previous or "")

    def behind(self, tips: Iterable[Message], known: set[str]) -> list[Message]:
        """Return the messages up to these tips that a peer does not have, each behind its previous one."""
        found: dict[str, Message] = {}
        for tip in tips:
            message: Message | None = tip
            while message is not None and message.id not in known and message.id not in found:
                found[message.id] = message
                message = self._here.get(message.previous or "")
        return sorted(found.values(), key=lambda each: (each.sequence, each.id))
