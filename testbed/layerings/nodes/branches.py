"""What a node of a run over NDN writes and reads of a feed whose branches are merged."""

from collections.abc import Callable, Mapping
from random import Random

from ssb.application import Plan
from ssb.branches.feeds import BranchedFeeds
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings.branches import Branch, BranchPublisher, BranchReader, BranchSubscriber, Named
from ssb_over_ndn.naming import branch_name, log_name
from ssb_over_ndn.serving.server import Announcer
from testbed.layerings.nodes.node import Context
from testbed.layerings.nodes.workload import Feed


def feed_name_of(feed: Feed) -> bytes:
    """Return the name of a feed, or of a branch of one."""
    first = feed.messages[0]
    return branch_name(first.author, feed.alias, first.sequence) if feed.alias else log_name(feed.key)


class Merging:
    """A node's part in a run of one feed with several branches.

    Args:
        context: see Context; its workload has a branch as a feed with an alias.

    Attributes:
        branches: what the node has of all branches.
        plan: when it reads others' branches; None if it reads none.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.branches = BranchedFeeds()
        feeds = context.workload.feeds
        self._common = min(feed.messages[0].sequence for feed in feeds if feed.alias) - 1
        self._is_device = any(feed.publisher == context.name for feed in feeds)
        self.plan = Plan(context.start, context.stop) if self._is_device else context.plan

    def publisher(
        self,
        feed: Feed,
        announcer: Callable[[bytes, Random, Mapping[str, int]], Announcer] | None,
        rng: Random,
    ) -> BranchPublisher:
        """Return what writes and serves a branch; before it come the items that all devices have."""
        context, name = self._context, feed_name_of(feed)
        before = context.workload.feeds[0]
        shared = [*zip(before.times, before.messages, strict=True)][: feed.messages[0].sequence - 1]
        planned = [*shared, *zip(feed.times, feed.messages, strict=True)]
        assert feed.identity is not None
        return BranchPublisher(
            name,
            feed.key,
            feed.identity,
            self.branches,
            [(context.start + time, message) for time, message in planned],
            own=self._common + 1,
            first=feed.messages[0].sequence,
            others=[
                Named(each.alias, each.messages[0].sequence)
                for each in context.workload.feeds
                if each.alias and each is not feed
            ],
            disk=context.state.log,
            announcer=None if announcer is None else announcer(name, rng, context.parameters),
        )

    def subscriber(self, subscription: Callable[..., Subscription], plan: Plan) -> BranchSubscriber:
        """Return what reads the branches that others write; `subscription` is that of NdnNode.

        A device knows the other branches, a reader the feed alone.
        """

        def reader(name: bytes, after: int) -> BranchReader:
            return BranchReader(subscription(name, after=after), self.branches)

        branches = [
            Branch(name, feed.key, reader(name, feed.messages[0].sequence - 1))
            for feed in self._context.workload.feeds
            if feed.publisher != self._context.name and (self._is_device or not feed.alias)
            for name in [feed_name_of(feed)]
        ]
        author = self._context.workload.feeds[0].key
        found = None if self._is_device else reader
        return BranchSubscriber(author, branches, plan, found, tells=not self._is_device)
