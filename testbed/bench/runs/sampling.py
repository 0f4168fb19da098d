"""What the samples of an emulated run cost: `python -m testbed.bench.runs.sampling [SCENARIO]...`.

For each layering: processor time from the first event to the last, the part of sampling in it, and the
samples that were taken and written. A node is sampled if something has happened to it since its last sample;
else that one is written again.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from testbed.bench.figures import Line
from testbed.bench.program import command, report, run
from testbed.experiment.emulated_run import recorded
from testbed.layerings.nodes.workload import Workload
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.timeline import sample_times

SCENARIOS = ("fanout", "many-feeds", "social", "geant-news")


def measure(scenario: Scenario, layering: str, said: Workload, directory: Path) -> dict[str, float]:
    """Return what a run takes: cpu_s, sampling_s (both seconds of the processor), taken and written."""
    with recorded(scenario, layering, said, directory) as (emulation, sampler):
        spent = written = 0

        def observe() -> None:
            nonlocal spent, written
            begun = time.process_time_ns()
            sampler.write()
            spent += time.process_time_ns() - begun
            written += len(emulation.nodes)

        for when in sample_times(scenario, emulation.timeline):
            emulation.network.observe(when, observe)
        begun = time.process_time_ns()
        emulation.run(emulation.timeline.end)
        ended = time.process_time_ns()
    return {
        "cpu_s": (ended - begun) / 1e9,
        "sampling_s": spent / 1e9,
        "taken": sampler.taken,
        "written": written,
    }


@command
@click.argument("scenarios", nargs=-1)
def bench(scenarios: tuple[str, ...], as_json: bool) -> None:
    """Measure the samples of all layerings of some scenarios."""
    rows = []
    for name in scenarios or SCENARIOS:
        scenario = load(name)
        said = workload.load(scenario)
        total: dict[str, float] = {}
        for layering in (*scenario.layerings, "all"):
            if layering == "all":
                found = total
            else:
                with TemporaryDirectory() as place:
                    found = measure(scenario, layering, said, Path(place))
                total = {key: total.get(key, 0) + value for key, value in found.items()}
            figures = {
                "CPU s": found["cpu_s"],
                "sampling, %": 100 * found["sampling_s"] / found["cpu_s"],
                "samples taken": found["taken"],
                "written": found["written"],
            }
            rows.append(Line(f"{name}, {layering}", figures))
    report("", rows, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.runs.sampling")
