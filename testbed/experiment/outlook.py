"""Estimated size and duration of a run, for `--dry-run`.

Two numbers per layering follow from the scenario: the link crossings of items on shortest paths, and the time
that subscriptions wait, times their links. The frames per crossing and per waiting time have been measured
for every layering, and so have the costs of a frame in time and on disk: outlook.toml has these figures.

    python -m testbed.bench.runs.outlook

measures them anew on the scenarios of the library, and evaluates the estimate; with `--takes` it only renews
what `feednet list` says of the scenarios, takes().
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from testbed.layerings.nodes.workload import Feed, Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline
from topologies.model import Topology
from topologies.routing import routes

FIGURES = Path(__file__).parent / "outlook.toml"

_MININET_S = 2.0
_MININET_S_PER_NODE = 0.2
"""Overhead of a layering over Mininet, total and per node, approximate: processes start, and captures end.
`feednet run fanout --items 60 --net mininet` took 8.4 s more than its own 5.8 s for each of two layerings, on
two busy cores; an idle machine takes less.
"""


class Size(NamedTuple):
    """Predictors for one layering, from the scenario.

    Attributes:
        crossings: items times links crossed: over NDN and by multicast once for all followers behind a link,
            else once for each follower.
        waiting: seconds of subscriptions, each times the links on its path.
        samples: of nodes' states.
    """

    crossings: float
    waiting: float
    samples: float


class Outlook(NamedTuple):
    """Estimates of a run, or of several together.

    Attributes:
        frames: in the captures, each where it is sent and where it arrives.
        run_s, analysis_s: duration on the machine of the figures, one core.
        run_bytes: of captures, events and samples on disk.
        analysis_bytes: of tables and page.
    """

    frames: float
    run_s: float
    analysis_s: float
    run_bytes: float
    analysis_bytes: float


@cache
def figures() -> Mapping[str, Any]:
    """Return the measured figures."""
    return tomllib.loads(FIGURES.read_text(encoding="utf-8"))


def size(scenario: Scenario, load: Workload, layering: str) -> Size:
    """Return the predictors for one layering of a scenario."""
    is_shared = LAYERINGS[layering].protocol in ("ndn", "multicast")
    seconds = Timeline.of(scenario, load, 0).end / 1e9
    followers: dict[str, list[str]] = {}
    for node, feeds in load.follows.items():
        for feed in feeds:
            followers.setdefault(feed.key, []).append(node)
    crossings = waiting = 0.0
    for feed in (*load.feeds, *([load.branch] if load.branch else [])):
        crossed, hops = _ways(scenario.network, feed, followers.get(feed.key, []))
        crossings += len(feed.messages) * (crossed if is_shared else hops)
        waiting += seconds * hops
    for bulk, traffic in zip(load.bulk, scenario.cross_traffic, strict=True):
        crossings += len(bulk.messages) * _ways(scenario.network, bulk, [traffic.to])[0]
    samples = seconds * 1e3 / scenario.sample_interval_ms * len(scenario.network.nodes)
    return Size(crossings, waiting, samples)


def _ways(network: Topology, feed: Feed, followers: list[str]) -> tuple[int, int]:
    """Return the links on the paths of a feed to its followers: distinct ones, and the sum over paths."""
    ways = routes(network, feed.publisher)
    crossed: set[str] = set()
    hops = 0
    for follower in followers:
        node = follower
        while node in ways:
            crossed.add(node)
            hops += 1
            node = ways[node].into.node
    return len(crossed), hops


def expected(scenario: Scenario, load: Workload) -> Outlook:
    """Return the estimate of an emulated run of all layerings of a scenario, and of its analysis."""
    return total(of_layering(layering, size(scenario, load, layering)) for layering in scenario.layerings)


def of_layering(layering: str, of: Size, costs: Mapping[str, Any] | None = None) -> Outlook:
    """Return the estimate of one layering; an unmeasured one is assumed to be as costly as the costliest of
    its protocol.
    """
    known = costs or figures()
    own = known["layerings"].get(layering)
    if own is None:
        protocol = LAYERINGS[layering].protocol
        alike = [each for name, each in known["layerings"].items() if LAYERINGS[name].protocol == protocol]
        own = max(alike or known["layerings"].values(), key=lambda each: float(each["per_crossing"]))
    frames = own["per_crossing"] * of.crossings + own["per_waiting_s"] * of.waiting
    cost = known["costs"]
    return Outlook(
        frames,
        frames * own["us_per_frame"] / 1e6 + of.samples * cost["us_per_sample"] / 1e6,
        frames * cost["analysis_us_per_frame"] / 1e6 + cost["analysis_s_per_layering"],
        frames * own["bytes_per_frame"] + of.samples * cost["bytes_per_sample"],
        frames * cost["analysis_bytes_per_frame"],
    )


def over_mininet_s(scenario: Scenario, seconds: float) -> float:
    """Return the duration over Mininet of all layerings, each of which runs for `seconds` of real time."""
    around = _MININET_S + _MININET_S_PER_NODE * len(scenario.network.nodes)
    return (seconds + around) * len(scenario.layerings)


def takes(scenario: Scenario, load: Workload) -> dict[str, float]:
    """Return how long a scenario takes with its analysis, in the emulator and over Mininet, s, two digits."""
    costs = expected(scenario, load)
    over_mininet = over_mininet_s(scenario, Timeline.of(scenario, load, 0).end / 1e9)
    found = {"emulated": costs.run_s, "mininet": over_mininet}
    return {net: float(f"{seconds + costs.analysis_s:.2g}") for net, seconds in found.items()}


def total(parts: Iterable[Outlook], costs: Mapping[str, Any] | None = None) -> Outlook:
    """Return the estimate of several layerings together, and of one analysis of all."""
    cost = (costs or figures())["costs"]
    sums = Outlook(*(sum(column) for column in zip(*parts, strict=True)))
    return sums._replace(
        analysis_s=sums.analysis_s + cost["analysis_s"],
        analysis_bytes=sums.analysis_bytes + cost["analysis_bytes"],
    )
