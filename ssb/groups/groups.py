"""The private groups of an identity, computed from the messages that it can open.

A message `group/init` begins a group, and `group/add-member` hands its key to further feeds, who can read all
of the group with it. Nobody can take a key back: to exclude a member, others go on with another key, in a
further *epoch*. Its `group/init` names the epochs before, and counts if its author was in them. So peers with
the same messages see the same groups, in whatever order the messages came.

Two members may each begin an epoch, unaware of the other's. Of the epochs that nothing follows, the current
members are those who are in all. They write in the epoch whose key just these members hold, the one with the
smallest key if there are several; if there is none, the next to write begins it.

The invariant: who is no member of a group was handed no key that a member writes with. It holds against
removed members, who still have old keys, because their messages can only take members away. What they write
never undoes that an epoch follows another one. Otherwise a late exclusion of an epoch's author, in the epoch
before, would bring back all who left since. Nor is a tip ignored because its author was removed: an honest
member may have begun it before it heard of that.
(private-group-spec 2.0.0 with the texts of ssb-tribes 4; ssb-group-exclusion-spec, section 4.)
"""

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from ssb.canonical import object_in
from ssb.groups.direct import own_key, shared_keys
from ssb.groups.envelope import (
    GROUP,
    MAX_SLOTS,
    Key,
    Opened,
    cloaked,
    context_of,
    open_sealed,
    sealed_bytes,
)
from ssb.groups.epoch import INIT, Epoch, Private, changes_members, offered_by
from ssb.keys import Identity, InvalidRef
from ssb.message import Message

_IN_FIRST_SLOT: Final = 1

MOST_OFFERS: Final = 100
"""Epochs whose keys one feed can hand to another: each key is tried on each message of box2."""

MOST_OUTSIDE: Final = 20_000
"""Messages kept for a key that may still come, the newest."""

MOST_COMEMBERS: Final = 500
"""Feeds that are replicated because they are in a group with the user."""


class GroupError(ValueError):
    """Nothing is written to the group; the message has the reason, in one line."""


class Group(NamedTuple):
    """A group as one feed sees it.

    Attributes:
        id: that of its first epoch known here.
        epochs: those known here, in no order.
        tips: epochs that nothing follows, and that have the feed as a member.
        members: current ones; empty if the feed is no member.
    """

    id: str
    epochs: tuple[Epoch, ...]
    tips: tuple[Epoch, ...]
    members: frozenset[str]

    @property
    def current(self) -> Epoch | None:
        """The epoch to write in; None if the feed is no member, or has to begin an epoch first."""
        agreed = [each for each in self.tips if each.added == self.members]
        return min(agreed, key=lambda each: each.key.secret, default=None)

    @property
    def readers(self) -> frozenset[str]:
        """Feeds that hold the current key; those of all tips until an epoch is begun behind them."""
        held = self.tips if self.current is None else (self.current,)
        return frozenset().union(*(each.added for each in held))


class _Company(NamedTuple):
    """Why a feed is in a group, and with whom."""

    has_written: bool
    adders: frozenset[str]
    members: list[str]


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
        self._offered: dict[str, set[str]] = {}  # epochs that a feed has offered, by the feed
        self._companies: list[_Company] | None = None

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

    def direct(self, kind: str) -> list[Private]:
        """Return the messages of a type to this feed that are in no group, in order of receipt."""
        return [private for private in self._direct.values() if private.content.get("type") == kind]

    def keys_of(self, feeds: Iterable[str]) -> list[Key]:
        """Return the keys for messages to feeds, one each; raise InvalidRef."""
        return [
            self.own if feed == self.identity.ref else shared_keys(self.identity, feed)[0] for feed in feeds
        ]

    def every(self) -> list[Group]:
        """Return all groups, in order of their ids."""
        links = {root: self._before(epoch) for root, epoch in self._epochs.items()}
        beside: dict[str, set[str]] = {root: set(before) for root, before in links.items()}
        for root, before in links.items():
            for each in before:
                beside[each].add(root)
        found, rest = [], dict(self._epochs)
        for start in self._epochs:
            linked, ahead = [], [start] if start in rest else []
            while ahead:
                epoch = rest.pop(ahead.pop(), None)
                if epoch is not None:
                    linked.append(epoch)
                    ahead += beside[epoch.root]
            if linked:
                found.append(self._group(sorted(linked, key=lambda each: each.root), links))
        return sorted(found, key=lambda group: group.id)

    def get(self, id_: str) -> Group:
        """Return the group that one of its epochs' ids names; raise GroupError."""
        for group in self.every():
            if id_ in {epoch.id for epoch in group.epochs}:
                return group
        raise GroupError(f"{id_}: no such group here, or no key for it has come yet")

    def comembers(self, trusts: Callable[[str], bool]) -> set[str]:
        """Return the members of the groups that the feed is in by its own will, at most MOST_COMEMBERS.

        It has written there, or a feed that it `trusts` has added it. If there are too many, the groups in
        which it has written come first, and small ones before large ones.
        """
        if self._companies is None:
            me = self.identity.ref
            found = [
                _Company(
                    any(me in epoch.authors for epoch in group.epochs),
                    frozenset().union(*(epoch.adders(me) for epoch in group.epochs)),
                    sorted(group.members),
                )
                for group in self.every()
            ]
            found.sort(key=lambda each: (not each.has_written, len(each.members), each.members))
            self._companies = found
        feeds: dict[str, None] = {}
        for company in self._companies:
            if company.has_written or any(map(trusts, company.adders)):
                feeds |= dict.fromkeys(company.members)
        return set(islice(feeds, MOST_COMEMBERS))

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
        if len(self._outside) > MOST_OUTSIDE:
            del self._outside[next(iter(self._outside))]
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
            if offer is not None and self._takes(private.message.author, offer[0]):
                self._offers.setdefault(offer[0], set()).add(offer[1])
                roots.append(offer[0])
        return opened

    def _takes(self, author: str, root: str) -> bool:
        """Whether the key of an epoch is taken from a feed: each further key costs time with each message."""
        offered = self._offered.setdefault(author, set())
        if len(offered) < MOST_OFFERS or author == self.identity.ref:
            offered.add(root)
        return root in offered and root not in self._epochs

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
            self._companies = None
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
        if changes_members(private.content) or private.message.author == self.identity.ref:
            self._companies = None
        self._outside.pop(id_, None)
        self._direct.pop(id_, None)
        return private

    def _before(self, epoch: Epoch) -> frozenset[str]:
        """Return the known epochs that an epoch goes on from.

        There are none unless its author was ever in all of them, and all are of one group.
        """
        known = epoch.previous & self._epochs.keys()
        before = [self._epochs[root] for root in known]
        counts = all(epoch.author in each.added and epoch.first == each.first for each in before)
        return known if counts else frozenset()

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
    content = None if opened is None else object_in(opened.body)
    return None if content is None or opened is None else Private(message, content, opened.key)
