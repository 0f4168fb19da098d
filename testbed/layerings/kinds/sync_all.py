"""Nodes of a network with one sync group for all feeds: the layering `sync-all`."""

from collections.abc import Mapping

from pydantic import Field

from forwarder.strategies.multicast import Multicast as MulticastStrategy
from ssb.application import Plan
from ssb_over_ndn.following.subscriber import Reporter, Subscriber
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings import sync
from ssb_over_ndn.layerings.sync_all import Group
from ssb_over_ndn.naming import SYNC_ALL
from testbed.layerings.kinds.ndn import SyncParameters
from testbed.layerings.nodes.ndn_node import MulticastTree, NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Node
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature


class SyncAllParameters(SyncParameters):
    """Parameters of `sync-all`."""

    vector_bytes: int = Field(default=sync.LARGEST_VECTOR, ge=100, le=sync.LARGEST_VECTOR)
    """A larger state vector is sent in parts of at most so many bytes."""


class SyncAllLayering(NdnLayering):
    """See the module."""

    __slots__ = ()

    @property
    def carries(self) -> frozenset[Feature]:
        """See Layering: an archive, a gateway and a reader of pictures would need ends of the group of
        their own.
        """
        return super().carries - {Feature.ARCHIVE, Feature.GATEWAYS, Feature.PICTURES}

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return SyncAllNode(context, self)


class SyncAllNode(NdnNode):
    """A node, and its end of the group. The group's Interests take the paths to the first feed's publisher.

    Attributes: see Node.
    """

    _group: Group

    def _add_feeds(self) -> None:
        """See NdnNode; also join the group."""
        self._group = group = Group(self._rng, **self._context.parameters)
        self._layering = self._layering._replace(
            subscription=group.subscription, announcer=lambda feed, rng, parameters: group.announcer(feed)
        )
        self._route((SYNC_ALL,), self._attach(group))
        self.host.forwarder.choose_strategy(SYNC_ALL, MulticastStrategy)
        workload = self._workload
        members = sorted({*workload.publishers, *workload.follows})
        if workload.branch is not None:
            members.append(workload.branch.publisher)
        self._multicasts.append(MulticastTree(SYNC_ALL, members, (workload.feeds[0].publisher,), True))
        super()._add_feeds()

    def _subscriber(self, subscriptions: Mapping[bytes, Subscription], plan: Plan) -> Reporter:
        subscriber = Subscriber(subscriptions, plan, self._subscription)
        self._group.refresh = subscriber.refresh
        return subscriber


SYNC_ALL_LAYERING = SyncAllLayering(title("sync-all"), SyncAllParameters, sync.subscribe)
