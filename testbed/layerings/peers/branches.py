"""Peers of `ssb`, with all branches of a feed where two devices write it and its branches are merged."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from ssb.application import Event
from ssb.branches.exchange import BranchExchange
from ssb.branches.feeds import BranchedFeeds
from ssb.branches.tree import TANGLE
from ssb.canonical import stringify
from ssb.message import Message
from ssb.replication.replication import Replication
from ssb.store.memory import MemoryFeeds
from testbed.layerings.nodes.node import Context, SimpleLayering, StateSize
from testbed.layerings.nodes.peer_role import Publication, Role
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ssb import PEER_FEATURES, SsbNode, SsbParameters, limits

_NOBODY: Final = -1  # no connection


class MergingNode(SsbNode):
    """A node whose peer keeps all branches of feeds.

    It signs the messages of its branch as they are due: each names the tip of the other branch that the
    device has read by then.

    Args:
        context: see Context; its workload has a branch as a feed with an alias.
    """

    _branched: BranchedFeeds

    def __init__(self, context: Context) -> None:
        feeds = context.workload.feeds
        self._authors = {feed.key: feed.messages[0].author for feed in feeds}
        self._keys = {_planned(message): feed.key for feed in feeds for message in feed.messages}
        self._last_common = {
            feed.messages[0].author: feed.messages[0].sequence - 1 for feed in feeds if feed.alias
        }
        super().__init__(context)
        role = self._role
        role.replicated = [*dict.fromkeys(self._authors[key] for key in role.replicated)]
        second = {feed.messages[0].author for feed in role.feeds if feed.alias}
        to_come = [
            Publication(context.start + time, -1, message)
            for feed in feeds
            if feed.key in second
            for message, time in zip(feed.messages, feed.times, strict=True)
            if message.sequence <= self._last_common[feed.key] and self._branched.get(message.id) is None
        ]
        role.due = deque([*to_come, *role.due])  # a branch begins behind what its devices have in common

    def _filled(self, context: Context, role: Role) -> MemoryFeeds:
        self._branched = store = BranchedFeeds()
        own = {feed.key for feed in role.feeds}
        for text in context.state.log:
            message = Message.from_text(text)
            store.append([message], 0.0)
            if own and (self._is_common(message) or self._key(message) in own):
                store.resume(message)
        return store

    def _replication(self, context: Context, role: Role, store: MemoryFeeds) -> Replication | None:
        rng = Random(f"{context.seed} branches {context.name}")
        assert isinstance(store, BranchedFeeds)
        return BranchExchange(store, self._first_wanted(context), limits(context.parameters), rng)

    def _first_wanted(self, context: Context) -> list[str]:
        return sorted({self._authors[key] for key in super()._first_wanted(context)})

    def _join(self, now: int) -> None:
        for author in sorted(set(self._authors.values())):
            for message in self._branched.tree(author).view():
                if message.sequence > self.state.delivered[self._key(message)]:
                    self._note(now, "delivered", message)
        for author in self._role.replicated:
            self._peer.want(author, now)

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        for each in due:
            message = each.message
            if each.feed < 0:  # both devices have signed the same, and the first one sends it
                self._peer.protocol.append([message], now, message.timestamp, by=_NOBODY)
                self._branched.resume(message)
                self.state.log.append(message.encoded)
                continue
            identity = self._role.feeds[each.feed].identity
            assert identity is not None
            message = self._branched.publish(identity, message.content, message.timestamp)
            self.state.log.append(message.encoded)
            self._peer.on_appended(message.author, now)
            self._note(now, "published", message)

    def _note(self, time: int, event: str, message: Message) -> None:
        """See RoleNode; items of a branch have the key of its alias."""
        if event == "delivered":
            self.state.log.append(message.encoded)
        key = self._key(message)
        self._events.append(Event(time, event, key, message.sequence, len(message.encoded)))

    def held(self) -> dict[str, StateSize]:
        """See SsbNode; messages of all branches count."""
        others = {*self._authors.values()} - {self._authors[key] for key in self._role.own}
        trees = [self._branched.tree(author) for author in sorted(others)]
        messages = StateSize(sum(map(len, trees)), sum(tree.size for tree in trees))
        return super().held() | {"messages": messages}

    def counters(self) -> dict[str, Any]:
        """Return SsbNode's counters; also the number of branches here."""
        trees = [self._branched.tree(author) for author in sorted(set(self._authors.values()))]
        return super().counters() | {"branches": sum(len(tree.tips) for tree in trees)}

    def _is_common(self, message: Message) -> bool:
        return message.sequence <= self._last_common.get(message.author, 0)

    def _key(self, message: Message) -> str:
        return self._keys.get(_planned(message), message.author)


def _planned(message: Message) -> tuple[str, int, str]:
    """Return the identity of a planned message, whatever it names of other branches."""
    content = message.content
    if isinstance(content, dict) and TANGLE in content.get("tangles", {}):
        content = {key: value for key, value in content.items() if key != "tangles"}
    return message.author, message.sequence, stringify(content, indent=0)


def _node(context: Context) -> SsbNode:
    merges = any(feed.alias for feed in context.workload.feeds)
    return MergingNode(context) if merges else SsbNode(context)


SSB: Final = SimpleLayering(
    title("ssb"),
    SsbParameters,
    _node,
    "ssb",
    PEER_FEATURES | {Feature.ENDING, Feature.FORK, Feature.MERGE},
)
"""Layering `ssb`."""
