"""A scenario: a comparison, its network, its load, and what happens meanwhile.

testbed.scenario.sections has the tables that it is made of.
"""

from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from forwarder import strategies
from forwarder.forwarder import Forwarder
from forwarder.wire.name import from_uri
from testbed.errors import suggestion
from testbed.layerings.nodes.ndn_node import choose_strategies
from testbed.layerings.nodes.node import SSB_SERVER, Parameters
from testbed.layerings.registry import LAYERINGS
from testbed.library import OTHER
from testbed.scenario.question import QuestionSpec
from testbed.scenario.sections import (
    DAY_MS,
    Archive,
    Arrivals,
    Change,
    CostSpec,
    CrossTraffic,
    Deletion,
    Ending,
    Fork,
    ForwardersSpec,
    Mobility,
    NodeSpec,
    PlanSpec,
    ProgramSpec,
    RoutingSpec,
    Section,
    Sessions,
    TopologySpec,
    Workload,
)
from topologies.model import Topology, one_of_equals
from topologies.ranges import expand_ranges

MOST_SEED = 2**63 - 1
"""What a column of a table holds."""


class Scenario(Section):
    """A scenario, complete and checked.

    Times: subscribers start at 0, the publishers after `warmup_ms`; subscriptions end `settle_ms` after
    the last item and the last thing that `events` and `plans` name, and the run another `drain_ms` later.
    """

    name: str = Field(min_length=1, pattern=r"^[^/\x00]*$")
    """What the scenario is called. Left out: its file's name without the ending."""
    title: str
    """What it is about, in a few words: `feednet list`, and the title of its report."""
    group: str = OTHER
    """The heading under which `feednet list` has it."""
    about: str = ""
    """What it asks, and what to look at. Left out: the comment at the beginning of the file."""
    question: QuestionSpec | None = None
    """What it asks, and which metrics answer it."""
    layerings: tuple[str, ...]
    """The layerings that are compared, in this order: `feednet list` has their names."""
    seed: int = Field(default=1, ge=0, le=MOST_SEED)
    """Seed of all that is drawn at random, but for a generator's own."""
    topology: TopologySpec
    """The network."""
    routing: RoutingSpec = RoutingSpec()
    """How routes are chosen."""
    hosts: Literal["auto", "processes", "packed"] = "auto"
    """How nodes run in Mininet: each as a process of its own, or many packed into one process a processor,
    each with its sockets in its own network namespace; "auto" packs more than 64 nodes."""
    publisher: str = "pub"
    """The node that publishes. Left out: `pub`, or the network's first node if it has no `pub`."""
    publishers: tuple[str, ...] = ()
    """The nodes that publish, if they are several; feed k is that of node k, modulo their number. The
    range "c1..c9" stands for nine nodes. A node that also subscribes is a peer."""
    subscribers: tuple[str, ...] = ()
    """The nodes that follow feeds: names, "all", or a number: as many nodes from all over the network, the
    same for every seed. Left out: the nodes with one link; if there are none, all. Publishers, the archive
    and a fork's second device do not count."""
    workload: Workload = Workload()
    """What is published, and who follows it."""
    events: tuple[Change, ...] = ()
    """What happens to links and nodes."""
    plans: dict[str, PlanSpec] = Field(default_factory=dict)
    """How single subscribers go about it."""
    arrivals: Arrivals | None = None
    """A crowd that joins."""
    sessions: Sessions | None = None
    """People who come and go."""
    mobility: Mobility | None = None
    """Nodes that move."""
    nodes: dict[str, NodeSpec] = Field(default_factory=dict)
    """What runs on single nodes."""
    programs: tuple[ProgramSpec, ...] = ()
    """Programs of your own on nodes, in Mininet only."""
    fork: Fork | None = None
    """A feed that forks."""
    ending: Ending | None = None
    """A feed that ends, and goes on as another one."""
    deletion: Deletion | None = None
    """Contents that are to be deleted."""
    archive: Archive | None = None
    """A node that keeps what the publisher forgets."""
    cross_traffic: tuple[CrossTraffic, ...] = ()
    """Bulk fetches beside the feeds."""
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Parameters of layerings, by layering."""
    strategy_files: tuple[str, ...] = ()
    """Python files with forwarding strategies of your own; relative to the scenario."""
    strategies: dict[str, str] = Field(default_factory=dict)
    """The forwarding strategies of all nodes: name prefix to strategy and parameters, such as
    "/" = "asf" or "random/seed~3"."""
    forwarders: ForwardersSpec = ForwardersSpec()
    """What NDN's forwarders hold at most."""
    cost: CostSpec = CostSpec()
    """What operations cost nodes, in time; in the emulator only."""
    warmup_ms: int = Field(default=500, ge=0, le=DAY_MS)
    """Time from the run's start, when subscribers subscribe, to the first item."""
    settle_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    """Time from the last item, and the last thing that happens, to the end of subscriptions."""
    drain_ms: int = Field(default=1500, ge=0, le=DAY_MS)
    """Time from the end of subscriptions to that of the run."""
    sample_interval_ms: float = Field(default=20.0, ge=0.1, le=DAY_MS, allow_inf_nan=False)
    """Time between two samples of every node's state. Many nodes make many samples: raise it for them."""

    @field_validator("publishers", "subscribers")
    @classmethod
    def _expanded(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return expand_ranges(names)

    @field_validator("layerings")
    @classmethod
    def _known_layerings(cls, layerings: tuple[str, ...]) -> tuple[str, ...]:
        for name in layerings:
            if name not in LAYERINGS:
                raise ValueError(f"unknown layering {name!r}; {suggestion(name, LAYERINGS)}")
        if not layerings or len(set(layerings)) != len(layerings):
            raise ValueError("name at least one layering, each once")
        return layerings

    @field_validator("strategy_files")
    @classmethod
    def _are_python(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for file in files:
            strategies.check(Path(file))
        return files

    @field_validator("strategies")
    @classmethod
    def _known_strategies(cls, chosen: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if not info.data.get("strategy_files"):
            choose_strategies(Forwarder(rng=Random(0), controlled_push=False), chosen)
        for prefix in chosen:  # strategies of files are known only after execution: testbed.experiment.code
            from_uri(prefix)
        return chosen

    @cached_property
    def network(self) -> Topology:
        """The topology that `topology` describes; the same object for all equal ones."""
        return one_of_equals(self.topology.build())

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The publishing nodes; feed k is that of node k, modulo their number."""
        return self.publishers or (self.publisher,)

    @cached_property
    def feed_count(self) -> int:
        """How many feeds there are."""
        return self.workload.feeds or len(self.sources)

    @cached_property
    def gateways(self) -> dict[str, str]:
        """The nodes that have a gateway, each with that node."""
        return {node: spec.gateway for node, spec in self.nodes.items() if spec.gateway is not None}

    @cached_property
    def stock_peers(self) -> frozenset[str]:
        """The nodes whose Scuttlebutt peer is a stock one."""
        return frozenset(node for node, spec in self.nodes.items() if spec.peer == SSB_SERVER)

    @cached_property
    def other_forwarders(self) -> dict[str, str]:
        """The nodes whose forwarder is a program of its own, each with that program."""
        return {node: spec.forwarder for node, spec in self.nodes.items() if spec.forwarder != "feednet"}

    @cached_property
    def prefixes(self) -> dict[str, tuple[str, ...]]:
        """The names that programs serve, as URIs, each with the nodes of those programs."""
        found: dict[str, tuple[str, ...]] = {}
        for program in self.programs:
            for prefix in program.prefixes:
                found[prefix] = (*found.get(prefix, ()), program.node)
        return found

    @cached_property
    def roles(self) -> dict[str, str]:
        """Every node's role: publisher, subscriber, peer (which is both), archive, gateway or forwarder."""
        roles = dict.fromkeys(self.network.nodes, "forwarder")
        roles |= dict.fromkeys(self.gateways.values(), "gateway")
        roles |= dict.fromkeys(self.subscribers, "subscriber")
        if self.archive is not None:
            roles[self.archive.node] = "archive"
        if self.fork is not None:
            roles[self.fork.publisher] = "publisher"
        if self.ending is not None and self.ending.successor is not None:
            roles[self.ending.successor] = "publisher"
        both = {*self.sources} & {*self.subscribers}
        return roles | dict.fromkeys(self.sources, "publisher") | dict.fromkeys(both, "peer")

    def plan_of(self, node: str) -> PlanSpec:
        """Return how a node that follows feeds goes about it."""
        plan = self.plans.get(node)
        if plan is None and self.arrivals is not None and node in self.subscribers:
            random = Random(f"{self.seed} arrivals {node}")
            start = random.uniform(self.arrivals.from_ms, self.arrivals.to_ms)
            return PlanSpec(start_ms=round(start, 3))
        return plan or PlanSpec()

    def layering_parameters(self, layering: str) -> Parameters:
        """Return a layering's parameters, defaults filled in."""
        return LAYERINGS[layering].parameters.model_validate(self.parameters.get(layering, {}))
