"""What a run is about, whatever carries it: who publishes what when, and who follows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ssb.keys import Identity
from ssb.message import Message

_LAST_RESORT = 1 << 62  # more than any path costs


@dataclass(frozen=True)
class Feed:
    """A feed at the node that publishes it.

    Attributes:
        publisher: the node.
        messages: all of them, from the first.
        times: when each is published, ns from the run's start.
        identity: its author's keys; None if nobody here has them.
    """

    publisher: str
    messages: tuple[Message, ...]
    times: tuple[int, ...]
    identity: Identity | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The feed's key: its author's reference (`@...=.ed25519`)."""
        return self.messages[0].author

    def published_by(self, time: int) -> int:
        """Return how many items there are at a time, ns from the run's start."""
        return sum(published <= time for published in self.times)


class Feature(Enum):
    """What a workload may have besides feeds and subscribers that come and go."""

    FORK = "a fork"
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


@dataclass(frozen=True)
class Workload:
    """All that is published in a run, and who follows it.

    Attributes:
        feeds: the feeds, the most active first.
        follows: the feeds of each node that follows any: subscribers, and the archive.
        branch: the feed as its second device has it; None without a fork.
        common: items that both devices have.
        archive: the node that keeps all; None if there is none.
        retain: newest items that publishers, and their nodes' caches, keep; None for all.
        bulk: the content of each cross traffic, there from the start.
        replicated: node -> feeds whose authors the node's user follows, if `follows` has what it asks for.
        requests: node -> feed's key -> when the node asks for the feed, ns from the run's start; all feeds
            are complete by then. Empty if feeds are followed as they grow.
        idle: node -> prefixes of feeds that nobody writes or reads meanwhile, and that lead there.
        idle_feeds: how many feeds these are.
        blocks: node -> feeds whose authors the node's user blocks.
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

    @property
    def items(self) -> int:
        """Items of all feeds together; of a forked one those of its first device."""
        return sum(len(feed.messages) for feed in self.feeds)

    @property
    def publishers(self) -> set[str]:
        """The nodes that publish a feed; a fork's second device does not count."""
        return {feed.publisher for feed in self.feeds}

    def sources(self, feed: Feed) -> dict[str, int]:
        """Return the nodes that a feed comes from, each with what it costs on top of the way there.

        Two devices that publish it are equals. An archive is asked when the publisher does not answer.
        """
        found = {feed.publisher: 0}
        if self.branch is not None:
            found[self.branch.publisher] = 0
        if self.archive is not None:
            found[self.archive] = _LAST_RESORT
        return found

    def within(self, node: str, hops: int) -> list[Feed]:
        """Return the feeds that so many follows lead to from a node: those that it follows, those that their
        publishers follow, and so on; not its own, and none that it blocks."""
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

    def followers(self, feed: Feed) -> list[str]:
        """Return the nodes that follow a feed."""
        return [node for node, feeds in self.follows.items() if feed in feeds]
