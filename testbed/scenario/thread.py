"""A thread: posts that name the newest posts that their authors can have read.

All posts are written before a run, so that layerings carry the same ones. So an author cannot know which of
them a layering has delivered. An author knows the posts that the best layering would deliver: a post crosses
links that are up at once, and nodes keep it for links that come up later.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Final

from base.units import MS
from ssb.applications.tangles import Tangle
from ssb.canonical import Value
from ssb.generate import FIRST_TIMESTAMP
from ssb.message import Message
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.conditions import Planned
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change, Thread
from testbed.scenario.timeline import Timeline
from topologies.model import Topology

LONGEST: Final = 2_000
"""Posts of a thread: sorting it takes time in proportion to its length, at each reader and for each post."""

_MOST_NAMED: Final = 50
"""References in a `branch` at most: a message has at most 8192 characters."""


class Flood:
    """Which posts can have come to which nodes.

    Args:
        network: at the start.
        changes: of it, with times in ns, in order.

    Attributes:
        came: node -> post's reference -> when it can have come, ns.
    """

    def __init__(self, network: Topology, changes: Iterable[Planned]) -> None:
        self.came: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._network = network
        self._changes = [*changes]
        self._down: set[int] = set()
        self._stopped: set[str] = set()
        self._away: set[tuple[str, str]] = set()  # node and medium
        self._parts = self._joined()

    def advance(self, time: int) -> None:
        """Apply the changes up to a time, ns, and hand on what nodes have over links that come up."""
        while self._changes and self._changes[0][0] <= time:
            at, change = self._changes.pop(0)
            if self._apply(change):
                self._parts = self._joined()
                for part in {id(each): each for each in self._parts.values()}.values():
                    self._spread({post for node in part for post in self.came[node]}, part, at)

    def publish(self, node: str, post: str, time: int) -> None:
        """Hand on a post that is published at a node."""
        self._spread({post}, self._parts.get(node, {node}), time)

    def _spread(self, posts: Iterable[str], nodes: Iterable[str], time: int) -> None:
        for node in nodes:
            for post in posts:
                self.came[node].setdefault(post, time)

    def _apply(self, change: Change) -> bool:
        """Take over a change; return whether it can join or part nodes."""
        if change.membership is not None:
            (self._away.discard if change.join else self._away.add)(change.membership)
        elif change.stop is not None or change.start is not None:
            (self._stopped.add if change.stop else self._stopped.discard)(change.node or "")
        elif change.link_down is not None or change.link_up is not None:
            at = self._network.link_between(*change.ends)
            (self._down.add if change.link_down else self._down.discard)(at)
        else:
            return False
        return True

    def _joined(self) -> dict[str, set[str]]:
        """Return for each node the nodes that it can reach, itself too."""
        groups: list[tuple[str, ...]] = []
        groups += [(link.a, link.b) for at, link in enumerate(self._network.links) if at not in self._down]
        groups += [
            tuple(node for node in medium.members if (node, medium.name) not in self._away)
            for medium in self._network.media
        ]
        parts = {node: {node} for node in self._network.nodes}
        for group in groups:
            for a, b in pairwise(node for node in group if node not in self._stopped):
                if parts[a] is not parts[b]:
                    joined = parts[a] | parts[b]
                    parts |= dict.fromkeys(joined, joined)
        return parts


def in_one_thread(
    scenario: Scenario, feeds: Sequence[Feed], follows: Mapping[str, tuple[Feed, ...]], thread: Thread
) -> list[Feed]:
    """Return the feeds with their posts in one thread, and with timestamps by their authors' clocks.

    An author that does not know the thread yet writes outside it. The texts of posts are shortened by the
    references, so that messages keep their sizes, if the texts are long enough.
    """
    changes = Timeline.of(scenario, Workload(tuple(feeds), follows), 0).changes
    flood, delay = Flood(scenario.network, changes), round(thread.reading_ms * MS)
    written: list[list[Message]] = [[] for _ in feeds]
    posts: dict[str, Message] = {}
    authors = {
        node: _Author(
            {feed.key for feed in follows.get(node, ())}, _clock_error_ms(scenario.seed, node, thread)
        )
        for node in dict.fromkeys(feed.publisher for feed in feeds)
    }
    for time, number in sorted((time, number) for number, feed in enumerate(feeds) for time in feed.times):
        node, own = feeds[number].publisher, written[number]
        draft = feeds[number].messages[len(own)]
        assert isinstance(draft.content, dict)
        is_post = draft.content["type"] == "post"
        flood.advance(time)
        author = authors[node]
        author.read(flood.came[node], posts, time - delay)
        links = author.links() if is_post else {}
        timestamp = FIRST_TIMESTAMP + time // MS + author.clock_error_ms
        own.append(_message(feeds[number], own, draft, links, timestamp))
        if is_post:
            posts[own[-1].id] = own[-1]
            author.write(own[-1])
            flood.publish(node, own[-1].id, time)
    return [replace(feed, messages=tuple(own)) for feed, own in zip(feeds, written, strict=True)]


class _Author:
    """Who writes at a node, and what of the thread they have read.

    Args:
        follows: the feeds that they read.
        clock_error_ms: how far their clock is ahead.
    """

    def __init__(self, follows: Collection[str], clock_error_ms: int) -> None:
        self.clock_error_ms = clock_error_ms
        self._follows = follows
        self._read: set[str] = set()
        self._tangle: Tangle | None = None

    def read(self, came: Mapping[str, int], posts: Mapping[str, Message], until: int) -> None:
        """Read the posts that have come up to a time, ns; the first of all posts is the root."""
        if self._tangle is None and posts:
            self._tangle = Tangle(next(iter(posts)))
        for id_ in [id_ for id_, time in came.items() if time <= until and id_ not in self._read]:
            self._read.add(id_)
            if self._tangle is not None and posts[id_].author in self._follows:
                self._tangle.add(posts[id_])

    def links(self) -> dict[str, Value]:
        """Return what a post written now says of the thread; nothing if none of it was read."""
        if self._tangle is None or not self._tangle.order:
            return {}
        heads = {*self._tangle.heads()}
        newest = [message.id for message in self._tangle.order if message.id in heads]
        return {"root": self._tangle.root, "branch": [*newest[-_MOST_NAMED:]]}

    def write(self, post: Message) -> None:
        """Take over a post of their own."""
        if self._tangle is None:
            self._tangle = Tangle(post.id)
        self._tangle.add(post)


def _clock_error_ms(seed: int, node: str, thread: Thread) -> int:
    return round(Random(f"{seed} clock {node}").uniform(-1, 1) * thread.clock_error_ms)


def _message(
    feed: Feed, own: Sequence[Message], draft: Message, links: Mapping[str, Value], timestamp: int
) -> Message:
    """Sign a draft as the next message of a feed, with its links, and at most as long if it can be."""
    assert feed.identity is not None
    assert isinstance(draft.content, dict)
    tip = own[-1] if own else None
    content = {**draft.content, **links}
    if links:
        bare = Message.create(feed.identity, tip, content | {"text": ""}, timestamp)
        room = max(len(draft.encoded) - len(bare.encoded), 0)
        content |= {"text": content["text"][:room]}
    return Message.create(feed.identity, tip, content, timestamp)
