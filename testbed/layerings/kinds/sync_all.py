"""Nodes of a network with one sync group for all feeds: the layerings `sync-all`, `psync` and `sync-ps`."""

from collections.abc import Callable, Mapping
from functools import partial

from pydantic import Field

from forwarder.strategies.multicast import Multicast as MulticastStrategy
from ssb.application import Plan
from ssb_over_ndn.following.subscriber import Reporter, Subscriber
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.naming import PSYNC_ALL, PUBSUB_ALL, SYNC_ALL
from ssb_over_ndn.sync.all_feeds import AllMember
from ssb_over_ndn.sync.group import Group, GroupMember
from ssb_over_ndn.sync.psync import PsyncMember
from ssb_over_ndn.sync.pubsub import PubSubMember, node_name
from ssb_over_ndn.sync.state_vector import LARGEST_VECTOR, subscribe
from testbed.layerings.kinds.ndn import FetchParameters, SyncParameters
from testbed.layerings.nodes.ndn_node import MulticastTree, NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature


class SyncAllParameters(SyncParameters):
    """Parameters of `sync-all`."""

    vector_bytes: int = Field(default=LARGEST_VECTOR, ge=100, le=LARGEST_VECTOR)
    """A larger state vector is sent in parts of at most so many bytes."""


class PsyncParameters(FetchParameters):
    """Parameters of `psync`, with the defaults of the authors' library but for `ahead`."""

    table_feeds: int = Field(default=80, ge=1, le=400)
    """Feeds in which two members may differ for a table to tell them (ibfCount); 400 fill a packet."""
    interest_ms: int = Field(default=1000, ge=1, le=3_600_000)
    """Lifetime of a Sync Interest; it is sent again after half of it and 100 to 500 ms."""
    freshness_ms: int = Field(default=1000, ge=1, le=3_600_000)
    """FreshnessPeriod of answers to Sync Interests."""
    ahead: int = Field(default=64, ge=1, le=1024)
    """So many numbers after its own a member tries, to see whether another knows a later one. The library
    tries 1, and tells members that are two ahead what is old.
    """


class PubSubParameters(SyncParameters):
    """Parameters of `sync-ps`."""

    mapping_entries: int = Field(default=64, ge=1, le=1024)
    """Most names that one question asks a publishing node for; the authors' library asks for 11."""
    question_ms: int = Field(default=2000, ge=1, le=60_000)
    """Lifetime of such a question, as in the library. The pause until the next doubles up to a minute."""


class GroupLayering(NdnLayering):
    """A layering with one group for all feeds."""

    __slots__ = ()

    @property
    def carries(self) -> frozenset[Feature]:
        """See Layering: an archive, a gateway and a reader of pictures would need ends of the group of
        their own.
        """
        return super().carries - {Feature.ARCHIVE, Feature.GATEWAYS, Feature.PICTURES}


class GroupNode(NdnNode):
    """A node, and its end of the group. The group's Interests take the paths to the first feed's publisher.

    Args:
        context, layering: see NdnNode.
        prefix: the group's.
        member: makes the node's member, of a source of randomness and the layering's own parameters.

    Attributes: see Node.
    """

    _group: Group
    _face: int  # the group's

    def __init__(
        self, context: Context, layering: NdnLayering, *, prefix: bytes, member: Callable[..., GroupMember]
    ) -> None:
        self._prefix = prefix
        self._member = member
        super().__init__(context, layering)

    def _add_feeds(self) -> None:
        """See NdnNode; also join the group."""
        own = dict(self._context.parameters)
        fetch = {name: own.pop(name) for name in FetchParameters.model_fields}
        self._group = group = Group(self._make_member(own), self._rng, **fetch)
        self._layering = self._layering._replace(
            subscription=group.subscription, announcer=lambda feed, rng, parameters: group.announcer(feed)
        )
        self._face = self._attach(group)
        self._route((self._prefix,), self._face)
        self.host.forwarder.choose_strategy(self._prefix, MulticastStrategy)
        workload = self._workload
        members = sorted({*workload.publishers, *workload.follows})
        if workload.branch is not None:
            members.append(workload.branch.publisher)
        self._multicasts.append(MulticastTree(self._prefix, members, (workload.feeds[0].publisher,), True))
        super()._add_feeds()

    def _make_member(self, parameters: Mapping[str, int]) -> GroupMember:
        return self._member(rng=self._rng, **parameters)

    def _subscriber(self, subscriptions: Mapping[bytes, Subscription], plan: Plan) -> Reporter:
        subscriber = Subscriber(subscriptions, plan, self._subscription)
        self._group.refresh = subscriber.refresh
        return subscriber


class PubSubNode(GroupNode):
    """A node of `sync-ps`: each node that publishes has a name, and routes lead there.

    Attributes: see Node.
    """

    def _add_feeds(self) -> None:
        """See NdnNode; also route to the nodes that publish."""
        super()._add_feeds()
        publishers = set(self._workload.publishers)
        if self._workload.branch is not None:
            publishers.add(self._workload.branch.publisher)
        for node in sorted(publishers):
            if node == self.name:
                self._route((node_name(node),), self._face)
            else:
                self._sources.append(((node_name(node),), {node: 0}))

    def _make_member(self, parameters: Mapping[str, int]) -> GroupMember:
        return self._member(rng=self._rng, node=self.name, **parameters)


def _layering(
    name: str,
    parameters: type[FetchParameters],
    prefix: bytes,
    member: Callable[..., GroupMember],
    node: type[GroupNode] = GroupNode,
) -> GroupLayering:
    return GroupLayering(title(name), parameters, subscribe, node=partial(node, prefix=prefix, member=member))


GROUP_LAYERINGS = {
    "sync-all": _layering("sync-all", SyncAllParameters, SYNC_ALL, AllMember),
    "psync": _layering("psync", PsyncParameters, PSYNC_ALL, PsyncMember),
    "sync-ps": _layering("sync-ps", PubSubParameters, PUBSUB_ALL, PubSubMember, PubSubNode),
}
"""Layerings with one group for all feeds, by name."""
