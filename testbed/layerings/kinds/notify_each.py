"""Nodes of a network whose consumers have routable prefixes: the layering `notify-each`."""

from functools import partial

from pydantic import Field

from ssb_over_ndn.layerings import notify_each
from ssb_over_ndn.naming import CONSUMERS, log_name, notify_prefix
from testbed.layerings.kinds.ndn import FetchParameters, announcers
from testbed.layerings.nodes.ndn_node import NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Node
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature


class NotifyEachParameters(FetchParameters):
    """Parameters of `notify-each`."""

    renewal_ms: int = Field(default=5000, ge=1, le=3_600_000)
    """How often a consumer registers with a publisher; it is forgotten after three times that."""


class NotifyEachLayering(NdnLayering):
    """See the module."""

    __slots__ = ()

    @property
    def carries(self) -> frozenset[Feature]:
        """See Layering: a gateway would need a routable prefix of its own."""
        return super().carries - {Feature.GATEWAYS}

    def build(self, context: Context) -> Node:
        """Build a node of a run."""
        return NotifyEachNode(context, self)


class NotifyEachNode(NdnNode):
    """A node, and the routes to the prefixes of the consumers.

    Attributes: see Node.
    """

    def _add_feeds(self) -> None:
        """See NdnNode; also route to consumers, and to the local one."""
        own = notify_each.consumer_component(self.name)
        self._layering = self._layering._replace(subscription=partial(notify_each.subscribe, consumer=own))
        super()._add_feeds()
        follows = self._workload.follows
        for node in follows:
            if node != self.name:
                prefix = CONSUMERS + notify_each.consumer_component(node)
                self._sources.append(((prefix,), {node: 0}))
        if self._follower is not None:
            self.host.forwarder.regions.add(CONSUMERS + own)
            self._route([notify_prefix(log_name(feed.key)) for feed in follows[self.name]], self._follower)


NOTIFY_EACH_LAYERING = NotifyEachLayering(
    title("notify-each"),
    NotifyEachParameters,
    notify_each.subscribe,
    announcers(notify_each.EachNotifier, "lifetime_ms", "renewal_ms"),
)
