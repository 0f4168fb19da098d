"""A scenario in a terminal: its network drawn as text, roles, and events in order."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from analysis.report.words.numbers import count_of
from analysis.run.keys import words
from base.units import MS
from testbed.cli.runs.topology import summary
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change, Fork
from testbed.scenario.timeline import Timeline, place
from topologies.link import LinkParameters
from topologies.model import Topology
from topologies.ranges import contract_ranges

MOST_DRAWN = 40
"""Maximum number of nodes in a drawing; a larger network is summarised."""

_MOST_CHANGES = 12
_MOST_NAMES = 6


def network_lines(scenario: Scenario) -> Iterator[str]:
    """Return a summary of a scenario's network: nodes, links, degree, delays, diameter."""
    yield from summary(scenario.network)
    links = Counter(link.describe() for link in (*scenario.network.links, *scenario.network.media))
    if len(links) <= 3:
        for described, count in links.most_common():
            yield f"{'each link' if len(links) == 1 else f'{count} links':9} {described}"


def role_lines(scenario: Scenario) -> Iterator[str]:
    """Return the roles: "publisher  pub"."""
    by_role = defaultdict(list)
    for node, role in scenario.roles.items():
        by_role[role].append(node)
    for role, nodes in sorted(by_role.items(), key=lambda entry: (entry[0] == "forwarder", entry[0])):
        several = f"{len(nodes)} {role}s" if len(nodes) > 1 else role
        yield f"{several}: {listed(nodes)}"


def listed(names: Sequence[str]) -> str:
    """List names, numbered ones in a row as a range: "p1..p24"; of many, the first and the last."""
    parts = contract_ranges(names)
    if len(parts) <= _MOST_NAMES:
        return ", ".join(parts)
    return f"{', '.join(parts[: _MOST_NAMES - 1])} ... {parts[-1]}"


def drawn(scenario: Scenario) -> tuple[Tree, list[str]]:
    """Draw a network as a tree of nodes from the first publisher; return it and the omitted parts.

    Equal leaves share one line. The lines beside it name the links that close rings.
    """
    network, roles = scenario.network, scenario.roles
    usual = Counter(_kind(link) for link in network.links).most_common(1)
    neighbours: dict[str, list[tuple[str, LinkParameters]]] = defaultdict(list)
    for each in network.links:
        neighbours[each.a].append((each.b, each))
        neighbours[each.b].append((each.a, each))
    for medium in network.media:
        for member in medium.members:
            neighbours[member].append((medium.name, medium))
            neighbours[medium.name].append((member, medium.towards(member)))

    def label(names: list[str], link: LinkParameters | None) -> Text:
        role = roles.get(names[0], "medium")
        several = f"{len(names)} {role}s" if len(names) > 1 else role
        said = "" if link is None or (usual and _kind(link) == usual[0][0]) else f"  ({_kind(link)})"
        return Text.assemble(listed(names), "  ", (f"{several}{said}", "dim"))

    root, seen = scenario.publisher, {scenario.publisher}
    tree = Tree(label([root], None), guide_style="dim")
    reached = {root: tree}
    queue = [root]
    closing: list[str] = []
    parent = {root: ""}
    for node in queue:
        leaves: dict[tuple[str, str], list[tuple[str, LinkParameters]]] = defaultdict(list)
        for other, link in neighbours[node]:
            if other in seen:
                if parent[node] != other and parent.get(other) != node:
                    pair = " -- ".join(sorted((node, other)))
                    said = _kind(link)
                    closing.append(pair + ("" if usual and said == usual[0][0] else f" ({said})"))
                continue
            seen.add(other)
            parent[other] = node
            if len(neighbours[other]) == 1:
                leaves[roles.get(other, "medium"), _kind(link)].append((other, link))
            else:
                reached[other] = reached[node].add(label([other], link))
                queue.append(other)
        for group in leaves.values():
            reached[node].add(label([name for name, _ in group], group[0][1]))
    apart = [node for node in network.nodes if node not in seen]
    beside = [f"and       {link}" for link in dict.fromkeys(closing)]
    beside += [f"apart     {listed(apart)}"] if apart else []
    return tree, beside


def _kind(link: LinkParameters) -> str:
    """Describe a link as briefly as a drawing needs."""
    rate = "" if link.bw_mbit is None else f"{link.bw_mbit:g} Mbit/s, "
    loss = f", {link.loss_percent:g} % loss" if link.loss_percent else ""
    return f"{rate}{link.delay_ms:g} ms{loss}"


def workload_line(scenario: Scenario, load: Workload) -> str:
    """Describe publications and followers."""
    if load.requests:
        asked = sum(map(len, load.requests.values()))
        objects = f"{count_of(len(load.feeds), 'object')} of {count_of(load.items, 'segment')}"
        return f"{objects}; {count_of(asked, 'request')} by {count_of(len(load.requests), 'node')}"
    feeds = f"{len(load.feeds)} feeds" if len(load.feeds) > 1 else "one feed"
    source = f" from {scenario.workload.feed}" if scenario.workload.feed else ""
    pairs = sum(map(len, load.follows.values()))
    followed = f"; {count_of(pairs, 'subscription')}" if len(load.feeds) > 1 else ""
    items, who = count_of(load.items, "item"), count_of(len(scenario.subscribers), "subscriber")
    return f"{items} of {feeds}{source}, {who}{followed}"


