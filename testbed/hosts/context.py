"""Construction of a run's nodes from a scenario. Nodes that few scenarios have are imported on use."""

from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.layerings.nodes.ndn_node import NdnLayering
from testbed.layerings.nodes.node import AppState, Context, Node, Process, Transfer
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.sections import PlanSpec
from testbed.scenario.timeline import Timeline

if TYPE_CHECKING:
    from testbed.layerings.nodes.other_forwarder import ForwarderNode


def build(
    scenario: Scenario,
    layering: str,
    name: str,
    workload: Workload,
    timeline: Timeline,
    *,
    state: AppState | None = None,
    since: int | None = None,
) -> Node:
    """Build a node of a run; `state` is its applications' state from before a restart at `since` (ns)."""
    plan = None
    if name in workload.follows:
        requests = workload.requests.get(name, {})
        plan = timeline.plan(scenario.plan_of(name), requests)
    transfers = []
    for traffic, feed in zip(scenario.cross_traffic, workload.bulk, strict=True):
        spec = PlanSpec(start_ms=traffic.start_ms, stop_ms=traffic.stop_ms)
        transfers.append(Transfer(feed, traffic.to, timeline.plan(spec)))
    strategies = scenario.strategies
    if since is not None:
        strategies = strategies | timeline.strategies_at(name, since)
    context = Context(
        name=name,
        network=scenario.network,
        workload=workload,
        layering=layering,
        parameters=scenario.layering_parameters(layering).model_dump(),
        seed=scenario.seed,
        start=timeline.start,
        stop=timeline.stop,
        plan=plan,
        transfers=tuple(transfers),
        strategies=strategies,
        gateways=scenario.gateways,
        stock=scenario.stock_peers,
        state=state or AppState(),
        since=since,
        routing=scenario.routing.routing,
        prefixes=scenario.prefixes,
        limits=scenario.forwarders.limits,
    )
    kind = LAYERINGS[layering]
    if since is not None and (routes := timeline.routes_at(since)) is not None:
        context = replace(context, network=routes.network, routing=routes.ndn)
    if kind.protocol == "ssb" and name in scenario.stock_peers:
        from testbed.layerings.nodes.stock_peer import StockNode

        return StockNode(context)
    if isinstance(kind, NdnLayering) and forwarder_of(scenario, layering, name) is not None:
        from testbed.layerings.nodes.other_forwarder import ForwarderNode

        return ForwarderNode(context, kind)
    if scenario.gateways and isinstance(kind, NdnLayering):
        from testbed.layerings.kinds import gateway

        return gateway.build(context, kind)
    return kind.build(context)


def forwarder_of(scenario: Scenario, layering: str, name: str) -> str | None:
    """Return the other forwarder of a node under a layering; None if there is none."""
    return scenario.other_forwarders.get(name) if isinstance(LAYERINGS[layering], NdnLayering) else None


def managed(scenario: Scenario, layering: str, name: str, workload: Workload) -> "ForwarderNode | None":
    """Return the node of another forwarder, None if there is none: it can be managed before the run, since it
    has no applications with a timeline.
    """
    if forwarder_of(scenario, layering, name) is None:
        return None
    from testbed.layerings.nodes.other_forwarder import ForwarderNode

    node = build(scenario, layering, name, workload, Timeline.of(scenario, workload, 0))
    assert isinstance(node, ForwarderNode)
    return node


def processes(scenario: Scenario, layering: str, name: str) -> list[Process]:
    """Return the programs of a node besides its own."""
    forwarder = forwarder_of(scenario, layering, name)
    if forwarder is not None:
        from testbed.layerings.nodes import other_forwarder

        return [other_forwarder.process(scenario.network, name, forwarder)]
    if layering == "broker":
        from testbed.layerings.kinds import broker

        ends = {*scenario.sources, *scenario.subscribers}
        parameters = scenario.layering_parameters(layering).model_dump()
        return broker.processes(scenario.network, name, ends, parameters)
    is_peer = LAYERINGS[layering].protocol == "ssb" or name in scenario.gateways
    if name in scenario.stock_peers and is_peer:
        from testbed.layerings.nodes import stock_peer

        return [stock_peer.process(scenario.network, scenario.seed, name)]
    return []
