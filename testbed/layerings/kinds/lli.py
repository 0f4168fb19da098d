"""Nodes of controlled push: all forwarders know it or some, and some neighbours may be hostile."""

from functools import lru_cache
from random import Random
from typing import Any, Final, Literal

from pydantic import Field

from base.endpoint import Program
from ssb_over_ndn.layerings.lli import LliSubscription
from testbed.layerings.kinds.storm import Attacker, HostileParameters
from testbed.layerings.nodes.ndn_node import FollowParameters, NdnLayering, NdnNode
from testbed.layerings.nodes.node import Context, Parameters
from topologies.graphs import to_networkx
from topologies.model import Topology


class LliParameters(FollowParameters):
    """Parameters of controlled push."""

    credit: int = Field(default=0, ge=0, le=1 << 32)
    """Items that may be under way to a subscriber, or wait for its application; 0: it adapts."""
    lifetime_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    """How long a long-lived Interest lasts."""


class DeploymentParameters(Parameters):
    """Parameters of a network in which some forwarders know controlled push."""

    aware_percent: int = Field(default=100, ge=0, le=100)
    """The share of forwarders that know long-lived Interests, of those at nodes that neither publish nor
    follow. To others these are Interests like all. The ends know them always."""
    aware_first: Literal["core", "edge", "random"] = "core"
    """Which of them come first: those on most of the shortest paths between forwarders (`core`), those on the
    fewest (`edge`), or any, by the seed (`random`)."""


class PushParameters(LliParameters, HostileParameters, DeploymentParameters):
    """Parameters of `lli`."""


_OF_NETWORK: Final = HostileParameters.model_fields.keys() | DeploymentParameters.model_fields.keys()


def subscription(feed: bytes, **parameters: Any) -> LliSubscription:
    """Return a subscription, of the parameters that concern one."""
    return LliSubscription(
        feed, **{name: value for name, value in parameters.items() if name not in _OF_NETWORK}
    )


class LliNode(NdnNode):
    """A node of a network of which not all nodes are honest, or know controlled push.

    Args:
        context: see Context.
        layering: see NdnNode.
    """

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        self.threat = HostileParameters(
            **{name: context.parameters[name] for name in HostileParameters.model_fields}
        )
        knows = context.name not in legacy_nodes(context)
        super().__init__(context, layering._replace(controlled_push=knows))
        faces = self.host.forwarder.faces
        for peer, face in self._face_toward.items():
            faces[face].is_proven = not (self.threat.checks_addresses and peer in self.threat.hostile)


class HostileNode(LliNode):
    """A hostile node: its forwarder has no links, as the attacker has them."""

    def __init__(self, context: Context, layering: NdnLayering) -> None:
        super().__init__(context, layering)
        ports = {port: each for program in self.programs for port, each in program.ports.items()}
        self.attacker = Attacker(self.threat, context, list(ports))
        self.programs = [Program(self.attacker, ports)]

    def counters(self) -> dict[str, Any]:
        """Return the forwarder's counters, and the attacker's."""
        attacker = self.attacker
        return super().counters() | {
            "attacks": attacker.attacks,
            "attack_bytes": attacker.sent,
            "attack_brought": attacker.brought,
        }


def lli_node(context: Context, layering: NdnLayering) -> NdnNode:
    """Return a node of `lli`, hostile or not."""
    kind = HostileNode if context.name in context.parameters["hostile"] else LliNode
    return kind(context, layering)


def legacy_nodes(context: Context) -> set[str]:
    """Return the nodes whose forwarders do not know controlled push."""
    share, first = context.parameters["aware_percent"], context.parameters["aware_first"]
    if share == 100:
        return set()
    workload, network = context.workload, context.network
    ends = {*workload.publishers, *workload.follows, *context.parameters["hostile"]}
    nodes = [node for node in network.nodes if node not in ends]
    if first == "random":
        Random(f"{context.seed} deployment").shuffle(nodes)
    else:
        paths = _paths_over(network, tuple(nodes))
        nodes.sort(key=lambda node: paths[node], reverse=first == "core")
    return set(nodes[round(len(nodes) * share / 100) :])


@lru_cache(maxsize=1)  # every node of a run asks for the same
def _paths_over(network: Topology, nodes: tuple[str, ...]) -> dict[str, float]:
    """Return the share of the shortest paths between nodes that leads over each of them."""
    import networkx  # slow to import, unneeded where all forwarders know controlled push

    paths: dict[str, float] = networkx.betweenness_centrality(to_networkx(network).subgraph(nodes))
    return paths
