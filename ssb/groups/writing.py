"""Writing to private groups: the messages of a feed in order, as ssb-tribes 4 writes them.

Each function publishes by a `write`, which seals a content for the holders of some keys, signs it as the next
message of the identity's feed, and returns it. An epoch is a group of its own to ssb-tribes, which knows no
epochs: its additions name the epoch's own root and id, so stock peers read and write on after an exclusion.
The `group/init` of an epoch has the members that private-group-spec 2.0.0 gives it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from secrets import token_bytes
from typing import Any

from ssb.groups.envelope import GROUP, KEY_BYTES, Key
from ssb.groups.epoch import ADD, EXCLUDE, INIT, MAX_ADDED, Epoch
from ssb.groups.groups import Group, GroupError, Groups
from ssb.keys import encode_base64
from ssb.message import Message

Write = Callable[[Mapping[str, Any], Sequence[Key]], Message]
RandomBytes = Callable[[int], bytes]

_NO_TANGLE = {"root": None, "previous": None}


class Writer:
    """The groups of an identity, and the way in which it writes.

    Args:
        groups: its groups, which learn each message that is written here.
        write: see above; raises as publishing does.
        random_bytes: returns as many random bytes.
    """

    def __init__(self, groups: Groups, write: Write, random_bytes: RandomBytes = token_bytes) -> None:
        self._groups = groups
        self._write = write
        self._random_bytes = random_bytes
        self._me = groups.identity.ref

    def create(self) -> str:
        """Begin a group; return its id."""
        return self._begin({"type": INIT, "tangles": {"group": _NO_TANGLE}}, [self._me]).id

    def add(self, id_: str, feeds: Iterable[str], text: str = "") -> None:
        """Add feeds to a group, who can then read all of its current epoch; those in it are left out.

        `text` is shown to them and to the group. Raises GroupError and InvalidRef.
        """
        epoch = self._current(id_)
        new = [feed for feed in dict.fromkeys(feeds) if feed not in epoch.members]
        self._groups.keys_of(new)  # raises before the first is added
        self._hand_out(epoch, new, text)

    def post(self, id_: str, content: Mapping[str, Any]) -> Message:
        """Write a content to the members of a group; raise GroupError."""
        epoch = self._current(id_)
        content = {**content, "recps": [epoch.id], "tangles": epoch.tangles("group")}
        return self._put(content, [epoch.key])

    def remove(self, id_: str, feeds: Collection[str]) -> str:
        """Exclude feeds from a group, and go on with a key that they do not get; return the epoch's id.

        They can read what was written before. Raises GroupError.
        """
        group = self._member_of(id_)
        if self._me in feeds:
            raise GroupError("nobody can exclude itself: another member has to")
        for feed in feeds:
            if feed not in group.readers:
                raise GroupError(f"{feed} is not in the group")
        for epoch in group.tips:
            excludes = sorted(epoch.members & set(feeds))
            if excludes:
                tangles = epoch.tangles("group", "members")
                content = {"type": EXCLUDE, "excludes": excludes, "recps": [epoch.id], "tangles": tangles}
                self._put(content, [epoch.key])
        return self._go_on(group, group.members - set(feeds)).id

    def _member_of(self, id_: str) -> Group:
        group = self._groups.get(id_)
        if not group.members:
            raise GroupError(f"{group.id}: you are no member")
        return group

    def _current(self, id_: str) -> Epoch:
        """Return the epoch to write in; begin it, if no key is held by just the members."""
        group = self._member_of(id_)
        return group.current or self._go_on(group, group.members)

    def _go_on(self, group: Group, members: Collection[str]) -> Epoch:
        """Begin an epoch behind all tips of a group."""
        first = group.tips[0].first
        tips = sorted(each.root for each in group.tips)
        heads = sorted({head for each in group.tips for head in each.heads("group")})
        tangles = {
            "group": {"root": first, "previous": heads},
            "epoch": {"root": first, "previous": tips},
            "members": _NO_TANGLE,
        }
        recipients = [group.id, self._me]
        content = {"type": INIT, "version": "v2", "tangles": tangles, "recps": recipients}
        return self._begin(content, sorted(members))

    def _begin(self, content: dict[str, Any], members: Collection[str]) -> Epoch:
        """Begin an epoch with a fresh key, and hand that to its members."""
        self._groups.keys_of(members)  # before anything is written
        key = Key(self._random_bytes(KEY_BYTES), GROUP)
        if content.get("version") is not None:
            content = {**content, "secret": encode_base64(key.secret)}
        init = self._put(content, [key, self._groups.own])
        self._groups.learn(init.id, key.secret)
        epoch = next(each for group in self._groups.every() for each in group.epochs if each.root == init.id)
        self._hand_out(epoch, [self._me, *(feed for feed in members if feed != self._me)])
        return epoch

    def _hand_out(self, epoch: Epoch, feeds: Sequence[str], text: str = "") -> None:
        """Add feeds to an epoch, in as many messages as it takes."""
        for start in range(0, len(feeds), MAX_ADDED):
            some = feeds[start : start + MAX_ADDED]
            content: dict[str, Any] = {
                "type": ADD,
                "version": "v1",
                "groupKey": encode_base64(epoch.key.secret),
                "root": epoch.root,
                "tangles": epoch.tangles("group", "members"),
                "recps": [epoch.id, *some],
            }
            if text:
                content["text"] = text
            self._put(content, [epoch.key, *self._groups.keys_of(some)])

    def _put(self, content: Mapping[str, Any], keys: Sequence[Key]) -> Message:
        message = self._write(content, keys)
        self._groups.add(message)
        return message
