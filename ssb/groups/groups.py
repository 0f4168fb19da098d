"""The private groups of an identity, computed from the messages that it can open.

A message `group/init` begins a group, and `group/add-member` hands its key to further feeds, who can read all
of the group with it. Nobody can take a key back: to exclude a member, others go on with another key, in a
further *epoch*. Its `group/init` names the epochs before, and counts if its author was in them. So whatever
order messages come in, those who have the same see the same.

Of epochs that nothing follows (two members may have begun one each, unaware of the other's) the current
members are those who are in all. They write in one with just these members, of several in the one with the
smallest key; if there is none, whoever writes next begins it.
(private-group-spec 2.0.0 with the texts of ssb-tribes 4; ssb-group-exclusion-spec 1.0, section 4.)
"""

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

from ssb.groups.direct import own_key, shared_keys
from ssb.groups.envelope import (
    GROUP,
    MAX_SLOTS,
    Key,
    Opened,
    cloaked,
    context_of,
    open_sealed,
    read_body,
    sealed_bytes,
)
from ssb.groups.epoch import INIT, Epoch, Private, offered_by
from ssb.keys import Identity, InvalidRef
from ssb.message import Message

_IN_FIRST_SLOT: Final = 1


class GroupError(ValueError):
    """Nothing is written to the group; the message has the reason, in one line."""


class Group(NamedTuple):
    """A group as one feed sees it.

    Attributes:
        id: that of its first epoch known here.
        epochs: those known here, in no order.
        tips: epochs that nothing follows, and that have the feed as a member.
        members: current ones; empty if the feed is none.
    """

    id: str
    epochs: tuple[Epoch, ...]
    tips: tuple[Epoch, ...]
    members: frozenset[str]

    @property
    def current(self) -> Epoch | None:
        """The epoch to write in; None if the feed is no member, or has to begin an epoch first."""
        agreed = [each for each in self.tips if each.members == self.members]
        return min(agreed, key=lambda each: each.key.secret, default=None)

    @property
    def readers(self) -> frozenset[str]:
        """Feeds that can read what is written now: members, and excluded ones who still have the key."""
        return frozenset() if self.current is None else self.current.added