def happenings(scenario: Scenario, load: Workload) -> list[tuple[float, str]]:
    """Return the events in order: seconds on the run's clock, and words.

    Beyond the first dozen, changes are counted, not listed.
    """
    timeline = Timeline.of(scenario, load, 0)
    rows: list[tuple[int, str]] = []
    plans = {node: scenario.plan_of(node) for node in load.follows}
    begins = Counter(round(plan.start_ms * MS) for plan in plans.values())
    if scenario.arrivals is not None:
        first, last = min(begins), max(begins)
        rows.append((first, f"subscribers join, {len(plans)} until {last / 1e9:.1f} s"))
    else:
        for time, count in begins.items():
            who = [node for node, plan in plans.items() if round(plan.start_ms * MS) == time]
            rows.append((time, f"{listed(who)} {'subscribes' if count == 1 else 'subscribe'}"))
    for node, plan in plans.items():
        rows += [(round(begin * MS), f"{node} pauses until {end / 1e3:g} s") for begin, end in plan.pauses_ms]
        rows += [(round(plan.stop_ms * MS), f"{node} unsubscribes")] if plan.stop_ms is not None else []
        if plan.drain_per_s is not None:
            rows.append(
                (round(plan.start_ms * MS), f"{node} takes {plan.drain_per_s:g} items a second at most")
            )
    if load.requests:
        times = [time for asked in load.requests.values() for time in asked.values()]
        rows.append((timeline.first, "all objects are there"))
        rows += [(min(times), "the first request"), (max(times), "the last request")] if times else []
    else:
        rows += [
            (timeline.first, "the first item is published"),
            (timeline.last, "the last item is published"),
        ]
    for traffic in scenario.cross_traffic:
        said = f"{traffic.to} begins to fetch {count_of(traffic.items, 'item')} from {traffic.source}"
        rows.append((round(traffic.start_ms * MS), said))
    if scenario.deletion is not None:
        number = scenario.deletion.after + 1
        said = f"item {number} asks to delete the contents of the first {scenario.deletion.items}"
        rows.append((load.feeds[0].times[number - 1], said))
    if scenario.fork is not None:
        rows.append((load.feeds[0].times[scenario.fork.after - 1], _fork(scenario.fork)))
    rows += [*_changes(timeline, scenario.network)]
    rows += [(timeline.stop, "subscriptions end"), (timeline.end, "the run ends")]
    rows.sort(key=lambda row: row[0])
    awaited = [
        (
            timeline.settle,
            f"(as soon as a follower has item {change.at_copy}: {place(change, scenario.network)} "
            f"{_EVENTS[change.event]})",
        )
        for change in timeline.awaited
    ]
    at = next(number for number, row in enumerate(rows) if row[1] == "subscriptions end")
    return [(time / 1e9, said) for time, said in [*rows[:at], *awaited, *rows[at:]]]


def _fork(fork: Fork) -> str:
    does = {
        "none": f"{fork.publisher} forks the feed",
        "lock": f"the author would write at {fork.publisher}, too, and is refused",
        "feeds": f"{fork.publisher} begins a feed of its own",
        "merge": f"{fork.publisher} begins a branch, which is merged",
    }
    return f"item {fork.after}, the last before {does[fork.cure]}"


_EVENTS = {
    "link-down": "breaks",
    "link-up": "is mended",
    "link-change": "changes",
    "restart": "starts anew",
    "stop": "stops",
    "start": "starts",
    "join": "comes into reach",
    "leave": "goes out of reach",
}


def _changes(timeline: Timeline, network: Topology) -> Iterator[tuple[int, str]]:
    told = [*timeline.changes]
    for time, group in groupby(told[:_MOST_CHANGES], key=lambda entry: entry[0]):
        for event, changes in _by_event(change for _, change in group):
            if event == "strategy":
                yield from ((time, _choice(change)) for change in changes)
                continue
            where = listed([place(change, network) for change in changes])
            said = (
                _EVENTS[event]
                if len(changes) == 1
                else _EVENTS[event].replace("is ", "are ").removesuffix("s")
            )
            values = "".join(
                f": {words(f'topology.link.{key}').what} {value}"
                for key, value in (changes[0].set or {}).items()
            )
            silent = "" if changes[0].is_signalled or changes[0].node else ", and no node notices"
            yield time, f"{where} {said}{values}{silent}"
    if len(told) > _MOST_CHANGES:
        more, last = len(told) - _MOST_CHANGES, told[-1][0]
        yield told[_MOST_CHANGES][0], f"{more} more changes of links and nodes, until {last / 1e9:.1f} s"


def _choice(change: Change) -> str:
    """Describe a change of strategy."""
    who = listed(change.on.split()) if change.on else "all nodes"
    ((prefix, strategy),) = change.choice.items()
    return f"from now on {who} forward {prefix} by {strategy}"


def _by_event(changes: Iterable[Change]) -> Iterator[tuple[str, list[Change]]]:
    for event, group in groupby(changes, key=lambda change: change.event):
        yield event, [*group]


def layering_lines(scenario: Scenario) -> Iterator[str]:
    """Return the compared layerings, each with its title and the parameters set by the scenario."""
    width = max(map(len, scenario.layerings))
    for name in scenario.layerings:
        own = scenario.parameters.get(name, {})
        told = f"  ({', '.join(f'{key} = {value}' for key, value in own.items())})" if own else ""
        yield f"{name:{width}}  {LAYERINGS[name].title}{told}"
