"""A conversation: messages of an application that answer those that their authors can have read.

All messages are written before a run, so that layerings carry the same ones. So an author cannot know which
of them a layering has delivered. An author knows the messages that the best layering would deliver: a message
crosses links that are up at once, and nodes keep it for links that come up later.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Final

from base.units import MS
from ssb.applications.authors import (
    Author,
    ChessAuthor,
    Content,
    GatheringsAuthor,
    LikesAuthor,
    ThreadAuthor,
)
from ssb.generate import FIRST_TIMESTAMP
from ssb.message import Message
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.conditions import Planned
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Application, Change
from testbed.scenario.timeline import Timeline
from topologies.model import Topology

LONGEST: Final = 2_000
"""Messages: for each late one, a reader's view is made anew from its place on."""

_OPPONENTS: Final = 2
"""Most opponents that a player of chess invites."""


class Flood:
    """Which messages can have come to which nodes.

    Args:
        network: at the start.
        changes: of it, with times in ns, in order.

    Attributes:
        came: node -> message's reference -> when it can have come, ns.
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
            at, has_joined = self._changes[0][0], False
            while self._changes and self._changes[0][0] == at:  # all of one instant: no message is faster
                has_joined |= self._apply(self._changes.pop(0)[1])
            if has_joined:
                self._parts = self._joined()
                for part in {id(each): each for each in self._parts.values()}.values():
                    self._spread({id_ for node in part for id_ in self.came[node]}, part, at)

    def publish(self, node: str, id_: str, time: int) -> None:
        """Hand on a message that is published at a node."""
        self._spread({id_}, self._parts.get(node, {node}), time)

    def _spread(self, ids: Iterable[str], nodes: Iterable[str], time: int) -> None:
        for node in nodes:
            for id_ in ids:
                self.came[node].setdefault(id_, time)

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


def in_conversation(
    scenario: Scenario, feeds: Sequence[Feed], follows: Mapping[str, tuple[Feed, ...]], told: Application
) -> list[Feed]:
    """Return the feeds with an application's messages in the place of their posts, and with timestamps by
    their authors' clocks.

    The texts of posts are shortened by their references, so that posts keep their sizes, if the texts are
    long enough.
    """
    changes = Timeline.of(scenario, Workload(tuple(feeds), follows), 0).changes
    flood, delay = Flood(scenario.network, changes), round(told.reading_ms * MS)
    written: list[list[Message]] = [[] for _ in feeds]
    told_all: dict[str, Message] = {}
    people: dict[str, _Person] = {}
    for time, number in sorted((time, number) for number, feed in enumerate(feeds) for time in feed.times):
        node, own = feeds[number].publisher, written[number]
        draft = feeds[number].messages[len(own)]
        content = draft.content
        assert isinstance(content, dict)
        flood.advance(time)
        error = Random(f"{scenario.seed} clock {node}").uniform(-1, 1) * told.clock_error_ms
        timestamp = FIRST_TIMESTAMP + time // MS + round(error)
        if content["type"] != "post":
            own.append(_message(feeds[number], own, draft, content, timestamp))
            continue
        if node not in people:
            author = _author(scenario, feeds, follows, node, next(iter(told_all), ""))
            people[node] = _Person(author, {feed.key for feed in follows.get(node, ())})
        people[node].read(flood.came[node], told_all, time - delay)
        content = people[node].author.content(feeds[number].key, content)
        own.append(_message(feeds[number], own, draft, content, timestamp))
        told_all[own[-1].id] = own[-1]
        people[node].author.add(own[-1])
        flood.publish(node, own[-1].id, time)
    return [replace(feed, messages=tuple(own)) for feed, own in zip(feeds, written, strict=True)]


def _author(
    scenario: Scenario,
    feeds: Sequence[Feed],
    follows: Mapping[str, tuple[Feed, ...]],
    node: str,
    root: str,
) -> Author:
    """Return the author at a node; `root`: the first message, or ""."""
    told = scenario.workload.application
    assert told is not None
    random = Random(f"{scenario.seed} author {node}")
    match told.kind:
        case "threads":
            return ThreadAuthor(root)
        case "likes":
            return LikesAuthor(random)
        case "gatherings":
            return GatheringsAuthor(random)
        case "chess":
            return ChessAuthor(_opponents(feeds, {feed.key for feed in follows.get(node, ())}, node))


def _opponents(feeds: Sequence[Feed], follows: Collection[str], node: str) -> dict[str, list[str]]:
    """Return whom each feed of a node invites: the next ones in a circle of all that the node follows."""
    found = {}
    for number, feed in enumerate(feeds):
        if feed.publisher == node:
            circle = [*feeds[number + 1 :], *feeds[:number]]
            others = [each.key for each in circle if each.publisher != node and each.key in follows]
            found[feed.key] = others[:_OPPONENTS]
    return found


class _Person:
    """An author, and what they have read of the feeds that they follow."""

    def __init__(self, author: Author, follows: Collection[str]) -> None:
        self.author = author
        self._follows = follows
        self._read: set[str] = set()

    def read(self, came: Mapping[str, int], messages: Mapping[str, Message], until: int) -> None:
        """Read the messages that have come up to a time, ns."""
        for id_ in [id_ for id_, time in came.items() if time <= until and id_ not in self._read]:
            self._read.add(id_)
            if messages[id_].author in self._follows:
                self.author.add(messages[id_])


def _message(feed: Feed, own: Sequence[Message], draft: Message, content: Content, timestamp: int) -> Message:
    """Sign a content as the next message of a feed; a post is at most as long as its draft, if it can be."""
    assert feed.identity is not None
    tip = own[-1] if own else None
    if content["type"] == "post" and content != draft.content:
        bare = Message.create(feed.identity, tip, content | {"text": ""}, timestamp)
        room = max(len(draft.encoded) - len(bare.encoded), 0)
        content = content | {"text": str(content["text"])[:room]}
    return Message.create(feed.identity, tip, content, timestamp)
