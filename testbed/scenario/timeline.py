"""The timeline of one layering's run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from base.units import MS
from ssb.application import Plan
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Feed, Workload
from testbed.scenario.conditions import Routes, link_by_link, reroutes
from testbed.scenario.mobility import mobility_changes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change, PlanSpec
from testbed.scenario.sessions import session_changes
from topologies.model import Topology


@dataclass(frozen=True)
class Timeline:
    """The times of a run, ns on the run's clock.

    Attributes:
        start: default subscription of subscribers.
        changes: of the network by the scenario, its sessions and mobility, in order of time; partitions link
            by link.
        awaited: changes that wait for the first copy of an item.
        routes: resulting ones, each with the time from which nodes have them; none if they stay.
        first, last: publication of the first and the last item; cross traffic does not count.
        settle: the last event of the scenario.
        stop: subscribers unsubscribe.
        end: the run ends.
    """

    start: int
    changes: tuple[tuple[int, Change], ...]
    awaited: tuple[Change, ...]
    routes: tuple[Routes, ...]
    first: int
    last: int
    settle: int
    stop: int
    end: int

    @classmethod
    def of(cls, scenario: Scenario, load: Workload, start: int) -> "Timeline":
        """Return the timeline of a scenario's run from `start`. Raises UserError."""
        for change in scenario.events:
            _check_item(change, load.feeds[0])
        awaited = tuple(change for change in scenario.events if change.at_copy is not None)
        happenings = [change for change in scenario.events if change.at_copy is None]
        happenings += session_changes(scenario, load)
        if scenario.mobility is not None:
            happenings += mobility_changes(scenario.mobility, scenario.network)
        planned = [(start + _time_of(change, load.feeds[0]), change) for change in happenings]
        planned.sort(key=lambda entry: entry[0])
        _check_stops(planned)
        changes = link_by_link(planned, scenario.network)
        feeds = (*load.feeds, load.branch) if load.branch is not None else load.feeds
        last_ms = [scenario.plan_of(node).last_ms for node in load.follows]
        last_ms += [traffic.last_ms for traffic in scenario.cross_traffic]
        first = start + min(feed.times[0] for feed in feeds)
        last = start + max(feed.times[-1] for feed in feeds)
        converge_ms = scenario.routing.converge_ms
        routes: tuple[Routes, ...] = ()
        if converge_ms is not None:
            routes = reroutes(changes, scenario.network, scenario.routing.routing, round(converge_ms * MS))
        settle = max(
            last,
            *(time for time, _ in changes),
            *(each.time for each in routes),
            *(start + round(time * MS) for time in last_ms),
            start,
            *(start + time for times in load.requests.values() for time in times.values()),
        )
        stop = settle + scenario.settle_ms * MS
        drained = stop + scenario.drain_ms * MS
        return cls(start, changes, awaited, routes, first, last, settle, stop, drained)

    def ended(self, time: int) -> "Timeline":
        """Return the timeline with another end, ns: subscriptions end then, if not before."""
        return replace(self, stop=min(self.stop, time), end=time)

    def routes_at(self, time: int) -> Routes | None:
        """Return the routes of nodes at a time, ns; None if they are still those of the start."""
        return next((each for each in reversed(self.routes) if each.time <= time), None)

    def strategies_at(self, node: str, time: int) -> dict[str, str]:
        """Return a node's new strategies until a time, ns, by prefix."""
        found: dict[str, str] = {}
        for at, change in self.changes:
            if at <= time and change.chooses(node):
                found |= change.choice
        return found

    def as_row(self) -> dict[str, int]:
        """Return the times as the manifest has them for each layering."""
        names = ("start", "first", "last", "settle", "stop", "end")
        return {f"{name}_ns": getattr(self, name) for name in names}

    def plan(self, spec: PlanSpec, requests: Mapping[str, int] = MappingProxyType({})) -> Plan:
        """Return a subscriber's plan; for `requests` see Workload."""

        def at(milliseconds: float) -> int:
            return self.start + round(milliseconds * MS)

        return Plan(
            at(spec.start_ms),
            self.stop if spec.stop_ms is None else at(spec.stop_ms),
            tuple((at(begin), at(end)) for begin, end in spec.pauses_ms),
            spec.drain_per_s,
            {feed: self.start + time for feed, time in requests.items()},
        )


