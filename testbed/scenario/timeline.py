"""When things happen in the run of one layering."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ssb.application import Plan
from testbed.errors import UserError
from testbed.layerings.workload import Feed, Workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change, PlanSpec
from testbed.scenario.sessions import session_changes
from topologies.model import Topology

MS = 1_000_000


@dataclass(frozen=True)
class Timeline:
    """The times of a run, ns on the run's clock.

    Attributes:
        start: subscribers subscribe, unless they have plans of their own.
        changes: what the scenario and its sessions do to the network, in order of time.
        first, last: the first and the last item are published; cross traffic does not count.
        settle: nothing more is begun, the last of all that the scenario names has happened.
        stop: subscribers unsubscribe.
        end: the run ends.
    """

    start: int
    changes: tuple[tuple[int, Change], ...]
    first: int
    last: int
    settle: int
    stop: int
    end: int

    @classmethod
    def of(cls, scenario: Scenario, load: Workload, start: int) -> "Timeline":
        """Lay out a scenario's run that starts at `start`. Raises UserError."""
        happenings = (*scenario.events, *session_changes(scenario, load))
        changes = [(start + _time_of(change, load.feeds[0]), change) for change in happenings]
        changes.sort(key=lambda entry: entry[0])
        feeds = (*load.feeds, load.branch) if load.branch is not None else load.feeds
        last_ms = [plan.last_ms for plan in scenario.plans.values()]
        last_ms += [traffic.last_ms for traffic in scenario.cross_traffic]
        first = start + min(feed.times[0] for feed in feeds)
        last = start + max(feed.times[-1] for feed in feeds)
        settle = max(
            last,
            *(time for time, _ in changes),
            *(start + round(time * MS) for time in last_ms),
            start,
            *(start + time for times in load.requests.values() for time in times.values()),
        )
        stop = settle + scenario.settle_ms * MS
        return cls(start, tuple(changes), first, last, settle, stop, stop + scenario.drain_ms * MS)

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


def _time_of(change: Change, feed: Feed) -> int:
    if change.at_item is None:
        assert change.at_ms is not None
        return round(change.at_ms * MS)
    if change.at_item > len(feed.times):
        raise UserError(f"[[events]] at_item = {change.at_item}: the feed has {len(feed.times)} items")
    return feed.times[change.at_item - 1]


def sample_times(scenario: Scenario, timeline: Timeline) -> range:
    """Return when every node's counters are sampled, ns."""
    interval = round(scenario.sample_interval_ms * MS)
    return range(timeline.start, timeline.end + 1, interval)


def change_row(change: Change, network: Topology, time: int) -> dict[str, Any]:
    """Return a change of the network as a row of events."""
    row = {"time": time, "node": place(change, network), "event": change.event}
    row |= {"feed": "", "seq": 0, "bytes": 0}
    return row if change.restart else row | {"signalled": change.is_signalled}


def described(timeline: Timeline, network: Topology) -> list[dict[str, Any]]:
    """Return the changes as the manifest lists them, times from the start."""
    rows = []
    for time, change in timeline.changes:
        kind = "node" if change.restart else "link"
        row = {"time_ns": time - timeline.start, "event": change.event, kind: place(change, network)}
        rows.append(row if change.restart else row | {"signalled": change.is_signalled})
    return rows


def place(change: Change, network: Topology) -> str:
    """Return the node, or the link as "a--b", that a change is about."""
    if change.restart is not None:
        return change.restart
    link = network.links[network.link_between(*change.ends)]
    return f"{link.a}--{link.b}"


def expected(scenario: Scenario, load: Workload, timeline: Timeline) -> dict[str, int]:
    """Return how many items each subscriber should get: what is published by its end, at its pace.

    Of a forked feed the items before the fork count.
    """
    counts = {}
    for node in scenario.subscribers:
        plan = timeline.plan(scenario.plans.get(node, PlanSpec()))
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
