"""The whole comparison of every emulated scenario, kept as text: a change of the protocol shows as a diff.

    python tests/analysis/test_snapshots.py

writes the files anew, for a reviewer to read. The scenarios are cut short, and measured in one go, so the
figures are not those of the documents: most have fewer items than a credit of 64, whose LLIs then count
for less than a window.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from analysis.manifest import Run
from analysis.pipeline import measure_cases
from analysis.setting import Case
from analysis.text import comparison_text
from testbed import run as running
from testbed import workload
from testbed.scenario import available, load

SNAPSHOTS = Path(__file__).parent / "snapshots"
ITEMS = 12
LONGER = {"archive": 100, "failover": 70, "fork": 100, "late-join": 60, "many-feeds": 60, "slow-consumer": 60}
"""Items: few, and more where something happens at a later one."""

LOSSY, REPAIRS = "line", ("lli-go-back-n", "lli-selective")
"""Other ways to repair are measured only where there is loss; elsewhere they do as lli does."""


def compared(directory: Path) -> dict[str, str]:
    """Run every scenario in the emulator; return the text of its comparison by name."""
    runs = {}
    for name in available():
        wanted = tuple(x for x in load(name).layerings if name == LOSSY or x not in REPAIRS)
        scenario = load(name, layerings=wanted, items=LONGER.get(name, ITEMS))
        running.run(scenario, workload.load(scenario), "emulated", "asked for", directory / name)
        runs[name] = Run(directory / name)
    cases = {f"{name} {x}": Case(run, x) for name, run in runs.items() for x in run.manifest.layerings}
    measures = measure_cases(cases, directory / "tables", "local[2]").to_pylist()
    return {name: text(name, run, measures) for name, run in runs.items()}


def text(name: str, run: Run, measures: list[dict]) -> str:
    manifest = run.manifest
    mine = [
        row | {"layering": row["layering"].removeprefix(f"{name} ")}
        for row in measures
        if row["layering"].startswith(f"{name} ")
    ]
    what = f"{manifest.workload.items} items, {len(manifest.topology.nodes)} nodes, seed {manifest.seed}"
    return f"{manifest.title}\n{what}\n\n{comparison_text(mine, manifest.layerings)}"


@pytest.fixture(scope="module")
def texts(spark, tmp_path_factory):
    return compared(tmp_path_factory.mktemp("scenarios"))


@pytest.mark.spark
@pytest.mark.parametrize("name", available())
def test_the_comparison_is_as_it_was(texts, name):
    path = SNAPSHOTS / f"{name}.txt"
    assert path.is_file(), f"no snapshot of {name}: run python {Path(__file__).name}"
    assert texts[name] == path.read_text(encoding="utf-8")


def test_every_snapshot_is_of_a_scenario():
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} <= set(available())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for scenario_name, content in compared(Path(scratch)).items():
            (SNAPSHOTS / f"{scenario_name}.txt").write_text(content, encoding="utf-8")
            print(SNAPSHOTS / f"{scenario_name}.txt", file=sys.stderr)