def _check_item(change: Change, feed: Feed) -> None:
    for key, item in (("at_item", change.at_item), ("at_copy", change.at_copy)):
        if item is not None and item > len(feed.times):
            raise UserError(f"[[events]] {key} = {item}: the feed has {len(feed.times)} items")


def _check_stops(planned: Iterable[tuple[int, Change]]) -> None:
    """Check that nodes stop while they run, and start when they have stopped."""
    stopped: set[str] = set()
    for _, change in planned:
        if change.node is None:
            continue
        if (change.start is not None) != (change.node in stopped):
            state = "has not stopped" if change.start else "has stopped and not started"
            raise UserError(f"[[events]] {change.event}: {change.node} {state} before")
        if not change.restart:
            (stopped.add if change.stop else stopped.discard)(change.node)


def _time_of(change: Change, feed: Feed) -> int:
    if change.at_item is not None:
        return feed.times[change.at_item - 1]
    assert change.at_ms is not None
    return round(change.at_ms * MS)


class Awaited:
    """Pending changes that wait for the first copy of an item.

    Args:
        timeline, load: of the run.
    """

    def __init__(self, timeline: Timeline, load: Workload) -> None:
        self._feed = load.feeds[0].key
        self._left = timeline.awaited

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, delivered: Mapping[str, int]) -> tuple[Change, ...]:
        """Remove, and return, the changes due when a follower has `delivered` items of each feed."""
        have = delivered.get(self._feed, 0)
        due = tuple(change for change in self._left if (change.at_copy or 0) <= have)
        self._left = tuple(change for change in self._left if change not in due)
        return due


def sample_times(scenario: Scenario, timeline: Timeline) -> range:
    """Return the sampling times of all nodes' counters, ns."""
    interval = round(scenario.sample_interval_ms * MS)
    return range(timeline.start, timeline.end + 1, interval)


def change_row(change: Change, network: Topology, time: int) -> dict[str, Any]:
    """Return a change of the network as a row of events."""
    row = {"time": time, "node": place(change, network), "event": change.event}
    row |= {"feed": "", "seq": 0, "bytes": 0}
    return row if _is_of_nodes(change) else row | {"signalled": _breaks_signalled(change)}


def described(changes: Iterable[tuple[int, Change]], start: int, network: Topology) -> list[dict[str, Any]]:
    """Return changes with times (ns) from the start, as the manifest lists them."""
    rows = []
    for time, change in changes:
        kind = "node" if _is_of_nodes(change) else "link"
        row = {"time_ns": time - start, "event": change.event, kind: place(change, network)}
        row |= {"set": change.set} if change.set else {}
        row |= {"strategy": change.strategy} if change.strategy else {}
        rows.append(row if _is_of_nodes(change) else row | {"signalled": _breaks_signalled(change)})
    return rows


def _is_of_nodes(change: Change) -> bool:
    return change.node is not None or change.strategy is not None


def _breaks_signalled(change: Change) -> bool:
    """Return whether a link's ends notice its breaks and repairs; members of media never do."""
    return change.link_change is None and change.membership is None and change.is_signalled


def place(change: Change, network: Topology) -> str:
    """Return the node, the link as "a--b", or the member as "node--medium", of a change; the nodes of a
    strategy, "" for all.
    """
    if change.node is not None:
        return change.node
    if change.strategy is not None:
        return change.on or ""
    if change.membership is not None:
        return "--".join(change.membership)
    link = network.links[network.link_between(*change.ends)]
    return f"{link.a}--{link.b}"


def expected(scenario: Scenario, load: Workload, timeline: Timeline) -> dict[str, int]:
    """Return the number of items due to each subscriber: published by its end, at its pace.

    Of a forked feed the items before the fork count.
    """
    counts = {}
    for node in scenario.subscribers:
        plan = timeline.plan(scenario.plan_of(node))
        count = 0
        for feed in load.follows[node]:
            published = feed.published_by(plan.stop - timeline.start)
            count += published if load.branch is None else min(published, load.common)
        if plan.drain_per_s is not None:
            begin = max(plan.start, timeline.start + scenario.warmup_ms * MS)
            waking = plan.stop - begin - sum(end - begin for begin, end in plan.pauses)
            count = min(count, max(int(waking / 1e9 * plan.drain_per_s), 0) + 1)
        counts[node] = count
    return counts
