"""Controlled push under attack: `python -m testbed.bench.runs.storm`.

The scenario `lli-storm`, emulated, with each attack. Shown are the 99th percentile of the latency of readers
who were there before, their share of deliveries, that of the readers who join meanwhile, the feeds in the
router's table at its peak and their bytes, LLIs that it refused, and how many bytes came to the strangers for
each that they sent; means over seeds, with 95 % intervals. Attacks on the table are there with one stranger
and with two, since each may hold a part of it; `spoof` with neighbours that check addresses, and with some
that do not. Who wants items asks once a second, so that all that an LLI brings can come.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

from analysis.metrics.study import estimate
from base.units import MS
from ssb.keys import cached_signatures
from testbed.cli.usage import HELP
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.nodes.node import StateSize
from testbed.scenario import workload
from testbed.scenario.overrides import ScenarioOptions
from testbed.scenario.reader import load
from testbed.scenario.timeline import expected

_SCENARIO: Final = "lli-storm"
_ROUTER: Final = "r2"
_SAMPLE: Final = 100 * MS
_LATE: Final = ("s3", "s4", "s5", "s6")
_ONE: Final[dict[str, Any]] = {"parameters.lli.hostile": ["x1"]}
_SLOW: Final[dict[str, Any]] = {"parameters.lli.attack_ms": 1000}
CASES: Final[dict[str, dict[str, Any]]] = {
    "none": {"parameters.lli.attack": "none"},
    "unknown feeds, 1 stranger": {"parameters.lli.attack": "unknown", **_ONE},
    "unknown feeds, 2 strangers": {"parameters.lli.attack": "unknown"},
    "idle feeds, 1 stranger": _ONE,
    "idle feeds, 2 strangers": {},
    "rewinds, 100 a second": {"parameters.lli.attack": "rewind"},
    "rewinds": {"parameters.lli.attack": "rewind", **_SLOW},
    "spoofed": {"parameters.lli.attack": "spoof", **_SLOW},
    "spoofed, addresses unchecked": {
        "parameters.lli.attack": "spoof",
        "parameters.lli.checks_addresses": False,
        **_SLOW,
    },
}
"""Changes of the scenario."""


class Storm(NamedTuple):
    """One run: latency (99th percentile, ms) and deliveries (%) of readers who were there before, deliveries
    of those who join meanwhile, feeds in the router's table at its peak and their bytes, LLIs that it
    refused, and bytes to the strangers for each byte from them.
    """

    latency: float
    delivered: float
    late: float
    feeds: float
    state: float
    refused: float
    gain: float


def measure(seed: int, changes: Mapping[str, Any]) -> Storm:
    """Run an attack."""
    scenario = load(_SCENARIO, ScenarioOptions(seed=seed, changes=dict(changes)))
    load_ = workload.load(scenario)
    emulation = Emulation(scenario, "lli", load_)
    peak = StateSize(0, 0)
    with cached_signatures():
        for time in range(0, emulation.timeline.end, _SAMPLE):
            emulation.run(time)
            peak = max(peak, emulation.nodes[_ROUTER].held()["llis"])
        emulation.run(emulation.timeline.end)
    counted = {name: node.counters() for name, node in emulation.nodes.items()}
    published: dict[tuple[str, int], int] = {}
    latencies: list[float] = []
    came: Counter[str] = Counter()
    for row in sorted(emulation.take_events(), key=lambda row: row["time"]):
        item = row["feed"], row["seq"]
        if row["event"] == "published":
            published[item] = row["time"]
        elif row["event"] == "delivered":
            came[row["node"]] += 1
            if row["node"] not in _LATE:
                latencies.append((row["time"] - published[item]) / MS)
    wanted = expected(scenario, load_, emulation.timeline)
    latencies.sort()
    sent = sum(row.get("attack_bytes", 0) for row in counted.values())
    brought = sum(row.get("attack_brought", 0) for row in counted.values())
    early, late = (
        100 * sum(came[each] for each in who) / sum(wanted[each] for each in who)
        for who in (wanted.keys() - {*_LATE}, _LATE)
    )
    return Storm(
        latencies[int(0.99 * len(latencies))],
        early,
        late,
        peak.entries,
        peak.bytes,
        counted[_ROUTER].get("feeds_nacks_out", 0),
        brought / sent if sent else 0.0,
    )


def table(seeds: range) -> Iterator[str]:
    """Yield the lines of the table."""
    heads = ("attack", "p99, ms", "delivered, %", "to who joins, %", "feeds", "their bytes", "refused")
    yield f"| {' | '.join((*heads, 'bytes for a byte'))} |"
    yield "|---" * (len(heads) + 1) + "|"
    for name, changes in CASES.items():
        runs = [measure(seed, changes) for seed in seeds]
        cells = []
        for values in zip(*runs, strict=True):
            found = estimate(values)
            cells.append(f"{found.mean:,.1f}" + (f" ± {found.half:,.1f}" if found.half is not None else ""))
        yield f"| {name} | {' | '.join(cells)} |"


@click.command(context_settings=HELP)
@click.option("--seeds", type=click.IntRange(1), default=5, help="Runs of each attack.")
def main(seeds: int) -> None:
    """Show what attacks on controlled push cost, and bring."""
    for line in table(range(1, seeds + 1)):
        click.echo(line)


if __name__ == "__main__":
    main()
