"""The workload of a run, whatever carries it: publications, and followers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ssb.keys import Identity, named_blobs
from ssb.message import Message

_LAST_RESORT = 1 << 62  # exceeds any path's cost


@dataclass(frozen=True)
class Feed:
    """A feed at its publishing node.

    Attributes:
        publisher: the node.
        messages: all of them, from the first.
        times: when each is published, ns from the run's start.
        identity: its author's keys; None if unknown.
        contents: the blobs that its detached messages name (`ssb.detached`), by their numbers.
        alias: its key in a run, if it is a branch that is merged into another feed; "" for its author's.
    """

    publisher: str
    messages: tuple[Message, ...]
    times: tuple[int, ...]
    identity: Identity | None = field(default=None, compare=False, repr=False)
    contents: Mapping[int, bytes] = field(default_factory=dict, compare=False, repr=False)
    alias: str = ""

    @property
    def key(self) -> str:
        """The feed's key: its author's reference (`@...=.ed25519`), or the branch's alias."""
        return self.alias or self.messages[0].author

    def published_by(self, time: int) -> int:
        """Return the number of items at a time, ns from the run's start."""
        return sum(published <= time for published in self.times)


class Feature(Enum):
    """Optional features of a workload, besides feeds and subscribers that come and go."""

    FORK = "a fork"
    MERGE = "branches that are merged"
    ENDING = "the end of a feed"
    ARCHIVE = "an archive"
    CROSS_TRAFFIC = "cross traffic"
    PAUSES = "subscribers that pause"
    SLOW_SUBSCRIBERS = "slow subscribers"
    MEDIUM = "a broadcast medium"
    RADIO = "a radio cell"
    FOLLOWING = "items that come into being while a feed is followed"
    REQUESTS = "objects that are asked for one by one"
    EXPORT = "an exported feed"
    GATEWAYS = "gateways of Scuttlebutt peers"
    PICTURES = "pictures"
    DELETION = "a request to delete contents"


@dataclass(frozen=True)
class Workload:
    """All publications and subscriptions of a run.

    Attributes:
        feeds: the feeds, the most active first.
        follows: the feeds of each node that follows any: subscribers, and the archive.
        branch: the feed as its second device has it; None without a fork.
        common: items that both devices have.
        archive: the node that keeps all; None if there is none.
        retain: newest items that publishers, and their nodes' caches, keep; None for all.
        bulk: the content of each cross traffic, there from the start.
        replicated: node -> feeds followed by the node's user, if `follows` has its requests.
        requests: node -> feed's key -> when the node asks for the feed, ns from the run's start; all feeds
            are complete by then. Empty if feeds are followed as they grow.
        idle: node -> prefixes of idle feeds that lead there.
        idle_feeds: their number.
        blocks: node -> feeds blocked by the node's user.
        pictures: blob's reference (`&...=.sha256`) -> its bytes, of those that messages name.
        successors: key of a feed that ends -> key of the feed that goes on in its place. `follows` has both;
            who follows the first finds the second by its end.
        asked: the blobs of the first feed that its author asks to delete at some time.
        disobedient: the nodes that do not obey that request.
        written: items that an author writes, or would write, on two devices together; None with one device.
    """

    feeds: tuple[Feed, ...]
    follows: Mapping[str, tuple[Feed, ...]]
    branch: Feed | None = None
    common: int = 0
    archive: str | None = None
    retain: int | None = None
    bulk: tuple[Feed, ...] = ()
    replicated: Mapping[str, tuple[Feed, ...]] = field(default_factory=dict)
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    idle: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    idle_feeds: int = 0
    blocks: Mapping[str, tuple[Feed, ...]] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    successors: Mapping[str, str] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    disobedient: frozenset[str] = frozenset()
    written: int | None = None

    @property
    def items(self) -> int:
        """Items of all feeds together; of a forked one those of its first device."""
        return sum(len(feed.messages) for feed in self.feeds)

    @property
    def publishers(self) -> set[str]:
        """The nodes that publish a feed; a fork's second device does not count."""
        return {feed.publisher for feed in self.feeds}

    def sources(self, feed: Feed) -> dict[str, int]:
        """Return the source nodes of a feed, each with its cost on top of the path there.

        Two publishing devices are equals. An archive is asked if the publisher does not answer.
        """
        found = {feed.publisher: 0}
        if self.branch is not None:
            found[self.branch.publisher] = 0
        if self.archive is not None:
            found[self.archive] = _LAST_RESORT
        return found

    def within(self, node: str, hops: int) -> list[Feed]:
        """Return the feeds within some hops of a node: those that it follows, those that their publishers
        follow, and so on; not its own, and none that it blocks.
        """
        follows = self.replicated or self.follows
        found: dict[str, Feed] = {}
        asked: set[str] = set()
        nodes = {node}
        for _ in range(hops):
            asked |= nodes
            feeds = [feed for each in sorted(nodes) for feed in follows.get(each, ())]
            found |= {feed.key: feed for feed in feeds if feed.publisher != node}
            nodes = {feed.publisher for feed in feeds} - asked
        blocked = {feed.key for feed in self.blocks.get(node, ())}
        return [feed for key, feed in found.items() if key not in blocked]

    def pictures_in(self, message: Message) -> list[str]:
        """Return the references of the pictures that a message names."""
        return named_blobs(message.text) if self.pictures else []

    def followed_first(self, node: str) -> list[Feed]:
        """Return the feeds that a node follows from the start: all but the successors of feeds that end."""
        later = set(self.successors.values())
        return [feed for feed in self.follows[node] if feed.key not in later]

    def followers(self, feed: Feed) -> list[str]:
        """Return the nodes that follow a feed."""
        return [node for node, feeds in self.follows.items() if feed in feeds]
