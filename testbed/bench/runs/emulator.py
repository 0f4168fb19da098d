"""Speed and size of emulated runs:

    python -m testbed.bench.runs.emulator [--json] [--layering NAME]... [NODES]...

Networks of 100, 300, 1,000 and 3,000 nodes, unless others are given: a grid with a publisher in its corner
and a tenth of the nodes as subscribers; under tiny-isp a provider whose clients follow two others each. Each
run is a process of its own. It shows transmissions (frames that nodes send) per second of processor time,
peak memory per node, and exponents of growth between the smallest and the largest network. Processor time
should grow in proportion to transmissions (exponent 1); the rest is set against the number of nodes. Under
tiny-isp transmissions grow with the square of the nodes, as every client reads its provider's answers to all
of them. The largest networks take minutes.
"""

import math
import os
import resource
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from captures.formats import pcapng
from testbed.bench.figures import MOST_GROWTH, Line, exponent
from testbed.bench.program import command, fresh, report, run
from testbed.experiment.emulated_run import Emulation
from testbed.experiment.files import capture_interfaces
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import ScenarioOptions
from testbed.scenario.reader import check

LAYERINGS: Final = ("lli", "poll", "ssb", "tiny-isp")
NODES: Final = (100, 300, 1_000, 3_000)
_ITEMS = 20
_PATIENCE_S = 3_600
_HEADERS = {"title": "bench", "warmup_ms": 2_000, "settle_ms": 3_000, "sample_interval_ms": 1_000.0}
_LINK = {"bw_mbit": 100.0, "delay_ms": 2.0}
_SCHEDULE = {"speed": 1_000_000.0, "idle_limit_ms": 100.0}


def scenario(layering: str, nodes: int) -> Scenario:
    """Return a scenario with one layering and about `nodes` nodes."""
    said: dict[str, Any] = _HEADERS | {"layerings": [layering], "name": "bench", "about": ""}
    if layering == "tiny-isp":
        clients = [f"c1..c{nodes - 1}"]
        topology: dict[str, Any] = {"links": [{"a": "isp", "b": clients[0]}]}
        load: dict[str, Any] = {"items": nodes - 1, "activity_exponent": 0.0, "follows": 2}
        said |= {"publishers": clients, "subscribers": clients}
        said |= {"parameters": {layering: {"spread_ms": 0, "pause_ms": 15}}}
    else:
        rows = math.isqrt(nodes)
        columns = nodes // rows
        topology = {"generator": "grid", "rows": rows, "columns": columns}
        load = {"items": _ITEMS}
        said |= {"publishers": ["n1"]}
        others = [f"n{number}" for number in range(2, rows * columns + 1)]
        said |= {"subscribers": Random(1).sample(others, nodes // 10)}
    said |= {"topology": topology | {"link": _LINK}, "workload": load | {"schedule": _SCHEDULE}}
    return check(said, Path("bench"), ScenarioOptions())


def measure(layering: str, nodes: int) -> dict[str, float]:
    """Return what one run takes: nodes, sent (transmissions), cpu_s of the run, build_s before it, and
    memory, bytes above that of this program.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = scenario(layering, nodes)
    begun = time.process_time()
    with open(os.devnull, "wb") as file:
        capture = pcapng.Writer(file, capture_interfaces(chosen.network), application="feednet")
        emulation = Emulation(chosen, layering, workload.load(chosen), capture=capture)
        built = time.process_time()
        emulation.run(emulation.timeline.end)
        ended = time.process_time()
    return {
        "nodes": len(chosen.network.nodes),
        "sent": emulation.network.frames / 2,  # each is captured at both ends
        "build_s": built - begun,
        "cpu_s": ended - built,
        "memory": 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before),
    }


@command
@click.option("--layering", "layerings", multiple=True, type=click.Choice(LAYERINGS), help="Only these.")
@click.argument("nodes", nargs=-1, type=click.IntRange(min=20))
def bench(layerings: tuple[str, ...], nodes: tuple[int, ...], as_json: bool) -> None:
    """Measure emulated runs of growing networks."""
    rows = []
    for layering in layerings or LAYERINGS:
        runs = []
        for count in sorted(set(nodes)) or NODES:
            found = fresh("testbed.bench.runs.emulator", layering, count, patience_s=_PATIENCE_S)
            runs.append(found)
            figures = {
                "CPU s": found["cpu_s"],
                "before the run, s": found["build_s"],
                "transmissions": found["sent"],
                "a CPU second": found["sent"] / found["cpu_s"],
                "kB a node": found["memory"] / found["nodes"] / 1e3,
            }
            rows.append(Line(f"{layering}, {found['nodes']:,} nodes", figures))
        if len(runs) > 1:
            growth = {
                "CPU s": ("sent", "cpu_s"),
                "before the run, s": ("nodes", "build_s"),
                "transmissions": ("nodes", "sent"),
                "kB a node": ("nodes", "memory"),
            }
            grown = {
                title: exponent([(each[x], each[y]) for each in runs]) for title, (x, y) in growth.items()
            }
            notes = [f"{title} above {MOST_GROWTH}" for title, value in grown.items() if value > MOST_GROWTH]
            rows.append(Line(f"{layering}, exponent", grown, ", ".join(notes)))
    report("", rows, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.emulator")
