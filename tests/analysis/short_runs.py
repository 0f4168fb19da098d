"""Every shipped scenario in the emulator, cut short, and all of them measured in one go.

Shared by what asks whether the figures are as they were, and whether they are right.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from analysis.manifest import Run
from analysis.pipeline import measure_cases
from analysis.setting import Case
from testbed import run as running
from testbed import workload
from testbed.scenario import available, load

ITEMS = 12
LONGER = {"archive": 100, "failover": 70, "fork": 100, "late-join": 60, "many-feeds": 60, "slow-consumer": 60}
"""Items: few, and more where something happens at a later one."""

LOSSY, REPAIRS = "line", ("lli-go-back-n", "lli-selective")
"""Other ways to repair are measured only where there is loss; elsewhere they do as lli does."""


class Measured(NamedTuple):
    """Runs by name, and the rows of analysis.compare.measure; a case is called "<name> <layering>"."""

    runs: dict[str, Run]
    rows: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return a run's rows, called by layering alone."""
        return [
            row | {"layering": row["layering"].removeprefix(f"{name} ")}
            for row in self.rows
            if row["layering"].startswith(f"{name} ")
        ]


def measured(runs: Mapping[str, Run], tables: Path) -> Measured:
    """Measure some runs together."""
    cases = {f"{name} {x}": Case(run, x) for name, run in runs.items() for x in run.manifest.layerings}
    return Measured(dict(runs), measure_cases(cases, tables, "local[2]").to_pylist())


def emulate(directory: Path, scenario: str, **options: Any) -> Run:
    """Run a scenario (a name or a file) in the emulator, with options of testbed.scenario.load."""
    chosen = load(scenario, **options)
    running.run(chosen, workload.load(chosen), "emulated", "asked for", directory)
    return Run(directory)


def shipped(directory: Path) -> Measured:
    """Run every shipped scenario, and measure them."""
    runs = {}
    for name in available():
        wanted = tuple(x for x in load(name).layerings if name == LOSSY or x not in REPAIRS)
        runs[name] = emulate(directory / name, name, layerings=wanted, items=LONGER.get(name, ITEMS))
    return measured(runs, directory / "tables")
