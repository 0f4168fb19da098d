"""Speed of an emulated swarm of Scuttlebutt peers: `python -m testbed.bench.peers.swarm`.

Every peer writes a feed, and follows those of all others, over 20 Mbit/s and 10 ms to a router in the middle.
The messages are spread over the run's time. A capture is written, as in a run. Slowness is no failure.
"""

import resource
import tempfile
import time
from collections.abc import Iterator

import click

from captures.formats.pcapng import Writer
from testbed.bench.figures import Row, figure
from testbed.bench.program import command, report, run
from testbed.experiment.emulated_run import Emulation
from testbed.experiment.files import capture_interfaces
from testbed.layerings.peers.ladder import RUNGS
from testbed.scenario.model import Scenario
from testbed.scenario.workload import load

_SETTLE_S = 20
_BAR_S, _BAR_MB = 300, 2000


def measure(layering: str, peers: int, seconds: int, each: int) -> Iterator[Row]:
    """Play a swarm; `each` is the number of messages per peer."""
    names = tuple(f"s{number}" for number in range(1, peers + 1))
    scenario = Scenario.model_validate(
        {
            "name": "swarm",
            "title": "swarm",
            "layerings": (layering,),
            "publisher": names[0],
            "publishers": names,
            "subscribers": names,
            "settle_ms": 1000 * _SETTLE_S,
            "topology": {"generator": "star", "leaves": peers, "link": {"bw_mbit": 20.0, "delay_ms": 10.0}},
            "workload": {
                "items": peers * each,
                "activity_exponent": 0.0,
                # Gaps have the maximum length, and a feed begins somewhere in its first one.
                "schedule": {"speed": 1e-3, "idle_limit_ms": 1000.0 * (seconds - _SETTLE_S) / each},
            },
        }
    )
    workload = load(scenario)
    began, worked = time.perf_counter(), time.process_time()
    with tempfile.TemporaryFile() as file:
        capture = Writer(file, capture_interfaces(scenario.network), application="feednet")
        emulation = Emulation(scenario, layering, workload, capture=capture)
        emulation.run(emulation.timeline.start + seconds * 1_000_000_000)
    took, work = time.perf_counter() - began, time.process_time() - worked
    delivered = sum(event["event"] == "delivered" for event in emulation.take_events())
    yield figure("time", took, "s", _BAR_S, is_most=True)
    yield figure("processor time", work, "s")
    yield figure(
        "greatest memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, "MB", _BAR_MB, True
    )
    yield figure("frames", emulation.network.frames, "")
    yield figure("messages delivered", 100 * delivered / (workload.items * (peers - 1)), "%")


@command
@click.option("--layering", type=click.Choice([*RUNGS]), default="ebt")
@click.option("--peers", type=click.IntRange(2), default=200)
@click.option("--seconds", type=click.IntRange(_SETTLE_S + 1), default=600)
@click.option("--each", type=click.IntRange(1), default=1, help="Messages of each peer.")
def bench(layering: str, peers: int, seconds: int, each: int, as_json: bool) -> None:
    """Measure how fast the emulator plays a swarm of Scuttlebutt peers."""
    figures = [*measure(layering, peers, seconds, each)]
    report(
        f"{layering}: {peers} peers and feeds, {peers * each} messages, {seconds} s of virtual time",
        figures,
        as_json,
    )


if __name__ == "__main__":
    run(bench, "testbed.bench.peers.swarm")