class Groups:
    """Messages of box2, and the groups that they make.

    Args:
        identity: whose groups.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.own = own_key(identity)
        self._shared: dict[str, list[Key]] = {}
        self._outside: dict[str, Message] = {}  # messages of no epoch that is known
        self._direct: dict[str, Private] = {}  # those of them that were opened
        self._epochs: dict[str, Epoch] = {}  # by root
        self._keys: dict[Key, list[Epoch]] = {}  # several, if a member begins one with another's key
        self._epoch_of: dict[str, Epoch] = {}  # by message
        self._offers: dict[str, set[bytes]] = {}  # keys of epochs whose first message is not here
        self._numbers: dict[str, int] = {}  # order of receipt
        self._members: frozenset[str] | None = None

    def add(self, message: Message) -> list[Private]:
        """Add a message; return those that are opened now, earlier ones among them."""
        sealed = sealed_bytes(message.content)
        if sealed is None or message.id in self._numbers:
            return []
        self._numbers[message.id] = len(self._numbers)
        return self._follow(self._place(message), message.id)

    def learn(self, root: str, secret: bytes) -> None:
        """Take the key of an epoch, 32 bytes; no effect if it does not open the epoch's first message."""
        self._offers.setdefault(root, set()).add(secret)
        self._follow([], root)

    def opened(self, message: str) -> Private | None:
        """Return an opened message by its reference."""
        epoch = self._epoch_of.get(message)
        return self._direct.get(message) if epoch is None else epoch.messages[message]

    def keys_of(self, feeds: Iterable[str]) -> list[Key]:
        """Return the keys for messages to feeds, one each; raise InvalidRef."""
        return [
            self.own if feed == self.identity.ref else shared_keys(self.identity, feed)[0] for feed in feeds
        ]

    def every(self) -> list[Group]:
        """Return all groups, in order of their ids."""
        rest, found = dict(self._epochs), []
        links = {root: self._before(epoch) for root, epoch in self._epochs.items()}
        while rest:
            linked, grown = {min(rest)}, True
            while grown:
                size = len(linked)
                linked |= {root for root, before in links.items() if before & linked}
                linked |= {each for root in linked for each in links[root]}
                grown = len(linked) > size
            found.append(self._group([rest.pop(root) for root in sorted(linked)], links))
        return sorted(found, key=lambda group: group.id)

    def get(self, id_: str) -> Group:
        """Return the group that one of its epochs' ids names; raise GroupError."""
        for group in self.every():
            if id_ in {epoch.id for epoch in group.epochs}:
                return group
        raise GroupError(f"{id_}: no such group here, or no key for it has come yet")

    def members(self) -> frozenset[str]:
        """Return the members of all groups."""
        if self._members is None:
            self._members = frozenset().union(*(group.members for group in self.every()))
        return self._members

    def messages(self, group: Group) -> list[Private]:
        """Return the messages of a group in order of receipt."""
        found = {id_: each for epoch in group.epochs for id_, each in epoch.messages.items()}
        return sorted(found.values(), key=lambda each: self._numbers[each.message.id])

    def _place(self, message: Message) -> list[Private]:
        """Put a message where it belongs; return it if it is opened."""
        private = _read(message, _unsealed(message, self._keys, _IN_FIRST_SLOT))
        if private is not None:
            return [self._put(private)]
        self._outside[message.id] = message
        private = _read(message, _unsealed(message, self._keys_with(message.author)))
        if private is None:
            return []
        self._direct[message.id] = private
        return [private]

    def _keys_with(self, author: str) -> list[Key]:
        if author == self.identity.ref:
            return [self.own]
        if author not in self._shared:
            try:
                self._shared[author] = shared_keys(self.identity, author)
            except InvalidRef:  # an author who is no point of the curve can sign, but not share a key
                self._shared[author] = []
        return self._shared[author]

    def _follow(self, found: Iterable[Private], arrived: str) -> list[Private]:
        """Begin epochs whose first messages and keys are here, until there are no more."""
        opened: list[Private] = []
        unread, roots = [*found], [arrived]
        while unread or roots:
            if roots:
                unread += self._begin(roots.pop())
                continue
            private = unread.pop(0)
            opened.append(private)
            offer = offered_by(private.content)
            if offer is not None and offer[0] not in self._epochs:
                self._offers.setdefault(offer[0], set()).add(offer[1])
                roots.append(offer[0])
        return opened

    def _begin(self, root: str) -> list[Private]:
        """Begin an epoch, if its first message and a key that opens it are here; return what it opens."""
        known = self._epoch_of.get(root)
        message = self._outside.get(root) if known is None else known.messages[root].message
        if message is None or root in self._epochs:
            return []
        for secret in self._offers.pop(root, ()):
            key = Key(secret, GROUP)
            first = _unsealed(message, [key], _IN_FIRST_SLOT)
            init = _read(message, first)
            if first is None or init is None or init.content.get("type") != INIT:
                continue
            epoch = self._epochs[root] = Epoch(cloaked(root, first.read_key), init, key)
            others = self._keys.setdefault(key, [])
            for each in others[0].messages.values() if others else ():
                epoch.take(each)
            others.append(epoch)
            self._members = None
            tried = [(other, _unsealed(other, [key], _IN_FIRST_SLOT)) for other in self._outside.values()]
            inside = [private for pair in tried if (private := _read(*pair)) is not None]
            new = [private for private in inside if private.message.id not in self._direct]
            for private in inside:
                self._put(private)
            return new
        return []

    def _put(self, private: Private) -> Private:
        """Put a message that an epoch's key opens into that epoch."""
        id_ = private.message.id
        for epoch in self._keys[private.key]:
            epoch.take(private)
        self._epoch_of[id_] = self._keys[private.key][0]
        self._members = None
        self._outside.pop(id_, None)
        self._direct.pop(id_, None)
        return private

    def _before(self, epoch: Epoch) -> frozenset[str]:
        """Return the known epochs that an epoch goes on from; none unless its author was in all of them."""
        known = epoch.previous & self._epochs.keys()
        return known if all(epoch.author in self._epochs[root].added for root in known) else frozenset()

    def _group(self, epochs: list[Epoch], links: dict[str, frozenset[str]]) -> Group:
        followed = frozenset().union(*(links[epoch.root] for epoch in epochs))
        me = self.identity.ref
        tips = [each for each in epochs if each.root not in followed and me in each.members]
        agreed = reduce(frozenset.intersection, [each.members for each in tips]) if tips else frozenset()
        first = min(each.id for each in epochs if not links[each.root])
        return Group(first, tuple(epochs), tuple(tips), agreed)


def _unsealed(message: Message, keys: Iterable[Key], most_slots: int = MAX_SLOTS) -> Opened | None:
    sealed = sealed_bytes(message.content)
    assert sealed is not None, "only ciphertexts are kept"
    return open_sealed(sealed, context_of(message.author, message.previous), keys, most_slots)


def _read(message: Message, opened: Opened | None) -> Private | None:
    content = None if opened is None else read_body(opened.body)
    return None if content is None or opened is None else Private(message, content, opened.key)
