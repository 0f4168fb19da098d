"""The highest rate of nodes whose operations cost time: `python -m testbed.bench.runs.saturation`.

The scenario `saturation`, emulated. The range of rates is halved, in steps of STEP, until the highest is
found that all nodes keep up with: every item is delivered, and the median latency of the last quarter is
less than twice that of the first. Shown are its mean and 95 % interval over seeds, the node that is busiest
then, and how many signatures a relay verifies for an item. Once with the times of the machine `xeon-vm`, and
once with those of a forwarder that spends no more on a frame and an item than recv(), send() and SHA-256 in
C take there (`make bench`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final, NamedTuple

import click

from analysis.metrics.study import estimate
from ssb.keys import cached_signatures
from testbed.cli.usage import HELP
from testbed.experiment.emulated_run import Emulation
from testbed.scenario import workload
from testbed.scenario.overrides import ScenarioOptions
from testbed.scenario.reader import load

_SCENARIO: Final = "saturation"
_ITEMS: Final = 600
STEP: Final = 1.1
_LOWEST, _STEPS = 500.0, 64
MACHINES: Final[dict[str, dict[str, float]]] = {
    "xeon-vm": {},
    "in C": {"cost.forward_us": 1.0, "cost.hash_us": 2.0},
}
"""Changes of [cost]."""
CASES: Final = (("persistent", 64), ("lli", 1), ("lli", 64), ("ssb", 64))
"""Layerings, and the frames that nodes take up at once."""


class Found(NamedTuple):
    """One run: whether all kept up, the busiest node, and the signatures of a relay for an item."""

    keeps_up: bool
    busiest: str
    verified: float


def measure(layering: str, seed: int, rate: float, changes: Mapping[str, Any]) -> Found:
    """Run a layering with so many items a second."""
    pause = {"workload.schedule.idle_limit_ms": 1e3 / rate}
    options = ScenarioOptions(seed=seed, items=_ITEMS, layerings=[layering], changes={**changes, **pause})
    scenario = load(_SCENARIO, options)
    emulation = Emulation(scenario, layering, workload.load(scenario))
    with cached_signatures():
        emulation.run(emulation.timeline.end)
    published: dict[int, int] = {}
    latencies: dict[str, list[int]] = {node: [] for node in scenario.subscribers}
    for row in sorted(emulation.take_events(), key=lambda row: row["time"]):
        if row["event"] == "published":
            published[row["seq"]] = row["time"]
        elif row["event"] == "delivered":
            latencies[row["node"]].append(row["time"] - published[row["seq"]])
    quarter = _ITEMS // 4
    keeps_up = all(
        len(times) == _ITEMS and median(times[-quarter:]) < 2 * median(times[:quarter])
        for times in latencies.values()
    )
    busy = Counter({node: each.busy_by(emulation.network.now) for node, each in emulation.processors.items()})
    relay = emulation.processors["r1"].counters(emulation.network.now)["work_verified"]
    return Found(keeps_up, busy.most_common(1)[0][0], relay / _ITEMS)


def knee(layering: str, seed: int, changes: Mapping[str, Any]) -> tuple[float, Found]:
    """Return the highest rate that is kept up with, items a second, and what was found there."""
    low, high = 0, _STEPS
    known = {0: measure(layering, seed, _LOWEST, changes)}
    while high - low > 1:
        middle = (low + high) // 2
        known[middle] = measure(layering, seed, _LOWEST * STEP**middle, changes)
        low, high = (middle, high) if known[middle].keeps_up else (low, middle)
    return _LOWEST * STEP**low, known[low]


def table(seeds: range) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    heads = ("machine", "layering", "frames at once", "items a second", "busiest", "signatures of a relay")
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for machine, costs in MACHINES.items():
        for layering, batch in CASES:
            found = [knee(layering, seed, {**costs, "cost.batch": batch}) for seed in seeds]
            rates = estimate([rate for rate, _ in found])
            half = f" ± {rates.half:,.0f}" if rates.half is not None else ""
            busiest = ", ".join(sorted({each.busiest for _, each in found}))
            verified = sum(each.verified for _, each in found) / len(found)
            cells = (
                machine,
                f"`{layering}`",
                str(batch),
                f"{rates.mean:,.0f}{half}",
                busiest,
                f"{verified:.2f}",
            )
            yield f"| {' | '.join(cells)} |"


@click.command(context_settings=HELP)
@click.option("--seeds", type=click.IntRange(1), default=5, help="Runs of each case.")
def main(seeds: int) -> None:
    """Show how many items a second get through."""
    for line in table(range(1, seeds + 1)):
        click.echo(line)


if __name__ == "__main__":
    main()
